"""Greedy search: always the likeliest next token. The fastest search, and blind to what a token costs later."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from regard.decoding.constraints import Rules
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.rollout import StepContext, rollout
from regard.decoding.stepper import S, Stepper


def greedy_search(
    stepper: Stepper[S],
    source: Any,
    max_new_tokens: Tensor,
    rules: Rules,
    *,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """One hypothesis for each sentence: y_t = argmax log P(y | y_<t, X)."""
    return rollout(stepper, source, max_new_tokens, rules, _likeliest, prefixes=prefixes)


def _likeliest(context: StepContext, sentences: Tensor) -> tuple[Tensor, Tensor]:
    log_probs, tokens = context.top_k_log_probs(1)
    best = log_probs.max(dim=-1, keepdim=True)
    return tokens.gather(-1, best.indices)[..., 0], best.values[..., 0]
