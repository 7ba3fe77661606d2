"""Every setting of a Transformer reaches its part: dropout falls where it should, weights begin with their spread."""

import math

import pytest
import torch
from torch import nn

from regard.attention.layouts import Padded
from regard.layers.positions import Learned
from regard.models.transformer import Transformer, TransformerSettings

NONE = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
SMALL = {"d_model": 32, "num_heads": 4, "d_ff": 64, "encoder_layers": 1, "decoder_layers": 1}


def model(**settings: object) -> Transformer:
    torch.manual_seed(0)
    return Transformer(TransformerSettings.model_validate({**SMALL, **NONE, **settings}), 40, 40).train()


def differs(transformer: Transformer) -> bool:
    """True if two passes in training give different logits."""
    tokens = Padded.of(torch.arange(3, 11)[None], torch.tensor([8]))
    return not torch.allclose(*(transformer(tokens, tokens).logits() for _ in range(2)))


@pytest.mark.parametrize("setting", list(NONE))
def test_each_dropout_falls_somewhere_and_only_in_training(setting: str) -> None:
    assert not differs(model())
    assert differs(model(**{setting: 0.5}))
    assert not differs(model(**{setting: 0.5}).eval())


def test_dropout_falls_on_the_embeddings_and_on_the_residuals() -> None:
    dropping = model(dropout=0.5)
    ids, positions = torch.arange(3, 11)[None], torch.arange(8)
    once, again = (dropping.embed(dropping.src_embedding, ids, positions) for _ in range(2))
    assert not torch.allclose(once, again)
    dropping.dropout = nn.Dropout(0.0)
    assert differs(dropping)


def test_projections_begin_with_glorot_and_bengios_spread_and_learned_positions_as_words_do() -> None:
    begun = model(positions="learned", max_positions=500)
    for layer in begun.modules():
        if isinstance(layer, nn.Linear):
            bound = math.sqrt(6 / (layer.in_features + layer.out_features))
            assert 0.95 * bound < float(layer.weight.detach().abs().max()) <= bound
            assert not layer.bias.any()
    assert isinstance(begun.positions, Learned)
    assert float(begun.positions.table.weight.detach().std()) == pytest.approx(32**-0.5, rel=0.05)


def test_settings_of_other_positions_have_no_effect() -> None:
    unused = {
        kind: {key for key, _ in settings(positions=kind, experts=2).no_effect()}
        for kind in ("learned", "relative", "none")
    }
    assert unused == {
        "learned": {"max_distance", "buckets"},
        "relative": {"max_positions", "buckets"},
        "none": {"max_positions", "max_distance", "buckets"},
    }


def settings(**values: object) -> TransformerSettings:
    return TransformerSettings.model_validate({**SMALL, **values})
