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

from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, decide
from regard.layers.meta import on_meta
from regard.models.bert import Bert, BertSettings
from regard.models.transformer import Transformer, TransformerSettings

WMT14, BERT = 37_000, 30_522
"""Sizes of the vocabularies: Vaswani et al. 2017, section 5.1; Devlin et al. 2018, uncased English."""
MILLION = 1e6
CLAIM = 100.0
"""Millions of parameters of base's encoder in the notes."""
ENCODER, DECODER, EMBEDDINGS, REST = "encoder", "decoder", "embeddings", "pooler"
ATTENTION, FEEDFORWARD, NORMS = "attention", "feed-forward", "norms"
BASE, BIG, BERT_BASE, BERT_LARGE = "base", "big", "BERT base", "BERT large"


def millions(*modules: nn.Module) -> float:
    """Parameters of some modules, in millions."""
    return sum(parameter.numel() for module in modules for parameter in module.parameters()) / MILLION


def transformer_parts(size: Literal["base", "big"]) -> Mapping[str, float]:
    """The parts of a Transformer of a named size."""
    with on_meta():
        model = Transformer(TransformerSettings(size=size), WMT14, WMT14)
    return {
        EMBEDDINGS: millions(model.tgt_embedding),
        ENCODER: millions(model.encoder),
        DECODER: millions(model.decoder),
        REST: 0.0,
    }


def bert_parts(size: Literal["base", "large"]) -> Mapping[str, float]:
    """The parts of a BERT of a named size."""
    with on_meta():
        model = Bert(BertSettings(size=size), BERT)
    return {
        EMBEDDINGS: millions(model.words, model.positions, model.segments, model.norm),
        ENCODER: millions(model.layers),
        DECODER: 0.0,
        REST: millions(model.pooler),
    }


def layer_parts() -> Mapping[str, float]:
    """The parts of one encoder layer of base."""
    with on_meta():
        layer = Transformer(TransformerSettings(size="base"), WMT14, WMT14).encoder[0]
    return {
        ATTENTION: millions(layer.attention),
        FEEDFORWARD: millions(layer.feedforward),
        NORMS: millions(layer.attention_residual, layer.feedforward_residual),
    }


class Parameters(Experiment):
    """Parameters by part of base, big and both sizes of BERT."""

    name = "parameters"
    topic = "layers"
    title = Text("How many parameters, and where?", "参数有多少，在哪里？")
    questions = (
        Question(
            "003:123",
            Text("How many parameters has the encoder of base?", "base 模型的编码器有多少参数？"),
            Text("100 million.", "1 亿（100M）。"),
        ),
    )
    hypothesis = Text(
        "The encoder of the base Transformer has 100 million parameters.", "base Transformer 的编码器有 1 亿个参数。"
    )
    varied = Text("the model and its part", "模型及其部分")
    measured = Text("number of parameters, in millions", "参数个数（百万）")
    refuted_if = Text("the count differs from 100 million by more than a tenth", "与 1 亿相差超过十分之一")
    panels = (
        Panel(
            "models",
            Text("parameters by part", "各部分的参数"),
            Text("model", "模型"),
            Text("millions", "百万"),
            kind="bars",
            names={
                EMBEDDINGS: Text("embeddings", "嵌入"),
                ENCODER: Text("encoder", "编码器"),
                DECODER: Text("decoder", "解码器"),
                REST: Text("pooler", "池化层"),
            },
        ),
        Panel(
            "layer",
            Text("one encoder layer of base", "base 的一个编码器层"),
            Text("part", "部分"),
            Text("millions", "百万"),
            kind="bars",
            names={
                ATTENTION: Text("attention", "注意力"),
                FEEDFORWARD: Text("feed-forward", "前馈网络"),
                NORMS: Text("norms", "归一化"),
            },
        ),
    )
    papers = ("Vaswani et al. 2017, table 3", "Devlin et al. 2018, section 3")
    seconds = 1

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        models = {
            BASE: transformer_parts("base"),
            BIG: transformer_parts("big"),
            BERT_BASE: bert_parts("base"),
            BERT_LARGE: bert_parts("large"),
        }
        for model, parts in models.items():
            for part, count in parts.items():
                record("models", part, model, count)
        for part, count in layer_parts().items():
            record("layer", "parameters", part, count)

    def judge(self, results: Results) -> Verdict:
        parts = (EMBEDDINGS, ENCODER, DECODER, REST)
        totals = {
            name: sum(results.mean("models", part, name) for part in parts)
            for name in (BASE, BIG, BERT_BASE, BERT_LARGE)
        }
        encoder = results.mean("models", ENCODER, BASE)
        layer = {part: results.mean("layer", "parameters", part) for part in (ATTENTION, FEEDFORWARD, NORMS)}
        near = abs(encoder - CLAIM) <= CLAIM / 10
        return Verdict(
            decide(near, not near),
            Text(
                "The encoder of base has {encoder:.1f} million parameters, its decoder {decoder:.1f}, the embeddings "
                "{embeddings:.1f}: {base:.1f} million in all; big has {big:.1f}, BERT base {bert:.1f} and large "
                "{large:.1f}. The feed-forward network holds {share:.0%} of an encoder layer.",
                "base 的编码器有 {encoder:.1f} 百万个参数，解码器 {decoder:.1f}，嵌入 {embeddings:.1f}，共 {base:.1f} "
                "百万；"
                "big 有 {big:.1f}，BERT base 有 {bert:.1f}，BERT large 有 {large:.1f}。"
                "前馈网络占一个编码器层参数的 {share:.0%}。",
            ),
            {
                "encoder": encoder,
                "decoder": results.mean("models", DECODER, BASE),
                "embeddings": results.mean("models", EMBEDDINGS, BASE),
                "base": totals[BASE],
                "big": totals[BIG],
                "bert": totals[BERT_BASE],
                "large": totals[BERT_LARGE],
                "share": layer[FEEDFORWARD] / sum(layer.values()),
            },
        )
