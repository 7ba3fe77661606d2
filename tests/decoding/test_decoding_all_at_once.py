"""The settings of mask-predict: what belongs to it and what does not, and who refuses it."""

from typing import Any

import pytest
import torch
from pydantic import ValidationError
from tests.decoding.mock_stepper import SYMBOLS, MockStepper

from regard.decoding.search import decode
from regard.decoding.settings import DecodingSettings
from regard.errors import UserError
from regard.run.translator import searching


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"search": "mask_predict", "beam": 8}, "beam = 8 has no effect"),
        ({"search": "mask_predict", "top_k": 3}, "top_k = 3 has no effect"),
        ({"search": "mask_predict", "alpha": 1.0}, "alpha = 1.0 has no effect"),
        ({"search": "mask_predict", "no_repeat_ngram": 3}, "no_repeat_ngram = 3 has no effect"),
        ({"search": "mask_predict", "nbest": 6}, "length_candidates = 6 or more"),
        ({"search": "mask_predict", "iterations": 0}, "greater than or equal to 1"),
        ({"search": "beam", "iterations": 4}, 'write search = "mask_predict"'),
        ({"search": "greedy", "length_candidates": 2}, 'write search = "mask_predict"'),
    ],
)
def test_what_has_no_effect_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        DecodingSettings.model_validate(given)


def test_its_settings_ask_for_it() -> None:
    written = DecodingSettings(beam=8, nbest=2)
    found = DecodingSettings.model_validate(searching(written, {"iterations": 4}))
    assert (found.search, found.iterations, found.length_candidates, found.nbest) == ("mask_predict", 4, 5, 1)
    back = DecodingSettings.model_validate(searching(found, {"beam": 3}))
    assert (back.search, back.beam, back.iterations) == ("beam", 3, 10)


def test_a_model_that_writes_word_by_word_cannot_be_asked_for_all_at_once() -> None:
    with pytest.raises(UserError, match="writes word by word"):
        decode(MockStepper(5), [0], torch.tensor([4]), SYMBOLS, DecodingSettings(search="mask_predict"))
