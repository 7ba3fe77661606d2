"""Cross-attention: the only place where the decoder of a Transformer learns of the source.

A decoder layer has two kinds of attention, which differ in where queries, keys and values come from:

    self-attention    Q, K and V from the target
    cross-attention   Q from the target, K and V from the output of the encoder

A trained Transformer reverses six digits. Then cross-attention is cut: the output of the sublayer is set to zero; the
residual connection alone remains. Each decoder layer is cut alone, then all of them. For comparison, self-attention of
the decoder is cut, and another model is trained without cross-attention. Without the source the best guess of a digit
is right once in ten times.
"""

from collections.abc import Iterable
from copy import deepcopy
from functools import partial

import torch
from torch import nn

from regard.attention.multihead import MultiHeadAttention
from regard.lab.old_form import (
    Effort,
    Experiment,
    Panel,
    Question,
    Record,
    Results,
    Text,
    Verdict,
    above,
    decide,
    opposite,
)
from regard.lab.toy_pairs import SHIFT, exact_match, pair_batch, shifted_target, source_of, translation_loss
from regard.lab.toys import IGNORE, ToyTensors, fit_toy, generator_of, seeded
from regard.models.transformer import Transformer, TransformerSettings

DIGITS, LENGTH, LAYERS = 10, 6, 3
WHOLE, ALL_CROSS, ALL_SELF, NEVER = "nothing", "all cross-attention", "decoder self-attention", "trained without it"
SETTINGS = TransformerSettings(
    d_model=64, num_heads=4, d_ff=128, encoder_layers=1, decoder_layers=LAYERS, dropout=0.0, norm="pre"
)


def layer_name(number: int) -> str:
    """The name of the cut of one layer, counted from 1."""
    return f"layer {number}"


def reversals(generator: torch.Generator, size: int = 64) -> ToyTensors:
    """Random digits, and the same digits in reverse as the target."""
    rows = torch.randint(DIGITS, (size, LENGTH), generator=generator)
    return pair_batch(rows.tolist(), rows.flip(1).tolist())


def cut(attentions: Iterable[MultiHeadAttention]) -> None:
    """Set the outputs of attention sublayers to zero, for good: they get no gradient either."""
    for attention in attentions:
        for parameter in attention.output.parameters():
            nn.init.zeros_(parameter)
            parameter.requires_grad_(False)


@torch.no_grad()
def digit_accuracy(model: Transformer, batch: ToyTensors) -> float:
    """Share of digits that are predicted, given the source and the digits before them."""
    labels = batch["labels"]
    digit = (labels >= SHIFT) & (labels != IGNORE)
    found = model(source_of(batch), shifted_target(labels)).logits().argmax(dim=-1)
    return float((found == labels)[digit].float().mean())


ALL_OF_IT = "004:494, 002:48"
"""The place of a question whose answer in the notes denies the hypothesis."""


class CrossAttention(Experiment):
    """Exact match of a trained Transformer whose cross-attention is cut, layer by layer."""

    name = "cross-attention"
    topic = "encoder-decoder"
    title = Text("Where do encoder and decoder meet?", "编码器和解码器在哪里交互？")
    questions = (
        Question(
            "001:190, 000:104, 000:159",
            Text("How do encoder and decoder interact?", "Encoder 端和 Decoder 端是如何交互的？"),
            Text("K and V come from the encoder, Q from the decoder.", "K 和 V 来自编码器，Q 来自解码器。"),
        ),
        Question(
            ALL_OF_IT,
            Text("Is all attention of the Transformer self-attention?", "Transformer 里的注意力全部都是自注意力吗？"),
            Text("Yes, all of it.", "是的，用到的全部都是自注意力。"),
        ),
    )
    hypothesis = Text(
        "The decoder learns of the source by cross-attention alone, so not all attention is self-attention: without it "
        "nothing is translated.",
        "解码器只能通过交叉注意力得知源句，因此并非所有注意力都是自注意力：去掉它就什么也翻译不了。",
    )
    varied = Text("which attention sublayers of the decoder are cut", "去掉解码器的哪些注意力子层")
    measured = Text(
        "exact match of reversed digits, and accuracy of a digit given the digits before it",
        "反转数字的完全正确率，以及给定前面数字时单个数字的准确率",
    )
    refuted_if = Text(
        "the model still writes the digits without any cross-attention", "去掉全部交叉注意力后模型仍能写出数字"
    )
    panels = (
        Panel(
            "exact",
            Text("reversing six digits with attention cut", "去掉部分注意力后反转六个数字"),
            Text("cut", "去掉的部分"),
            Text("share", "比例"),
            kind="bars",
            names={
                "exact match": Text("exact match", "完全正确率"),
                "digits": Text("digits, given those before", "给定前文时的数字准确率"),
                WHOLE: Text("nothing", "不去掉"),
                **{
                    layer_name(n): Text(f"cross-attention of layer {n}", f"第 {n} 层的交叉注意力")
                    for n in range(1, LAYERS + 1)
                },
                ALL_CROSS: Text("all cross-attention", "全部交叉注意力"),
                ALL_SELF: Text("all self-attention of the decoder", "解码器的全部自注意力"),
                NEVER: Text("trained without cross-attention", "训练时就没有交叉注意力"),
            },
        ),
    )
    papers = ("Vaswani et al. 2017, section 3.2.3",)
    seconds = 35

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        test = reversals(generator_of(seed, "test"), 200)
        seeded(seed, "weights")
        fresh = Transformer(SETTINGS, SHIFT + DIGITS, SHIFT + DIGITS)
        models = {WHOLE: fresh, NEVER: deepcopy(fresh)}
        cut(layer.cross_attention for layer in models[NEVER].decoder)
        steps = {WHOLE: effort.pick(240, 110), NEVER: effort.pick(240, 10)}
        for name, model in models.items():
            fit_toy(
                model, partial(reversals, size=effort.pick(64, 32)), translation_loss, steps=steps[name], rate=3e-3,
                warmup=20, seed=seed, schedule="linear",
            )  # fmt: skip
        for number, layer in enumerate(fresh.decoder, start=1):
            kept = deepcopy(layer.cross_attention.output.state_dict())
            cut([layer.cross_attention])
            models[layer_name(number)] = deepcopy(fresh)
            layer.cross_attention.output.load_state_dict(kept)
        models |= {ALL_CROSS: deepcopy(fresh), ALL_SELF: deepcopy(fresh)}
        cut(layer.cross_attention for layer in models[ALL_CROSS].decoder)
        cut(layer.attention for layer in models[ALL_SELF].decoder)
        for name in (WHOLE, *(layer_name(n + 1) for n in range(LAYERS)), ALL_CROSS, ALL_SELF, NEVER):
            record("exact", "exact match", name, exact_match(models[name], test))
            record("exact", "digits", name, digit_accuracy(models[name], test))

    def judge(self, results: Results) -> Verdict:
        whole, without = (results.values("exact", "exact match", name) for name in (WHOLE, ALL_CROSS))
        single = [results.mean("exact", "exact match", layer_name(n + 1)) for n in range(LAYERS)]
        kind = decide(above(whole, without, by=0.5) and max(without) < 0.05, not above(whole, without, by=0.1))
        return Verdict(
            kind,
            Text(
                "Whole, the model reverses {whole:.0%} of the inputs; without any cross-attention {without:.0%}, and "
                "it names {digits:.0%} of the digits. Without that of one layer it is {worst:.0%} to {best:.0%}. "
                "Trained without cross-attention it reverses {never:.0%}, without self-attention of the decoder, cut "
                "afterwards, {alone:.0%}.",
                "完整的模型反转的完全正确率为 {whole:.0%}；去掉全部交叉注意力后为 {without:.0%}，单个数字的准确率为 "
                "{digits:.0%}。只去掉一层的交叉注意力时为 {worst:.0%} 到 {best:.0%}。训练时就没有交叉注意力为 "
                "{never:.0%}；"
                "训练后去掉解码器的自注意力为 {alone:.0%}。",
            ),
            {
                "whole": results.mean("exact", "exact match", WHOLE),
                "without": results.mean("exact", "exact match", ALL_CROSS),
                "digits": results.mean("exact", "digits", ALL_CROSS),
                "worst": min(single),
                "best": max(single),
                "never": results.mean("exact", "exact match", NEVER),
                "alone": results.mean("exact", "exact match", ALL_SELF),
            },
            {ALL_OF_IT: opposite(kind)},
        )
