"""regard train: from nothing to a run, on from where one stopped, and what it says on the way."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.command import TRAIN_SHARE, refused, regard, sentences, translated

from regard.cli.train import find
from regard.run import Run
from regard.training.console import PlainConsole
from regard.training.events import Event, TrainRecord

SHORT = ("training.max_steps=2", "training.validate_every=2", "training.log_every=1")


def test_a_trained_run_says_what_to_type_next_and_it_works(trained: Path) -> None:
    again = regard("train", trained)
    assert again.status == 0
    assert f"{trained}: trained 240 steps (stopped by max_steps)" in again.out
    assert f"| regard translate {trained}" in again.out
    assert f"regard evaluate {trained}\n" in again.out


def test_attention_is_offered_where_there_is_some(recipe: Path, tmp_path: Path) -> None:
    model = 'model={kind="recurrent", decoder="plain", d_model=8, d_embedding=8, layers=1}'
    few = ("training.max_steps=2", "training.warmup=1", "training.monitor=loss")
    assert "regard inspect" not in regard("train", recipe, model, *few, "-o", tmp_path / "plain").out
    refusal = refused("inspect", tmp_path / "plain", "one two")
    assert "has no attention to show" in refusal


def test_it_has_learnt_what_it_was_shown(trained: Path) -> None:
    lines = sentences()[:TRAIN_SHARE]
    result = regard("translate", trained, stdin="\n".join(lines))
    right = sum(out == translated(line) for out, line in zip(result.lines, lines, strict=True))
    assert right >= 0.9 * len(lines)


def test_progress_is_on_stderr_and_json_alone_on_stdout(recipe: Path, tmp_path: Path) -> None:
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


def test_a_folder_does_not_hide_a_recipe_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dates").mkdir()
    recipe, folder, resume = find("dates", ["training.max_steps=500"], None, False)
    assert (recipe.name, recipe.training.max_steps, folder, resume) == ("dates", 500, Path("runs/dates"), False)


def test_a_run_is_not_overwritten_but_gone_on_with(recipe: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert regard("train", recipe, *SHORT, "--folder", folder).status == 0
    assert "--resume" in refused("train", recipe, *SHORT, "--folder", folder)
    by_flag = regard("train", recipe, "training.max_steps=4", "--folder", folder, "--resume", "--json")
    assert json.loads(by_flag.out)["step"] == 4
    by_folder = regard("train", folder, "training.max_steps=6", "--json")
    assert json.loads(by_folder.out)["step"] == 6
    assert "resuming after step 4" in by_folder.err


def test_a_run_cannot_go_on_as_another_model(trained: Path) -> None:
    assert "[model]" in refused("train", trained, "model.d_ff=128")


def test_ctrl_c_saves_and_says_how_to_go_on(recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(console: PlainConsole, event: Event) -> None:
        if isinstance(event, TrainRecord):
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(PlainConsole, "log", interrupt)
    result = regard("train", recipe, "training.log_every=3", "--folder", tmp_path / "run")
    assert result.status == 130
    assert result.out == f"saved at step 3; go on with: regard train {tmp_path / 'run'}\n"
    assert [path.name for path in Run.open(tmp_path / "run").checkpoints.all()] == ["step-00000003"]


def test_on_a_terminal_the_progress_is_live(recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    result = regard("train", recipe, *SHORT, "--folder", tmp_path / "run", terminal=True)
    assert result.status == 0
    assert "\x1b[" in result.err
    assert "\x1b" not in result.out


def test_two_processes_speak_as_one(recipe: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "regard"]
    command += ["train", str(recipe), *SHORT, "-o", str(tmp_path / "run"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["step"] == 2
    assert done.stderr.count("step 2/2") == 1


def test_a_line_of_a_megabyte_is_left_out_and_counted(recipe: Path, tmp_path: Path) -> None:
    src, tgt = ((recipe.parent / f"train.{side}").read_text(encoding="utf-8") for side in ("src", "tgt"))
    (tmp_path / "long.src").write_text(src + "one " * 250_000 + "\n", encoding="utf-8")
    (tmp_path / "long.tgt").write_text(tgt + "eins " * 200_000 + "\n", encoding="utf-8")
    corpus = f'data.train={{src="{tmp_path}/long.src", tgt="{tmp_path}/long.tgt"}}'
    result = regard("train", recipe, *SHORT, corpus, "--folder", tmp_path / "run")
    assert result.status == 0
    assert "too long     1" in result.err
