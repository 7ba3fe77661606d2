"""regard train: a new run, a resumed run, and the reports of both."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import fails, regard
from tests.conftest import TinyRun
from tests.tiny import TASKS, train_sentences, translate_words, write_recipe

from regard.cli.train import next_steps
from regard.cli.training import find_recipe_and_folder
from regard.run.run import Run
from regard.run.train import Trained
from regard.training.console import PlainConsole
from regard.training.events import Event, TrainRecord
from regard.training.loop import Outcome

SHORT = ("training.max_steps=2", "training.validate_every=2", "training.log_every=1")


def test_the_commands_to_try_next_are_printed(trained: Path) -> None:
    again = regard("train", trained)
    assert again.status == 0
    assert f"{trained}: trained 240 steps (stopped by max_steps)" in again.out
    assert f"| regard translate {trained}" in again.out
    assert f"regard evaluate {trained}\n" in again.out


def test_inspect_is_suggested_for_models_with_attention_only(recipe: Path, tmp_path: Path) -> None:
    model = 'model={kind="recurrent", decoder="plain", d_model=8, d_embedding=8, layers=1}'
    few = ("training.max_steps=2", "training.warmup=1", "training.monitor=loss")
    assert "regard inspect" not in regard("train", recipe, model, *few, "--folder", tmp_path / "plain").out
    assert fails("inspect", tmp_path / "plain", "one two").code == "no-attention"


def test_the_model_has_learnt_its_training_data(trained: Path) -> None:
    lines = train_sentences()
    result = regard("translate", trained, stdin="\n".join(lines))
    right = sum(out == translate_words(line) for out, line in zip(result.lines, lines, strict=True))
    assert right >= 0.9 * len(lines)


def test_progress_is_on_stderr_and_json_on_stdout(recipe: Path, tmp_path: Path) -> None:
    result = regard("train", recipe, *SHORT, "--folder", tmp_path / "run", "--json")
    outcome = json.loads(result.out)
    assert (outcome["run"], outcome["step"], outcome["reason"]) == (str(tmp_path / "run"), 2, "max_steps")
    assert (outcome["monitor"], outcome["best_step"]) == ("exact_match", 2)
    assert {"loss", "perplexity", "exact_match"} <= outcome["metrics"].keys()
    assert "learning the vocabulary" in result.err
    assert "kept       196" in result.err
    assert "step 2/2" in result.err


def test_the_default_folder_is_runs_and_the_name(recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert regard("train", recipe, *SHORT, "name=other").status == 0
    assert Run.open("runs/other").recipe.training.max_steps == 2


def test_a_folder_does_not_hide_a_shipped_recipe_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dates").mkdir()
    recipe, folder, resume = find_recipe_and_folder("dates", ["training.max_steps=500"], None, False)
    assert (recipe.name, recipe.training.max_steps, folder, resume) == ("dates", 500, Path("runs/dates"), False)


def test_a_run_is_resumed_and_not_overwritten(recipe: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert regard("train", recipe, *SHORT, "--folder", folder).status == 0
    assert fails("train", recipe, *SHORT, "--folder", folder).code == "run-exists"
    by_flag = regard("train", recipe, "training.max_steps=4", "--folder", folder, "--resume", "--json")
    assert json.loads(by_flag.out)["step"] == 4
    by_folder = regard("train", folder, "training.max_steps=6", "--json")
    assert json.loads(by_folder.out)["step"] == 6
    assert "resuming after step 4" in by_folder.err


def test_a_run_cannot_be_resumed_with_another_model(trained: Path) -> None:
    assert fails("train", trained, "model.d_ff=128").code == "changed-run"


def test_ctrl_c_saves_a_checkpoint(recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(console: PlainConsole, event: Event) -> None:
        if isinstance(event, TrainRecord):
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(PlainConsole, "log", interrupt)
    result = regard("train", recipe, "training.log_every=3", "--folder", tmp_path / "run")
    assert result.status == 130
    assert result.out == f"saved at step 3; continue with: regard train {tmp_path / 'run'}\n"
    assert [path.name for path in Run.open(tmp_path / "run").checkpoints.all()] == ["step-00000003"]


def test_progress_on_a_terminal(recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    result = regard("train", recipe, *SHORT, "--folder", tmp_path / "run", terminal=True)
    assert result.status == 0
    assert "\x1b[" in result.err
    assert "\x1b" not in result.out


def test_two_processes_report_once(recipe: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "regard"]
    command += ["train", str(recipe), *SHORT, "--folder", str(tmp_path / "run"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["step"] == 2
    assert done.stderr.count("step 2/2") == 1


def test_a_very_long_line_is_left_out_and_counted(recipe: Path, tmp_path: Path) -> None:
    src, tgt = ((recipe.parent / f"train.{side}").read_text(encoding="utf-8") for side in ("src", "tgt"))
    (tmp_path / "long.src").write_text(src + "one " * 250_000 + "\n", encoding="utf-8")
    (tmp_path / "long.tgt").write_text(tgt + "eins " * 200_000 + "\n", encoding="utf-8")
    corpus = f'data.train={{src="{tmp_path}/long.src", tgt="{tmp_path}/long.tgt"}}'
    result = regard("train", recipe, *SHORT, corpus, "--folder", tmp_path / "run")
    assert result.status == 0
    assert "too long     1" in result.err


def test_the_commands_to_try_next_work_for_every_task(tiny_run: TinyRun) -> None:
    tried = set()
    for task in TASKS:
        run = tiny_run(task)
        examples = list(Run.open(run).task.read("valid"))
        first, *commands = next_steps(
            Trained(Run.open(run), Outcome(1, "max_steps", None, None, {}), examples)
        ).splitlines()
        assert first == "next:" and commands
        for command in commands:
            before, _, command = command.rpartition("| ")
            name, called, *arguments = shlex.split(command)
            assert name == "regard"
            if called == "train":
                assert arguments[1] == f"start_from={run}"
                continue
            done = regard(called, *arguments, stdin=before.strip().removeprefix("echo ").strip("' "))
            assert done.status == 0, (command, done.err)
            tried.add(called)
    assert tried == {"translate", "generate", "predict", "embed", "evaluate", "inspect"}


def test_the_commands_to_try_next_have_a_short_example(tiny_run: TinyRun) -> None:
    outcome = Outcome(1, "max_steps", None, None, {})
    long: dict[str, dict[str, Any]] = {
        "answering": {"question": "Who ?", "context": "Ada lives in Oslo . " * 50, "answers": []},
        "classification": {"text": "x" * 500, "label": "good"},
        "choice": {"text": "the film " * 50, "choices": ["film " * 50, "book " * 50], "label": 0},
        "tagging": {"words": ["Ada"] * 500, "tags": ["O"] * 500},
        "translation": {"src": " " * 100 + "one two " * 90, "tgt": "x"},
    }
    for task, example in long.items():
        run = Run.open(tiny_run(task))
        command = next_steps(Trained(run, outcome, [example])).splitlines()[1]
        assert "..." not in command and len(command) < 400 + len(str(run.folder)), command
        if task != "translation":
            _, called, *arguments = shlex.split(command)
            assert regard(called, *arguments).status == 0


def test_labels_that_occur_in_validation_data_only_are_reported(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "classification")
    with (tmp_path / "classification.valid.jsonl").open("a", encoding="utf-8") as stream:
        stream.write('{"text": "q", "label": "zebra"}\n')
    done = regard("train", recipe, "--folder", tmp_path / "one", "training.max_steps=2")
    assert "note: valid has labels" in done.err and "zebra" in done.err
    assert "training.max_steps=4" in done.out
    done = regard("train", recipe, "--folder", tmp_path / "two", "training.max_epochs=0.5")
    assert "training.max_epochs=1" in done.out


@pytest.mark.parametrize(("kind", "exported"), [("transformer", False), ("recurrent", False), ("bert", True)])
def test_a_model_that_cannot_be_exported_is_reported_before_training(kind: str, exported: bool, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "classification", kind, {"training.max_epochs": 1.0})
    result = regard("train", recipe, "--folder", tmp_path / "run")
    assert result.status == 0
    assert ("Hugging Face" in result.err) == (not exported)
    assert (regard("export", tmp_path / "run", "--folder", tmp_path / "out").status == 0) == exported


@pytest.mark.parametrize(
    ("setting", "reason", "more"),
    [("max_epochs=1", "max_epochs", "max_epochs=2"), ("max_steps=1", "max_steps", "max_steps=2")],
)
def test_the_limit_that_stopped_training_is_named(
    classifier: Path, tmp_path: Path, setting: str, reason: str, more: str
) -> None:
    arguments = ["train", classifier.parents[1] / "classification.toml", "training.warmup=0", f"training.{setting}"]
    result = regard(*arguments, "--folder", tmp_path / "run")
    assert result.status == 0, result.err
    assert f" {reason})" in result.out and f"training.{more}" in result.out
    assert json.loads(regard(*arguments, "--folder", tmp_path / "json", "--json").out)["reason"] == reason


def test_what_is_left_out_and_known_before_is_reported_and_kept_in_the_run(tmp_path: Path) -> None:
    """Blank rows, rows that `where` does not select, and a test set that is in the training data."""
    rows = [f"{line}\t{translate_words(line)}" for line in dict.fromkeys(train_sentences())]
    lines = ["src\ttgt\tkind", *(f"{row}\t{'web' if n % 10 else 'book'}" for n, row in enumerate(rows)), ""]
    recipe = write_recipe(tmp_path, "translation")
    (tmp_path / "mine.tsv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (tmp_path / "known.tsv").write_text("".join(f"{row}\n" for row in rows[1:9]), encoding="utf-8")
    data = ("data.train={file = 'mine.tsv', where = {kind = 'web'}}", "data.test=known.tsv")
    result = regard("train", recipe, *data, *SHORT, "training.monitor=loss", "--folder", tmp_path / "run")
    books = -(-len(rows) // 10)
    assert f"{len(rows) + 1} read, {len(rows) - books} kept; left out: {books} not selected" in result.err
    assert "of 8 distinct examples of test (100.0%) occur in train" in result.err
    facts = json.loads(regard("info", tmp_path / "run", "--json").out)
    ((source, left_out),) = facts["left_out"].items()
    assert source.startswith("mine.tsv") and "1 blank" in left_out
