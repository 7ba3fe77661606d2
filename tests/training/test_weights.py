"""Weights by name: checkpoints of format 1 have other names than the models now; weights that cannot be used."""

from typing import Any

import pytest
import torch
from pydantic import TypeAdapter
from torch import nn

from regard.errors import UserError
from regard.models.convolutional import Convolutional, ConvolutionalSettings
from regard.models.language import LanguageModelSettings, build_language_model
from regard.models.recurrent import RecurrentModel, RecurrentSettings
from regard.models.text_encoder import EncoderSettings, EncoderWithHead, build_encoder
from regard.models.transformer import Transformer, TransformerSettings
from regard.training.weights import current_name, load_weights, weights_of

OLD_AND_NEW = [
    ("encoder.0.around_attention.norm.weight", "encoder.0.attention_residual.norm.weight"),
    ("decoder.1.around_cross_attention.norm.bias", "decoder.1.cross_attention_residual.norm.bias"),
    ("exp_avg:encoder.0.feedforward.widen.weight", "exp_avg:encoder.0.feedforward.fc1.weight"),
    ("weights:bert.layers.0.feedforward.narrow.bias", "weights:bert.layers.0.feedforward.fc2.bias"),
    ("encoder.0.attention.weighing.between.key", "encoder.0.attention.scored_attention.position_bias.key"),
    ("encoder.0.attention.weighing.scoring.weight", "encoder.0.attention.scored_attention.scoring.weight"),
    ("encoder.layers.0.rightward.weights.bias_hh_l0", "encoder.layers.0.forward_layer.weights.bias_hh_l0"),
    ("decoder.glance.kind.baseline.weight", "decoder.source_attention.kind.baseline.weight"),
    ("exp_avg_sq:decoder.join.weight", "exp_avg_sq:decoder.combine.weight"),
    ("enter_encoder.direction", "encoder_in.direction"),
    ("leave_decoder.magnitude", "decoder_out.magnitude"),
    ("exp_avg:narrow.weight", "exp_avg:output_projection.weight"),
    ("reader.encoder.layers.0.leftward.weights.bias_hh_l0", "encoder.rnn.layers.0.backward_layer.weights.bias_hh_l0"),
    ("exp_avg:reader.words.weight", "exp_avg:encoder.words.weight"),
    ("carried:0.h", "carried:0.h"),
]


@pytest.mark.parametrize(("old", "new"), OLD_AND_NEW)
def test_old_names_become_the_names_of_now(old: str, new: str) -> None:
    assert current_name(old) == new


def encoder(**values: Any) -> nn.Module:
    settings = TypeAdapter(EncoderSettings).validate_python(values)
    return EncoderWithHead(build_encoder(settings, 9), 2, True, 0.0)


def language_model(**values: Any) -> nn.Module:
    return build_language_model(TypeAdapter(LanguageModelSettings).validate_python(values), 9)


def test_the_names_of_now_stay() -> None:
    small = dict(d_model=8, d_embedding=6, layers=2)
    with torch.device("meta"):
        models = [
            Transformer(TransformerSettings(size="tiny", positions="relative", norm="pre"), 9, 9),
            RecurrentModel(RecurrentSettings.model_validate({**small, "decoder": "luong", "tie": "all"}), 9, 9),
            RecurrentModel(RecurrentSettings.model_validate({**small, "decoder": "bahdanau"}), 9, 9),
            Convolutional(ConvolutionalSettings(d_model=8, d_embedding=6), 9, 9),
            encoder(kind="bert", size="tiny"),
            encoder(kind="recurrent", d_model=8),
            language_model(kind="lstm", d_model=8),
            language_model(kind="transformer", d_model=8, num_heads=2),
        ]
    for name in (name for model in models for name in model.state_dict()):
        assert current_name(name) == name


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_weights_that_are_not_finite_are_refused(value: float, dtype: torch.dtype) -> None:
    model = nn.Linear(3, 2)
    weights = {name: tensor.to(dtype) for name, tensor in weights_of(model).items()}
    before = weights_of(model)
    weights["bias"][1] = value
    with pytest.raises(UserError) as error:
        load_weights(model, weights, "file")
    assert (error.value.code, error.value.where) == ("not-finite", "file:bias")
    assert all(torch.equal(before[name], tensor) for name, tensor in weights_of(model).items()), "nothing was loaded"


def test_large_finite_weights_are_loaded() -> None:
    model = nn.Linear(3, 2)
    load_weights(model, {"weight": torch.full((2, 3), 3e38), "bias": torch.zeros(2)}, "file")
    assert model.weight.min() == torch.tensor(3e38), "their sum is infinite"


def test_weights_of_another_type_are_refused() -> None:
    for tensor in (torch.zeros(2, dtype=torch.int64), torch.zeros(2, dtype=torch.complex64), torch.zeros(3)):
        with pytest.raises(UserError) as error:
            load_weights(nn.Linear(3, 2), {"weight": torch.zeros(2, 3), "bias": tensor}, "file")
        assert (error.value.code, error.value.where) == ("other-model", "file")
