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

LAST = tl.constexpr(0x7FFFFFFF)
NOTHING = tl.constexpr(-(2**63))
FINISHED = tl.constexpr(2**33)


@triton.jit
def order_of(x):
    """Integers in the order of these floats; what is not a number comes out on top, to be seen."""
    bits = x.to(tl.int32, bitcast=True)
    return tl.where(x == x, tl.where(bits >= 0, bits, bits ^ LAST), LAST).to(tl.int64)


@triton.jit
def float_of(ordered):
    ordered = ordered.to(tl.int32)
    return tl.where(ordered >= 0, ordered, ordered ^ LAST).to(tl.float32, bitcast=True)


@triton.jit
def enter(
    ranks, newcomer, text, token, length, slot, positions, pool,
    WIDTH: tl.constexpr, POOL: tl.constexpr, PLACES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One newcomer takes the worst place of the pool, if it is better; those that finished are better than all others.

    `ranks` (P,) are the places' ranks, and are returned as they are then; `newcomer` is its log probability, score and
    whether it finished and looped; its tokens are a column `text` of the history, and `token`.
    """
    log_prob, score, finished, looped = newcomer
    pool_tokens, pool_length, pool_log_prob, pool_score, pool_finished, pool_looped = pool
    places = tl.arange(0, PLACES)
    rank = order_of(score) + finished.to(tl.int64) * FINISHED
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
def settle(slot, stop, length, nexts, tokens, position, done, WIDTH: tl.constexpr, ROWS: tl.constexpr):
    """To the next position; a slot that is done waits at the first. See `Slots._move`."""
    w = tl.arange(0, ROWS)
    tl.store(tokens + slot * WIDTH + w, nexts, mask=w < WIDTH)
    tl.store(position + slot, tl.where(stop, 0, length).to(tl.int64))
    tl.store(done + slot, stop.to(tl.uint8))


@triton.jit
def candidates_of(live, top_logits, mass, slot, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """All W x 2W continuations as keys: log probability above, place below, so that all differ."""
    w, c = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    row, mine = slot * WIDTH + w, w < WIDTH
    prior = tl.load(live + row, mask=mine, other=-float("inf"))
    share = tl.load(mass + row, mask=mine, other=0.0)
    real = mine[:, None] & (c < 2 * WIDTH)[None, :]
    logits = tl.load(top_logits + row[:, None] * 2 * WIDTH + c[None, :], mask=real, other=-float("inf"))
    place = w[:, None] * 2 * WIDTH + c[None, :]
    keys = (order_of(prior[:, None] + (logits - share[:, None])) << 32) | (place ^ LAST).to(tl.int64)
    return tl.where(real, keys, NOTHING)


@triton.jit
def inherit_texts(history, heirs, nexts, length, WIDTH: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """The heirs' texts and their next tokens; a row is read whole before it is written, hence the barriers."""
    w = tl.arange(0, ROWS)
    mine = (w < WIDTH)[None, :]
    for begin in range(0, length, BLOCK):
        t = begin + tl.arange(0, BLOCK)[:, None]
        old = tl.load(history + t * WIDTH + heirs[None, :], mask=(t < length - 1) & mine, other=0)
        tl.debug_barrier()
        tl.store(history + t * WIDTH + w[None, :], tl.where(t == length - 1, nexts[None, :], old), (t < length) & mine)
    tl.debug_barrier()


@triton.jit
def loops_of(
    history, run, needed, heirs, nexts, length,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, UNITS: tl.constexpr, UNIT_ROWS: tl.constexpr,
):  # fmt: skip
    """Count on how long each heir has repeated each unit; (W,) whether that is long enough. See `Loops.advance`."""
    w, unit = tl.arange(0, ROWS), tl.arange(0, UNIT_ROWS) + 1
    before = (length - 1 - unit)[:, None]
    known = (unit <= UNITS)[:, None] & (w < WIDTH)[None, :]
    earlier = tl.load(history + before * WIDTH + w[None, :], mask=known & (before >= 0), other=-1)
    counted = run + (unit - 1)[:, None] * WIDTH
    runs = tl.load(counted + heirs[None, :], mask=known, other=0)
    runs = tl.where(earlier == nexts[None, :], runs + 1, 0)
    enough = tl.load(needed + unit - 1, mask=unit <= UNITS, other=1)
    tl.debug_barrier()
    tl.store(counted + w[None, :], runs, mask=known)
    return tl.max(((runs >= enough[:, None]) & known).to(tl.int32), axis=0)


@triton.jit
def beam_kernel(
    top_logits, top_tokens, mass, live, tokens, position, totals, done, parents, history, run, needed, penalties,
    pool_tokens, pool_length, pool_log_prob, pool_score, pool_finished, pool_looped, positions, eos,
    WIDTH: tl.constexpr, POOL: tl.constexpr, UNITS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    PLACES: tl.constexpr, UNIT_ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One program a slot: `BeamSlots.advance`."""
    slot = tl.program_id(0).to(tl.int64)
    w, places = tl.arange(0, ROWS), tl.arange(0, PLACES)
    length = tl.load(position + slot).to(tl.int32) + 1
    limit = tl.load(totals + slot).to(tl.int32)
    penalty = tl.load(penalties + length)
    text = history + slot * positions * WIDTH
    pool = (pool_tokens, pool_length, pool_log_prob, pool_score, pool_finished, pool_looped)
    ranks = order_of(tl.load(pool_score + slot * POOL + places, mask=places < POOL, other=float("inf")))
    ranks += tl.load(pool_finished + slot * POOL + places, mask=places < POOL, other=1).to(tl.int64) * FINISHED

    keys = candidates_of(live, top_logits, mass, slot, WIDTH, ROWS, COLUMNS)
    heirs, nexts = tl.zeros([ROWS], tl.int64), tl.zeros([ROWS], tl.int64)
    chosen = tl.full([ROWS], -float("inf"), tl.float32)
    going = 0
    for turn in range(2 * WIDTH):  # best first: endings into the pool, the others go on
        key = tl.max(tl.max(keys, axis=1), axis=0)
        keys = tl.where(keys == key, NOTHING, keys)
        log_prob, place = float_of(key >> 32), (key & LAST) ^ LAST
        parent, token = place // (2 * WIDTH), tl.load(top_tokens + slot * 2 * WIDTH * WIDTH + place)
        ends = token == eos
        ended = tl.where(ends & (turn < WIDTH), log_prob, -float("inf"))
        newcomer = (ended, ended / penalty, ended != -float("inf"), ended > float("inf"))
        ranks = enter(ranks, newcomer, text + parent, token, length, slot, positions, pool, WIDTH, POOL, PLACES, BLOCK)
        here = (w == going) & (ends == 0)
        chosen, heirs = tl.where(here, log_prob, chosen), tl.where(here, parent, heirs)
        nexts = tl.where(here, token, nexts)
        going += tl.where(ends, 0, 1)

    inherit_texts(text, heirs, nexts, length, WIDTH, ROWS, BLOCK)
    cut = tl.zeros([ROWS], tl.int32) + (length >= limit).to(tl.int32)
    looped = tl.zeros([ROWS], tl.int32)
    if UNITS > 0:
        looped = loops_of(text, run + slot * UNITS * WIDTH, needed, heirs, nexts, length, WIDTH, ROWS, UNITS, UNIT_ROWS)
    cut = cut | looped
    for place in range(WIDTH):  # what may not go on enters the pool as it is
        this = w == place
        is_cut, is_looped = tl.max(tl.where(this, cut, 0), axis=0), tl.max(tl.where(this, looped, 0), axis=0)
        log_prob = tl.where(is_cut > 0, tl.sum(tl.where(this, chosen, 0.0), axis=0), -float("inf"))
        token = tl.sum(tl.where(this, nexts, 0), axis=0)
        newcomer = (log_prob, log_prob / penalty, is_cut < 0, is_looped > 0)
        ranks = enter(ranks, newcomer, text + place, token, length, slot, positions, pool, WIDTH, POOL, PLACES, BLOCK)

    chosen = tl.where((cut > 0) | (w >= WIDTH), -float("inf"), chosen)
    bound = tl.max(chosen, axis=0) / tl.load(penalties + limit)
    worst = tl.min(ranks, axis=0)
    # A place without a finished text ranks below all that have one, and anything may still enter it.
    stop = (bound > tl.where(worst > LAST, float_of(worst - FINISHED), -float("inf"))) == 0
    settle(slot, stop, length, nexts, tokens, position, done, WIDTH, ROWS)
    tl.store(live + slot * WIDTH + w, tl.where(stop, -float("inf"), chosen), mask=w < WIDTH)
    tl.store(parents + slot * WIDTH + w, heirs, mask=w < WIDTH)


@triton.jit
def greedy_kernel(
    top_logits, top_tokens, mass, tokens, position, totals, done, history, run, needed,
    found_length, found_log_prob, found_finished, found_looped, positions, eos,
    UNITS: tl.constexpr, UNIT_ROWS: tl.constexpr,
):  # fmt: skip
    """One program a slot: `GreedySlots.advance`."""
    slot = tl.program_id(0).to(tl.int64)
    if tl.load(done + slot) == 0:
        now = tl.load(position + slot)
        text = history + slot * positions
        token = tl.load(top_tokens + slot)
        gain = tl.load(top_logits + slot) - tl.load(mass + slot)
        ends = token == eos
        looped = now < 0
        if UNITS > 0:
            unit = tl.arange(0, UNIT_ROWS) + 1
            known = unit <= UNITS
            earlier = tl.load(text + now - unit, mask=known & (now >= unit), other=-1)
            counted = run + slot * UNITS + unit - 1
            runs = tl.where(earlier == token, tl.load(counted, mask=known, other=0) + 1, 0)
            tl.store(counted, runs, mask=known)
            enough = tl.load(needed + unit - 1, mask=known, other=1)
            looped = (tl.max(((runs >= enough) & known).to(tl.int32), axis=0) > 0) & (ends == 0)
        stop = ends | looped | (now + 1 >= tl.load(totals + slot))
        tl.store(found_log_prob + slot, tl.load(found_log_prob + slot) + gain)
        tl.store(found_length + slot, now + 1)
        tl.store(found_finished + slot, ends.to(tl.uint8))
        tl.store(found_looped + slot, looped.to(tl.uint8))
        tl.store(text + now, token)
        tl.store(tokens + slot, token)
        tl.store(position + slot, tl.where(stop, 0, now + 1))
        tl.store(done + slot, stop.to(tl.uint8))


class GreedyKernelSlots(GreedySlots):
    """`GreedySlots`, deciding in one kernel."""

    def advance(self, logits: Tensor) -> None:
        """See `SlotSearch.advance`."""
        found, symbols = self.found, self.rules.symbols
        top = self.kernels.top(logits, 1, tuple(symbols.never_produced))
        run, needed, units = _loops(self)
        greedy_kernel[(self.room.slots,)](
            top.logits, top.tokens, top.mass, self.tokens, self.position, self.totals, _bytes(self.done), self.history,
            run, needed, found.length, found.log_prob, _bytes(found.finished), _bytes(found.looped),
            self.room.positions, symbols.eos, UNITS=units, UNIT_ROWS=triton.next_power_of_2(max(1, units)), num_warps=1,
        )  # fmt: skip


class BeamKernelSlots(BeamSlots):
    """`BeamSlots`, deciding in one kernel."""

    def advance(self, logits: Tensor) -> Tensor:
        """See `SlotSearch.advance`."""
        room, pool, symbols = self.room, self.pool, self.rules.symbols
        top = self.kernels.top(logits, 2 * room.width, tuple(symbols.never_produced))
        run, needed, units = _loops(self)
        parents = torch.empty_like(self.tokens)
        nbest, rows = pool.score.size(1), triton.next_power_of_2(room.width)
        beam_kernel[(room.slots,)](
            top.logits, top.tokens, top.mass, self.live, self.tokens, self.position, self.totals, _bytes(self.done),
            parents, self.history, run, needed, self.penalties, pool.tokens, pool.length, pool.log_prob, pool.score,
            _bytes(pool.finished), _bytes(pool.looped), room.positions, symbols.eos,
            WIDTH=room.width, POOL=nbest, UNITS=units, ROWS=rows, COLUMNS=2 * rows,
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
    return search.loops.run, search.loops.needed, len(search.loops.units)
