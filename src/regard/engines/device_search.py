"""Greedy and beam search over slots: the rules of `decoding`, without ever asking what the numbers are.

A search in `decoding` looks at its tensors after every step: is a sentence done, did anything end? Each look makes the
device wait for the host. Here everything a step decides stays on the device, in buffers of fixed shape; the host sees
nothing but `done`, and later. Three things replace the looks:

- a slot whose sentence is done has no live hypothesis, and what is dead changes nothing;
- the pool takes newcomers at every step; those that did not end score minus infinity and do not get in;
- loops are counted as they grow: how many tokens in a row have equalled the one u before, for every unit u.

B slots, W hypotheses a slot, N = B W rows, P places in the pool, T positions, U units, V vocabulary.
"""

from dataclasses import fields
from typing import Protocol

import torch
from torch import Tensor

from regard.decoding.constraints import LoopGuard, Rules
from regard.decoding.hypothesis import NEG_INF, HypothesisBatch, length_penalty
from regard.engines.device_decoder import SlotShape
from regard.engines.device_kernels import Kernels


class SlotSearch(Protocol):
    """What decides, between two steps of a decoder, which tokens come next."""

    tokens: Tensor  # (B, W) the newest
    position: Tensor  # (B,) where they stand
    done: Tensor  # (B,) bool: this slot's sentence is decided, or it has none

    def prefill(self, slots: Tensor, max_new_tokens: Tensor) -> None:
        """Sentences with these limits (n,) begin in these slots (n,)."""
        ...

    def advance(self, logits: Tensor) -> Tensor | None:
        """Choose the next tokens by logits (N, V); return the parents (B, W) of the hypotheses where they change."""
        ...

    def texts(self, slots: Tensor) -> HypothesisBatch:
        """What was found in these slots (n,), which are done."""
        ...


class LoopCounter:
    """`LoopGuard` counting as it goes: run[b, u, w] tokens in a row have equalled the one u before them."""

    def __init__(self, guard: LoopGuard, slots: int, width: int, device: torch.device) -> None:
        self.units = torch.arange(1, guard.max_unit + 1, device=device)
        repeats = ((guard.min_tokens + self.units - 1) // self.units).clamp(min=guard.min_repeats)
        self.required = (self.units * (repeats - 1))[:, None]
        self.run_lengths = torch.zeros(slots, guard.max_unit, width, dtype=torch.int64, device=device)

    def advance(self, history: Tensor, tokens: Tensor, position: Tensor, parents: Tensor | None) -> Tensor:
        """history (B, T, W), tokens (B, W) written at `position` (B,) -> (B, W) bool: looping now."""
        before = position[:, None] - self.units  # (B, U)
        earlier = history.gather(1, before.clamp(min=0)[:, :, None].expand_as(self.run_lengths))
        again = (earlier == tokens[:, None]) & (before >= 0)[:, :, None]
        run_lengths = (
            self.run_lengths
            if parents is None
            else self.run_lengths.gather(2, parents[:, None].expand_as(self.run_lengths))
        )
        self.run_lengths.copy_((run_lengths + 1) * again)
        return (self.run_lengths >= self.required).any(dim=1)


class Slots:
    """What both searches keep for every slot."""

    def __init__(self, shape: SlotShape, rules: Rules, kernels: Kernels, device: torch.device) -> None:
        def integers(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.int64, device=device)

        self.rules, self.kernels, self.shape = rules, kernels, shape
        self.tokens = integers(shape.slots, shape.width)
        self.position = integers(shape.slots)
        self.max_lengths = integers(shape.slots) + 1
        self.done = torch.ones(shape.slots, dtype=torch.bool, device=device)
        self.history = integers(shape.slots, shape.positions, shape.width)
        self.steps = torch.arange(shape.positions, device=device)[:, None]
        # lp(Y) of a text of so many tokens; nothing is computed anew at every step.
        self.penalties = length_penalty(torch.arange(shape.positions + 1, device=device), rules.alpha)
        guard = rules.loop_guard
        self.loops = None if guard is None else LoopCounter(guard, shape.slots, shape.width, device)
        self.never = torch.zeros(shape.slots, shape.width, dtype=torch.bool, device=device)

    def prefill(self, slots: Tensor, max_new_tokens: Tensor) -> None:
        """See `SlotSearch.prefill`."""
        self.tokens.index_fill_(0, slots, self.rules.symbols.bos)
        self.position.index_fill_(0, slots, 0)
        self.max_lengths.index_copy_(0, slots, max_new_tokens)
        self.done.index_fill_(0, slots, False)
        if self.loops is not None:
            self.loops.run_lengths.index_fill_(0, slots, 0)

    def _looped(self, history: Tensor, tokens: Tensor, parents: Tensor | None = None) -> Tensor:
        if self.loops is None:
            return self.never
        return self.loops.advance(history, tokens, self.position, parents)

    def _move(self, tokens: Tensor, history: Tensor, done: Tensor) -> None:
        """To the next position; a slot that is done waits at the first, where a step costs it least."""
        self.tokens.copy_(tokens)
        self.history.copy_(history)
        self.position.copy_((self.position + 1).masked_fill(done, 0))
        self.done.copy_(done)


class GreedySlots(Slots):
    """See `decoding.greedy`: the likeliest token, until the end, the limit or a loop."""

    def __init__(self, shape: SlotShape, rules: Rules, kernels: Kernels, device: torch.device) -> None:
        super().__init__(shape, rules, kernels, device)
        self.found = _buffers(HypothesisBatch.blank(shape.slots, 1, device), self.history.transpose(1, 2))

    def prefill(self, slots: Tensor, max_new_tokens: Tensor) -> None:
        """See `SlotSearch.prefill`."""
        super().prefill(slots, max_new_tokens)
        for column in (self.found.length, self.found.log_prob, self.found.finished, self.found.looped):
            column.index_fill_(0, slots, 0)

    def advance(self, logits: Tensor) -> None:
        """See `SlotSearch.advance`; nobody changes places."""
        found, symbols = self.found, self.rules.symbols
        top_k = self.kernels.top_k(logits, 1, tuple(symbols.never_produced))
        going = ~self.done[:, None]
        found.log_prob.add_((top_k.logits - top_k.log_z[:, None]).masked_fill(~going, 0.0))
        found.length.add_(going)
        here = (self.steps == self.position[:, None, None]) & going[:, None]
        history = torch.where(here, top_k.tokens[:, None], self.history)
        ended = going & (top_k.tokens == symbols.eos)
        looped = self._looped(history, top_k.tokens) & going & ~ended
        found.finished.logical_or_(ended)
        found.looped.logical_or_(looped)
        done = self.done | (ended | looped)[:, 0] | (self.position + 1 >= self.max_lengths)
        self._move(top_k.tokens, history, done)

    def texts(self, slots: Tensor) -> HypothesisBatch:
        """See `SlotSearch.texts`."""
        found = self.found.keep(slots)
        return found.but(score=found.log_prob / length_penalty(found.length, self.rules.alpha))


class BeamSlots(Slots):
    """See `decoding.beam`: 2W candidates, endings into the pool, stop when nothing live can still enter it."""

    def __init__(self, shape: SlotShape, rules: Rules, kernels: Kernels, device: torch.device, nbest: int) -> None:
        super().__init__(shape, rules, kernels, device)
        self.live = torch.full((shape.slots, shape.width), NEG_INF, device=device)
        tokens = torch.zeros(shape.slots, nbest, shape.positions, dtype=torch.int64, device=device)
        self.pool = _buffers(HypothesisBatch.blank(shape.slots, nbest, device, log_prob=NEG_INF), tokens)

    def prefill(self, slots: Tensor, max_new_tokens: Tensor) -> None:
        """See `SlotSearch.prefill`: one hypothesis, the empty one; the first step widens it."""
        super().prefill(slots, max_new_tokens)
        self.live.index_fill_(0, slots, NEG_INF)
        self.live[:, 0].index_fill_(0, slots, 0.0)
        for column in (self.pool.log_prob, self.pool.score):
            column.index_fill_(0, slots, NEG_INF)
        for column in (self.pool.length, self.pool.finished, self.pool.looped):
            column.index_fill_(0, slots, 0)

    def advance(self, logits: Tensor) -> Tensor:
        """See `SlotSearch.advance`, and `decoding.beam.beam_search` for every line of it."""
        width = self.shape.width
        log_prob, parents, tokens = self._candidates(logits)
        ending = tokens == self.rules.symbols.eos
        ended = log_prob.masked_fill(~ending, NEG_INF)[:, :width]
        live, chosen = log_prob.masked_fill(ending, NEG_INF).topk(width, dim=1)
        next_parents, next_tokens = parents.gather(1, chosen), tokens.gather(1, chosen)

        inherited = self.history.gather(2, next_parents[:, None].expand_as(self.history))
        new_history = torch.where(self.steps == self.position[:, None, None], next_tokens[:, None], inherited)
        looped = self._looped(new_history, next_tokens, next_parents)
        cut = looped | (self.position + 1 >= self.max_lengths)[:, None]
        self._collect(ended, parents[:, :width], tokens[:, :width], self.never, finished=True)
        self._collect(live.masked_fill(~cut, NEG_INF), next_parents, next_tokens, looped, finished=False)

        live = live.masked_fill(cut, NEG_INF)
        bound = live.amax(dim=1) / self.penalties[self.max_lengths]
        done = ~(bound > self.pool.worst_finished())
        self.live.copy_(live.masked_fill(done[:, None], NEG_INF))
        self._move(next_tokens, new_history, done)
        return next_parents

    def _candidates(self, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The 2W best continuations of each slot, of the 2W best of each hypothesis: log P, parents, tokens."""
        slots, count = self.shape.slots, 2 * self.shape.width
        top_k = self.kernels.top_k(logits, count, tuple(self.rules.symbols.never_produced))
        scores = self.live.view(-1, 1) + (top_k.logits - top_k.log_z[:, None])
        log_prob, place = scores.view(slots, -1).topk(count, dim=1)
        return log_prob, place // count, top_k.tokens.view(slots, -1).gather(1, place)

    def _collect(self, log_prob: Tensor, parents: Tensor, tokens: Tensor, looped: Tensor, *, finished: bool) -> None:
        """The candidates that are not dead (B, W) enter the pool, if there is a place for them."""
        here = log_prob != NEG_INF
        score = log_prob / self.penalties[self.position + 1][:, None]
        length = (self.position + 1)[:, None].expand_as(tokens)
        texts = self.history.gather(2, parents[:, None].expand_as(self.history))
        texts = torch.where(self.steps == self.position[:, None, None], tokens[:, None], texts).transpose(1, 2)
        candidates = HypothesisBatch(texts, length, log_prob, score, here & finished, looped & here)
        merged = self.pool.merge(candidates)
        for field in fields(HypothesisBatch):
            getattr(self.pool, field.name).copy_(getattr(merged, field.name))

    def texts(self, slots: Tensor) -> HypothesisBatch:
        """See `SlotSearch.texts`: what ended, and what was cut where nothing did."""
        return self.pool.keep(slots)


def _buffers(texts: HypothesisBatch, tokens: Tensor) -> HypothesisBatch:
    """Texts whose columns can be written to: each has memory of its own, and `tokens` is where the tokens go."""
    return HypothesisBatch(tokens, *(getattr(texts, field.name).clone() for field in fields(HypothesisBatch)[1:]))
