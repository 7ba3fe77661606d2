"""The settings of mask-predict: what belongs to it and what does not, and who refuses it."""

from typing import Any

import pytest
import torch
from tests.decoding.mock_stepper import SYMBOLS, MockStepper

from regard.config import build
from regard.decoding.search import decode
from regard.decoding.settings import DecodingSettings
from regard.errors import UserError
from regard.run.translator import searching


@pytest.mark.parametrize(
    ("values", "code", "key"),
    [
        ({"search": "mask_predict", "beam": 8}, "unused-setting", "beam"),
        ({"search": "mask_predict", "top_k": 3}, "unused-setting", "top_k"),
        ({"search": "mask_predict", "alpha": 1.0}, "unused-setting", "alpha"),
        ({"search": "mask_predict", "no_repeat_ngram": 3}, "unused-setting", "no_repeat_ngram"),
        ({"search": "mask_predict", "nbest": 6}, "invalid-setting", "nbest"),
        ({"search": "mask_predict", "iterations": 0}, "invalid-setting", "iterations"),
        ({"search": "beam", "iterations": 4}, "unused-setting", "iterations"),
        ({"search": "greedy", "length_candidates": 2}, "unused-setting", "length_candidates"),
    ],
)
def test_invalid_settings_are_refused(values: dict[str, Any], code: str, key: str) -> None:
    with pytest.raises(UserError) as error:
        build(DecodingSettings, values, "recipe")
    assert (error.value.code, error.value.where) == (code, key)


def test_its_settings_ask_for_it() -> None:
    written = DecodingSettings(beam=8, nbest=2)
    found = DecodingSettings.model_validate(searching(written, {"iterations": 4}))
    assert (found.search, found.iterations, found.length_candidates, found.nbest) == ("mask_predict", 4, 5, 1)
    back = DecodingSettings.model_validate(searching(found, {"beam": 3}))
    assert (back.search, back.beam, back.iterations) == ("beam", 3, 10)


def test_a_model_that_writes_word_by_word_cannot_be_asked_for_all_at_once() -> None:
    with pytest.raises(UserError) as error:
        decode(MockStepper(5), [0], torch.tensor([4]), SYMBOLS, DecodingSettings(search="mask_predict"))
    assert (error.value.code, error.value.where) == ("unsupported", "decoding.search")
