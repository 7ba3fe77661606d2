"""Dot product or additive score: equal in the number of operations, but one of them is a matrix product.

    scaled dot   q_i^T k_j / sqrt(d)             Q K^T is one matrix product; n^2 numbers are kept for the gradient
    additive     v^T tanh(W q_i + U k_j)         a tanh for every pair and hidden unit; n^2 d numbers are kept

Both need about n^2 d multiplications, or tanh, for n positions. But a matrix product runs through optimized kernels,
and the additive score has to hold the hidden layer of all pairs. The memory is counted exactly: all tensors that
autograd keeps for the backward pass. The last panel trains one head of several widths to report the previous word:
there the dot product suffers without its scale.
"""

import statistics
from functools import partial

import torch
from torch import Tensor

from regard.attention.scored_attention import ScoredAttention
from regard.attention.scoring import SCORINGS
from regard.lab.costs import exponent, fastest, saved_bytes
from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toys import OneHead, fit_toy, generator_of, previous_words, seeded, tagging_loss

WORDS, LENGTH, WIDTH, HEAD = 16, 12, 32, 32
COSTS = ("scaled_dot", "additive")
NAMES = {
    "dot": Text("dot product, not scaled", "点积（不缩放）"),
    "scaled_dot": Text("scaled dot product", "缩放点积"),
    "additive": Text("additive", "加性"),
}


def attention_costs(score: str, length: int, seed: int) -> tuple[float, int]:
    """CPU milliseconds of attention of `length` positions, and the bytes that it keeps for the backward pass."""
    seeded(seed, "weights", score)
    attention = ScoredAttention(SCORINGS[score](HEAD, HEAD, HEAD))
    generator = generator_of(seed, "vectors", length)
    q, k, v = (torch.randn(1, 1, length, HEAD, generator=generator).requires_grad_() for _ in range(3))
    distances = torch.zeros(length, length)

    def run() -> Tensor:
        return attention(q, attention.keys(k), v, distances, None, 0.0)[0]

    size = saved_bytes(run)
    with torch.no_grad():
        return 1000 * fastest(run, repeats=3), size


class DotOrAdditive(Experiment):
    """Time and memory over the length, and training loss over the width of a head."""

    name = "dot-or-additive"
    topic = "attention"
    title = Text("Dot product or additive?", "点积还是加性？")
    questions = (
        Question(
            "001:178, 000:153-155, 003:174-178",
            Text(
                "Why the dot product and not the additive score? How do cost and quality differ?",
                "计算 attention 为何选择点乘而不是加法？复杂度和效果有什么区别？",
            ),
            Text(
                "It becomes matrix products. Both have a similar theoretical complexity, but the dot product is much "
                "faster and takes less memory in practice. The quality depends on d_k.",
                "点积可以优化成矩阵运算；二者理论复杂度相近，但点积在实践中更快、更省空间。d_k 大小不同时效果不同。",
            ),
        ),
    )
    hypothesis = Text(
        "The dot product is faster and takes less memory than the additive score, and learns as well if scaled.",
        "点积比加性更快、更省内存；缩放后学得一样好。",
    )
    varied = Text("the score, the length of a sentence, the width of a head", "打分函数、句子长度、头的宽度")
    measured = Text(
        "CPU time, bytes kept for the backward pass, mean loss of a short training",
        "CPU 时间、为反向传播保存的字节数、短训练期间的平均损失",
    )
    refuted_if = Text("the additive score is no slower or takes no more memory", "加性打分不更慢，或不占用更多内存")
    panels = (
        Panel(
            "time",
            Text("time of attention", "注意力的时间"),
            Text("positions n", "位置数 n"),
            Text("milliseconds", "毫秒"),
            log="xy",
            names=NAMES,
        ),
        Panel(
            "memory",
            Text("memory for the backward pass", "为反向传播保存的内存"),
            Text("positions n", "位置数 n"),
            Text("bytes", "字节"),
            log="xy",
            names=NAMES,
        ),
        Panel(
            "loss",
            Text("mean loss of a short training", "短训练期间的平均损失"),
            Text("width of the head", "头的宽度"),
            Text("nll per word", "每个词的负对数似然"),
            log="x",
            names=NAMES,
        ),
    )
    papers = ("Vaswani et al. 2017, section 3.2.1", "Britz et al. 2017", "Bahdanau et al. 2015, section A.1.2")
    seconds = 30
    timed = True

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        batch = partial(previous_words, words=WORDS, length=LENGTH)
        for score in COSTS:
            for length in effort.pick((64, 128, 256, 512, 1024), (64, 256)):
                milliseconds, size = attention_costs(score, length, seed)
                record("time", score, length, milliseconds)
                record("memory", score, length, size)
        for score in NAMES:
            for width in effort.pick((4, 16, 64, 256), (4, 256)):
                seeded(seed, "weights", width)
                steps = effort.pick(100, 25)
                model = OneHead(score, width, WORDS, LENGTH, WIDTH)
                losses = fit_toy(model, batch, tagging_loss, steps=steps, rate=1e-2, seed=seed)
                record("loss", score, width, statistics.fmean(losses))

    def judge(self, results: Results) -> Verdict:
        lengths = [float(x) for x in results.xs("time", "additive")]
        longest, wide = lengths[-1], results.xs("loss", "additive")[-1]
        ratios = {
            panel: [
                slow / fast
                for slow, fast in zip(*(results.values(panel, score, longest) for score in COSTS[::-1]), strict=True)
            ]
            for panel in ("time", "memory")
        }
        both = [*ratios["time"], *ratios["memory"]]
        exponents = {
            f"{panel}_{score}": exponent(lengths, [results.mean(panel, score, n) for n in lengths])
            for panel in ("time", "memory")
            for score in COSTS
        }
        return Verdict(
            decide(above(both, [1.5]), above([1.0], ratios["time"]) or above([1.0], ratios["memory"])),
            Text(
                "At {length:.0f} positions the additive score takes {time:.0f} times the time of the scaled dot "
                "product and {memory:.0f} times its memory. Time grows with n to the power {time_additive:.1f} "
                "(scaled dot {time_scaled_dot:.1f}), memory to the power {memory_additive:.1f} "
                "({memory_scaled_dot:.1f}). In a short training of a head of width {wide:.0f} the mean loss is "
                "{additive:.2f} (additive), {scaled:.2f} (scaled dot) and {dot:.2f} (dot).",
                "{length:.0f} 个位置时，加性打分的时间是缩放点积的 {time:.0f} 倍，内存是 {memory:.0f} 倍。"
                "时间随 n 的 {time_additive:.1f} 次方增长（缩放点积为 {time_scaled_dot:.1f}），"
                "内存随 n 的 {memory_additive:.1f} 次方增长（{memory_scaled_dot:.1f}）。"
                "短训练宽度为 {wide:.0f} 的头，平均损失为加性 {additive:.2f}、缩放点积 {scaled:.2f}、点积 {dot:.2f}。",
            ),
            {
                "length": longest,
                "time": statistics.fmean(ratios["time"]),
                "memory": statistics.fmean(ratios["memory"]),
                "wide": float(wide),
                "additive": results.mean("loss", "additive", wide),
                "scaled": results.mean("loss", "scaled_dot", wide),
                "dot": results.mean("loss", "dot", wide),
                **exponents,
            },
        )
