"""The factor 1 / sqrt(d): without it wide heads attend to one key from the start, and their scores get no gradient.

If the components of a query q and a key k are independent with variance 1, q^T k is a sum of d products and has
variance d. The differences between scores grow as sqrt(d), and the softmax of them goes to 0 and 1. Its Jacobian is

    d a_i / d e_j = a_i ([i = j] - a_j),    trace = sum_i a_i (1 - a_i) = 1 - sum_i a_i^2

which is 0 for weights of 0 and 1: the scores learn nothing. The first two panels compute this for random queries and
keys. exp(H), with H the entropy of the weights, is the number of keys that attention effectively has. The last panel
trains one head of several widths to report the previous word, in a model whose width stays the same.
"""

import statistics
from functools import partial

import torch
from torch import Tensor

from regard.attention.scores import dot, scaled_dot
from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toys import OneHead, fit_toy, generator_of, previous_words, seeded, tagging_loss

KEYS, QUERIES = 32, 500
WORDS, LENGTH, WIDTH = 16, 12, 32
NARROW, WIDE = 8, 256
WIDTHS = (4, 16, 64, 256, 1024)
SCORES = {"dot": dot, "scaled_dot": scaled_dot}
NAMES = {
    "dot": Text("dot product", "点积"),
    "scaled_dot": Text("divided by the root of d", "除以 d 的平方根"),
}


def softmax_statistics(scores: Tensor) -> tuple[float, float]:
    """scores (T, S) -> effective keys exp(H) and trace of the softmax's Jacobian, each a mean over the rows."""
    log_p = scores.log_softmax(dim=-1)
    p = log_p.exp()
    entropy = -(p * log_p).sum(dim=-1)
    return float(entropy.exp().mean()), float(1 - p.square().sum(dim=-1).mean())


class Scale(Experiment):
    """Saturation of the softmax and training loss over the width of a head, with and without the factor."""

    name = "scale"
    topic = "attention"
    title = Text("Why divide by the root of d?", "为什么要除以根号 d？")
    questions = (
        Question(
            "001:179, 001:80-82, 000:155, 002:59, 004:459",
            Text("Why are scores divided by the root of d_k?", "为什么要除以根号 d_k？"),
            Text(
                "The product may be large; the softmax then goes to 0 and 1, its gradient vanishes, and training "
                "stalls. The factor keeps the variance at 1. For a small d_k it hardly matters.",
                "QK^T 的值可能很大，softmax 之后趋近 0 和 1，梯度消失，训练不动；除以根号 d_k 使方差为 1。"
                "d_k 不大时影响不大。",
            ),
        ),
    )
    hypothesis = Text(
        "Without the factor, a wide head is saturated at the start and learns more slowly; a narrow one does not care.",
        "不除以根号 d 时，宽的头一开始就饱和，学得更慢；窄的头不受影响。",
    )
    varied = Text("the width of a head, and the factor", "头的宽度，以及是否缩放")
    measured = Text(
        "effective keys and the trace of the softmax's Jacobian for random vectors; mean loss of a short training",
        "随机向量下的有效键数与 softmax 雅可比矩阵的迹；短训练期间的平均损失",
    )
    refuted_if = Text(
        "the widest head learns as well without the factor as with it", "最宽的头不缩放时学得与缩放时一样好"
    )
    panels = (
        Panel(
            "keys",
            Text("effective keys of random vectors", "随机向量的有效键数"),
            Text("width d", "宽度 d"),
            Text("exp(entropy)", "exp(熵)"),
            log="x",
            names=NAMES,
        ),
        Panel(
            "gradient",
            Text("gradient that passes the softmax", "能通过 softmax 的梯度"),
            Text("width d", "宽度 d"),
            Text("trace of the Jacobian", "雅可比矩阵的迹"),
            log="x",
            names=NAMES,
        ),
        Panel(
            "loss",
            Text("mean loss of a short training", "短训练期间的平均损失"),
            Text("width d", "宽度 d"),
            Text("nll per word", "每个词的负对数似然"),
            log="x",
            names=NAMES,
        ),
    )
    papers = ("Vaswani et al. 2017, section 3.2.1",)
    seconds = 16

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        batch = partial(previous_words, words=WORDS, length=LENGTH)
        for score, equation in SCORES.items():
            for width in WIDTHS:
                generator = generator_of(seed, "vectors", width)
                q, k = (torch.randn(rows, width, generator=generator) for rows in (QUERIES, KEYS))
                keys, trace = softmax_statistics(equation(q, k))
                record("keys", score, width, keys)
                record("gradient", score, width, trace)
            for width in effort.pick((NARROW, 32, 128, WIDE, 512), (NARROW, WIDE)):
                seeded(seed, "weights", width)
                model = OneHead(score, width, WORDS, LENGTH, WIDTH)
                losses = fit_toy(model, batch, tagging_loss, steps=100, rate=1e-2, seed=seed)
                record("loss", score, width, statistics.fmean(losses))

    def judge(self, results: Results) -> Verdict:
        unscaled, scaled = (results.values("loss", score, WIDE) for score in SCORES)
        narrow, wide = WIDTHS[0], WIDTHS[-1]
        return Verdict(
            decide(above(unscaled, scaled, by=0.2), above(scaled, unscaled)),
            Text(
                "Without the factor, attention over {count:.0f} random keys falls from {narrow:.1f} effective keys at "
                "width {low:.0f} to {wide:.1f} at width {high:.0f} (with it {scaled_keys:.0f}), and the gradient's "
                "trace from {narrow_trace:.2f} to {wide_trace:.2f}. In a short training, a head of width {big:.0f} has "
                "a mean loss of {loss:.2f} without the factor and {scaled:.2f} with it; one of width {tiny:.0f} has "
                "{small:.2f} and {small_scaled:.2f}.",
                "不缩放时，对 {count:.0f} 个随机键的注意力从宽度 {low:.0f} 时的 {narrow:.1f} 个有效键降到宽度 "
                "{high:.0f} 时的 {wide:.1f} 个（缩放后为 {scaled_keys:.0f} 个），梯度的迹从 {narrow_trace:.2f} 降到 "
                "{wide_trace:.2f}。短训练期间，宽度为 {big:.0f} 的头平均损失不缩放为 {loss:.2f}，缩放为 {scaled:.2f}；"
                "宽度为 {tiny:.0f} 的头分别为 {small:.2f} 和 {small_scaled:.2f}。",
            ),
            {
                "count": KEYS,
                "tiny": NARROW,
                "big": WIDE,
                "low": narrow,
                "high": wide,
                "narrow": results.mean("keys", "dot", narrow),
                "wide": results.mean("keys", "dot", wide),
                "scaled_keys": results.mean("keys", "scaled_dot", wide),
                "narrow_trace": results.mean("gradient", "dot", narrow),
                "wide_trace": results.mean("gradient", "dot", wide),
                "loss": results.mean("loss", "dot", WIDE),
                "scaled": results.mean("loss", "scaled_dot", WIDE),
                "small": results.mean("loss", "dot", NARROW),
                "small_scaled": results.mean("loss", "scaled_dot", NARROW),
            },
        )
