"""A head on any encoder: one answer for an input or one for each token, and nothing else that learns."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from regard.attention.layouts import Packed, Padded
from regard.models.bert import Bert
from regard.models.text_encoder import (
    EncoderSettings,
    EncoderWithHead,
    RecurrentEncoder,
    TransformerEncoder,
    TransformerEncoderSettings,
    build_encoder,
)
from regard.tasks.labelled import LabelledRecipe

V, T = 20, 6
LENGTHS = torch.tensor([6, 2, 4])
REAL = torch.arange(T) < LENGTHS[:, None]
SMALL: dict[str, dict[str, Any]] = {
    "bert": dict(kind="bert", size="tiny", d_model=16, num_heads=2, d_ff=24),
    "transformer": dict(kind="transformer", d_model=16, num_heads=2, d_ff=24, pooling="attention"),
    "recurrent": dict(kind="recurrent", d_model=16),
}


def settings(**values: Any) -> Any:
    return TypeAdapter(EncoderSettings).validate_python(values)


def build(kind: str, outputs: int, pooled: bool, dropout: float = 0.0) -> EncoderWithHead:
    torch.manual_seed(0)
    return EncoderWithHead(build_encoder(settings(**SMALL[kind]), V), outputs, pooled, dropout)


def batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(5, V, (3, T), generator=generator), torch.randint(0, 2, (3, T), generator=generator)


def test_a_kind_is_a_reader_and_the_one_of_every_recipe_need_not_be_named() -> None:
    assert isinstance(build_encoder(settings(kind="bert", size="tiny"), V), Bert)
    assert isinstance(build_encoder(settings(**SMALL["transformer"]), V), TransformerEncoder)
    assert isinstance(build_encoder(settings(**SMALL["recurrent"]), V), RecurrentEncoder)
    assert settings() == LabelledRecipe.model_fields["model"].default == TransformerEncoderSettings()
    with pytest.raises(ValidationError, match="'bert', 'transformer', 'recurrent'"):
        settings(kind="convolutional")


@pytest.mark.parametrize("kind", SMALL)
def test_one_answer_for_an_input_or_one_for_each_token(kind: str) -> None:
    ids, segments = batch()
    tokens = Padded.of(ids, LENGTHS)
    for pooled, shape in ((True, (3, 5)), (False, (3, T, 5))):
        model = build(kind, 5, pooled).eval()
        h = model.encoder(tokens, segments)
        x = model.encoder.pool(h, tokens.layout) if pooled else h
        answers = model(tokens, segments)
        assert answers.shape == shape
        torch.testing.assert_close(answers, x @ model.head.weight.T + model.head.bias)


@pytest.mark.parametrize("kind", ["bert", "transformer"])
@pytest.mark.parametrize("pooled", [True, False])
def test_a_stream_is_answered_as_rows_are(kind: str, pooled: bool) -> None:
    model, (ids, segments) = build(kind, 3, pooled).double().eval(), batch()
    rows, stream = model(Padded.of(ids, LENGTHS), segments), model(Packed.of(ids, LENGTHS), segments[REAL])
    torch.testing.assert_close(stream, rows if pooled else rows[REAL])


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("pooled", [True, False])
def test_whatever_may_learn_has_a_gradient(kind: str, pooled: bool) -> None:
    """Processes that share a step wait for all of them."""
    model, (ids, segments) = build(kind, 4, pooled), batch()
    answers = model(Padded.of(ids, LENGTHS), segments)
    F.cross_entropy(answers.flatten(0, -2), torch.arange(answers[..., 0].numel()) % 4).backward()
    learning = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert learning == {name for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert any(name.startswith("encoder.pooler") for name in learning) == pooled
    assert {"head.weight", "head.bias"} < learning


def test_a_reader_that_was_not_pooled_is_pooled_again() -> None:
    encoder = build_encoder(settings(**SMALL["bert"]), V)
    EncoderWithHead(encoder, 2, False, 0.0)
    assert all(parameter.requires_grad for parameter in EncoderWithHead(encoder, 2, True, 0.0).parameters())


def test_the_head_begins_small_and_is_told_less_in_training() -> None:
    torch.manual_seed(0)
    model = EncoderWithHead(build_encoder(settings(**SMALL["recurrent"], dropout=0.0), V), 2000, True, 0.5)
    assert model.head.weight.abs().max() <= 0.04 and model.head.bias.abs().max() == 0
    assert float(model.head.weight.detach().std()) == pytest.approx(0.0176, abs=5e-4)  # 0.02, cut at twice that
    tokens = Padded.of(batch()[0], LENGTHS)
    first, again = model(tokens), model(tokens)
    assert not torch.allclose(first, again)
    torch.testing.assert_close(model.eval()(tokens), model(tokens))
