"""The kernels of device_kernels.py for a GPU, in Triton. Imported only if there is a GPU.

Attention. A decoding step is bound by memory: every key and value is read once and used for W queries. So one program
handles all W hypotheses of one slot and one head. It reads only the positions that the slot has and only the entries
that some hypothesis descends from, with an online softmax (Milakov & Gimelshein 2018; Dao et al. 2022).

Top-k. Sorting 32,000 numbers to find eight is wasteful, and so is reading them more than once. One program reads a row
with L lanes; lane l reads tokens l, l + L, l + 2L ... Each lane keeps its best token and, for the normalisation, a
running maximum and sum. The best of the lanes is the best of the row. Then its lane is read again for its next best
token, and so on. The comparison uses a key of 64 bits: the logit above, the token below. So all keys differ, and among
equal logits the lowest token wins.

Shapes: B slots, W hypotheses, T positions, S source, H heads, K head size, D model, N = B W rows, V vocabulary,
L lanes.
"""

# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def"
import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor, nn

from regard.engines.device_kernels import DeviceSourceKV, SelfKV, TopK
from regard.layers.blocks import Activation
from regard.layers.embeddings import TokenEmbedding

# Launch parameters.
SELF_ATTENTION = dict(BLOCK=64, num_warps=1, num_stages=1)
CROSS_ATTENTION = dict(BLOCK=32, num_warps=2)
# Lanes, warps and loads in flight: throughput for many rows, latency for few.
MANY_ROWS_LAUNCH, FEW_ROWS_LAUNCH = (1024, 2, 3), (8192, 16, 1)
MANY_ROWS = 256
FEW_ROWS, COLUMNS = 4, 4  # rows of a product that is bound by its weights, and columns of a program
NO_CANDIDATE = tl.constexpr(-(2**63))
INT32_MAX = tl.constexpr(0x7FFFFFFF)


@triton.jit
def update_softmax(score, values, maximum, exp_sum, context):
    """Add one block of scores (W, BLOCK) and values (BLOCK, K) to the running maximum, sum and weighted sum."""
    new_maximum = tl.maximum(maximum, tl.max(score, axis=1))
    decay = tl.exp(maximum - new_maximum)
    weights = tl.exp(score - new_maximum[:, None])
    exp_sum = exp_sum * decay + tl.sum(weights, axis=1)
    context = context * decay[:, None] + tl.dot(weights.to(values.dtype), values, input_precision="ieee")
    return new_maximum, exp_sum, context


@triton.jit
def self_attention_kernel(
    q, k, v, q_row, k_row, v_row, keys, values, beam_ancestry, position, out, positions, scale,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, SIZE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """One program per slot and head: store the newest keys and values, then attend to them and to the history."""
    slot, head = tl.program_id(0), tl.program_id(1)
    w, d = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    valid = (w < WIDTH)[:, None] & (d < SIZE)[None, :]
    row, column = (slot * WIDTH + w)[:, None], head * SIZE + d[None, :]
    query = tl.load(q + row * q_row + column, mask=valid, other=0.0)
    key = tl.load(k + row * k_row + column, mask=valid, other=0.0)
    value = tl.load(v + row * v_row + column, mask=valid, other=0.0)
    before = tl.load(position + slot).to(tl.int32) * WIDTH  # entries written before this step
    offset = (slot * HEADS + head).to(tl.int64) * positions * WIDTH * SIZE
    newest = offset + (before + w)[:, None] * SIZE + d[None, :]
    tl.store(keys + newest, key, mask=valid)
    tl.store(values + newest, value, mask=valid)
    # The newest token attends to itself, so every row has a finite maximum from the start.
    maximum = tl.sum(query.to(tl.float32) * key.to(tl.float32), axis=1) * scale
    exp_sum = tl.full([ROWS], 1.0, tl.float32)
    context = value.to(tl.float32)
    for begin in range(0, before, BLOCK):
        index = begin + tl.arange(0, BLOCK)
        ancestors = beam_ancestry + slot * positions * WIDTH + (index // WIDTH * WIDTH)[None, :] + w[:, None]
        filled = (index < before)[None, :] & (w < WIDTH)[:, None]
        own = tl.load(ancestors, mask=filled, other=-1) == (index % WIDTH)[None, :]
        needed = (tl.max(own.to(tl.int32), axis=0) > 0)[:, None] & (d < SIZE)[None, :]
        block = offset + index[:, None] * SIZE + d[None, :]
        old_keys = tl.load(keys + block, mask=needed, other=0.0)
        old_values = tl.load(values + block, mask=needed, other=0.0)
        score = tl.dot(query, tl.trans(old_keys), input_precision="ieee") * scale
        score = tl.where(own, score, -float("inf"))
        maximum, exp_sum, context = update_softmax(score, old_values, maximum, exp_sum, context)
    tl.store(out + row * (HEADS * SIZE) + column, (context / exp_sum[:, None]).to(out.dtype.element_ty), mask=valid)


@triton.jit
def cross_attention_kernel(
    q, q_row, keys, values, lengths, out, source, scale,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, SIZE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """One program per slot and head: W hypotheses attend to their source."""
    slot, head = tl.program_id(0), tl.program_id(1)
    w, d = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    valid = (w < WIDTH)[:, None] & (d < SIZE)[None, :]
    row, column = (slot * WIDTH + w)[:, None], head * SIZE + d[None, :]
    query = tl.load(q + row * q_row + column, mask=valid, other=0.0)
    length = tl.load(lengths + slot).to(tl.int32)
    offset = slot.to(tl.int64) * source * HEADS * SIZE + head * SIZE
    maximum = tl.full([ROWS], -3e38, tl.float32)
    exp_sum = tl.zeros([ROWS], tl.float32)
    context = tl.zeros([ROWS, COLUMNS], tl.float32)
    for begin in range(0, length, BLOCK):
        index = begin + tl.arange(0, BLOCK)
        not_padding = index < length
        block = offset + index[:, None] * (HEADS * SIZE) + d[None, :]
        needed = not_padding[:, None] & (d < SIZE)[None, :]
        score = tl.dot(query, tl.trans(tl.load(keys + block, mask=needed, other=0.0)), input_precision="ieee") * scale
        score = tl.where(not_padding[None, :], score, -float("inf"))
        maximum, exp_sum, context = update_softmax(
            score, tl.load(values + block, mask=needed, other=0.0), maximum, exp_sum, context
        )
    context = context / tl.maximum(exp_sum, 1e-30)[:, None]  # an empty source gives zeros
    tl.store(out + row * (HEADS * SIZE) + column, context.to(out.dtype.element_ty), mask=valid)


@triton.jit
def add_norm_kernel(x, y, weight, bias, sums, normed, size, epsilon, BLOCK: tl.constexpr):
    """One program per row: LayerNorm(x + y), in float32 inside."""
    row = tl.program_id(0).to(tl.int64) * size
    d = tl.arange(0, BLOCK)
    valid = d < size
    total = tl.load(x + row + d, mask=valid, other=0.0) + tl.load(y + row + d, mask=valid, other=0.0)
    tl.store(sums + row + d, total, mask=valid)
    total = total.to(tl.float32)
    mean = tl.sum(total, axis=0) / size
    centered = tl.where(valid, total - mean, 0.0)
    inverse_std = tl.rsqrt(tl.sum(centered * centered, axis=0) / size + epsilon)
    gain = tl.load(weight + d, mask=valid, other=0.0).to(tl.float32)
    shift = tl.load(bias + d, mask=valid, other=0.0).to(tl.float32)
    tl.store(normed + row + d, (centered * inverse_std * gain + shift).to(normed.dtype.element_ty), mask=valid)


@triton.jit
def few_rows_linear_kernel(
    x, weight, bias, out, x_row, rows, size, columns,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr, RELU: tl.constexpr,
):  # fmt: skip
    """One program per few columns: y = x W^T + b for all rows, with every weight read once."""
    column, d = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS), tl.arange(0, BLOCK)
    valid = column < columns
    weights = weight + column[:, None] * size + d[None, :]
    w = tl.load(weights, mask=valid[:, None] & (d < size)[None, :], other=0.0).to(tl.float32)
    shift = tl.load(bias + column, mask=valid, other=0.0).to(tl.float32)
    for row in tl.static_range(ROWS):
        values = tl.load(x + row * x_row + d, mask=(d < size) & (row < rows), other=0.0).to(tl.float32)
        y = tl.sum(w * values[None, :], axis=1) + shift
        if RELU:
            y = tl.maximum(y, 0.0)
        tl.store(out + row * columns + column, y.to(out.dtype.element_ty), mask=valid & (row < rows))


@triton.jit
def embed_kernel(tokens, position, weight, positions, out, scale, size, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """One program per row: the scaled embedding of a token plus the vector of its position, each rounded."""
    row, d = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    token, place = tl.load(tokens + row), tl.load(position + row // WIDTH)
    x = tl.load(weight + token * size + d, mask=d < size, other=0.0).to(tl.float32) * scale
    vector = tl.load(positions + place * size + d, mask=d < size, other=0.0).to(tl.float32)
    total = x.to(out.dtype.element_ty).to(tl.float32) + vector
    tl.store(out + row * size + d, total.to(out.dtype.element_ty), mask=d < size)


@triton.jit
def copy_parents_kernel(
    table, parents, position, positions, WIDTH: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """One program per slot: permute columns of table (B, T, W). A row is read completely before it is written."""
    slot, w = tl.program_id(0).to(tl.int64), tl.arange(0, ROWS)
    sources = tl.load(parents + slot * WIDTH + w, mask=w < WIDTH, other=0)
    end = tl.load(position + slot).to(tl.int32) + 1
    for begin in range(0, end, BLOCK):
        t = begin + tl.arange(0, BLOCK)
        valid = (t < end)[:, None] & (w < WIDTH)[None, :]
        row = table + (slot * positions + t)[:, None] * WIDTH
        copied = tl.load(row + sources[None, :], mask=valid, other=0)
        tl.debug_barrier()
        tl.store(row + w[None, :], copied, mask=valid)


@triton.jit
def sort_key(logit, token, vocabulary, first_forbidden, second_forbidden):
    """An integer that sorts by logit, then by descending token; `NO_CANDIDATE` for a forbidden token."""
    logit = tl.where(logit == 0, 0.0, logit)  # minus zero equals zero, but its bits differ
    bits = logit.to(tl.int32, bitcast=True)
    ordered = tl.where(bits >= 0, bits, bits ^ INT32_MAX).to(tl.int64)
    candidate = (token < vocabulary) & (token != first_forbidden) & (token != second_forbidden)
    return tl.where(candidate, (ordered << 32) | (token ^ INT32_MAX).to(tl.int64), NO_CANDIDATE)


@triton.jit
def top_k_kernel(
    logits, top_logits, top_tokens, log_z, vocabulary, first_forbidden, second_forbidden,
    COUNT: tl.constexpr, LANES: tl.constexpr, ROUNDS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """One program per row: the `COUNT` largest logits with their tokens, and log sum exp."""
    row = tl.program_id(0).to(tl.int64)
    start = logits + row * vocabulary
    lane = tl.arange(0, LANES)
    maximum = tl.full([LANES], -3e38, tl.float32)
    exp_sum = tl.zeros([LANES], tl.float32)
    best_logit = tl.full([LANES], -float("inf"), tl.float32)
    best_token = tl.full([LANES], INT32_MAX, tl.int32)
    for begin in tl.range(0, vocabulary, LANES, num_stages=STAGES):
        token = begin + lane
        x = tl.load(start + token, mask=token < vocabulary, other=-float("inf")).to(tl.float32)
        # sum of exp(x - maximum), with one exponential in either case
        decay = tl.exp(-tl.abs(x - maximum))
        exp_sum = tl.where(x > maximum, exp_sum * decay + 1.0, exp_sum + decay)
        maximum = tl.maximum(maximum, x)
        # among equals the first token stays, also if all are minus infinity
        is_better = (x > best_logit) | ((best_token == INT32_MAX) & (token < vocabulary))
        is_better = is_better & (token != first_forbidden) & (token != second_forbidden)
        best_logit, best_token = tl.where(is_better, x, best_logit), tl.where(is_better, token, best_token)
    best = sort_key(best_logit, best_token, vocabulary, first_forbidden, second_forbidden)
    row_maximum = tl.max(maximum, axis=0)
    tl.store(log_z + row, row_maximum + tl.log(tl.sum(exp_sum * tl.exp(maximum - row_maximum), axis=0)))
    for rank in range(COUNT):
        key = tl.max(best, axis=0)
        token = (key & INT32_MAX).to(tl.int32) ^ INT32_MAX
        ordered = (key >> 32).to(tl.int32)
        logit = tl.where(ordered >= 0, ordered, ordered ^ INT32_MAX).to(tl.float32, bitcast=True)
        is_empty = key == NO_CANDIDATE
        tl.store(top_logits + row * COUNT + rank, tl.where(is_empty, -float("inf"), logit))
        tl.store(top_tokens + row * COUNT + rank, tl.where(is_empty, 0, token).to(tl.int64))
        lane_tokens = token % LANES + tl.arange(0, ROUNDS) * LANES
        lane_tokens = tl.where(is_empty, vocabulary, lane_tokens)
        x = tl.load(start + lane_tokens, mask=lane_tokens < vocabulary, other=-float("inf")).to(tl.float32)
        keys = sort_key(x, lane_tokens, vocabulary, first_forbidden, second_forbidden)
        next_key = tl.max(tl.where(keys < key, keys, NO_CANDIDATE), axis=0)
        best = tl.where(lane == token % LANES, next_key, best)


class TritonKernels:
    """`Kernels` in Triton. Every method launches one kernel and does not wait for it."""

    def embed(self, tokens: Tensor, position: Tensor, embedding: TokenEmbedding, positions: Tensor) -> Tensor:
        rows, size = tokens.numel(), positions.size(1)
        out = torch.empty(rows, size, dtype=positions.dtype, device=tokens.device)
        embed_kernel[(rows,)](
            tokens, position, embedding.weight, positions, out, embedding.scale, size,
            WIDTH=tokens.size(1), BLOCK=triton.next_power_of_2(size),
        )  # fmt: skip
        return out

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor, activation: Activation | None = None) -> Tensor:
        """Few rows are bound by reading the weights once; for more, the library's product is faster."""
        is_relu, rows, pad = activation is F.relu, x.size(0), triton.next_power_of_2
        if rows <= FEW_ROWS:
            out = torch.empty(rows, weight.size(0), dtype=x.dtype, device=x.device)
            few_rows_linear_kernel[(triton.cdiv(weight.size(0), COLUMNS),)](
                x, weight, bias, out, x.stride(0), rows, *weight.shape[::-1],
                ROWS=pad(rows), COLUMNS=COLUMNS, BLOCK=pad(x.size(1)), RELU=is_relu,
                num_warps=4 if rows == 1 or x.size(1) > 1024 else 1,
            )  # fmt: skip
        else:
            out = torch._addmm_activation(bias, x, weight.T) if is_relu else F.linear(x, weight, bias)
        return out if activation is None or is_relu else activation(out)

    def top_k(self, logits: Tensor, count: int, forbidden: tuple[int, ...]) -> TopK:
        """At most two tokens can be forbidden."""
        rows, vocabulary = logits.shape
        first, second = (*forbidden, -1, -1)[:2]
        values = torch.empty(rows, count, dtype=torch.float32, device=logits.device)
        tokens = torch.empty(rows, count, dtype=torch.int64, device=logits.device)
        log_z = torch.empty(rows, dtype=torch.float32, device=logits.device)
        lanes, warps, stages = MANY_ROWS_LAUNCH if rows >= MANY_ROWS else FEW_ROWS_LAUNCH
        lanes = min(lanes, triton.next_power_of_2(vocabulary))
        rounds = triton.next_power_of_2(triton.cdiv(vocabulary, lanes))
        top_k_kernel[(rows,)](
            logits, values, tokens, log_z, vocabulary, first, second,
            COUNT=count, LANES=lanes, ROUNDS=rounds, STAGES=stages, num_warps=warps,
        )  # fmt: skip
        return TopK(values, tokens, log_z)

    def self_attention(self, q: Tensor, k: Tensor, v: Tensor, cache: SelfKV) -> Tensor:
        slots, width, heads, size = q.shape
        out = torch.empty(slots, width, heads, size, dtype=q.dtype, device=q.device)
        self_attention_kernel[(slots, heads)](
            q, k, v, _row(q), _row(k), _row(v), cache.keys, cache.values, cache.beam_ancestry, cache.position, out,
            cache.keys.size(2), size**-0.5, **_shape(heads, width, size), **SELF_ATTENTION,
        )  # fmt: skip
        return out

    def cross_attention(self, q: Tensor, source_kv: DeviceSourceKV) -> Tensor:
        slots, width, heads, size = q.shape
        out = torch.empty(slots, width, heads, size, dtype=q.dtype, device=q.device)
        cross_attention_kernel[(slots, heads)](
            q, _row(q), source_kv.keys, source_kv.values, source_kv.lengths, out,
            source_kv.keys.size(1), size**-0.5, **_shape(heads, width, size), **CROSS_ATTENTION,
        )  # fmt: skip
        return out

    def add_norm(self, x: Tensor, y: Tensor, norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
        rows, size = x.shape
        sums, normed = torch.empty_like(x), torch.empty_like(x)
        add_norm_kernel[(rows,)](
            x, y, norm.weight, norm.bias, sums, normed, size, norm.eps,
            BLOCK=triton.next_power_of_2(size), num_warps=4,
        )  # fmt: skip
        return sums, normed

    def copy_parents(self, table: Tensor, parents: Tensor, position: Tensor) -> None:
        slots, positions, width = table.shape
        copy_parents_kernel[(slots,)](
            table, parents, position, positions,
            WIDTH=width, ROWS=triton.next_power_of_2(width), BLOCK=32, num_warps=1,
        )  # fmt: skip


def _row(x: Tensor) -> int:
    """Stride from one hypothesis of (B, W, H, K) to the next. The stride of an axis of size 1 is meaningless."""
    return x.stride(1) if x.size(1) > 1 else x.stride(0)


def _shape(heads: int, width: int, size: int) -> dict[str, int]:
    """Compile-time sizes. Matrix products need at least 16 rows and columns, so smaller ones are padded."""
    pad = triton.next_power_of_2
    return dict(HEADS=heads, WIDTH=width, SIZE=size, ROWS=max(16, pad(width)), COLUMNS=max(16, pad(size)))
