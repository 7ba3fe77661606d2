"""What a search may not write: symbols that are no text, n-grams it has written before, anything but a forced prefix,
and endless loops.

A constraint takes log probabilities and forbids by minus infinity. Nothing is renormalised, so the log probability of
a hypothesis stays what the model says about it, whatever was forbidden on the way. The end symbol is never part of
what has been written, so no constraint here can forbid it: a hypothesis always has a way out.

Shapes: B sentences, W hypotheses, T tokens written so far, V vocabulary.
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
    """A part that forbids next tokens in the light of what has been written."""

    def __call__(self, log_probs: Tensor, history: Tensor) -> Tensor:
        """`log_probs` (B, W, V) and `history` (B, W, T), without the beginning -> log probabilities (B, W, V)."""
        ...


@dataclass(frozen=True)
class NoRepeat:
    """Never write the same n-gram twice (Paulus et al. 2017, section 2.5)."""

    size: int

    def __call__(self, log_probs: Tensor, history: Tensor) -> Tensor:
        written = history.size(-1)
        if written < self.size:
            return log_probs
        windows = history.unfold(-1, self.size, 1)  # (B, W, T - n + 1, n): every n-gram so far
        opening = history[:, :, None, written - self.size + 1 :]  # the n - 1 tokens the next one would complete
        same = (windows[..., :-1] == opening).all(dim=-1)
        # Column V takes what is not forbidden, so that every write into the mask is a True.
        vocabulary = log_probs.size(-1)
        column = torch.where(same, windows[..., -1], vocabulary)
        forbidden = log_probs.new_zeros(*log_probs.shape[:-1], vocabulary + 1, dtype=torch.bool)
        return log_probs.masked_fill(forbidden.scatter(-1, column, True)[..., :-1], NEG_INF)


@dataclass(frozen=True)
class LoopGuard:
    """Notices a hypothesis whose tail is one short unit over and over, as a model that has lost its source writes.

    A unit of up to `max_unit` tokens must fill the last `min_tokens` tokens and stand there `min_repeats` times:
    laughter ("ha ha ha ha"), emphasis and a row of dots are shorter; a real loop goes on until it is caught.
    """

    max_unit: int = 8
    min_repeats: int = 6
    min_tokens: int = 24

    def __call__(self, history: Tensor) -> Tensor:
        """(B, W, T) -> (B, W) bool: this hypothesis is looping. All units are looked at in one comparison."""
        if history.size(-1) < self.min_tokens:
            return history.new_zeros(history.shape[:-1], dtype=torch.bool)
        device = history.device
        unit = torch.arange(1, self.max_unit + 1, device=device)[:, None]
        repeats = ((self.min_tokens + unit - 1) // unit).clamp(min=self.min_repeats)
        window = max(self.max_unit * self.min_repeats, self.min_tokens + self.max_unit)
        # Filling of distinct negative numbers stands for what was not written yet: equal to nothing.
        blank = -1 - torch.arange(window, device=device).expand(*history.shape[:-1], window)
        tail = torch.cat([blank, history], dim=-1)[..., -window:]
        position = torch.arange(window, device=device)
        equal = tail[..., None, :] == tail[..., (position - unit).clamp(min=0)]  # (B, W, units, window)
        needed = position >= window - unit * (repeats - 1)
        return (equal | ~needed).all(dim=-1).any(dim=-1)


@dataclass(frozen=True)
class ForcedPrefix:
    """The tokens each sentence must begin with; sentences may have prefixes of different lengths, or none."""

    tokens: Tensor  # (B, P), filled up with zeros
    lengths: Tensor  # (B,)

    @classmethod
    def of(cls, prefixes: Sequence[Sequence[int]] | None, max_new_tokens: Tensor, symbols: Symbols) -> "ForcedPrefix":
        """Line up `prefixes`, one for each sentence in `max_new_tokens`, on the device of the search."""
        rows = (
            [list(prefix) for prefix in prefixes] if prefixes is not None else [[] for _ in range(len(max_new_tokens))]
        )
        if len(rows) != len(max_new_tokens):
            raise ValueError(f"{len(rows)} prefixes for {len(max_new_tokens)} sentences")
        if bool((max_new_tokens < 1).any()):
            raise ValueError("every sentence needs a limit of one token or more")
        if any(symbols.eos in row for row in rows):
            raise ValueError(f"a forced prefix holds the end symbol {symbols.eos}: nothing can follow it")
        lengths = max_new_tokens.new_tensor([len(row) for row in rows])
        max_length = max((len(row) for row in rows), default=0)
        tokens = max_new_tokens.new_tensor([row + [0] * (max_length - len(row)) for row in rows]).view(
            len(rows), max_length
        )
        return cls(tokens, lengths)

    def keep(self, sentences: Tensor) -> "ForcedPrefix":
        """Only these sentences, in this order."""
        return ForcedPrefix(self.tokens[sentences], self.lengths[sentences])

    @property
    def max_length(self) -> int:
        """From this step on, nobody is forced."""
        return self.tokens.size(1)

    def active(self, step: int) -> Tensor:
        """(B,) bool: the token of this step is given."""
        return step < self.lengths

    def forced(self, log_probs: Tensor, step: int) -> Tensor | None:
        """(B, W, V): the given token alone, with the model's own opinion of it; None when no sentence has one left."""
        if step >= self.max_length:
            return None
        given = self.tokens[:, step, None, None].expand(-1, log_probs.size(1), 1)
        # Given means given: a token the model holds for impossible is very unlikely, and not the end of the hypothesis.
        opinion = log_probs.gather(-1, given).clamp(min=-1e4)
        return torch.full_like(log_probs, NEG_INF).scatter(-1, given, opinion)


@dataclass(frozen=True)
class Rules:
    """What every search respects, whichever way it goes."""

    symbols: Symbols
    alpha: float = 0.6
    """Exponent of the length penalty; see `hypothesis.length_penalty`."""
    constraints: tuple[Constraint, ...] = ()
    loop_guard: LoopGuard | None = field(default_factory=LoopGuard)

    def log_probs(self, logits: Tensor, history: Tensor, prefix: ForcedPrefix, step: int) -> Tensor:
        """Log probabilities (B, W, V) in float32 of what may be written next; the rest is minus infinity."""
        logits = logits.float()
        log_probs = logits - log_sum_exp(logits, logits.amax(dim=-1, keepdim=True))
        check_no_nan(log_probs[..., :1])  # one number that is none makes all of them so
        forced = prefix.forced(log_probs, step)  # before anything is forbidden: what is given may be
        log_probs[..., self.symbols.never_produced] = NEG_INF
        for constraint in self.constraints:
            log_probs = constraint(log_probs, history)
        return log_probs if forced is None else torch.where(prefix.active(step)[:, None, None], forced, log_probs)

    def top_k_log_probs(
        self, logits: Tensor, history: Tensor, prefix: ForcedPrefix, step: int, count: int
    ) -> tuple[Tensor, Tensor]:
        """The `count` likeliest that may be written next: log probabilities (B, W, n) and tokens (B, W, n).

        Where all that is forbidden are a few symbols, as many candidates more make up for them: n > count.
        """
        if self.constraints or step < prefix.max_length:
            return top_k(self.log_probs(logits, history, prefix, step), count)
        never = self.symbols.never_produced
        if count == 1:  # the very likeliest, which is almost never one of those
            peak, tokens = (logits := logits.float()).max(dim=-1, keepdim=True)
            check_no_nan(peak)
            if not never or int(tokens.min()) > max(never):
                return peak - log_sum_exp(logits, peak), tokens
        log_probs, tokens = top_k_log_probs(logits.float(), count + len(never))
        check_no_nan(log_probs)
        for symbol in never:
            log_probs = log_probs.masked_fill(tokens == symbol, NEG_INF)
        return log_probs, tokens

    def checks_loops(self, length: int) -> bool:
        """Whether a text of this length is looked at for loops."""
        return self.loop_guard is not None and length >= self.loop_guard.min_tokens

    def find_loops(self, history: Tensor, prefix: ForcedPrefix, step: int) -> Tensor | None:
        """(B, W) bool: a hypothesis is looping, of its own will: what is forced may repeat itself. None: none is."""
        if self.loop_guard is None or not self.checks_loops(history.size(-1)):
            return None
        looping = self.loop_guard(history)
        return looping & ~prefix.active(step)[:, None] if step < prefix.max_length else looping
