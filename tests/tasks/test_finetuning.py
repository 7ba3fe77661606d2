"""Recipes of labelled tasks: lengths that do not fit are refused."""

import pytest
from tests.tasks.make import make_recipe

from regard.errors import UserError
from regard.tasks.classification import Classification

BERT = {"kind": "bert", "size": "tiny", "max_positions": 24}


def test_a_text_longer_than_the_positions_is_refused() -> None:
    recipe = make_recipe(Classification, {"model": BERT, "data.max_length": 24})
    assert (recipe.data.max_length, recipe.model.length_limit) == (24, 24)
    with pytest.raises(UserError) as error:
        make_recipe(Classification, {"model": BERT, "data.max_length": 25})
    assert (error.value.code, error.value.where) == ("invalid-setting", "data.max_length")
    make_recipe(Classification, {"model": {"kind": "recurrent"}, "data.max_length": 900})


def test_a_batch_holds_one_text() -> None:
    make_recipe(Classification, {"data.max_length": 30, "training.batch_tokens": 30})
    with pytest.raises(UserError) as error:
        make_recipe(Classification, {"data.max_length": 30, "training.batch_tokens": 29})
    assert (error.value.code, error.value.where) == ("invalid-setting", "training.batch_tokens")
