"""Padding: a score of minus infinity before the softmax makes a sentence independent of what stands beside it.

Sentences of a batch are padded to the longest. Three ways to treat the padding as keys:

    masked before    e_ij = -inf at padding, then softmax: its weight is exp(-inf) = 0, and the others sum to 1
    masked after     softmax over all, then weights of 0 at padding: the others sum to less than 1
    not masked       padding is attended to like a word

The output of a sentence must not change when it is padded. We compare it with that of the sentence alone, in float64,
and let a model that was trained without padding read padded sentences.
"""

import torch
from torch import Tensor

from regard.attention.attend import attend
from regard.attention.layouts import Padded, PaddedPattern
from regard.attention.scored_attention import AttentionFunction
from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toys import ToyTensors, build_tagger, fit_toy, generator_of, rectangle, seeded, tagging_loss
from regard.models.text_encoder import EncoderWithHead, TransformerEncoder

WORDS, LENGTH = 16, 8
PAD = WORDS
BEFORE, AFTER, NONE = "masked before the softmax", "masked after the softmax", "not masked"
PRECISION = torch.finfo(torch.float64).eps
"""Differences below the precision of float64 are recorded as this number, for the logarithmic axis."""
NAMES = {
    BEFORE: Text("masked before the softmax", "softmax 前加掩码"),
    AFTER: Text("masked after the softmax", "softmax 后加掩码"),
    NONE: Text("not masked", "不加掩码"),
}


class MaskedAfter(PaddedPattern):
    """A pattern that sets the weights of padding to zero after the softmax."""

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, dropout: float, function: AttentionFunction | None = None
    ) -> Tensor:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # (B, H, T, K)
        _, weights = attend(q, k, v)
        return (weights * self.mask @ v).transpose(1, 2)


def previous(generator: torch.Generator, size: int = 64) -> ToyTensors:
    """Random words on a circle; the label of a word is the word before it."""
    ids = torch.randint(WORDS, (size, LENGTH), generator=generator)
    return {"ids": ids, "labels": ids.roll(1, dims=1)}


@torch.no_grad()
def outputs(model: EncoderWithHead, ids: Tensor, padding: int, way: str) -> Tensor:
    """The outputs for sentences ids (B, T) with `padding` positions after them -> (B, T, WORDS)."""
    assert isinstance(model.encoder, TransformerEncoder)
    padded = torch.cat([ids, ids.new_full((len(ids), padding), PAD)], dim=1)
    real = Padded(torch.full((len(ids),), padded.size(1) if way == NONE else ids.size(1)), padded.size(1))
    pattern = (MaskedAfter if way == AFTER else PaddedPattern)(real, real, causal=False)
    return model.head(model.encoder.encode(rectangle(padded), pattern=pattern))[:, : ids.size(1)]


class Padding(Experiment):
    """Change of the outputs and accuracy over the amount of padding, for three ways to mask."""

    name = "padding"
    topic = "attention"
    title = Text("How is padding masked?", "如何对 padding 做 mask？")
    questions = (
        Question(
            "001:180",
            Text("How is padding masked when scores are computed?", "计算 attention score 时如何对 padding 做 mask？"),
            Text("–", "–"),
        ),
    )
    hypothesis = Text(
        "Scores of minus infinity before the softmax make the output independent of padding; nothing else does.",
        "在 softmax 之前把 padding 的分数设为负无穷，输出就与 padding 无关；其他做法不行。",
    )
    varied = Text("how padding is masked, and the amount of padding", "padding 的掩码方式与数量")
    measured = Text(
        "largest change of an output against the sentence alone; accuracy of a model trained without padding",
        "与单独一句相比输出的最大变化；无 padding 训练的模型的准确率",
    )
    refuted_if = Text(
        "the masked output changes by more than rounding errors, or an unmasked one does not change",
        "加掩码的输出变化超过舍入误差，或不加掩码的输出不变",
    )
    panels = (
        Panel(
            "change",
            Text("change of the output by padding", "padding 引起的输出变化"),
            Text("padding positions", "padding 个数"),
            Text("largest change", "最大变化"),
            log="xy",
            names=NAMES,
        ),
        Panel(
            "accuracy",
            Text("naming the previous word", "说出前一个词"),
            Text("padding positions", "padding 个数"),
            Text("accuracy", "准确率"),
            log="x",
            names=NAMES,
        ),
    )
    papers = ("Vaswani et al. 2017, section 3.2.3",)
    seconds = 8

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        seeded(seed, "weights")
        model = build_tagger(WORDS + 1, WORDS)
        fit_toy(model, previous, tagging_loss, steps=effort.pick(300, 120), rate=3e-3, seed=seed)
        model.double()
        test = previous(generator_of(seed, "test"), 200)
        alone = outputs(model, test["ids"], 0, BEFORE)
        for way in NAMES:
            for padding in (1, 2, 4, 8, 16, 32, 64):
                found = outputs(model, test["ids"], padding, way)
                record("change", way, padding, max(float((found - alone).abs().max()), PRECISION))
                record("accuracy", way, padding, float((found.argmax(dim=-1) == test["labels"]).double().mean()))

    def judge(self, results: Results) -> Verdict:
        most = results.xs("change", BEFORE)[-1]
        before, after, none = (results.values("change", way, most) for way in NAMES)
        exact = 1e-9
        return Verdict(
            decide(
                above([exact], before) and above(after, [exact]) and above(none, [exact]),
                above(before, [exact]) or above([exact], none),
            ),
            Text(
                "With {padding:.0f} positions of padding, a mask before the softmax changes the output by {before:.0e} "
                "at most, a mask after it by {after:.2g}, and no mask by {none:.2g}. The accuracy is {right:.0%}, "
                "{right_after:.0%} and {right_none:.0%}.",
                "有 {padding:.0f} 个 padding 时，softmax 前加掩码的输出最多变化 {before:.0e}，softmax 后加掩码为 "
                "{after:.2g}，不加掩码为 {none:.2g}。准确率分别为 {right:.0%}、{right_after:.0%} 和 {right_none:.0%}。",
            ),
            {
                "padding": float(most),
                "before": max(before),
                "after": max(after),
                "none": max(none),
                "right": results.mean("accuracy", BEFORE, most),
                "right_after": results.mean("accuracy", AFTER, most),
                "right_none": results.mean("accuracy", NONE, most),
            },
        )
