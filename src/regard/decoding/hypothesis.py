"""A hypothesis as it leaves the search, the length-normalised score it is ranked by, and the pool it waits in.

Length convention: |Y| counts every token after the beginning, the end symbol among them. A text cut before its end has
no end symbol to count.

Shapes: B sentences, W hypotheses, K places in the pool, T tokens.
"""

import math
from dataclasses import dataclass, fields, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.errors import UserError

NEG_INF = -math.inf


@dataclass(frozen=True)
class Hypothesis:
    """One answer of a search: its tokens without the beginning and the end symbol, and how it came about."""

    tokens: list[int]
    score: float
    """log P(Y|X) / lp(Y), which the hypotheses of a sentence are ranked by."""
    log_prob: float
    """log P(Y|X) under the model, forced tokens and the end symbol included."""
    finished: bool
    """It ended itself with the end symbol; False means it was cut, by its limit or because it looped."""
    looped: bool = False
    """It was cut because it went on repeating itself."""


def length_penalty(length: Tensor, alpha: float) -> Tensor:
    """lp(Y) = ((5 + |Y|) / 6)^alpha, Wu et al. 2016, eq. 14: without it short texts always win."""
    return ((5.0 + length.float()) / 6.0) ** alpha


def should_compact(done: Tensor) -> bool:
    """(B,) bool: whether the sentences that are done leave the batch now.

    To leave, the others' memories are copied together; that costs about as much as half a step, so it waits until an
    eighth of the batch is done.
    """
    count = int(done.sum())
    return count > 0 and 8 * count >= len(done)


def check_no_nan(log_probs: Tensor) -> None:
    """Damaged weights come to light here, and not as an empty translation."""
    if bool(log_probs.isnan().any()):
        raise UserError(
            "the model's probabilities are not numbers (NaN)",
            "its weights are damaged or its training diverged: use an earlier checkpoint, or bfloat16 or float32",
        )


@dataclass(frozen=True)
class HypothesisBatch:
    """Hypotheses (B, K) as tensors; a place whose score is minus infinity is empty."""

    tokens: Tensor  # (B, K, T), whatever stands after a text's length is not part of it
    length: Tensor  # (B, K), the end symbol counted
    log_prob: Tensor  # (B, K)
    score: Tensor  # (B, K)
    finished: Tensor  # (B, K) bool
    looped: Tensor  # (B, K) bool

    @classmethod
    def blank(cls, sentences: int, size: int, device: torch.device, log_prob: float = 0.0) -> "HypothesisBatch":
        """`size` texts without a token for each sentence, all certain; with `log_prob` minus infinity, empty places."""
        shape = (sentences, size)
        score = torch.full(shape, log_prob, device=device)
        no = torch.zeros(shape, dtype=torch.bool, device=device)
        length = torch.zeros(shape, dtype=torch.long, device=device)
        return cls(length.new_zeros(*shape, 0), length, score, score, no, no)

    def but(self, **changes: Tensor) -> "HypothesisBatch":
        """The same texts with some columns changed."""
        return replace(self, **changes)

    def keep(self, sentences: Tensor) -> "HypothesisBatch":
        """Only these sentences, in this order."""
        return HypothesisBatch(*(getattr(self, field.name)[sentences] for field in fields(self)))

    def merge(self, others: "HypothesisBatch") -> "HypothesisBatch":
        """The best of both, as many as there are places here: those that finished first, then by score."""
        size, width = self.score.size(1), others.tokens.size(2)
        tokens = torch.cat([F.pad(self.tokens, (0, width - self.tokens.size(2))), others.tokens], dim=1)
        names = [field.name for field in fields(self)][1:]
        both = {name: torch.cat([getattr(self, name), getattr(others, name)], dim=1) for name in names}
        by_score = both["score"].argsort(dim=1, descending=True, stable=True)
        finished = both["finished"].gather(1, by_score).to(torch.uint8)
        best = by_score.gather(1, finished.argsort(dim=1, descending=True, stable=True))[:, :size]
        chosen = tokens.gather(1, best[:, :, None].expand(-1, -1, width))
        return HypothesisBatch(chosen, *(both[name].gather(1, best) for name in names))

    def worst_finished(self) -> Tensor:
        """(B,) The score a newcomer has to beat to enter; minus infinity while a place is free."""
        return self.score.masked_fill(~self.finished, NEG_INF).amin(dim=1)

    def hypotheses(self) -> list[list[Hypothesis]]:
        """Each sentence's hypotheses, best score first; at least one, even where the model allowed nothing at all."""
        check_no_nan(self.log_prob)
        columns = [getattr(self, field.name).tolist() for field in fields(self)]
        results = []
        for sentence in zip(*columns, strict=True):
            found = [_unpack(*row) for row in zip(*sentence, strict=True) if row[3] > NEG_INF]
            found.sort(key=lambda hypothesis: -hypothesis.score)
            results.append(found or [Hypothesis([], NEG_INF, NEG_INF, finished=False)])
        return results


def _unpack(tokens: list[int], length: int, log_prob: float, score: float, finished: bool, looped: bool) -> Hypothesis:
    return Hypothesis(tokens[: length - finished], score, log_prob, finished, looped)
