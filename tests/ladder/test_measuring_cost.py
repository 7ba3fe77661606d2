"""The cost of training: 6 N D with the parameters of the paper's base model, beside table 2 of the paper."""

import pytest

from regard.ladder.measuring import model_flops, parameters_without_embeddings
from regard.layers.meta import on_meta
from regard.models.transformer import Transformer, TransformerSettings

DEVICE_FLOPS = 12 * 3600 * 8 * 9.5e12
"""Table 2 of Vaswani et al. 2017 for the base model: seconds x GPUs x sustained operations per second."""


@pytest.mark.parametrize("tie", ["all", "output", "none"])
def test_parameters_without_embeddings(tie: str) -> None:
    """Counted by hand: attention 4 D^2 + 4 D, feed-forward 2 D F + D + F, norm 2 D; a decoder layer has one more."""
    D, F, layers = 512, 2048, 6
    settings = TransformerSettings.model_validate({"size": "base", "tie": tie})
    with on_meta():
        model = Transformer(settings, 1000, 1000)
    attention, feedforward, norm = 4 * D * D + 4 * D, 2 * D * F + D + F, 2 * D
    expected = layers * (3 * attention + 2 * feedforward + 5 * norm)
    assert parameters_without_embeddings(model) == expected


def test_six_operations_for_each_parameter_and_token() -> None:
    base = 44_140_544  # of the base model, 100,000 steps of 25,000 tokens on each side
    cost = model_flops(base, 100_000 * 25_000)
    assert cost == 6 * base * 2.5e9
    assert cost == pytest.approx(6.6e17, rel=0.01)
    assert cost < DEVICE_FLOPS, "a fifth of what the devices could compute"
