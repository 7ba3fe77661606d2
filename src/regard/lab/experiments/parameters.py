"""The parameters of the Transformer and of BERT, counted by part.

An encoder layer of width D and inner width F has

    attention       4 (D^2 + D)          W^Q, W^K, W^V, W^O and their biases
    feed-forward    2 D F + F + D
    two norms       4 D

With D = 512 and F = 2048 that is 3.15 million, and 18.9 million in six layers. A decoder layer has attention twice.
The embeddings of 37,000 word pieces are 18.9 million more; the source, the target and the output share them.

The models are regard's own, built on torch's meta device: they have shapes and no values. Nothing is random here, so
all seeds give the same numbers. In the paper base has 65 and big 213 million, BERT 110 and 340 million.
"""

from collections.abc import Mapping
from typing import Literal

from torch import nn

from regard.lab.experiment import Effort, Record, Results, Verdict, decide
from regard.layers.meta import on_meta
from regard.models.bert import Bert, BertSettings
from regard.models.transformer import Transformer, TransformerSettings

WMT14, BERT = 37_000, 30_522
"""Sizes of the vocabularies: Vaswani et al. 2017, section 5.1; Devlin et al. 2018, uncased English."""


def millions(*modules: nn.Module) -> float:
    return sum(parameter.numel() for module in modules for parameter in module.parameters()) / 1e6


def transformer_parts(size: Literal["base", "big"]) -> Mapping[str, float]:
    """The parts of a Transformer of a named size."""
    with on_meta():
        model = Transformer(TransformerSettings(size=size), WMT14, WMT14)
    return {
        "embeddings": millions(model.tgt_embedding),
        "encoder": millions(model.encoder),
        "decoder": millions(model.decoder),
        "pooler": 0.0,
    }


def bert_parts(size: Literal["base", "large"]) -> Mapping[str, float]:
    """The parts of a BERT of a named size."""
    with on_meta():
        model = Bert(BertSettings(size=size), BERT)
    return {
        "embeddings": millions(model.words, model.positions, model.segments, model.norm),
        "encoder": millions(model.layers),
        "decoder": 0.0,
        "pooler": millions(model.pooler),
    }


def layer_parts() -> Mapping[str, float]:
    """Parameters in one encoder layer (Transformer base), in millions, by part."""
    with on_meta():
        layer = Transformer(TransformerSettings(size="base"), WMT14, WMT14).encoder[0]
    return {
        "attention": millions(layer.attention),
        "feed-forward": millions(layer.feedforward),
        "norms": millions(layer.attention_residual, layer.feedforward_residual),
    }


def measure(seed: int, effort: Effort, record: Record) -> None:
    models = {
        "base": transformer_parts("base"),
        "big": transformer_parts("big"),
        "BERT base": bert_parts("base"),
        "BERT large": bert_parts("large"),
    }
    for model, parts in models.items():
        for part, count in parts.items():
            record("models", part, model, count)
    for part, count in layer_parts().items():
        record("layer", "parameters", part, count)


def judge(results: Results) -> Verdict:
    models, layer = (
        {x: sum(results.mean(panel, part, x) for part in results.series(panel)) for x in results.xs(panel, series)}
        for panel, series in (("models", "encoder"), ("layer", "parameters"))
    )
    near = abs(results.mean("models", "encoder", "base") - 100) <= 10
    return Verdict(
        decide(near, not near),
        {"base": models["base"], "bert": models["BERT base"], "share": layer["feed-forward"] / sum(layer.values())},
    )
