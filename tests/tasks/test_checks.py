"""Defaults of the hooks for the doctor."""

import pytest

from regard.data.fields import LINES, PAIRS
from regard.tasks.checks import entropy
from regard.tasks.language import Language
from regard.tasks.translation import Translation


def test_entropy_is_the_loss_of_the_relative_frequencies() -> None:
    assert entropy([0, 1, 2, 3]) == pytest.approx(1.3862943611)
    assert entropy([0, 0, 0]) == 0


def test_only_long_lines_of_running_text_are_compared() -> None:
    assert Language.checks.overlap_key(LINES, {"text": "a  b c d e f g h "}) == "a b c d e f g h"
    assert Language.checks.overlap_key(LINES, {"text": "a short heading"}) == ""
    assert Translation.checks.overlap_key(PAIRS, {"src": " a  b", "tgt": "c"}) == "a b\nc"
