"""Constraints of a search: special symbols, repeated n-grams, forced prefixes and endless loops.

A constraint sets the log probability of a forbidden token to minus infinity. Nothing is renormalised, so the log
probability of a hypothesis is always that of the model. The end symbol is never part of the history, so no constraint
in this file can forbid it: every hypothesis can end.

Shapes: B sentences, W hypotheses, T tokens generated so far, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from regard.decoding.hypothesis import NEG_INF, check_no_nan
from regard.decoding.stepper import Symbols
from regard.decoding.topk import log_sum_exp, top_k, top_k_log_probs


class Constraint(Protocol):
    """Forbids next tokens, depending on the history."""

    def __call__(self, log_probs: Tensor, history: Tensor) -> Tensor:
        """`log_probs` (B, W, V) and `history` (B, W, T), without the beginning -> log probabilities (B, W, V)."""


@dataclass(frozen=True)
class NoRepeat:
    """Never generate the same n-gram twice (Paulus et al. 2017, section 2.5)."""

    size: int

    def __call__(self, log_probs: Tensor, history: Tensor) -> Tensor:
        length = history.size(-1)
        if length < self.size:
            return log_probs
        ngrams = history.unfold(-1, self.size, 1)  # (B, W, T - n + 1, n): every n-gram so far
        opening = history[:, :, None, length - self.size + 1 :]  # the last n - 1 tokens
        same = (ngrams[..., :-1] == opening).all(dim=-1)
        # Column V collects the tokens that are not forbidden, so that every write into the mask is a True.
        vocabulary = log_probs.size(-1)
        column = torch.where(same, ngrams[..., -1], vocabulary)
        forbidden = log_probs.new_zeros(*log_probs.shape[:-1], vocabulary + 1, dtype=torch.bool)
        return log_probs.masked_fill(forbidden.scatter(-1, column, True)[..., :-1], NEG_INF)


@dataclass(frozen=True)
class LoopGuard:
    """Detects hypotheses that end in one short unit, repeated many times.

    A unit of up to `max_unit` tokens must fill the last `min_tokens` tokens and occur there `min_repeats` times.
    Laughter ("ha ha ha ha"), emphasis and rows of dots are shorter than that.
    """

    max_unit: int = 8
    min_repeats: int = 6
    min_tokens: int = 24

    def __call__(self, history: Tensor) -> Tensor:
        """(B, W, T) -> (B, W) bool: True if the hypothesis loops. One comparison covers all units."""
        if history.size(-1) < self.min_tokens:
            return history.new_zeros(history.shape[:-1], dtype=torch.bool)
        device = history.device
        unit = torch.arange(1, self.max_unit + 1, device=device)[:, None]
        repeats = ((self.min_tokens + unit - 1) // unit).clamp(min=self.min_repeats)
        window = max(self.max_unit * self.min_repeats, self.min_tokens + self.max_unit)
        # The padding before the history is distinct negative numbers, which are equal to no token.
        padding = -1 - torch.arange(window, device=device).expand(*history.shape[:-1], window)
        tail = torch.cat([padding, history], dim=-1)[..., -window:]
        position = torch.arange(window, device=device)
        equal = tail[..., None, :] == tail[..., (position - unit).clamp(min=0)]  # (B, W, units, window)
        required = position >= window - unit * (repeats - 1)
        return (equal | ~required).all(dim=-1).any(dim=-1)


@dataclass(frozen=True)
class ForcedPrefix:
    """The tokens that each sentence must begin with. Prefixes may differ in length and may be empty."""

    tokens: Tensor  # (B, P), padded with zeros
    lengths: Tensor  # (B,)

    @classmethod
    def of(cls, prefixes: Sequence[Sequence[int]] | None, max_new_tokens: Tensor, symbols: Symbols) -> "ForcedPrefix":
        """Pad `prefixes`, one for each sentence in `max_new_tokens` (B,), on the same device."""
        count = len(max_new_tokens)
        rows = [list(prefix) for prefix in prefixes] if prefixes is not None else [[] for _ in range(count)]
        if len(rows) != count:
            raise ValueError(f"{len(rows)} prefixes for {count} sentences")
        if bool((max_new_tokens < 1).any()):
            raise ValueError("max_new_tokens must be at least 1 for every sentence")
        if any(symbols.eos in row for row in rows):
            raise ValueError(f"a forced prefix contains the end symbol {symbols.eos}: nothing can follow it")
        lengths = max_new_tokens.new_tensor([len(row) for row in rows])
        size = max((len(row) for row in rows), default=0)
        tokens = max_new_tokens.new_tensor([row + [0] * (size - len(row)) for row in rows]).view(count, size)
        return cls(tokens, lengths)

    def keep(self, sentences: Tensor) -> "ForcedPrefix":
        return ForcedPrefix(self.tokens[sentences], self.lengths[sentences])

    @property
    def max_length(self) -> int:
        """Length of the longest prefix: from this step on nothing is forced."""
        return self.tokens.size(1)

    def active(self, step: int) -> Tensor:
        """(B,) bool: True if the token of this step is forced."""
        return step < self.lengths

    def forced(self, log_probs: Tensor, step: int) -> Tensor | None:
        """(B, W, V): log probability of the forced token, minus infinity for all others; None after all prefixes."""
        if step >= self.max_length:
            return None
        tokens = self.tokens[:, step, None, None].expand(-1, log_probs.size(1), 1)
        # A forced token may have probability 0 under the model. The clamp keeps the hypothesis alive.
        forced = log_probs.gather(-1, tokens).clamp(min=-1e4)
        return torch.full_like(log_probs, NEG_INF).scatter(-1, tokens, forced)


@dataclass(frozen=True)
class Rules:
    """Everything that all searches respect: symbols, length penalty, constraints and the loop guard."""

    symbols: Symbols
    alpha: float = 0.6
    """Exponent of the length penalty; see `hypothesis.length_penalty`."""
    constraints: tuple[Constraint, ...] = ()
    loop_guard: LoopGuard | None = field(default_factory=LoopGuard)

    def checks_loops(self, length: int) -> bool:
        """True if hypotheses of this length are checked for loops."""
        return self.loop_guard is not None and length >= self.loop_guard.min_tokens

    def find_loops(self, history: Tensor, prefix: ForcedPrefix, step: int) -> Tensor | None:
        """(B, W) bool: True if a hypothesis loops. A forced prefix may repeat itself. None if nothing was checked."""
        if self.loop_guard is None or not self.checks_loops(history.size(-1)):
            return None
        looping = self.loop_guard(history)
        return looping & ~prefix.active(step)[:, None] if step < prefix.max_length else looping


@dataclass(frozen=True)
class StepContext:
    """One step of a search: the logits (B, W, V) after `history` (B, W, T), and the rules for the next token."""

    rules: Rules
    logits: Tensor
    history: Tensor
    prefix: ForcedPrefix
    step: int

    def log_probs(self) -> Tensor:
        """Log probabilities (B, W, V) in float32; minus infinity for tokens that are not allowed."""
        logits = self.logits.float()
        log_probs = logits - log_sum_exp(logits, logits.amax(dim=-1, keepdim=True))
        check_no_nan(log_probs[..., :1])  # one NaN among the logits makes all log probabilities NaN
        forced = self.prefix.forced(log_probs, self.step)  # first: a forced token may be forbidden otherwise
        log_probs[..., self.rules.symbols.never_produced] = NEG_INF
        for constraint in self.rules.constraints:
            log_probs = constraint(log_probs, self.history)
        if forced is None:
            return log_probs
        return torch.where(self.prefix.active(self.step)[:, None, None], forced, log_probs)

    def top_k(self, count: int) -> tuple[Tensor, Tensor]:
        """The `count` most likely allowed tokens: log probabilities (B, W, n) and token ids (B, W, n), n >= count.

        Without constraints only a few symbols are forbidden. Then as many extra candidates replace them.
        """
        if self.rules.constraints or self.step < self.prefix.max_length:
            return top_k(self.log_probs(), count)
        logits, forbidden = self.logits.float(), self.rules.symbols.never_produced
        if count == 1:  # the maximum is almost never a forbidden symbol
            maximum, tokens = logits.max(dim=-1, keepdim=True)
            check_no_nan(maximum)
            if not forbidden or int(tokens.min()) > max(forbidden):
                return maximum - log_sum_exp(logits, maximum), tokens
        log_probs, tokens = top_k_log_probs(logits, count + len(forbidden))
        check_no_nan(log_probs)
        for symbol in forbidden:
            log_probs = log_probs.masked_fill(tokens == symbol, NEG_INF)
        return log_probs, tokens
