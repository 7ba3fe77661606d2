"""The pieces of `kernels.py` for a GPU, each in one kernel; imported only where there is one.

Attention of a decoding step is bound by memory: every key and value is read once and used for W queries. So a program
takes all W hypotheses of one slot and one head, reads only the positions that slot has and only the places some
hypothesis descends from, and keeps softmax and sum running (Milakov & Gimelshein 2018; Dao et al. 2022).

B slots, W hypotheses, T positions, S source, H heads, K head size, D model, N = B W rows.
"""

# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def"
import torch
import triton
import triton.language as tl
from torch import Tensor, nn

from regard.engines.device_kernels import SelfKV, SourceKV, TopK
from regard.engines.topk import top_k_kernel

# How large the programs are.
SELF_ATTENTION = dict(BLOCK=64, num_warps=4)
CROSS_ATTENTION = dict(BLOCK=32, num_warps=2)
TOP_OF_MANY, TOP_OF_FEW = (1024, 4), (8192, 16)  # lanes and warps: few rows must be quick, many only busy
MANY_ROWS = 256


@triton.jit
def update_softmax(score, values, best, total, context):
    """One block of scores (W, BLOCK) and values (BLOCK, K) into the running maximum, sum and weighted mean."""
    higher = tl.maximum(best, tl.max(score, axis=1))
    decay = tl.exp(best - higher)
    weights = tl.exp(score - higher[:, None])
    total = total * decay + tl.sum(weights, axis=1)
    context = context * decay[:, None] + tl.dot(weights.to(values.dtype), values, input_precision="ieee")
    return higher, total, context


@triton.jit
def self_attention_kernel(
    q, k, v, q_row, k_row, v_row, keys, values, beam_ancestry, position, out, positions, scale,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, SIZE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """One program a slot and head: store the newest keys and values, then attend to them and to all ancestors."""
    slot, head = tl.program_id(0), tl.program_id(1)
    w, d = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    here = (w < WIDTH)[:, None] & (d < SIZE)[None, :]
    row, column = (slot * WIDTH + w)[:, None], head * SIZE + d[None, :]
    query = tl.load(q + row * q_row + column, mask=here, other=0.0)
    key = tl.load(k + row * k_row + column, mask=here, other=0.0)
    value = tl.load(v + row * v_row + column, mask=here, other=0.0)
    before = tl.load(position + slot).to(tl.int32) * WIDTH  # places written before this step
    cache = (slot * HEADS + head).to(tl.int64) * positions * WIDTH * SIZE
    newest = cache + (before + w)[:, None] * SIZE + d[None, :]
    tl.store(keys + newest, key, mask=here)
    tl.store(values + newest, value, mask=here)
    # The newest token sees itself; so every row has a finite maximum from the start.
    best = tl.sum(query.to(tl.float32) * key.to(tl.float32), axis=1) * scale
    total = tl.full([ROWS], 1.0, tl.float32)
    context = value.to(tl.float32)
    for begin in range(0, before, BLOCK):
        place = begin + tl.arange(0, BLOCK)
        tree = beam_ancestry + slot * positions * WIDTH + (place // WIDTH * WIDTH)[None, :] + w[:, None]
        known = (place < before)[None, :] & (w < WIDTH)[:, None]
        mine = tl.load(tree, mask=known, other=-1) == (place % WIDTH)[None, :]
        read = (tl.max(mine.to(tl.int32), axis=0) > 0)[:, None] & (d < SIZE)[None, :]
        block = cache + place[:, None] * SIZE + d[None, :]
        old_keys = tl.load(keys + block, mask=read, other=0.0)
        old_values = tl.load(values + block, mask=read, other=0.0)
        score = tl.dot(query, tl.trans(old_keys), input_precision="ieee") * scale
        score = tl.where(mine, score, -float("inf"))
        best, total, context = update_softmax(score, old_values, best, total, context)
    tl.store(out + row * (HEADS * SIZE) + column, (context / total[:, None]).to(out.dtype.element_ty), mask=here)


@triton.jit
def cross_attention_kernel(
    q, q_row, keys, values, lengths, out, source, scale,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, SIZE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """One program a slot and head: W hypotheses look at the words of their source."""
    slot, head = tl.program_id(0), tl.program_id(1)
    w, d = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    here = (w < WIDTH)[:, None] & (d < SIZE)[None, :]
    row, column = (slot * WIDTH + w)[:, None], head * SIZE + d[None, :]
    query = tl.load(q + row * q_row + column, mask=here, other=0.0)
    length = tl.load(lengths + slot).to(tl.int32)
    memory = slot.to(tl.int64) * source * HEADS * SIZE + head * SIZE
    best = tl.full([ROWS], -3e38, tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    context = tl.zeros([ROWS, COLUMNS], tl.float32)
    for begin in range(0, length, BLOCK):
        place = begin + tl.arange(0, BLOCK)
        real = place < length
        block = memory + place[:, None] * (HEADS * SIZE) + d[None, :]
        read = real[:, None] & (d < SIZE)[None, :]
        score = tl.dot(query, tl.trans(tl.load(keys + block, mask=read, other=0.0)), input_precision="ieee") * scale
        score = tl.where(real[None, :], score, -float("inf"))
        best, total, context = update_softmax(
            score, tl.load(values + block, mask=read, other=0.0), best, total, context
        )
    context = context / tl.maximum(total, 1e-30)[:, None]  # an empty source gives zeros
    tl.store(out + row * (HEADS * SIZE) + column, context.to(out.dtype.element_ty), mask=here)


@triton.jit
def add_norm_kernel(x, y, weight, bias, sums, normed, size, epsilon, BLOCK: tl.constexpr):
    """One program a row: LayerNorm(x + y), in float32 inside."""
    row = tl.program_id(0).to(tl.int64) * size
    d = tl.arange(0, BLOCK)
    here = d < size
    total = tl.load(x + row + d, mask=here, other=0.0) + tl.load(y + row + d, mask=here, other=0.0)
    tl.store(sums + row + d, total, mask=here)
    total = total.to(tl.float32)
    mean = tl.sum(total, axis=0) / size
    centred = tl.where(here, total - mean, 0.0)
    spread = tl.rsqrt(tl.sum(centred * centred, axis=0) / size + epsilon)
    gain = tl.load(weight + d, mask=here, other=0.0).to(tl.float32)
    shift = tl.load(bias + d, mask=here, other=0.0).to(tl.float32)
    tl.store(normed + row + d, (centred * spread * gain + shift).to(normed.dtype.element_ty), mask=here)


@triton.jit
def copy_parents_kernel(
    table, parents, position, positions, WIDTH: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """One program a slot: columns of table (B, T, W) move, each row being read whole before it is written."""
    slot, w = tl.program_id(0).to(tl.int64), tl.arange(0, ROWS)
    next_parents = tl.load(parents + slot * WIDTH + w, mask=w < WIDTH, other=0)
    until = tl.load(position + slot).to(tl.int32) + 1
    for begin in range(0, until, BLOCK):
        t = begin + tl.arange(0, BLOCK)
        here = (t < until)[:, None] & (w < WIDTH)[None, :]
        row = table + (slot * positions + t)[:, None] * WIDTH
        inherited = tl.load(row + next_parents[None, :], mask=here, other=0)
        tl.debug_barrier()
        tl.store(row + w[None, :], inherited, mask=here)


class TritonKernels:
    """See `kernels.Kernels`; every method launches one kernel and waits for nothing."""

    def top_k(self, logits: Tensor, count: int, forbidden: tuple[int, ...]) -> TopK:
        """See `Kernels.top_k`; at most two tokens can be forbidden."""
        rows, vocabulary = logits.shape
        first, second = (*forbidden, -1, -1)[:2]
        values = torch.empty(rows, count, dtype=torch.float32, device=logits.device)
        tokens = torch.empty(rows, count, dtype=torch.int64, device=logits.device)
        log_z = torch.empty(rows, dtype=torch.float32, device=logits.device)
        lanes, warps = TOP_OF_MANY if rows >= MANY_ROWS else TOP_OF_FEW
        lanes = min(lanes, triton.next_power_of_2(vocabulary))
        rounds = triton.next_power_of_2(triton.cdiv(vocabulary, lanes))
        top_k_kernel[(rows,)](
            logits, values, tokens, log_z, vocabulary, first, second,
            COUNT=count, LANES=lanes, ROUNDS=rounds, num_warps=warps,
        )  # fmt: skip
        return TopK(values, tokens, log_z)

    def self_attention(self, q: Tensor, k: Tensor, v: Tensor, past: SelfKV) -> Tensor:
        """See `Kernels.self_attention`."""
        slots, width, heads, size = q.shape
        out = torch.empty(slots, width, heads, size, dtype=q.dtype, device=q.device)
        self_attention_kernel[(slots, heads)](
            q, k, v, _row(q), _row(k), _row(v), past.keys, past.values, past.beam_ancestry, past.position, out,
            past.keys.size(2), size**-0.5, **_shape(heads, width, size), **SELF_ATTENTION,
        )  # fmt: skip
        return out

    def cross_attention(self, q: Tensor, memory: SourceKV) -> Tensor:
        """See `Kernels.cross_attention`."""
        slots, width, heads, size = q.shape
        out = torch.empty(slots, width, heads, size, dtype=q.dtype, device=q.device)
        cross_attention_kernel[(slots, heads)](
            q, _row(q), memory.keys, memory.values, memory.lengths, out,
            memory.keys.size(1), size**-0.5, **_shape(heads, width, size), **CROSS_ATTENTION,
        )  # fmt: skip
        return out

    def add_norm(self, x: Tensor, y: Tensor, norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
        """See `Kernels.add_norm`."""
        rows, size = x.shape
        sums, normed = torch.empty_like(x), torch.empty_like(x)
        add_norm_kernel[(rows,)](
            x, y, norm.weight, norm.bias, sums, normed, size, norm.eps,
            BLOCK=triton.next_power_of_2(size), num_warps=4,
        )  # fmt: skip
        return sums, normed

    def copy_parents(self, table: Tensor, parents: Tensor, position: Tensor) -> None:
        """See `Kernels.copy_parents`."""
        slots, positions, width = table.shape
        copy_parents_kernel[(slots,)](
            table, parents, position, positions,
            WIDTH=width, ROWS=triton.next_power_of_2(width), BLOCK=32, num_warps=1,
        )  # fmt: skip


def _row(x: Tensor) -> int:
    """From one hypothesis (B, W, H, K) to the next; the stride of an axis that has one place only says nothing."""
    return x.stride(1) if x.size(1) > 1 else x.stride(0)


def _shape(heads: int, width: int, size: int) -> dict[str, int]:
    """What a kernel is compiled for; matrix products want at least 16 rows and columns, filled up with zeros."""
    pad = triton.next_power_of_2
    return dict(HEADS=heads, WIDTH=width, SIZE=size, ROWS=max(16, pad(width)), COLUMNS=max(16, pad(size)))
