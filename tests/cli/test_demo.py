"""regard demo: training, evaluation, page and next commands."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import fails, regard

from regard.cli.demo import next_steps
from regard.data.builtin import NUMBERS
from regard.errors import UserError
from regard.run.run import Run
from regard.tasks.registry import load_recipe

QUICK = (
    "training.max_steps=2",
    "training.warmup=1",
    "training.validate_every=2",
    "training.log_every=1",
    "training.batch_tokens=512",
    "model.d_model=16",
    "model.num_heads=2",
    "model.d_ff=32",
    "decoding.max_length=4",
    "text.kind=char",
    "training.monitor=loss",
    'data.train={builtin="numbers", split="valid"}',
    'data.valid={builtin="numbers", split="valid"}',
    'data.test={builtin="numbers", split="valid"}',
    "data.workers=1",
    "runtime.threads=1",
)


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a demo, and its stdout."""
    folder = tmp_path_factory.mktemp("demo") / "a folder"
    result = regard("demo", "dates", *QUICK, "--folder", folder)
    assert result.status == 0, result.err
    return folder, result.out


def test_the_demo_prints_curve_scores_translations_and_attention(printed: tuple[Path, str]) -> None:
    _, out = printed
    assert "training loss" in out
    assert f"on {NUMBERS['valid']:,} inputs" in out
    assert out.count("✗") + out.count("✓") == 10
    assert "cross attention, layer 2 of 2, mean of 2 heads" in out


def test_the_demo_writes_a_page_and_a_run(printed: tuple[Path, str]) -> None:
    folder, out = printed
    assert str(folder / "report.html") in out
    source = next(iter(list(Run.open(folder).task.read("test"))))["src"]
    assert source in (folder / "report.html").read_text(encoding="utf-8")
    assert Run.open(folder).recipe.name == "demo-dates"
    assert (folder / "evaluations" / "test-best.json").exists()


def test_the_printed_commands_work(printed: tuple[Path, str]) -> None:
    folder, out = printed
    words = [shlex.split(line) for line in out.split("next:")[1].splitlines()[1:4]]
    starts = [next(place for place, word in enumerate(line, 1) if Path(word).name == "regard") for line in words]
    translate, inspect, evaluate = (line[start:] for line, start in zip(words, starts, strict=True))
    assert words[0][0] == "echo" and translate == ["translate", str(folder)]
    assert regard(*translate, stdin=words[0][1]).status == 0
    assert inspect[:2] == ["inspect", str(folder)]
    assert regard(*inspect).status == 0
    assert evaluate == ["evaluate", str(folder), "--report", f"{folder}/report.html"]


def test_the_printed_recipe_is_valid(printed: tuple[Path, str], tmp_path: Path) -> None:
    text = printed[1].split("<<'END'\n")[1].split("  END\n")[0]
    path = tmp_path / "my.toml"
    path.write_text("\n".join(line.removeprefix("  ") for line in text.splitlines()), encoding="utf-8")
    recipe = load_recipe(path)
    assert [source.src for source in recipe.data.train] == ["train.src"]
    assert not recipe.is_given("model.size") and not recipe.is_given("training.max_steps"), "chosen from the data"


def test_only_an_earlier_demo_is_replaced(tmp_path: Path, trained: Path) -> None:
    folder = tmp_path / "demo"
    assert regard("demo", "dates", *QUICK, "--folder", folder).status == 0
    (folder / "old").write_text("", encoding="utf-8")
    again = regard("demo", "dates", *QUICK, "--folder", folder, "--json")
    outcome = json.loads(again.out)
    assert (outcome["step"], outcome["sentences"]) == (2, NUMBERS["valid"])
    assert "exact match" in outcome["scores"]
    assert not (folder / "old").exists()
    assert fails("demo", "dates", "--folder", trained).code == "run-exists"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("", encoding="utf-8")
    assert fails("demo", "dates", *QUICK, "--folder", tmp_path / "other").code == "not-a-run"


def test_an_unknown_demo_is_an_error() -> None:
    assert fails("demo", "poems").code == "invalid-option"


@pytest.mark.parametrize(("options", "steps", "tokens"), [((), 360, 2048), (("--quick",), 40, 512)])
def test_a_quick_demo_trains_less(
    options: tuple[str, ...], steps: int, tokens: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[Any] = []

    def train(recipe: Any, folder: Path, resume: bool) -> None:
        trained.append((recipe, folder, resume))
        raise UserError("stopped", code="stopped")

    monkeypatch.setattr("regard.cli.demo.train_with_progress", train)
    monkeypatch.chdir(tmp_path)
    assert fails("demo", *options).code == "stopped"
    assert fails("demo", "dates", "training.max_steps=300", "--folder", "mine", *options).code == "stopped"
    (first, folder, resume), (second, chosen, _) = trained
    assert (first.training.max_steps, first.training.batch_tokens) == (steps, tokens)
    assert (first.name, folder, resume) == ("demo-dates", Path("runs/demo-dates"), False)
    assert (second.training.max_steps, second.training.batch_tokens, chosen) == (300, tokens, Path("mine"))


@pytest.mark.parametrize(("language", "chinese"), [("en_US.UTF-8", False), ("zh_CN.UTF-8", True)])
def test_the_next_steps_are_in_one_language(language: str, chinese: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", language)
    monkeypatch.setattr("regard.cli.shell.program", lambda: ".venv/bin/regard")
    text = next_steps(Path("runs/demo"), "one two")
    assert bool(re.search("[\u4e00-\u9fff]", text)) == chinese and ("next" in text) != chinese
    assert "echo 'one two' | .venv/bin/regard translate runs/demo" in text
    assert "\n  .venv/bin/regard train my.toml" in text
