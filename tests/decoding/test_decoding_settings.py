"""Decoding settings: values that contradict each other or have no effect are refused."""

from typing import Any

import pytest
import torch
from hypothesis import settings

from regard.config import build
from regard.decoding.settings import DecodingSettings, change_search
from regard.errors import UserError

PROPERTY = settings(max_examples=40)


def test_max_new_tokens_depend_on_the_source() -> None:
    lengths = torch.tensor([0, 3, 100])
    assert DecodingSettings().max_new_tokens(lengths).tolist() == [50, 53, 150]
    assert DecodingSettings(max_length=60, extra_length=0).max_new_tokens(lengths).tolist() == [1, 3, 60]


@pytest.mark.parametrize(
    ("values", "code", "key"),
    [
        ({"nbest": 5}, "invalid-setting", "nbest"),
        ({"search": "greedy", "nbest": 2}, "invalid-setting", "nbest"),
        ({"search": "greedy", "beam": 8}, "unused-setting", "beam"),
        ({"top_k": 10}, "unused-setting", "top_k"),
        ({"seed": 7}, "unused-setting", "seed"),
        ({"search": "greedy", "temperature": 0.5}, "unused-setting", "temperature"),
        ({"beam": 0}, "invalid-setting", "beam"),
        ({"alpha": -0.5}, "invalid-setting", "alpha"),
        ({"top_p": 0.0}, "invalid-setting", "top_p"),
        ({"beams": 4}, "unknown-setting", "beams"),
    ],
)
def test_invalid_settings_are_refused(values: dict[str, object], code: str, key: str) -> None:
    with pytest.raises(UserError) as error:
        build(DecodingSettings, values, "recipe")
    assert (error.value.code, error.value.where) == (code, key)


def test_defaults_of_other_searches_are_accepted() -> None:
    written = DecodingSettings().model_dump()
    for search in ("greedy", "sample", "beam"):
        assert build(DecodingSettings, {**written, "search": search}, "recipe").search == search
    assert build(DecodingSettings, {"search": "greedy", "beam": 1}, "recipe").beam == 1


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
def test_settings_of_other_searches_are_refused(values: dict[str, Any], code: str, key: str) -> None:
    with pytest.raises(UserError) as error:
        build(DecodingSettings, values, "recipe")
    assert (error.value.code, error.value.where) == (code, key)


def test_a_setting_of_a_search_selects_it() -> None:
    written = DecodingSettings(beam=8, nbest=2)
    actual = DecodingSettings.model_validate(change_search(written, {"iterations": 4}))
    assert (actual.search, actual.iterations, actual.length_candidates, actual.nbest) == ("mask_predict", 4, 5, 1)
    back = DecodingSettings.model_validate(change_search(actual, {"beam": 3}))
    assert (back.search, back.beam, back.iterations) == ("beam", 3, 10)
    narrow = DecodingSettings(beam=1)
    assert change_search(narrow, {"alpha": 0.5})["beam"] == 1 and change_search(narrow, {"nbest": 3})["beam"] == 3
    assert change_search(written, {"beam": 1})["nbest"] == 1 and change_search(written, {"nbest": 4})["beam"] == 8
    greedy = DecodingSettings(search="greedy")
    assert change_search(greedy, {"nbest": 1})["search"] == "greedy"
    assert change_search(greedy, {"nbest": 2})["search"] == "beam"


@pytest.mark.parametrize("name", ["beam", "nbest", "extra_length", "max_length", "iterations", "length_candidates"])
def test_sizes_of_a_search_have_a_bound(name: str) -> None:
    with pytest.raises(UserError) as error:
        build(DecodingSettings, {name: 1 << 30}, "recipe")
    assert (error.value.code, error.value.where) == ("invalid-setting", name)
