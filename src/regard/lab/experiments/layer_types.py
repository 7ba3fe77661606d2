"""Four kinds of layers in numbers: table 1 of the Transformer, measured.

                              complexity     sequential operations   path length
    self-attention            n^2 d          1                       1
    recurrent                 n d^2          n                       n
    convolution, kernel k     k n d^2        1                       n / k (log_k n if dilated)
    restricted to r           r n d          1                       n / r

n positions, d width. The paper counts the operation itself, without the projections of attention: that is what the
exponents of time and memory measure. Sequential operations are the longest chain in the graph that autograd records.
The path length is the number of layers, or of state updates of the recurrent one, until the gradient of the last output
with respect to the first input is not zero.

"Self-attention is faster than recurrence when n < d" compares n^2 d and n d^2. The last panel compares whole layers,
projections included. Time is a n + b n^2 for attention and c n for the GRU, so both take as long at
n = (c - a) / b. A GRU step by step is the loop in Python; the fused one runs inside torch.
"""

import statistics
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from regard.attention.attend import attend
from regard.attention.layouts import Padded
from regard.attention.multihead import MultiHeadAttention
from regard.attention.windowed import local_attention
from regard.lab.costs import exponent, fastest, longest_chain, saved_bytes
from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toys import generator_of, seeded
from regard.layers.convolution import GatedConvolution
from regard.layers.recurrent import RecurrentLayer

KERNEL, WINDOW, WIDTH, LENGTH = 3, 16, 64, 512
SHORT = 128
"""Up to this length the GRU is computed step by step, so that its chain of operations can be counted."""
ATTENTION, RECURRENT, CONVOLUTION, RESTRICTED = "self-attention", "recurrent", "convolution", "restricted"
TIME_N, TIME_D, MEMORY_N, CHAIN_N, PATH_N = "time, n", "time, d", "memory, n", "sequential, n", "path, n"
FUSED, BATCHED, LOOP = "fused GRU", "fused GRU, batch", "GRU step by step"
BATCH = 16
LAYERS = {
    ATTENTION: Text("self-attention", "自注意力"),
    RECURRENT: Text("recurrent (GRU)", "循环（GRU）"),
    CONVOLUTION: Text("convolution", "卷积"),
    RESTRICTED: Text("restricted self-attention", "受限自注意力"),
}
Run = Callable[[Tensor], object]


def operation(kind: str, width: int) -> Callable[[Tensor], Tensor]:
    """The operation of a layer, (1, n, d) -> (1, n, d), with weights but without the projections of attention."""
    if kind == RECURRENT:
        layer = RecurrentLayer("gru", width, width)
        return lambda x: layer.read(x)[0] if x.size(1) <= SHORT else layer(x)[0]
    if kind == CONVOLUTION:
        return GatedConvolution(width, KERNEL, KERNEL // 2, dropout=0.0)
    if kind == RESTRICTED:
        return restricted
    return lambda x: attend(x, x, x)[0]


def restricted(x: Tensor) -> Tensor:
    """Attention to the positions at most WINDOW away, with one head."""
    heads = x[:, :, None]  # (1, n, 1, d)
    return local_attention(heads, heads, heads, torch.ones(x.shape[:2], dtype=torch.bool), WINDOW).flatten(2)


def path_length(kind: str, x: Tensor) -> int:
    """Layers, or state updates, until the last position depends on the first one of x (1, n, d)."""
    x = x.detach().double().requires_grad_()  # a gradient through many layers is tiny
    if kind == RECURRENT:
        layer = RecurrentLayer("gru", x.size(2), x.size(2)).double()
        inputs = layer.inputs(x)
        hidden = layer.step(inputs[:, 0], layer.initial_state(1))
        updates = 0
        for t in range(1, x.size(1)):
            hidden, updates = layer.step(inputs[:, t], hidden), updates + 1
        assert torch.autograd.grad(hidden[0].sum(), x)[0][0, 0].any()
        return updates
    y, layers = x, 0
    while True:
        run = operation(kind, x.size(2))
        y, layers = (run.double() if isinstance(run, nn.Module) else run)(y), layers + 1
        if torch.autograd.grad(y[0, -1].sum(), x, retain_graph=True)[0][0, 0].any():
            return layers


def seconds_per_position(run: Run, size: tuple[int, int], lengths: Sequence[int], seed: int) -> list[float]:
    """CPU seconds of one layer for inputs (batch, n, width) of these lengths n, each divided by n."""
    batch, width = size
    found = []
    for length in lengths:
        x = torch.randn(batch, length, width, generator=generator_of(seed, "x", length))
        found.append(fastest(partial(run, x), repeats=3) / length)
    return found


def crossing(attention: list[float], recurrent: list[float], lengths: Sequence[int]) -> float:
    """n = (c - a) / b at which a + b n, fitted to the time per position of attention, reaches c of the GRU."""
    slope, start = statistics.linear_regression(lengths, attention)
    return max((statistics.fmean(recurrent) - start) / slope, 1.0)


WHY = "000:167-181, 003:97-101"
"""The place of the question that sequential operations and path length answer."""


class LayerTypes(Experiment):
    """Exponents of time and memory, sequential operations, path length, and the length where layers are level."""

    name = "layer-types"
    topic = "attention"
    title = Text("Four kinds of layers: table 1", "四种层：论文表 1")
    questions = (
        Question(
            "003:152",
            Text("Is self-attention faster than recurrence when n < d?", "n 小于 d 时，自注意力比循环层快吗？"),
            Text("Yes.", "是的，n 小于 d 时 self-attention 更快；n 较大时可用受限的自注意力。"),
        ),
        Question(
            WHY,
            Text("Why self-attention?", "为什么选择自注意力机制？"),
            Text(
                "For the complexity per layer, the number of sequential operations, and the path length.",
                "三方面：每层的计算复杂度、可并行的程度（顺序操作数）、长程依赖的路径长度。",
            ),
        ),
    )
    hypothesis = Text(
        "Self-attention is faster than a recurrent layer when there are fewer positions than the width, n < d.",
        "位置数小于宽度（n < d）时，自注意力比循环层快。",
    )
    varied = Text("the kind of layer, the positions n, the width d", "层的种类、位置数 n、宽度 d")
    measured = Text(
        "exponents of time and memory, longest chain of operations, path length, and n over d where attention and a "
        "GRU take as long",
        "时间与内存的指数、最长的操作链、路径长度，以及注意力与 GRU 用时相同时的 n / d",
    )
    refuted_if = Text("a GRU is faster at some n below d", "在某个小于 d 的 n 上 GRU 更快")
    panels = (
        Panel(
            "exponents",
            Text("exponents of the cost", "开销的指数"),
            Text("layer", "层"),
            Text("exponent", "指数"),
            kind="bars",
            names={
                **LAYERS,
                TIME_N: Text("time over n", "时间（对 n）"),
                TIME_D: Text("time over d", "时间（对 d）"),
                MEMORY_N: Text("memory over n", "内存（对 n）"),
                CHAIN_N: Text("sequential operations over n", "顺序操作数（对 n）"),
                PATH_N: Text("path length over n", "路径长度（对 n）"),
            },
        ),
        Panel(
            "time",
            Text("time of one operation", "一次操作的时间"),
            Text("positions n", "位置数 n"),
            Text("milliseconds", "毫秒"),
            log="xy",
            names=LAYERS,
        ),
        Panel(
            "sequential",
            Text("operations that follow one another", "先后进行的操作"),
            Text("positions n", "位置数 n"),
            Text("longest chain", "最长的操作链"),
            log="xy",
            names=LAYERS,
        ),
        Panel(
            "path",
            Text("path from the first to the last position", "从首位置到末位置的路径"),
            Text("positions n", "位置数 n"),
            Text("layers or state updates", "层数或状态更新次数"),
            log="xy",
            names=LAYERS,
        ),
        Panel(
            "crossing",
            Text("where attention and a GRU take as long", "注意力与 GRU 用时相同之处"),
            Text("width d", "宽度 d"),
            Text("n / d", "n / d"),
            log="xy",
            names={
                FUSED: Text("fused GRU, one sentence", "融合的 GRU，一句"),
                BATCHED: Text("fused GRU, a batch", "融合的 GRU，一批"),
                LOOP: Text("GRU step by step, one sentence", "逐步的 GRU，一句"),
            },
        ),
    )
    papers = ("Vaswani et al. 2017, section 4 and table 1",)
    seconds = 25
    timed = True

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        for kind in LAYERS:
            self.measure_costs(kind, seed, effort, record)
            self.measure_paths(kind, seed, effort, record)
        self.measure_crossing(seed, effort, record)

    def measure_costs(self, kind: str, seed: int, effort: Effort, record: Record) -> None:
        """Time over n and over d, and memory over n."""
        lengths, widths = effort.pick((256, 512, 1024, 2048), (256, 1024)), effort.pick((128, 256, 512), (64, 256))
        sizes = [(n, WIDTH) for n in lengths] + [(LENGTH, d) for d in widths]
        seconds, memory = [], []
        for n, d in sizes:
            seeded(seed, "weights", kind, d)
            run = operation(kind, d)
            x = torch.randn(1, n, d, generator=generator_of(seed, "x", n, d), requires_grad=True)
            memory.append(saved_bytes(partial(run, x)))
            with torch.no_grad():
                seconds.append(fastest(partial(run, x), repeats=3))
        count = len(lengths)
        for n, time in zip(lengths, seconds, strict=False):
            record("time", kind, n, 1000 * time)
        record("exponents", TIME_N, kind, exponent(lengths, seconds[:count]))
        record("exponents", TIME_D, kind, exponent(widths, seconds[count:]))
        record("exponents", MEMORY_N, kind, exponent(lengths, memory[:count]))

    def measure_paths(self, kind: str, seed: int, effort: Effort, record: Record) -> None:
        """Longest chain of operations and path length over n."""
        lengths, chains, paths = effort.pick((16, 32, 64, 128), (16, 32, 64)), [], []
        for n in lengths:
            seeded(seed, "weights", kind)
            x = torch.randn(1, n, WIDTH, generator=generator_of(seed, "path", n), requires_grad=True)
            chains.append(longest_chain(operation(kind, WIDTH)(x)))
            paths.append(path_length(kind, x))
            record("sequential", kind, n, chains[-1])
            record("path", kind, n, paths[-1])
        record("exponents", CHAIN_N, kind, exponent(lengths, chains))
        record("exponents", PATH_N, kind, exponent(lengths, paths))

    @torch.no_grad()
    def measure_crossing(self, seed: int, effort: Effort, record: Record) -> None:
        """n / d at which a layer of self-attention and a GRU take as long."""
        for d in effort.pick((32, 128, 512), (32, 128)):
            seeded(seed, "weights", d)
            attention, gru = partial(self_attention, MultiHeadAttention(d, 4)), RecurrentLayer("gru", d, d)
            runs = ((FUSED, 1, gru.forward), (BATCHED, BATCH, gru.forward), (LOOP, 1, gru.read))
            for name, batch, recurrent in runs:
                lengths = [n // 2 if batch > 1 else n for n in effort.pick((64, 256, 1024), (64, 512))]
                times = seconds_per_position(attention, (batch, d), lengths, seed)
                steps = seconds_per_position(recurrent, (batch, d), lengths[:-1], seed)
                record("crossing", name, d, crossing(times, steps, lengths) / d)

    def judge(self, results: Results) -> Verdict:
        widths = results.xs("crossing", FUSED)
        levels = [results.values("crossing", series, d) for series in (FUSED, BATCHED, LOOP) for d in widths]
        exponents = {
            f"{name}_{column}": results.mean("exponents", series, kind)
            for name, kind in (("attention", ATTENTION), ("recurrent", RECURRENT), ("convolution", CONVOLUTION),
                               ("restricted", RESTRICTED))
            for column, series in (("n", TIME_N), ("d", TIME_D), ("chain", CHAIN_N), ("path", PATH_N))
        }  # fmt: skip
        shorter = all(
            above(results.values("exponents", series, RECURRENT), results.values("exponents", series, ATTENTION), 0.5)
            for series in (CHAIN_N, PATH_N)
        )
        return Verdict(
            decide(all(above(level, [1.0]) for level in levels), any(above([1.0], level) for level in levels)),
            Text(
                "A layer of self-attention of one sentence is level with a fused GRU at n = {fused_low:.0f} d to "
                "{fused_high:.0f} d, in batches of {batch:.0f} at {batch_low:.1f} d to {batch_high:.1f} d, and with a "
                "GRU step by step at {loop_low:.0f} d to {loop_high:.0f} d. Powers of n and d in the time: attention "
                "{attention_n:.1f} and {attention_d:.1f}, GRU {recurrent_n:.1f} and {recurrent_d:.1f}, convolution "
                "{convolution_n:.1f} and {convolution_d:.1f}, restricted attention {restricted_n:.1f} and "
                "{restricted_d:.1f}. Power of n in the sequential operations: GRU {recurrent_chain:.1f}, attention "
                "{attention_chain:.1f}; in the path length: {recurrent_path:.1f} and {attention_path:.1f}.",
                "一句话时，一层自注意力与融合的 GRU 在 n = {fused_low:.0f} d 到 {fused_high:.0f} d 时用时相同，"
                "{batch:.0f} 句一批时在 {batch_low:.1f} d 到 {batch_high:.1f} d，与逐步的 GRU 在 {loop_low:.0f} d 到 "
                "{loop_high:.0f} d。时间随 n 和 d 的次方：自注意力 {attention_n:.1f} 和 {attention_d:.1f}，"
                "GRU {recurrent_n:.1f} 和 {recurrent_d:.1f}，卷积 {convolution_n:.1f} 和 {convolution_d:.1f}，"
                "受限自注意力 {restricted_n:.1f} 和 {restricted_d:.1f}。顺序操作数随 n 的次方：GRU "
                "{recurrent_chain:.1f}，自注意力 {attention_chain:.1f}；路径长度：{recurrent_path:.1f} 和 "
                "{attention_path:.1f}。",
            ),
            {
                "fused_low": min(results.mean("crossing", FUSED, d) for d in widths),
                "fused_high": max(results.mean("crossing", FUSED, d) for d in widths),
                "batch": BATCH,
                "batch_low": min(results.mean("crossing", BATCHED, d) for d in widths),
                "batch_high": max(results.mean("crossing", BATCHED, d) for d in widths),
                "loop_low": min(results.mean("crossing", LOOP, d) for d in widths),
                "loop_high": max(results.mean("crossing", LOOP, d) for d in widths),
                **exponents,
            },
            {WHY: decide(shorter, not shorter)},
        )


def self_attention(attention: MultiHeadAttention, x: Tensor) -> Tensor:
    """A whole layer of self-attention (B, n, d)."""
    layout = Padded(torch.full((x.size(0),), x.size(1)), x.size(1))
    return attention(x, x, layout.pattern(layout))
