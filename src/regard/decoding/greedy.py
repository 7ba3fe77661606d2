"""Greedy search: always the likeliest next token. The fastest search, and blind to what a token costs later."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from regard.decoding.constraints import Rules
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.rollout import rollout
from regard.decoding.stepper import S, Stepper


def greedy_search(
    stepper: Stepper[S],
    source: Any,
    limits: Tensor,
    rules: Rules,
    *,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """One hypothesis for each sentence: y_t = argmax log P(y | y_<t, X)."""
    return rollout(stepper, source, limits, rules, _likeliest, prefixes=prefixes)


def _likeliest(log_probs: Tensor, sentences: Tensor, step: int) -> Tensor:
    return log_probs.argmax(dim=-1)
