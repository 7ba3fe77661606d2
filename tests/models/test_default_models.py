"""Initial weights and outputs of every kind of model with its default parts: they do not change by mistake.

After a wanted change, print the figures again: python -m tests.models.test_default_models
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.attention.layouts import Padded
from regard.layers.embeddings import OutputProjection
from regard.models.bert import Bert, BertSettings
from regard.models.convolutional import Convolutional, ConvolutionalSettings
from regard.models.language_markov import MarkovLanguageModel, MarkovLanguageSettings
from regard.models.language_recurrent import RecurrentLanguageModel, RecurrentLanguageSettings
from regard.models.language_transformer import TransformerLanguageModel, TransformerLanguageSettings
from regard.models.masked import MaskedSettings, MaskedTransformer
from regard.models.recurrent import RecurrentModel, RecurrentSettings
from regard.models.text_encoder import (
    RecurrentEncoder,
    RecurrentEncoderSettings,
    TransformerEncoder,
    TransformerEncoderSettings,
)
from regard.models.transformer import Transformer, TransformerSettings

V = 20
SHAPE: dict[str, Any] = dict(d_model=16, num_heads=2, d_ff=24)
MODELS: dict[str, Callable[[], nn.Module]] = {
    "transformer": lambda: Transformer(TransformerSettings(size="tiny", **SHAPE), V, V),
    "masked": lambda: MaskedTransformer(MaskedSettings(size="tiny", max_length=9, **SHAPE), V, V),
    "bahdanau": lambda: RecurrentModel(RecurrentSettings(d_model=16, d_embedding=12), V, V),
    "luong": lambda: RecurrentModel(RecurrentSettings(decoder="luong", d_model=16, d_embedding=12, layers=2), V, V),
    "plain": lambda: RecurrentModel(RecurrentSettings(decoder="plain", d_model=16, d_embedding=12, layers=2), V, V),
    "convolutional": lambda: Convolutional(ConvolutionalSettings(d_model=16, encoder_layers=2, decoder_layers=2), V, V),
    "encoder": lambda: TransformerEncoder(TransformerEncoderSettings(layers=2, **SHAPE), V),
    "recurrent encoder": lambda: RecurrentEncoder(RecurrentEncoderSettings(d_model=16), V),
    "bert": lambda: Bert(BertSettings(size="tiny", layers=2, **SHAPE), V),
    "language model": lambda: TransformerLanguageModel(TransformerLanguageSettings(layers=2, **SHAPE), V),
    "rnn": lambda: RecurrentLanguageModel(RecurrentLanguageSettings(kind="rnn", d_model=16), V),
    "gru": lambda: RecurrentLanguageModel(RecurrentLanguageSettings(kind="gru", d_model=16), V),
    "lstm": lambda: RecurrentLanguageModel(RecurrentLanguageSettings(kind="lstm", d_model=16), V),
    "markov": lambda: MarkovLanguageModel(MarkovLanguageSettings(d_model=16), V),
}
FIGURES: dict[str, tuple[int, float, float]] = {
    "transformer": (87, 2266.1975, 315.5279),
    "masked": (89, 2325.2457, 343.1139),
    "bahdanau": (25, 1715.5851, 346.7935),
    "luong": (24, 2215.7852, 40.7545),
    "plain": (19, 1880.8576, 43.4317),
    "convolutional": (41, 49649.3030, 63.1665),
    "encoder": (36, 883.1690, 271.7835),
    "recurrent encoder": (13, 524.7527, 46.4251),
    "bert": (39, 259.6745, 273.7022),
    "language model": (36, 933.3260, 354.3579),
    "rnn": (10, 330.8845, 166.9155),
    "gru": (10, 755.8425, 64.0088),
    "lstm": (10, 1007.2439, 32.5111),
    "markov": (5, 1704.8226, 144.0157),
}
"""For each model: the number of tensors, the sum of the sizes of all weights, and that of the outputs."""


def tensors_of(output: object) -> list[Tensor]:
    if isinstance(output, tuple | list):
        return [tensor for part in output for tensor in tensors_of(part)]
    if isinstance(output, OutputProjection):
        return [output.logits()]
    return [output] if isinstance(output, Tensor) else []


@torch.no_grad()
def figures(kind: str) -> tuple[int, float, float]:
    torch.manual_seed(0)
    model = MODELS[kind]().eval()
    weights = model.state_dict()
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(3, V, (3, 7), generator=generator)
    tokens = Padded.of(ids, torch.tensor([7, 3, 5]))
    if kind in ("language model", "rnn", "gru", "lstm", "markov"):
        output = model(ids)[0]
    else:
        pair = isinstance(model, Transformer | MaskedTransformer | RecurrentModel | Convolutional)
        output = model(tokens, tokens) if pair else model(tokens)
    outputs = sum(float(tensor.double().abs().sum()) for tensor in tensors_of(output))
    return len(weights), sum(float(tensor.double().abs().sum()) for tensor in weights.values()), outputs


@pytest.mark.parametrize("kind", MODELS)
def test_initial_weights_and_outputs(kind: str) -> None:
    count, weights, outputs = figures(kind)
    assert count == FIGURES[kind][0]
    assert (weights, outputs) == pytest.approx(FIGURES[kind][1:], rel=1e-4)


if __name__ == "__main__":
    for name in MODELS:
        tensors, weight_sum, output_sum = figures(name)
        print(f'    "{name}": ({tensors}, {weight_sum:.4f}, {output_sum:.4f}),')
