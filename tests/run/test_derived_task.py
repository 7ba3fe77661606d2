"""A task that is derived from a built-in one: every command uses the derived class."""

from pathlib import Path
from typing import ClassVar

import pytest
from tests.cli.command import regard
from tests.tiny import write_recipe
from torch import nn

from regard.run.run import Run
from regard.tasks.registry import TASKS, task_of
from regard.tasks.translation import Translation

SETTINGS = ["task=quiet-translation", "training.max_steps=4", "training.validate_every=4"]


class QuietTranslation(Translation):
    """Translation with a smaller spread of the initial weights."""

    name = "quiet-translation"
    made: ClassVar[list[str]] = []

    def new_model(self) -> nn.Module:
        model = super().new_model()
        self.made.append(type(model).__name__)
        for weight in model.parameters():
            weight.data.mul_(0.5)
        return model


def test_a_derived_task_is_itself_and_its_next_commands_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TASKS, QuietTranslation.name, QuietTranslation)
    recipe, run = write_recipe(tmp_path, "translation"), tmp_path / "run"
    trained = regard("train", recipe, *SETTINGS, "--folder", run)
    assert trained.status == 0, trained.err
    assert "Transformer" in QuietTranslation.made
    opened = Run.open(run)
    assert task_of(opened.recipe) is QuietTranslation and type(opened.task) is QuietTranslation
    (command,) = [line for line in trained.out.splitlines() if "regard translate" in line]
    assert str(run) in command
    assert regard("translate", run, stdin="one two\n").status == 0
    assert regard("evaluate", run).status == 0
