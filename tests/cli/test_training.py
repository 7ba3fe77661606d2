"""cli/training.py and cli/train.py: the end of a training in words and as values, and shortened examples."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from regard.cli.train import shortened
from regard.cli.training import find_recipe_and_folder, outcome_values, summary
from regard.errors import UserError
from regard.training.loop import Outcome


def ended(reason: Any, best: float | None = 1.25, epochs: float = 0.0, max_steps: int = 100, step: int = 40) -> Any:
    training = SimpleNamespace(monitor="loss", max_epochs=epochs, max_steps=max_steps)
    run = SimpleNamespace(folder=Path("runs/a b"), recipe=SimpleNamespace(training=training))
    return SimpleNamespace(run=run, outcome=Outcome(step, reason, best, None if best is None else 30, {"loss": 2.0}))


def test_values() -> None:
    assert outcome_values(ended("patience")) == {
        "run": "runs/a b", "step": 40, "reason": "patience", "monitor": "loss", "best": 1.25, "best_step": 30,
        "metrics": {"loss": 2.0},
    }  # fmt: skip


def test_an_interrupted_training_is_continued_by_its_folder() -> None:
    assert summary(ended("interrupted")).endswith("step 40; continue with: regard train 'runs/a b'")


def test_the_summary_has_the_best_score_and_how_to_train_more() -> None:
    first, best = summary(ended("patience")).split("\n")
    assert "40 steps" in first and "patience" in first and "1.25" in best and best.endswith("step 30")
    assert len(summary(ended("patience", best=None)).split("\n")) == 1
    assert summary(ended("max_steps")).split("\n")[-1].endswith("regard train 'runs/a b' training.max_steps=80")
    by_epochs = ended("max_steps", epochs=1.5)
    assert summary(by_epochs).split("\n")[-1].endswith("training.max_epochs=3")
    both = ended("max_steps", epochs=1.5, max_steps=40)
    assert summary(both).split("\n")[-1].endswith("training.max_steps=80")


def test_long_texts_are_shortened_and_short_ones_kept() -> None:
    assert shortened("x" * 60) == "x" * 60 and shortened("a b") == "a b"
    assert shortened("word " * 20) == " ".join(["word"] * 11)
    assert shortened("y" * 61) == "y" * 60
    assert shortened({"a": ["w"] * 20, "n": 3, "d": {"t": "z" * 99}}) == {"a": ["w"] * 12, "n": 3, "d": {"t": "z" * 60}}
    assert shortened(" " * 99) == ""


def test_the_recipe_and_the_folder(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, folder, resume = find_recipe_and_folder(str(trained), ["training.max_steps=7"], None, False)
    assert (recipe.training.max_steps, folder, resume) == (7, trained, True)
    _, folder, resume = find_recipe_and_folder(str(trained), [], tmp_path, False)
    assert (folder, resume) == (tmp_path, False)
    assert find_recipe_and_folder(str(trained), [], tmp_path, True)[2]
    monkeypatch.chdir(tmp_path)
    recipe, folder, resume = find_recipe_and_folder("dates", [], Path("x"), True)
    assert (recipe.name, folder, resume) == ("dates", Path("x"), True)
    assert find_recipe_and_folder("dates", ["name=other"], None, False)[1:] == (Path("runs/other"), False)
    (tmp_path / "mine").mkdir()
    with pytest.raises(UserError) as error:
        find_recipe_and_folder("mine", [], None, False)
    assert (error.value.code, error.value.where) == ("not-a-run", "mine")
