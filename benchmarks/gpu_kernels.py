"""Our kernels by themselves on one GPU: attention over intervals beside torch's, the loss rows, and plain products.

    python -m benchmarks.gpu_kernels

One batch of sentences as long as WMT's, 25,000 tokens, 8 heads of 64, bf16. What is timed is replayed twenty times from
a CUDA graph, so that launching it does not count; where that cannot be (torch's backward pass here), it is said.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from benchmarks.gpu_training import News
from torch.nn.attention.varlen import varlen_attn

from regard.data.planning import Batches, Budget

HEADS, SIZE, TOKENS, REPEATS = 8, 64, 25_000, 20


def replayed(work: Callable[[], object]) -> float:
    """Milliseconds of one call, from a graph of many."""
    for _ in range(3):
        work()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(REPEATS):
            work()
    graph.replay()
    return launched(graph.replay, 1) / REPEATS


def launched(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Milliseconds of one call, launches included."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(repeats):
        work()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / repeats * 1000


def attention() -> None:
    from regard.attention.intervals import interval_attention, interval_attention_backward

    batch = Batches(News(60_000), Budget(TOKENS), 1, packed=True).batch(0).micro_batches[0].to("cuda")
    layout: Any = batch.target.layout
    tokens = len(layout.rows)
    print(f"{tokens:,} tokens, {batch.tokens / (len(batch['source']) + tokens):.1%} of the room of both sides real")
    fused = torch.randn(tokens, 3 * HEADS * SIZE, device="cuda", dtype=torch.bfloat16)
    q, k, v = (x.unflatten(-1, (HEADS, SIZE)) for x in fused.chunk(3, dim=-1))
    upstream, seed = (
        torch.randn(tokens, HEADS * SIZE, device="cuda", dtype=fused.dtype),
        torch.zeros(1, dtype=torch.int64, device="cuda"),
    )
    for causal in (False, True):
        pattern = layout.pattern(layout, causal)
        bounds = (pattern.lo, pattern.hi, pattern.first, pattern.last)
        for dropout in (0.0, 0.1):
            out, lse = interval_attention([fused], HEADS, *bounds, seed, dropout)
            forward = replayed(lambda: interval_attention([fused], HEADS, *bounds, seed, dropout))  # noqa: B023
            backward = replayed(
                lambda: interval_attention_backward([fused], HEADS, *bounds, seed, dropout, out, lse, upstream)  # noqa: B023
            )
            print(f"intervals, causal {causal!s:5}, dropout {dropout}: {forward:.3f} ms, backward {backward:.3f} ms")
        whole = [x.contiguous().detach().requires_grad_() for x in (q, k, v)]
        lengths = layout.offsets.diff()
        offsets = layout.offsets[: int((lengths > 0).sum()) + 1].contiguous()
        longest, window = int(lengths.max()), (-1, 0) if causal else (-1, -1)
        theirs: Any = partial(
            varlen_attn, cu_seq_q=offsets, cu_seq_k=offsets, max_q=longest, max_k=longest, window_size=window
        )
        forward = replayed(partial(theirs, *(x.detach() for x in whole)))

        def both() -> None:
            torch.autograd.grad(theirs(*whole), whole, upstream.unflatten(1, (HEADS, SIZE)))  # noqa: B023

        both()
        spent = launched(both)
        print(f"torch varlen_attn, causal {causal!s:5}: {forward:.3f} ms, both ways with launches {spent:.3f} ms")


def loss_rows() -> None:
    from regard.losses.rows import logits_to_gradient_, paired_logits_to_gradient_

    scores = torch.randn(8192, 32_000, device="cuda", dtype=torch.bfloat16)
    labels = torch.randint(3, 32_000, (8192,), device="cuda")
    duration = replayed(lambda: logits_to_gradient_(scores, labels, 0.1, 0))
    print(f"cross-entropy of 8,192 x 32,000 scores: {duration:.3f} ms")
    halves, first = scores.view(2, 4096, -1), labels[:4096]
    duration = replayed(lambda: paired_logits_to_gradient_(halves, first, 0.1, 5.0, 0))
    print(f"R-Drop of 2 x 4,096 x 32,000: {duration:.3f} ms")


def products() -> None:
    for rows, width, out in ((25_088, 512, 512), (25_088, 512, 1536), (25_088, 2048, 512), (25_088, 512, 32_000)):
        x = torch.randn(rows, width, device="cuda", dtype=torch.bfloat16)
        weight = torch.randn(out, width, device="cuda", dtype=torch.bfloat16)
        spent = replayed(lambda: F.linear(x, weight))  # noqa: B023
        rate = 2 * rows * width * out / spent / 1e9
        print(f"product {rows:,} x {width:,} -> {out:,}: {spent:.3f} ms, {rate:.0f} TFLOP/s")


def main() -> None:
    if not torch.cuda.is_available():
        raise SystemExit("this benchmark needs a CUDA device")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    attention()
    loss_rows()
    products()


if __name__ == "__main__":
    main()
