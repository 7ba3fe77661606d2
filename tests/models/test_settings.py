"""Settings of all models: named sizes, and bounds of every size."""

from typing import Any, get_args

import pytest

from regard.config import build
from regard.errors import UserError
from regard.models.bert import SIZES as BERT_SIZES
from regard.models.bert import BertSettings
from regard.models.convolutional import ConvolutionalSettings
from regard.models.settings import MAX_LAYERS, MAX_LENGTH, MAX_WIDTH, ModelSettings, name_of_size
from regard.models.transformer import SIZES, TransformerSettings


@pytest.mark.parametrize("settings", [BertSettings, TransformerSettings])
@pytest.mark.parametrize("size", [[], {}, ["tiny"], 3, "enormous"])
def test_a_size_that_is_not_a_name_is_an_invalid_setting(settings: type[ModelSettings], size: object) -> None:
    with pytest.raises(UserError) as error:
        build(settings, {"size": size}, "recipe")
    assert (error.value.code, error.value.where) == ("invalid-setting", "size")


@pytest.mark.parametrize(("settings", "sizes"), [(BertSettings, BERT_SIZES), (TransformerSettings, SIZES)])
def test_the_named_size_of_a_shape(settings: type[ModelSettings], sizes: dict[str, dict[str, Any]]) -> None:
    assert set(get_args(settings.model_fields["size"].annotation)) == {*sizes, "custom"}
    for name in sizes:
        values = build(settings, {"size": name}, "recipe").model_dump()
        assert name_of_size(values, sizes) == name
        assert name_of_size(values | {"d_model": values["d_model"] + 8}, sizes) == "custom"


@pytest.mark.parametrize(
    ("settings", "name", "largest"),
    [
        (TransformerSettings, "encoder_layers", MAX_LAYERS),
        (BertSettings, "layers", MAX_LAYERS),
        (ConvolutionalSettings, "d_model", MAX_WIDTH),
        (ConvolutionalSettings, "kernel", MAX_WIDTH),
        (TransformerSettings, "d_ff", MAX_WIDTH),
        (TransformerSettings, "window", MAX_LENGTH),
        (BertSettings, "max_positions", MAX_LENGTH),
    ],
)
def test_sizes_have_a_bound(settings: type[ModelSettings], name: str, largest: int) -> None:
    assert getattr(build(settings, {name: largest}, "recipe"), name) == largest
    with pytest.raises(UserError) as error:
        build(settings, {name: largest + 1}, "recipe")
    assert (error.value.code, error.value.where) == ("invalid-setting", name)
