"""Defaults of the hooks for the doctor."""

from pathlib import Path
from typing import Any

import pytest
from tests.tasks.make import make_recipe

from regard.data.fields import LINES, PAIRS
from regard.data.formats import read_examples
from regard.tasks.checks import entropy
from regard.tasks.language import Language
from regard.tasks.translation import Translation


def test_entropy_is_the_loss_of_the_relative_frequencies() -> None:
    assert entropy([0, 1, 2, 3]) == pytest.approx(1.3862943611)
    assert entropy([0, 0, 0]) == 0


def test_a_sample_is_read_whole_and_nothing_is_held_out_of_it(tmp_path: Path) -> None:
    recipe, pairs = make_recipe(Translation, {}), [{"src": "a", "tgt": "ü"}, {"src": "b", "tgt": "c"}]
    settings = Translation.checks.write_sample(recipe, {"train": pairs, "valid": pairs[:1], "test": []}, tmp_path)
    assert settings["workers"] == 1 and settings["hold_out"] == settings["hold_out_test"] == 0.0
    sampled: Any = make_recipe(Translation, {f"data.{name}": value for name, value in settings.items() if value != []})
    assert list(read_examples(sampled.data.train, tmp_path, PAIRS)) == pairs
    assert list(read_examples(sampled.data.valid, tmp_path, PAIRS)) == pairs[:1] and settings["test"] == []


def test_only_long_lines_of_running_text_are_compared() -> None:
    assert Language.checks.overlap_key(LINES, {"text": "a  b c d e f g h "}) == "a b c d e f g h"
    assert Language.checks.overlap_key(LINES, {"text": "a short heading"}) == ""
    assert Translation.checks.overlap_key(PAIRS, {"src": " a  b", "tgt": "c"}) == "a b\nc"
