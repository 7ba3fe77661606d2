"""Hypotheses: the result of a search, its length-normalised score, and batches of hypotheses as tensors.

The length |Y| counts every token after the beginning symbol, including the end symbol. A truncated hypothesis has no
end symbol.

Shapes: B sentences, W hypotheses, K hypotheses in the pool of a sentence, T tokens.
"""

import math
from dataclasses import dataclass, fields

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.errors import UserError

NEG_INF = -math.inf


@dataclass(frozen=True)
class Hypothesis:
    """One output of a search: its tokens without beginning and end symbol, and its scores."""

    tokens: list[int]
    score: float
    """log P(Y|X) / lp(Y), by which the hypotheses of a sentence are ranked."""
    log_prob: float
    """log P(Y|X) under the model, with forced tokens and the end symbol."""
    finished: bool
    """True if it ends with the end symbol; False if it was truncated, by its maximum length or because it looped."""
    looped: bool = False
    """True if it was truncated because it repeated itself."""

    @property
    def confidence(self) -> float:
        """P(Y|X)^(1/|Y|), the geometric mean of the probabilities of its tokens, from 0 to 1."""
        return math.exp(min(0.0, self.log_prob / max(1, len(self.tokens) + self.finished)))


def length_penalty(length: Tensor, alpha: float) -> Tensor:
    """lp(Y) = ((5 + |Y|) / 6)^alpha, Wu et al. 2016, eq. 14: without it short outputs always win."""
    return ((5.0 + length.float()) / 6.0) ** alpha


def should_compact(done: Tensor) -> bool:
    """True if the sentences that are `done` (B,) should be removed from the batch now.

    Removing them copies the states of all other sentences, which costs about half a step. So the search waits until an
    eighth of the batch is done.
    """
    count = int(done.sum())
    return count > 0 and 8 * count >= len(done)


def check_no_nan(log_probs: Tensor) -> None:
    """Raise an error for NaN, so that damaged weights do not look like an empty output."""
    if bool(log_probs.isnan().any()):
        problem = "the model's probabilities are not numbers (NaN)"
        remedy = "the weights are damaged or training diverged: use an earlier checkpoint, or bfloat16 or float32"
        raise UserError(problem, remedy, code="not-finite", where="model")


@dataclass(frozen=True)
class HypothesisBatch:
    """Hypotheses (B, K) as tensors; an entry whose score is minus infinity is empty."""

    tokens: Tensor  # (B, K, T), undefined behind the length of a hypothesis
    length: Tensor  # (B, K), with the end symbol
    log_prob: Tensor  # (B, K)
    score: Tensor  # (B, K)
    finished: Tensor  # (B, K) bool
    looped: Tensor  # (B, K) bool

    @classmethod
    def empty(cls, sentences: int, size: int, device: torch.device, log_prob: float = 0.0) -> "HypothesisBatch":
        """`size` hypotheses without tokens for each sentence; with `log_prob` minus infinity, empty entries."""
        shape = (sentences, size)
        score = torch.full(shape, log_prob, device=device)
        false = torch.zeros(shape, dtype=torch.bool, device=device)
        length = torch.zeros(shape, dtype=torch.long, device=device)
        return cls(length.new_zeros(*shape, 0), length, score, score, false, false)

    def keep(self, sentences: Tensor) -> "HypothesisBatch":
        return HypothesisBatch(*(getattr(self, field.name)[sentences] for field in fields(self)))

    def merge(self, others: "HypothesisBatch") -> "HypothesisBatch":
        """The K best of both batches: finished ones first, then by score."""
        size, width = self.score.size(1), others.tokens.size(2)
        tokens = torch.cat([F.pad(self.tokens, (0, width - self.tokens.size(2))), others.tokens], dim=1)
        names = [field.name for field in fields(self)][1:]
        both = {name: torch.cat([getattr(self, name), getattr(others, name)], dim=1) for name in names}
        by_score = both["score"].argsort(dim=1, descending=True, stable=True)
        finished = both["finished"].gather(1, by_score).to(torch.uint8)
        best = by_score.gather(1, finished.argsort(dim=1, descending=True, stable=True))[:, :size]
        best_tokens = tokens.gather(1, best[:, :, None].expand(-1, -1, width))
        return HypothesisBatch(best_tokens, *(both[name].gather(1, best) for name in names))

    def worst_finished(self) -> Tensor:
        """(B,) The score that a new hypothesis must beat to enter; minus infinity while the pool is not full."""
        return self.score.masked_fill(~self.finished, NEG_INF).amin(dim=1)

    def hypotheses(self) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence, best score first. A sentence without any gets one empty hypothesis."""
        check_no_nan(self.log_prob)
        columns = [getattr(self, field.name).tolist() for field in fields(self)]
        results = []
        for sentence in zip(*columns, strict=True):
            hypotheses = [_hypothesis(*row) for row in zip(*sentence, strict=True) if row[3] > NEG_INF]
            hypotheses.sort(key=lambda hypothesis: -hypothesis.score)
            results.append(hypotheses or [Hypothesis([], NEG_INF, NEG_INF, finished=False)])
        return results


def _hypothesis(
    tokens: list[int], length: int, log_prob: float, score: float, finished: bool, looped: bool
) -> Hypothesis:
    return Hypothesis(tokens[: length - finished], score, log_prob, finished, looped)
