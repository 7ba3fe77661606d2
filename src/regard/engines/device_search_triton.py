"""The searches of `device_search.py` for a GPU, each step's decisions in one kernel; imported only where there is one.

What beam search decides between two steps is a few dozen numbers for each sentence. In torch that is more than a
hundred kernels, each over in no time and none free. Here one program takes one slot through all of it: the candidates
best first, endings into the pool, the heirs' texts, loops, cuts, and whether to stop.

B slots, W hypotheses a slot, P places in the pool, T positions, U units of the loop guard.
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
    """Integers in the order of these floats; what is not a number comes out on top, to be seen."""
    bits = x.to(tl.int32, bitcast=True)
    return tl.where(x == x, tl.where(bits >= 0, bits, bits ^ INT32_MAX), INT32_MAX).to(tl.int64)


@triton.jit
def float_from_int(ordered):
    ordered = ordered.to(tl.int32)
    return tl.where(ordered >= 0, ordered, ordered ^ INT32_MAX).to(tl.float32, bitcast=True)


@triton.jit
def pool_insert(
    ranks, candidate, text, token, length, slot, positions, pool,
    WIDTH: tl.constexpr, POOL: tl.constexpr, PLACES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One newcomer takes the worst place of the pool, if it is better; those that finished are better than all others.

    `ranks` (P,) are the places' ranks, and are returned as they are then; `candidate` is its log probability, score and
    whether it finished and looped; its tokens are a column `text` of the history, and `token`.
    """
    log_prob, score, finished, looped = candidate
    pool_tokens, pool_length, pool_log_prob, pool_score, pool_finished, pool_looped = pool
    places = tl.arange(0, PLACES)
    rank = sortable_int(score) + finished.to(tl.int64) * FINISHED
    worst = tl.min(ranks, axis=0)
    if rank > worst:
        place = tl.max(tl.where(ranks == worst, places, 0), axis=0)
        at = slot * POOL + place
        tl.store(pool_length + at, length.to(tl.int64))
        tl.store(pool_log_prob + at, log_prob)
        tl.store(pool_score + at, score)
        tl.store(pool_finished + at, finished.to(tl.uint8))
        tl.store(pool_looped + at, looped.to(tl.uint8))
        for begin in range(0, length, BLOCK):
            t = begin + tl.arange(0, BLOCK)
            tokens = tl.load(text + t * WIDTH, mask=t < length - 1, other=0)
            tokens = tl.where(t == length - 1, token, tokens)
            tl.store(pool_tokens + at * positions + t, tokens, mask=t < length)
        ranks = tl.where(places == place, rank, ranks)
    return ranks


@triton.jit
def finish_step(slot, stop, length, next_tokens, tokens, position, done, WIDTH: tl.constexpr, ROWS: tl.constexpr):
    """To the next position; a slot that is done waits at the first. See `Slots._move`."""
    w = tl.arange(0, ROWS)
    tl.store(tokens + slot * WIDTH + w, next_tokens, mask=w < WIDTH)
    tl.store(position + slot, tl.where(stop, 0, length).to(tl.int64))
    tl.store(done + slot, stop.to(tl.uint8))


@triton.jit
def candidate_keys(live, top_logits, log_z, slot, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """All W x 2W continuations as keys: log probability above, place below, so that all differ."""
    w, c = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    row, mine = slot * WIDTH + w, w < WIDTH
    prior = tl.load(live + row, mask=mine, other=-float("inf"))
    share = tl.load(log_z + row, mask=mine, other=0.0)
    real = mine[:, None] & (c < 2 * WIDTH)[None, :]
    logits = tl.load(top_logits + row[:, None] * 2 * WIDTH + c[None, :], mask=real, other=-float("inf"))
    place = w[:, None] * 2 * WIDTH + c[None, :]
    keys = (sortable_int(prior[:, None] + (logits - share[:, None])) << 32) | (place ^ INT32_MAX).to(tl.int64)
    return tl.where(real, keys, NO_CANDIDATE)


@triton.jit
def copy_parent_tokens(
    history, next_parents, next_tokens, length, WIDTH: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """The heirs' texts and their next tokens; a row is read whole before it is written, hence the barriers."""
    w = tl.arange(0, ROWS)
    mine = (w < WIDTH)[None, :]
    for begin in range(0, length, BLOCK):
        t = begin + tl.arange(0, BLOCK)[:, None]
        old = tl.load(history + t * WIDTH + next_parents[None, :], mask=(t < length - 1) & mine, other=0)
        tl.debug_barrier()
        tl.store(
            history + t * WIDTH + w[None, :], tl.where(t == length - 1, next_tokens[None, :], old), (t < length) & mine
        )
    tl.debug_barrier()


@triton.jit
def update_loops(
    history, run_lengths, required, next_parents, next_tokens, length,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, UNITS: tl.constexpr, UNIT_ROWS: tl.constexpr,
):  # fmt: skip
    """Update the run length of every loop unit; (W,) 1 if a hypothesis loops. See `LoopCounter.advance`."""
    w, unit = tl.arange(0, ROWS), tl.arange(0, UNIT_ROWS) + 1
    before = (length - 1 - unit)[:, None]
    known = (unit <= UNITS)[:, None] & (w < WIDTH)[None, :]
    earlier = tl.load(history + before * WIDTH + w[None, :], mask=known & (before >= 0), other=-1)
    counted = run_lengths + (unit - 1)[:, None] * WIDTH
    runs = tl.load(counted + next_parents[None, :], mask=known, other=0)
    runs = tl.where(earlier == next_tokens[None, :], runs + 1, 0)
    enough = tl.load(required + unit - 1, mask=unit <= UNITS, other=1)
    tl.debug_barrier()
    tl.store(counted + w[None, :], runs, mask=known)
    return tl.max(((runs >= enough[:, None]) & known).to(tl.int32), axis=0)


@triton.jit
def beam_kernel(
    top_logits, top_tokens, log_z, live, tokens, position, max_lengths, done, parents, history, run_lengths, required,
    penalties, pool_tokens, pool_length, pool_log_prob, pool_score, pool_finished, pool_looped, positions, eos,
    WIDTH: tl.constexpr, POOL: tl.constexpr, UNITS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    PLACES: tl.constexpr, UNIT_ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One program a slot: `BeamSlots.advance`."""
    slot = tl.program_id(0).to(tl.int64)
    w, places = tl.arange(0, ROWS), tl.arange(0, PLACES)
    length = tl.load(position + slot).to(tl.int32) + 1
    limit = tl.load(max_lengths + slot).to(tl.int32)
    penalty = tl.load(penalties + length)
    text = history + slot * positions * WIDTH
    pool = (pool_tokens, pool_length, pool_log_prob, pool_score, pool_finished, pool_looped)
    ranks = sortable_int(tl.load(pool_score + slot * POOL + places, mask=places < POOL, other=float("inf")))
    ranks += tl.load(pool_finished + slot * POOL + places, mask=places < POOL, other=1).to(tl.int64) * FINISHED

    keys = candidate_keys(live, top_logits, log_z, slot, WIDTH, ROWS, COLUMNS)
    next_parents, next_tokens = tl.zeros([ROWS], tl.int64), tl.zeros([ROWS], tl.int64)
    chosen = tl.full([ROWS], -float("inf"), tl.float32)
    going = 0
    for turn in range(2 * WIDTH):  # best first: endings into the pool, the others go on
        key = tl.max(tl.max(keys, axis=1), axis=0)
        keys = tl.where(keys == key, NO_CANDIDATE, keys)
        log_prob, place = float_from_int(key >> 32), (key & INT32_MAX) ^ INT32_MAX
        parent, token = place // (2 * WIDTH), tl.load(top_tokens + slot * 2 * WIDTH * WIDTH + place)
        ends = token == eos
        ended = tl.where(ends & (turn < WIDTH), log_prob, -float("inf"))
        new = (ended, ended / penalty, ended != -float("inf"), ended > float("inf"))
        ranks = pool_insert(ranks, new, text + parent, token, length, slot, positions, pool, WIDTH, POOL, PLACES, BLOCK)
        here = (w == going) & (ends == 0)
        chosen, next_parents = tl.where(here, log_prob, chosen), tl.where(here, parent, next_parents)
        next_tokens = tl.where(here, token, next_tokens)
        going += tl.where(ends, 0, 1)

    copy_parent_tokens(text, next_parents, next_tokens, length, WIDTH, ROWS, BLOCK)
    cut = tl.zeros([ROWS], tl.int32) + (length >= limit).to(tl.int32)
    looped = tl.zeros([ROWS], tl.int32)
    if UNITS > 0:
        runs = run_lengths + slot * UNITS * WIDTH
        looped = update_loops(text, runs, required, next_parents, next_tokens, length, WIDTH, ROWS, UNITS, UNIT_ROWS)
    cut = cut | looped
    for place in range(WIDTH):  # what may not go on enters the pool as it is
        this = w == place
        is_cut, is_looped = tl.max(tl.where(this, cut, 0), axis=0), tl.max(tl.where(this, looped, 0), axis=0)
        log_prob = tl.where(is_cut > 0, tl.sum(tl.where(this, chosen, 0.0), axis=0), -float("inf"))
        token = tl.sum(tl.where(this, next_tokens, 0), axis=0)
        new = (log_prob, log_prob / penalty, is_cut < 0, is_looped > 0)
        ranks = pool_insert(ranks, new, text + place, token, length, slot, positions, pool, WIDTH, POOL, PLACES, BLOCK)

    chosen = tl.where((cut > 0) | (w >= WIDTH), -float("inf"), chosen)
    bound = tl.max(chosen, axis=0) / tl.load(penalties + limit)
    worst = tl.min(ranks, axis=0)
    # A place without a finished text ranks below all that have one, and anything may still enter it.
    stop = (bound > tl.where(worst > INT32_MAX, float_from_int(worst - FINISHED), -float("inf"))) == 0
    finish_step(slot, stop, length, next_tokens, tokens, position, done, WIDTH, ROWS)
    tl.store(live + slot * WIDTH + w, tl.where(stop, -float("inf"), chosen), mask=w < WIDTH)
    tl.store(parents + slot * WIDTH + w, next_parents, mask=w < WIDTH)


@triton.jit
def greedy_kernel(
    top_logits, top_tokens, log_z, tokens, position, max_lengths, done, history, run_lengths, required,
    out_length, out_log_prob, out_finished, out_looped, positions, eos,
    UNITS: tl.constexpr, UNIT_ROWS: tl.constexpr,
):  # fmt: skip
    """One program a slot: `GreedySlots.advance`."""
    slot = tl.program_id(0).to(tl.int64)
    if tl.load(done + slot) == 0:
        now = tl.load(position + slot)
        text = history + slot * positions
        token = tl.load(top_tokens + slot)
        gain = tl.load(top_logits + slot) - tl.load(log_z + slot)
        ends = token == eos
        looped = now < 0
        if UNITS > 0:
            unit = tl.arange(0, UNIT_ROWS) + 1
            known = unit <= UNITS
            earlier = tl.load(text + now - unit, mask=known & (now >= unit), other=-1)
            counted = run_lengths + slot * UNITS + unit - 1
            runs = tl.where(earlier == token, tl.load(counted, mask=known, other=0) + 1, 0)
            tl.store(counted, runs, mask=known)
            enough = tl.load(required + unit - 1, mask=known, other=1)
            looped = (tl.max(((runs >= enough) & known).to(tl.int32), axis=0) > 0) & (ends == 0)
        stop = ends | looped | (now + 1 >= tl.load(max_lengths + slot))
        tl.store(out_log_prob + slot, tl.load(out_log_prob + slot) + gain)
        tl.store(out_length + slot, now + 1)
        tl.store(out_finished + slot, ends.to(tl.uint8))
        tl.store(out_looped + slot, looped.to(tl.uint8))
        tl.store(text + now, token)
        tl.store(tokens + slot, token)
        tl.store(position + slot, tl.where(stop, 0, now + 1))
        tl.store(done + slot, stop.to(tl.uint8))


class TritonGreedySlots(GreedySlots):
    """`GreedySlots`, deciding in one kernel."""

    def advance(self, logits: Tensor) -> None:
        """See `SlotSearch.advance`."""
        found, symbols = self.found, self.rules.symbols
        top_k = self.kernels.top_k(logits, 1, tuple(symbols.never_produced))
        run_lengths, required, units = _loops(self)
        greedy_kernel[(self.shape.slots,)](
            top_k.logits, top_k.tokens, top_k.log_z, self.tokens, self.position, self.max_lengths, _bytes(self.done),
            self.history, run_lengths, required, found.length, found.log_prob, _bytes(found.finished),
            _bytes(found.looped), self.shape.positions, symbols.eos,
            UNITS=units, UNIT_ROWS=triton.next_power_of_2(max(1, units)), num_warps=1,
        )  # fmt: skip


class TritonBeamSlots(BeamSlots):
    """`BeamSlots`, deciding in one kernel."""

    def advance(self, logits: Tensor) -> Tensor:
        """See `SlotSearch.advance`."""
        shape, pool, symbols = self.shape, self.pool, self.rules.symbols
        top_k = self.kernels.top_k(logits, 2 * shape.width, tuple(symbols.never_produced))
        run_lengths, required, units = _loops(self)
        parents = torch.empty_like(self.tokens)
        nbest, rows = pool.score.size(1), triton.next_power_of_2(shape.width)
        beam_kernel[(shape.slots,)](
            top_k.logits, top_k.tokens, top_k.log_z, self.live, self.tokens, self.position, self.max_lengths,
            _bytes(self.done), parents, self.history, run_lengths, required, self.penalties,
            pool.tokens, pool.length, pool.log_prob, pool.score,
            _bytes(pool.finished), _bytes(pool.looped), shape.positions, symbols.eos,
            WIDTH=shape.width, POOL=nbest, UNITS=units, ROWS=rows, COLUMNS=2 * rows,
            PLACES=triton.next_power_of_2(nbest), UNIT_ROWS=triton.next_power_of_2(max(1, units)), BLOCK=32,
            num_warps=1 if rows <= 16 else 4,
        )  # fmt: skip
        return parents


def _bytes(flags: Tensor) -> Tensor:
    """The same memory, as numbers."""
    return flags.view(torch.uint8)


def _loops(search: GreedySlots | BeamSlots) -> tuple[Tensor, Tensor, int]:
    """Runs, how long they may become, and for how many units; nothing is read where there is no guard."""
    if search.loops is None:
        return search.position, search.position, 0
    return search.loops.run_lengths, search.loops.required, len(search.loops.units)
