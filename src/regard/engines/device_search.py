"""Greedy and beam search over slots: the same searches as in `decoding`, without any transfer to the host.

A search in `decoding` reads its tensors after every step: is a sentence done, did a hypothesis end? Each read makes the
device wait for the host. Here all decisions of a step stay on the device, in buffers of fixed shape. The host reads
only `done`, and later. Three things replace the reads:

- a slot whose sentence is done has no live hypothesis, so further steps change nothing;
- the pool is updated in every step; candidates that did not end have score minus infinity and never enter;
- loops are counted incrementally: for every unit u, how many tokens in a row are equal to the token u before them.

Shapes: B slots, W hypotheses a slot, N = B W rows, P hypotheses in the pool, T positions, U units, V vocabulary.
"""

from dataclasses import fields, replace
from typing import Protocol

import torch
from torch import Tensor

from regard.decoding.constraints import LoopGuard, Rules
from regard.decoding.hypothesis import NEG_INF, HypothesisBatch, length_penalty
from regard.engines.device_decoder import SlotShape
from regard.engines.device_kernels import Kernels


class SearchSlots(Protocol):
    """Selects the next tokens between two steps of the decoder."""

    tokens: Tensor  # (B, W) the newest tokens
    position: Tensor  # (B,) their positions
    done: Tensor  # (B,) bool: True if the sentence of this slot is done, or the slot is empty

    def prefill(self, slots: Tensor, max_new_tokens: Tensor) -> None:
        """Start sentences with these maximum lengths (n,) in these slots (n,)."""

    def advance(self, logits: Tensor) -> Tensor | None:
        """Select the next tokens from logits (N, V); return the parents (B, W) of the hypotheses if they change."""

    def hypotheses(self, slots: Tensor) -> HypothesisBatch:
        """The hypotheses of these slots (n,), which are done."""


class LoopCounter:
    """An incremental `LoopGuard`: run_lengths[b, u, w] tokens in a row are equal to the token u before them."""

    def __init__(self, guard: LoopGuard, slots: int, width: int, device: torch.device) -> None:
        self.units = torch.arange(1, guard.max_unit + 1, device=device)
        repeats = ((guard.min_tokens + self.units - 1) // self.units).clamp(min=guard.min_repeats)
        self.required = (self.units * (repeats - 1))[:, None]
        self.run_lengths = torch.zeros(slots, guard.max_unit, width, dtype=torch.int64, device=device)

    def advance(self, history: Tensor, tokens: Tensor, position: Tensor, parents: Tensor | None) -> Tensor:
        """History (B, T, W), tokens (B, W) at `position` (B,) -> (B, W) bool: True if the hypothesis loops."""
        before = position[:, None] - self.units  # (B, U)
        earlier = history.gather(1, before.clamp(min=0)[:, :, None].expand_as(self.run_lengths))
        repeated = (earlier == tokens[:, None]) & (before >= 0)[:, :, None]
        runs = self.run_lengths
        if parents is not None:
            runs = runs.gather(2, parents[:, None].expand_as(runs))
        self.run_lengths.copy_((runs + 1) * repeated)
        return (self.run_lengths >= self.required).any(dim=1)


class SlotState:
    """The buffers that both searches need for every slot."""

    def __init__(self, shape: SlotShape, rules: Rules, kernels: Kernels, device: torch.device) -> None:
        def integers(*size: int) -> Tensor:
            return torch.zeros(size, dtype=torch.int64, device=device)

        self.rules, self.kernels, self.shape = rules, kernels, shape
        self.tokens = integers(shape.slots, shape.width)
        self.position = integers(shape.slots)
        self.max_lengths = integers(shape.slots) + 1
        self.done = torch.ones(shape.slots, dtype=torch.bool, device=device)
        self.history = integers(shape.slots, shape.positions, shape.width)
        self.steps = torch.arange(shape.positions, device=device)[:, None]
        # lp(Y) for every length, computed once.
        self.penalties = length_penalty(torch.arange(shape.positions + 1, device=device), rules.alpha)
        guard = rules.loop_guard
        self.loops = None if guard is None else LoopCounter(guard, shape.slots, shape.width, device)
        self.no_loops = torch.zeros(shape.slots, shape.width, dtype=torch.bool, device=device)

    def prefill(self, slots: Tensor, max_new_tokens: Tensor) -> None:
        self.tokens.index_fill_(0, slots, self.rules.symbols.bos)
        self.position.index_fill_(0, slots, 0)
        self.max_lengths.index_copy_(0, slots, max_new_tokens)
        self.done.index_fill_(0, slots, False)
        if self.loops is not None:
            self.loops.run_lengths.index_fill_(0, slots, 0)

    def _looped(self, history: Tensor, tokens: Tensor, parents: Tensor | None = None) -> Tensor:
        if self.loops is None:
            return self.no_loops
        return self.loops.advance(history, tokens, self.position, parents)

    def _finish_step(self, tokens: Tensor, history: Tensor, done: Tensor) -> None:
        """Go to the next position. A slot that is done waits at position 0, where a step is cheapest."""
        self.tokens.copy_(tokens)
        self.history.copy_(history)
        self.position.copy_((self.position + 1).masked_fill(done, 0))
        self.done.copy_(done)


class GreedySlots(SlotState):
    """`decoding.rollout.greedy_search` over slots: the most likely token until end, maximum length or loop."""

    def __init__(self, shape: SlotShape, rules: Rules, kernels: Kernels, device: torch.device) -> None:
        super().__init__(shape, rules, kernels, device)
        self.batch = _buffers(HypothesisBatch.empty(shape.slots, 1, device), self.history.transpose(1, 2))

    def prefill(self, slots: Tensor, max_new_tokens: Tensor) -> None:
        super().prefill(slots, max_new_tokens)
        for column in (self.batch.length, self.batch.log_prob, self.batch.finished, self.batch.looped):
            column.index_fill_(0, slots, 0)

    def advance(self, logits: Tensor) -> None:
        """Append the most likely token of every active slot. There is one hypothesis, so no parents change."""
        batch, symbols = self.batch, self.rules.symbols
        top = self.kernels.top_k(logits, 1, tuple(symbols.never_produced))
        active = ~self.done[:, None]
        batch.log_prob.add_((top.logits - top.log_z[:, None]).masked_fill(~active, 0.0))
        batch.length.add_(active)
        newest = (self.steps == self.position[:, None, None]) & active[:, None]
        history = torch.where(newest, top.tokens[:, None], self.history)
        ended = active & (top.tokens == symbols.eos)
        looped = self._looped(history, top.tokens) & active & ~ended
        batch.finished.logical_or_(ended)
        batch.looped.logical_or_(looped)
        done = self.done | (ended | looped)[:, 0] | (self.position + 1 >= self.max_lengths)
        self._finish_step(top.tokens, history, done)

    def hypotheses(self, slots: Tensor) -> HypothesisBatch:
        batch = self.batch.keep(slots)
        return replace(batch, score=batch.log_prob / length_penalty(batch.length, self.rules.alpha))


class BeamSlots(SlotState):
    """`decoding.beam.beam_search` over slots: 2W candidates, a pool, and exact early stopping."""

    def __init__(self, shape: SlotShape, rules: Rules, kernels: Kernels, device: torch.device, nbest: int) -> None:
        super().__init__(shape, rules, kernels, device)
        self.live = torch.full((shape.slots, shape.width), NEG_INF, device=device)
        tokens = torch.zeros(shape.slots, nbest, shape.positions, dtype=torch.int64, device=device)
        self.pool = _buffers(HypothesisBatch.empty(shape.slots, nbest, device, log_prob=NEG_INF), tokens)

    def prefill(self, slots: Tensor, max_new_tokens: Tensor) -> None:
        """Start with one empty hypothesis in each slot; the first step expands it to W."""
        super().prefill(slots, max_new_tokens)
        self.live.index_fill_(0, slots, NEG_INF)
        self.live[:, 0].index_fill_(0, slots, 0.0)
        for column in (self.pool.log_prob, self.pool.score):
            column.index_fill_(0, slots, NEG_INF)
        for column in (self.pool.length, self.pool.finished, self.pool.looped):
            column.index_fill_(0, slots, 0)

    def advance(self, logits: Tensor) -> Tensor:
        """One step of `decoding.beam.beam_search`, line by line."""
        width = self.shape.width
        log_prob, parents, tokens = self._candidates(logits)
        is_end = tokens == self.rules.symbols.eos
        ended = log_prob.masked_fill(~is_end, NEG_INF)[:, :width]
        live, best = log_prob.masked_fill(is_end, NEG_INF).topk(width, dim=1)
        next_parents, next_tokens = parents.gather(1, best), tokens.gather(1, best)

        copied = self.history.gather(2, next_parents[:, None].expand_as(self.history))
        new_history = torch.where(self.steps == self.position[:, None, None], next_tokens[:, None], copied)
        looped = self._looped(new_history, next_tokens, next_parents)
        cut = looped | (self.position + 1 >= self.max_lengths)[:, None]
        self._collect(ended, parents[:, :width], tokens[:, :width], self.no_loops, finished=True)
        self._collect(live.masked_fill(~cut, NEG_INF), next_parents, next_tokens, looped, finished=False)

        live = live.masked_fill(cut, NEG_INF)
        bound = live.amax(dim=1) / self.penalties[self.max_lengths]
        done = ~(bound > self.pool.worst_finished())
        self.live.copy_(live.masked_fill(done[:, None], NEG_INF))
        self._finish_step(next_tokens, new_history, done)
        return next_parents

    def _candidates(self, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The 2W best of the 2W best continuations of every hypothesis: log P, parents, tokens, (B, 2W) each."""
        slots, count = self.shape.slots, 2 * self.shape.width
        top = self.kernels.top_k(logits, count, tuple(self.rules.symbols.never_produced))
        scores = self.live.view(-1, 1) + (top.logits - top.log_z[:, None])
        log_prob, index = scores.view(slots, -1).topk(count, dim=1)
        return log_prob, index // count, top.tokens.view(slots, -1).gather(1, index)

    def _collect(self, log_prob: Tensor, parents: Tensor, tokens: Tensor, looped: Tensor, *, finished: bool) -> None:
        """Merge the candidates (B, W) whose log P is not minus infinity into the pool."""
        used = log_prob != NEG_INF
        score = log_prob / self.penalties[self.position + 1][:, None]
        length = (self.position + 1)[:, None].expand_as(tokens)
        history = self.history.gather(2, parents[:, None].expand_as(self.history))
        history = torch.where(self.steps == self.position[:, None, None], tokens[:, None], history).transpose(1, 2)
        candidates = HypothesisBatch(history, length, log_prob, score, used & finished, looped & used)
        merged = self.pool.merge(candidates)
        for field in fields(HypothesisBatch):
            getattr(self.pool, field.name).copy_(getattr(merged, field.name))

    def hypotheses(self, slots: Tensor) -> HypothesisBatch:
        return self.pool.keep(slots)


def _buffers(batch: HypothesisBatch, tokens: Tensor) -> HypothesisBatch:
    """A batch with writable columns: each has its own memory, and `tokens` is used for the tokens."""
    return HypothesisBatch(tokens, *(getattr(batch, field.name).clone() for field in fields(HypothesisBatch)[1:]))
