"""How time and memory grow with the length of a sentence: full self-attention beside restricted (a window).

    python -m benchmarks.windows                     on the GPU if there is one, else on the CPU
    python -m benchmarks.windows --window 64         another number of neighbours
    python -m benchmarks.windows --longest 32768     longer sentences

One sentence, one layer's self-attention, forward and backward (Vaswani et al. 2017, table 1: O(n^2 d) beside O(r n d)).
Full attention stands here twice: as the equation is written, with all n x n weights in memory, and with torch's fused
kernel, whose memory is linear but whose time is not. On a GPU packed sights stand beside the padded ones. Under each
column stands its exponent, the slope on log-log paper over the upper half of the points: 1 is linear growth, 2 is
quadratic. Seconds on a CPU are seconds of its threads' own work. Memory is what the work needs while it lasts.

B sentences, T tokens, H heads, K head size, N packed tokens.
"""

import argparse
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from multiprocessing import get_context

import torch
from benchmarks.growth import Row, exponent, powers, shown
from benchmarks.growth_point import Cost, WrittenOut, peak, seconds

from regard.attention.layouts import AttentionPattern, Packed, Padded
from regard.runtime import RuntimeSettings, World, open_world

HEADS, HEAD_DIM = 8, 64


def written_out(layout: Padded, window: int) -> AttentionPattern:
    return WrittenOut(layout, layout, causal=False)


def fused(layout: Padded, window: int) -> AttentionPattern:
    return layout.pattern(layout)


def restricted(layout: Padded, window: int) -> AttentionPattern:
    return layout.pattern(layout, window=window)


def packed(layout: Padded, window: int) -> AttentionPattern:
    stream = Packed.of(layout.positions[None], layout.lengths).layout
    return stream.pattern(stream, window=window)


SERIES: dict[str, Callable[[Padded, int], AttentionPattern]] = {
    "full, written out": written_out,
    "full, fused": fused,
    "restricted": restricted,
}
ON_A_GPU: dict[str, Callable[[Padded, int], AttentionPattern]] = {
    "full, packed": lambda layout, _: packed(layout, 0),
    "restricted, packed": packed,
}


def measure(series: str, length: int, window: int, device: str, threads: int, repeats: int) -> Cost | None:
    """One length in one series, of the repeats the fastest; None where memory is too small."""
    world = open_world(RuntimeSettings(device=device, threads=threads))
    try:
        step(series, 64, window, world)()  # kernels are found
        work = step(series, length, window, world)
        memory = peak(work, world)
        return Cost(min(seconds(work, world) for _ in range(repeats)), memory, held=0)
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        return None


def step(series: str, length: int, window: int, world: World) -> Callable[[], None]:
    """Forward and backward of one sentence's self-attention."""
    layout = Padded(torch.tensor([length], device=world.device), length)
    pattern = (SERIES | ON_A_GPU)[series](layout, window)
    shape = (length, HEADS, HEAD_DIM) if "packed" in series else (1, length, HEADS, HEAD_DIM)
    dtype = torch.bfloat16 if world.device.type == "cuda" else torch.float32
    q, k, v = (torch.randn(shape, device=world.device, dtype=dtype, requires_grad=True) for _ in range(3))

    def work() -> None:
        pattern.attend(q, k, v, 0.0).sum().backward()
        q.grad = k.grad = v.grad = None

    return work


def measured(options: argparse.Namespace) -> Iterator[Row]:
    """Every length in every series: on a GPU one after the other, on a CPU each in a new process."""
    names = [*SERIES, *(ON_A_GPU if options.device == "cuda" else ())]
    with ExitStack() as stack:
        if options.device == "cpu":
            context = get_context("forkserver")
            context.set_forkserver_preload(["benchmarks.growth_point"])
            pool = stack.enter_context(ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1))
        for length in powers(options.shortest, options.longest, quick=False):
            for name in names:
                arguments = (name, length, options.window, options.device, options.threads, options.repeats)
                cost = pool.submit(measure, *arguments).result() if options.device == "cpu" else measure(*arguments)
                found = asdict(cost) if cost is not None else dict(seconds=None, memory=None, held=None)
                row = {"axis": "window", "value": length, "series": name, **found}
                print(f"{length:,} {name}: {cell(row)}", file=sys.stderr)
                yield row


def cell(row: Row) -> str:
    return shown(row).replace(" + 0", "")


def show(rows: Sequence[Row], window: int) -> None:
    """The table in Markdown, and under each column its exponents."""
    series: dict[str, list[Row]] = {}
    for row in rows:
        series.setdefault(row["series"], []).append(row)
    named = (f"{name}, {window}" if "restricted" in name else name for name in series)
    lines = [["tokens of a sentence", *named]]
    for points in zip(*series.values(), strict=True):
        lines.append([f"{points[0]['value']:,}", *map(cell, points)])
    fitted = ([exponent(found, what) for what in ("seconds", "memory")] for found in series.values())
    lines.append(["exponent", *(f"time {time:.2f}, memory {memory:.2f}" for time, memory in fitted)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * (width - 1) + ":" for width in widths])
    for line in lines:
        print("| " + " | ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)) + " |")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--window", type=int, default=32, help="neighbours on either side [32]")
    parser.add_argument("--shortest", type=int, default=256, help="tokens of the shortest sentence [256]")
    parser.add_argument("--longest", type=int, help="tokens of the longest [4096 on a CPU, 32768 on a GPU]")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads [as torch chooses]")
    parser.add_argument("--repeats", type=int, default=3, help="of which the fastest counts [3]")
    options = parser.parse_args(arguments)
    options.longest = options.longest or (32_768 if options.device == "cuda" else 4_096)
    show(list(measured(options)), options.window)
    on_gpu = options.device == "cuda"
    where = f"{torch.cuda.get_device_name()}, bf16" if on_gpu else f"CPU ({platform.machine()}), fp32"
    print(f"\n{where}, torch {torch.__version__}; {HEADS} heads of {HEAD_DIM}, one sentence, forward and backward")


if __name__ == "__main__":
    main()
