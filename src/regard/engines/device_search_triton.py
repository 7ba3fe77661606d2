"""The searches of device_search.py for a GPU, in Triton. Imported only if there is a GPU.

Between two steps, beam search decides about a few dozen numbers for each sentence. In torch that is more than a hundred
tiny kernels. Here one kernel does it all, with one program per slot: sort the candidates, add ended ones to the pool,
copy the tokens of the parents, check loops and maximum length, and decide about early stopping.

Shapes: B slots, W hypotheses a slot, P hypotheses in the pool, T positions, U units of the loop guard.
"""

# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,no-untyped-def"
import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.engines.device_search import BeamSlots, GreedySlots

INT32_MAX = tl.constexpr(0x7FFFFFFF)
NO_CANDIDATE = tl.constexpr(-(2**63))
FINISHED = tl.constexpr(2**33)


@triton.jit
def sortable_int(x):
    """Integers that sort like these floats. NaN is the largest, so that it is not lost."""
    bits = x.to(tl.int32, bitcast=True)
    return tl.where(x == x, tl.where(bits >= 0, bits, bits ^ INT32_MAX), INT32_MAX).to(tl.int64)


@triton.jit
def float_from_int(ordered):
    """The inverse of `sortable_int`."""
    ordered = ordered.to(tl.int32)
    return tl.where(ordered >= 0, ordered, ordered ^ INT32_MAX).to(tl.float32, bitcast=True)


@triton.jit
def insert(
    ranks, candidate, column, token, length, slot, positions, pool,
    WIDTH: tl.constexpr, POOL: tl.constexpr, POOL_ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Replace the worst entry of the pool by the candidate if that is better. Finished ones are better than all others.

    `ranks` (P,) are the ranks of the entries; the new ranks are returned. `candidate` is (log P, score, finished,
    looped). Its tokens are the `column` of the history, and `token`.
    """
    log_prob, score, finished, looped = candidate
    pool_tokens, pool_length, pool_log_prob, pool_score, pool_finished, pool_looped = pool
    entries = tl.arange(0, POOL_ROWS)
    rank = sortable_int(score) + finished.to(tl.int64) * FINISHED
    worst = tl.min(ranks, axis=0)
    if rank > worst:
        index = tl.max(tl.where(ranks == worst, entries, 0), axis=0)
        entry = slot * POOL + index
        tl.store(pool_length + entry, length.to(tl.int64))
        tl.store(pool_log_prob + entry, log_prob)
        tl.store(pool_score + entry, score)
        tl.store(pool_finished + entry, finished.to(tl.uint8))
        tl.store(pool_looped + entry, looped.to(tl.uint8))
        for begin in range(0, length, BLOCK):
            t = begin + tl.arange(0, BLOCK)
            tokens = tl.load(column + t * WIDTH, mask=t < length - 1, other=0)
            tokens = tl.where(t == length - 1, token, tokens)
            tl.store(pool_tokens + entry * positions + t, tokens, mask=t < length)
        ranks = tl.where(entries == index, rank, ranks)
    return ranks


@triton.jit
def finish_step(slot, stop, length, next_tokens, tokens, position, done, WIDTH: tl.constexpr, ROWS: tl.constexpr):
    """`SlotState._finish_step`: go to the next position; a slot that is done waits at position 0."""
    w = tl.arange(0, ROWS)
    tl.store(tokens + slot * WIDTH + w, next_tokens, mask=w < WIDTH)
    tl.store(position + slot, tl.where(stop, 0, length).to(tl.int64))
    tl.store(done + slot, stop.to(tl.uint8))


@triton.jit
def candidate_keys(live, top_logits, log_z, slot, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """All W x 2W continuations as 64-bit keys: log probability above, index below, so that all differ."""
    w, c = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    row, valid = slot * WIDTH + w, w < WIDTH
    prior = tl.load(live + row, mask=valid, other=-float("inf"))
    normaliser = tl.load(log_z + row, mask=valid, other=0.0)
    exists = valid[:, None] & (c < 2 * WIDTH)[None, :]
    logits = tl.load(top_logits + row[:, None] * 2 * WIDTH + c[None, :], mask=exists, other=-float("inf"))
    index = w[:, None] * 2 * WIDTH + c[None, :]
    keys = (sortable_int(prior[:, None] + (logits - normaliser[:, None])) << 32) | (index ^ INT32_MAX).to(tl.int64)
    return tl.where(exists, keys, NO_CANDIDATE)


@triton.jit
def copy_parent_tokens(
    history, next_parents, next_tokens, length, WIDTH: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """Copy the tokens of the parents and append the next ones. The barriers make sure rows are read before written."""
    w = tl.arange(0, ROWS)
    valid = (w < WIDTH)[None, :]
    for begin in range(0, length, BLOCK):
        t = begin + tl.arange(0, BLOCK)[:, None]
        old = tl.load(history + t * WIDTH + next_parents[None, :], mask=(t < length - 1) & valid, other=0)
        tl.debug_barrier()
        tl.store(
            history + t * WIDTH + w[None, :], tl.where(t == length - 1, next_tokens[None, :], old), (t < length) & valid
        )
    tl.debug_barrier()


@triton.jit
def update_loops(
    history, run_lengths, required, next_parents, next_tokens, length,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, UNITS: tl.constexpr, UNIT_ROWS: tl.constexpr,
):  # fmt: skip
    """Update the run length of every loop unit; (W,) 1 if a hypothesis loops: `LoopCounter.advance`."""
    w, unit = tl.arange(0, ROWS), tl.arange(0, UNIT_ROWS) + 1
    before = (length - 1 - unit)[:, None]
    valid = (unit <= UNITS)[:, None] & (w < WIDTH)[None, :]
    earlier = tl.load(history + before * WIDTH + w[None, :], mask=valid & (before >= 0), other=-1)
    counters = run_lengths + (unit - 1)[:, None] * WIDTH
    runs = tl.load(counters + next_parents[None, :], mask=valid, other=0)
    runs = tl.where(earlier == next_tokens[None, :], runs + 1, 0)
    threshold = tl.load(required + unit - 1, mask=unit <= UNITS, other=1)
    tl.debug_barrier()
    tl.store(counters + w[None, :], runs, mask=valid)
    return tl.max(((runs >= threshold[:, None]) & valid).to(tl.int32), axis=0)


@triton.jit
def beam_kernel(
    top_logits, top_tokens, log_z, live, tokens, position, max_lengths, done, parents, history, run_lengths, required,
    penalties, pool_tokens, pool_length, pool_log_prob, pool_score, pool_finished, pool_looped, positions, eos,
    WIDTH: tl.constexpr, POOL: tl.constexpr, UNITS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    POOL_ROWS: tl.constexpr, UNIT_ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One program per slot: `BeamSlots.advance`."""
    slot = tl.program_id(0).to(tl.int64)
    w, entries = tl.arange(0, ROWS), tl.arange(0, POOL_ROWS)
    length = tl.load(position + slot).to(tl.int32) + 1
    max_length = tl.load(max_lengths + slot).to(tl.int32)
    penalty = tl.load(penalties + length)
    base = history + slot * positions * WIDTH
    pool = (pool_tokens, pool_length, pool_log_prob, pool_score, pool_finished, pool_looped)
    ranks = sortable_int(tl.load(pool_score + slot * POOL + entries, mask=entries < POOL, other=float("inf")))
    ranks += tl.load(pool_finished + slot * POOL + entries, mask=entries < POOL, other=1).to(tl.int64) * FINISHED

    keys = candidate_keys(live, top_logits, log_z, slot, WIDTH, ROWS, COLUMNS)
    next_parents, next_tokens = tl.zeros([ROWS], tl.int64), tl.zeros([ROWS], tl.int64)
    log_probs = tl.full([ROWS], -float("inf"), tl.float32)
    count = 0
    for rank in range(2 * WIDTH):  # best first: ended ones into the pool, the others continue
        key = tl.max(tl.max(keys, axis=1), axis=0)
        keys = tl.where(keys == key, NO_CANDIDATE, keys)
        log_prob, index = float_from_int(key >> 32), (key & INT32_MAX) ^ INT32_MAX
        parent, token = index // (2 * WIDTH), tl.load(top_tokens + slot * 2 * WIDTH * WIDTH + index)
        ends = token == eos
        ended = tl.where(ends & (rank < WIDTH), log_prob, -float("inf"))
        new = (ended, ended / penalty, ended != -float("inf"), ended > float("inf"))
        ranks = insert(ranks, new, base + parent, token, length, slot, positions, pool, WIDTH, POOL, POOL_ROWS, BLOCK)
        is_next = (w == count) & (ends == 0)
        log_probs, next_parents = tl.where(is_next, log_prob, log_probs), tl.where(is_next, parent, next_parents)
        next_tokens = tl.where(is_next, token, next_tokens)
        count += tl.where(ends, 0, 1)

    copy_parent_tokens(base, next_parents, next_tokens, length, WIDTH, ROWS, BLOCK)
    cut = tl.zeros([ROWS], tl.int32) + (length >= max_length).to(tl.int32)
    looped = tl.zeros([ROWS], tl.int32)
    if UNITS > 0:
        runs = run_lengths + slot * UNITS * WIDTH
        looped = update_loops(base, runs, required, next_parents, next_tokens, length, WIDTH, ROWS, UNITS, UNIT_ROWS)
    cut = cut | looped
    for index in range(WIDTH):  # truncated hypotheses enter the pool
        selected = w == index
        is_cut, is_looped = tl.max(tl.where(selected, cut, 0), axis=0), tl.max(tl.where(selected, looped, 0), axis=0)
        log_prob = tl.where(is_cut > 0, tl.sum(tl.where(selected, log_probs, 0.0), axis=0), -float("inf"))
        token = tl.sum(tl.where(selected, next_tokens, 0), axis=0)
        new = (log_prob, log_prob / penalty, is_cut < 0, is_looped > 0)
        ranks = insert(ranks, new, base + index, token, length, slot, positions, pool, WIDTH, POOL, POOL_ROWS, BLOCK)

    log_probs = tl.where((cut > 0) | (w >= WIDTH), -float("inf"), log_probs)
    bound = tl.max(log_probs, axis=0) / tl.load(penalties + max_length)
    worst = tl.min(ranks, axis=0)
    # An entry without a finished hypothesis ranks below all others, and any hypothesis may still replace it.
    stop = (bound > tl.where(worst > INT32_MAX, float_from_int(worst - FINISHED), -float("inf"))) == 0
    finish_step(slot, stop, length, next_tokens, tokens, position, done, WIDTH, ROWS)
    tl.store(live + slot * WIDTH + w, tl.where(stop, -float("inf"), log_probs), mask=w < WIDTH)
    tl.store(parents + slot * WIDTH + w, next_parents, mask=w < WIDTH)


@triton.jit
def greedy_kernel(
    top_logits, top_tokens, log_z, tokens, position, max_lengths, done, history, run_lengths, required,
    out_length, out_log_prob, out_finished, out_looped, positions, eos,
    UNITS: tl.constexpr, UNIT_ROWS: tl.constexpr,
):  # fmt: skip
    """One program per slot: `GreedySlots.advance`."""
    slot = tl.program_id(0).to(tl.int64)
    if tl.load(done + slot) == 0:
        newest = tl.load(position + slot)
        column = history + slot * positions
        token = tl.load(top_tokens + slot)
        log_prob = tl.load(top_logits + slot) - tl.load(log_z + slot)
        ends = token == eos
        looped = newest < 0
        if UNITS > 0:
            unit = tl.arange(0, UNIT_ROWS) + 1
            valid = unit <= UNITS
            earlier = tl.load(column + newest - unit, mask=valid & (newest >= unit), other=-1)
            counters = run_lengths + slot * UNITS + unit - 1
            runs = tl.where(earlier == token, tl.load(counters, mask=valid, other=0) + 1, 0)
            tl.store(counters, runs, mask=valid)
            threshold = tl.load(required + unit - 1, mask=valid, other=1)
            looped = (tl.max(((runs >= threshold) & valid).to(tl.int32), axis=0) > 0) & (ends == 0)
        stop = ends | looped | (newest + 1 >= tl.load(max_lengths + slot))
        tl.store(out_log_prob + slot, tl.load(out_log_prob + slot) + log_prob)
        tl.store(out_length + slot, newest + 1)
        tl.store(out_finished + slot, ends.to(tl.uint8))
        tl.store(out_looped + slot, looped.to(tl.uint8))
        tl.store(column + newest, token)
        tl.store(tokens + slot, token)
        tl.store(position + slot, tl.where(stop, 0, newest + 1))
        tl.store(done + slot, stop.to(tl.uint8))


class TritonGreedySlots(GreedySlots):
    """`GreedySlots` with one kernel for all decisions of a step."""

    def advance(self, logits: Tensor) -> None:
        batch, symbols = self.batch, self.rules.symbols
        top = self.kernels.top_k(logits, 1, tuple(symbols.never_produced))
        run_lengths, required, units = _loop_counters(self)
        greedy_kernel[(self.shape.slots,)](
            top.logits, top.tokens, top.log_z, self.tokens, self.position, self.max_lengths, _bytes(self.done),
            self.history, run_lengths, required, batch.length, batch.log_prob, _bytes(batch.finished),
            _bytes(batch.looped), self.shape.positions, symbols.eos,
            UNITS=units, UNIT_ROWS=triton.next_power_of_2(max(1, units)), num_warps=1,
        )  # fmt: skip


class TritonBeamSlots(BeamSlots):
    """`BeamSlots` with one kernel for all decisions of a step."""

    def advance(self, logits: Tensor) -> Tensor:
        shape, pool, symbols = self.shape, self.pool, self.rules.symbols
        top = self.kernels.top_k(logits, 2 * shape.width, tuple(symbols.never_produced))
        run_lengths, required, units = _loop_counters(self)
        parents = torch.empty_like(self.tokens)
        nbest, rows = pool.score.size(1), triton.next_power_of_2(shape.width)
        beam_kernel[(shape.slots,)](
            top.logits, top.tokens, top.log_z, self.live, self.tokens, self.position, self.max_lengths,
            _bytes(self.done), parents, self.history, run_lengths, required, self.penalties,
            pool.tokens, pool.length, pool.log_prob, pool.score,
            _bytes(pool.finished), _bytes(pool.looped), shape.positions, symbols.eos,
            WIDTH=shape.width, POOL=nbest, UNITS=units, ROWS=rows, COLUMNS=2 * rows,
            POOL_ROWS=triton.next_power_of_2(nbest), UNIT_ROWS=triton.next_power_of_2(max(1, units)), BLOCK=32,
            num_warps=1 if rows <= 16 else 4,
        )  # fmt: skip
        return parents


def _bytes(flags: Tensor) -> Tensor:
    return flags.view(torch.uint8)


def _loop_counters(search: GreedySlots | BeamSlots) -> tuple[Tensor, Tensor, int]:
    """Run lengths, their limits and the number of units; 0 units without a loop guard, and then nothing is read."""
    if search.loops is None:
        return search.position, search.position, 0
    return search.loops.run_lengths, search.loops.required, len(search.loops.units)
