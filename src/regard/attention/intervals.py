"""Flash attention over intervals: a kernel for streams of short sentences.

    o_i = sum_j p_ij v_j,    p_ij = exp(s_ij - l_i),    s_ij = q_i k_j / sqrt(K),    lo_i <= j < hi_i

Query i of a stream attends to the keys of one interval [lo_i, hi_i), and both bounds increase along the stream. This
covers self-attention in a packed batch (the interval is the query's own sentence), causal attention (it ends at the
query), attention to another stream (the source sentence of the query's target sentence) and windows.

Other variable-length kernels give each sentence its own tiles, 128 queries by 128 keys, mostly empty for sentences of
25 tokens. Here a tile is the next BLOCK queries of the stream, of any number of sentences; it runs over the keys from
its first lower bound to its last upper bound and masks those outside the interval of each query. The grid depends on
the number of tokens alone, so a step with another number of sentences is the same program: nothing is compiled again,
and a captured graph stays valid. As in FlashAttention (Dao et al. 2022, 2023) scores are in registers only, the softmax
is accumulated block by block, and backward computes the scores again from l_i: memory is linear.

The dropout mask is a hash(seed, head, i, j), so that backward computes the same mask again.

N queries, M keys, H heads, K head size.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

# Launch parameters for heads up to 64; larger heads have half the rows and columns in a tile.
QUERIES = dict(BLOCK=64, STEP=32, num_warps=4, num_stages=3)
KEYS, KEYS_DROPPED = (
    dict(BLOCK=32, STEP=32, num_warps=2, num_stages=1),
    dict(BLOCK=32, STEP=64, num_warps=4, num_stages=2),
)
STACKED = {1: 3, 2: 2}
"""Tensors in the last of one or two stacked inputs: queries, keys and values; or keys and values beside the queries."""


@triton.jit
def _scores(q, k, keys, lo, hi, scale, precision: tl.constexpr):
    """Scaled scores of a tile, minus infinity where a query does not attend to a key."""
    s = tl.dot(q, tl.trans(k), input_precision=precision) * scale
    return tl.where((keys[None, :] >= lo[:, None]) & (keys[None, :] < hi[:, None]), s, float("-inf"))


@triton.jit
def _span(lo, hi, none):
    """The first and last bound of a tile's intervals. Empty ones do not count: they belong to tokens that fill a stream
    up, which may stand in its middle, far from their bounds."""
    return tl.min(tl.where(lo < hi, lo, none)), tl.max(tl.where(lo < hi, hi, 0))


@triton.jit
def _hash(x):
    """Hash of a 32-bit number (Wellons 2018, lowbias32)."""
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def row_hash(seed, head, rows):
    """A hash of seed, head and row; there are few rows, so a good one costs little."""
    mixed = _hash(seed.to(tl.uint32)) ^ (seed >> 32).to(tl.uint32)
    return _hash(_hash(mixed + head) + rows.to(tl.uint32))


@triton.jit
def is_kept(row_hashes, columns, dropout):
    """False for elements (rows, columns) that dropout sets to zero: a hash of row and column is below dropout 2^32.

    It is computed for every element, so it is short: both hashes are good, and two products mix them.
    """
    x = (row_hashes[:, None] ^ _hash(columns.to(tl.uint32))[None, :]) * 0x7FEB352D
    return (x ^ (x >> 15)) * 0x846CA68B >= tl.cast(dropout * 4294967296.0, tl.uint32)


@triton.jit
def _load(base, rows, stride, columns, inside, K: tl.constexpr):
    """Rows of a matrix, zero outside of it."""
    mask = inside[:, None] & (columns < K)[None, :]
    return tl.load(base + rows[:, None].to(tl.int64) * stride + columns[None, :], mask=mask, other=0.0)


@triton.jit
def _store(base, rows, stride, columns, inside, values, K: tl.constexpr):
    mask = inside[:, None] & (columns < K)[None, :]
    tl.store(base + rows[:, None].to(tl.int64) * stride + columns[None, :], values, mask=mask)


@triton.jit
def _forward(
    Q, KEY, VALUE, LO, HI, OUT, LSE, SEED, q_row, q_head, k_row, k_head, v_row, v_head, num_queries, num_keys, scale,
    dropout, K: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, STEP: tl.constexpr, DROP: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """One tile of queries of one head."""
    head = tl.program_id(1)
    rows, columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    inside = rows < num_queries
    lo, hi = tl.load(LO + rows, mask=inside, other=num_keys), tl.load(HI + rows, mask=inside, other=0)
    q = _load(Q + head * q_head, rows, q_row, columns, inside, K)
    hashes = row_hash(tl.load(SEED), head.to(tl.uint32), rows) if DROP else 0
    top = tl.full([BLOCK], float("-inf"), tl.float32)  # the largest score so far
    total = tl.zeros([BLOCK], tl.float32)
    out = tl.zeros([BLOCK, WIDTH], tl.float32)
    begin, end = _span(lo, hi, num_keys)
    for first in range(begin, end, STEP):
        keys = first + tl.arange(0, STEP)
        k = _load(KEY + head * k_head, keys, k_row, columns, keys < num_keys, K)
        v = _load(VALUE + head * v_head, keys, v_row, columns, keys < num_keys, K)
        s = _scores(q, k, keys, lo, hi, scale, PRECISION)
        new_top = tl.maximum(top, tl.max(s, 1))
        known = tl.where(new_top == float("-inf"), 0.0, new_top)  # no key yet: any finite number works
        p = tl.exp(s - known[:, None])
        shrink = tl.exp(top - known)
        total = total * shrink + tl.sum(p, 1)
        if DROP:
            p = tl.where(is_kept(hashes, keys, dropout), p, 0.0)
        out = out * shrink[:, None] + tl.dot(p.to(v.dtype), v, input_precision=PRECISION)
        top = new_top
    seen = total > 0
    out = tl.where(seen[:, None], out / (tl.where(seen, total, 1.0) * (1.0 - dropout))[:, None], 0.0)
    stride = tl.num_programs(1) * K
    _store(OUT + head * K, rows, stride, columns, inside, out.to(OUT.dtype.element_ty), K)
    lse = tl.where(seen, top + tl.log(tl.where(seen, total, 1.0)), float("inf"))  # no keys: exp(s - inf) = 0
    tl.store(LSE + head * num_queries + rows, lse, mask=inside)


@triton.jit
def _backward_queries(
    Q, KEY, VALUE, LO, HI, OUT, LSE, SEED, GRAD, DELTA, DQ, dq_row, q_row, q_head, k_row, k_head, v_row, v_head,
    num_queries, num_keys, scale, dropout, K: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
    STEP: tl.constexpr, DROP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """dq_i = sum_j ds_ij k_j / sqrt(K),  ds_ij = p_ij (do_i v_j - delta_i),  delta_i = do_i o_i."""
    head = tl.program_id(1)
    rows, columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    inside = rows < num_queries
    lo, hi = tl.load(LO + rows, mask=inside, other=num_keys), tl.load(HI + rows, mask=inside, other=0)
    stride = tl.num_programs(1) * K
    q = _load(Q + head * q_head, rows, q_row, columns, inside, K)
    out = _load(OUT + head * K, rows, stride, columns, inside, K)
    grad = _load(GRAD + head * K, rows, stride, columns, inside, K)
    delta = tl.sum(out.to(tl.float32) * grad.to(tl.float32), 1)
    tl.store(DELTA + head * num_queries + rows, delta, mask=inside)
    lse = tl.load(LSE + head * num_queries + rows, mask=inside, other=float("inf"))
    hashes = row_hash(tl.load(SEED), head.to(tl.uint32), rows) if DROP else 0
    dq = tl.zeros([BLOCK, WIDTH], tl.float32)
    begin, end = _span(lo, hi, num_keys)
    for first in range(begin, end, STEP):
        keys = first + tl.arange(0, STEP)
        k = _load(KEY + head * k_head, keys, k_row, columns, keys < num_keys, K)
        v = _load(VALUE + head * v_head, keys, v_row, columns, keys < num_keys, K)
        p = tl.exp(_scores(q, k, keys, lo, hi, scale, PRECISION) - lse[:, None])
        dp = tl.dot(grad, tl.trans(v), input_precision=PRECISION)
        if DROP:
            dp = tl.where(is_kept(hashes, keys, dropout), dp * (1.0 / (1.0 - dropout)), 0.0)
        ds = p * (dp - delta[:, None])
        dq += tl.dot(ds.to(k.dtype), k, input_precision=PRECISION)
    _store(DQ + head * K, rows, dq_row, columns, inside, (dq * scale).to(DQ.dtype.element_ty), K)


@triton.jit
def _backward_keys(
    Q, KEY, VALUE, LO, HI, FROM, TO, LSE, SEED, GRAD, DELTA, DK, DV, dk_row, dv_row, q_row, q_head, k_row, k_head,
    v_row, v_head, num_queries, num_keys, scale, dropout, K: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
    STEP: tl.constexpr, DROP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """dv_j = sum_i p_ij do_i,  dk_j = sum_i ds_ij q_i / sqrt(K), over the queries [from_j, to_j) of key j."""
    head = tl.program_id(1)
    keys, columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    inside = keys < num_keys
    begin, end = _span(
        tl.load(FROM + keys, mask=inside, other=0), tl.load(TO + keys, mask=inside, other=0), num_queries
    )
    k = _load(KEY + head * k_head, keys, k_row, columns, inside, K)
    v = _load(VALUE + head * v_head, keys, v_row, columns, inside, K)
    stride = tl.num_programs(1) * K
    seed = tl.load(SEED) if DROP else 0
    dk = tl.zeros([BLOCK, WIDTH], tl.float32)
    dv = tl.zeros([BLOCK, WIDTH], tl.float32)
    for first in range(begin, end, STEP):
        rows = first + tl.arange(0, STEP)
        real = rows < num_queries
        lo, hi = tl.load(LO + rows, mask=real, other=num_keys), tl.load(HI + rows, mask=real, other=0)
        q = _load(Q + head * q_head, rows, q_row, columns, real, K)
        grad = _load(GRAD + head * K, rows, stride, columns, real, K)
        lse = tl.load(LSE + head * num_queries + rows, mask=real, other=float("inf"))
        delta = tl.load(DELTA + head * num_queries + rows, mask=real, other=0.0)
        p = tl.exp(_scores(q, k, keys, lo, hi, scale, PRECISION) - lse[:, None])
        dp = tl.dot(grad, tl.trans(v), input_precision=PRECISION)
        dropped = p
        if DROP:
            kept = is_kept(row_hash(seed, head.to(tl.uint32), rows), keys, dropout)
            dropped = tl.where(kept, p * (1.0 / (1.0 - dropout)), 0.0)
            dp = tl.where(kept, dp * (1.0 / (1.0 - dropout)), 0.0)
        ds = p * (dp - delta[:, None])
        dv += tl.dot(tl.trans(dropped.to(grad.dtype)), grad, input_precision=PRECISION)
        dk += tl.dot(tl.trans(ds.to(q.dtype)), q, input_precision=PRECISION)
    _store(DK + head * K, keys, dk_row, columns, inside, (dk * scale).to(DK.dtype.element_ty), K)
    _store(DV + head * K, keys, dv_row, columns, inside, dv.to(DV.dtype.element_ty), K)


def _arguments(q: Tensor, k: Tensor, v: Tensor, dropout: float, launch: dict[str, int]) -> dict[str, object]:
    """Arguments of all three kernels; the last dimension of q, k and v must be contiguous, the others need not."""
    width = max(16, triton.next_power_of_2(q.size(-1)))
    half = 1 if width <= 64 else 2
    return launch | dict(
        q_row=q.stride(0), q_head=q.stride(1), k_row=k.stride(0), k_head=k.stride(1), v_row=v.stride(0),
        v_head=v.stride(1), num_queries=q.size(0), num_keys=k.size(0), scale=q.size(-1) ** -0.5, dropout=dropout,
        K=q.size(-1), WIDTH=width, BLOCK=launch["BLOCK"] // half, STEP=launch["STEP"] // half,
        DROP=dropout > 0, PRECISION="ieee" if q.dtype == torch.float32 else "tf32",
    )  # fmt: skip


def _split(tensors: Sequence[Tensor], heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values (*, H, K) in rows of (q, k, v); of q and (k, v); or of q, k and v by themselves."""
    *alone, last = tensors
    parts = last.unflatten(1, (STACKED.get(len(tensors), 1), heads, -1)).unbind(1)
    return *(tensor.unflatten(1, (heads, -1)) for tensor in alone), *parts


@torch.library.custom_op("regard::interval_attention", mutates_args=())
def interval_attention(
    tensors: Sequence[Tensor], heads: int, lo: Tensor, hi: Tensor, first: Tensor, last: Tensor, seed: Tensor,
    dropout: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """q (N, H K) over k, v (M, H K), in rows as `_split` reads them; lo, hi (N,) the keys of each query and first, last
    (M,) the queries of each key, all int32; seed one int64 -> output (N, H K) and log-sum-exp of the scores (H, N)."""
    q, k, v = _split(tensors, heads)
    out = q.new_empty(q.size(0), heads * q.size(2))
    lse = torch.empty(heads, q.size(0), dtype=torch.float32, device=q.device)
    arguments = _arguments(q, k, v, dropout, QUERIES)
    _forward[(triton.cdiv(q.size(0), arguments["BLOCK"]), heads)](q, k, v, lo, hi, out, lse, seed, **arguments)
    return out, lse


@interval_attention.register_fake
def _(tensors, heads, lo, hi, first, last, seed, dropout):
    columns = tensors[0].size(1) // (STACKED[1] if len(tensors) == 1 else 1)
    rows = tensors[0].size(0)
    return tensors[0].new_empty(rows, columns), tensors[0].new_empty(heads, rows, dtype=torch.float32)


@torch.library.custom_op("regard::interval_attention_backward", mutates_args=())
def interval_attention_backward(
    tensors: Sequence[Tensor], heads: int, lo: Tensor, hi: Tensor, first: Tensor, last: Tensor, seed: Tensor,
    dropout: float, out: Tensor, lse: Tensor, grad: Tensor,
) -> list[Tensor]:  # fmt: skip
    """The gradients of the tensors, in the same rows: no concatenation follows."""
    gradients = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in tensors]
    (q, k, v), (dq, dk, dv) = _split(tensors, heads), _split(gradients, heads)
    grad, delta = grad.contiguous(), torch.empty_like(lse)
    arguments = _arguments(q, k, v, dropout, QUERIES)
    _backward_queries[(triton.cdiv(q.size(0), arguments["BLOCK"]), heads)](
        q, k, v, lo, hi, out, lse, seed, grad, delta, dq, dq.stride(0), **arguments
    )
    arguments = _arguments(q, k, v, dropout, KEYS)
    _backward_keys[(triton.cdiv(k.size(0), arguments["BLOCK"]), heads)](
        q, k, v, lo, hi, first, last, lse, seed, grad, delta, dk, dv, dk.stride(0), dv.stride(0), **arguments
    )
    return gradients


@interval_attention_backward.register_fake
def _(tensors, heads, lo, hi, first, last, seed, dropout, out, lse, grad):
    return [torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in tensors]


def _remember(ctx, inputs, output):
    tensors, ctx.heads, *others, ctx.dropout = inputs
    ctx.save_for_backward(*tensors, *others, *output)
    ctx.count = len(tensors)
    ctx.mark_non_differentiable(output[1])


def _differentiate(ctx, grad, _):
    tensors, (*others, out, lse) = ctx.saved_tensors[: ctx.count], ctx.saved_tensors[ctx.count :]
    gradients = interval_attention_backward(list(tensors), ctx.heads, *others, ctx.dropout, out, lse, grad)
    return gradients, None, None, None, None, None, None, None


interval_attention.register_autograd(_differentiate, setup_context=_remember)
