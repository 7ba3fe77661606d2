"""Ensemble: several models that generate together. It is a stepper made of steppers.

Shapes: B sentences, W hypotheses, V vocabulary, M members.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

import torch
from torch import Tensor

from regard.decoding.stepper import S, Source, Stepper


@dataclass(frozen=True)
class EnsembleState(Generic[S]):
    states: tuple[S, ...]

    def reorder(self, parents: Tensor) -> "EnsembleState[S]":
        return EnsembleState(tuple(state.reorder(parents) for state in self.states))

    def keep(self, sentences: Tensor) -> "EnsembleState[S]":
        return EnsembleState(tuple(state.keep(sentences) for state in self.states))


class Ensemble(Generic[Source, S]):
    """P(y | Y_<t, X) = sum_m w_m P_m(y | Y_<t, X): the mean of the members' probabilities at every step."""

    def __init__(self, steppers: Sequence[Stepper[Source, S]], weights: Sequence[float] | None = None) -> None:
        """All members have the same vocabulary. `weights` are positive and scaled to sum to one; by default equal."""
        weights = [1.0] * len(steppers) if weights is None else list(weights)
        if not steppers:
            raise ValueError("an ensemble needs at least one member")
        if len(weights) != len(steppers) or min(weights) <= 0:
            raise ValueError(f"an ensemble of {len(steppers)} needs as many positive weights, not {weights}")
        self.steppers = tuple(steppers)
        self.log_weights = [math.log(weight / math.fsum(weights)) for weight in weights]

    def start(self, source: Source) -> EnsembleState[S]:
        return EnsembleState(tuple(stepper.start(source) for stepper in self.steppers))

    def step(self, tokens: Tensor, state: EnsembleState[S]) -> tuple[Tensor, EnsembleState[S]]:
        """(B, W) -> (B, W, V): the logarithm of the weighted mean probability."""
        log_probs, states = [], []
        for stepper, member, weight in zip(self.steppers, state.states, self.log_weights, strict=True):
            logits, member = stepper.step(tokens, member)
            log_probs.append(logits.float().log_softmax(dim=-1) + weight)
            states.append(member)
        if len({log_prob.size(-1) for log_prob in log_probs}) > 1:
            sizes = [log_prob.size(-1) for log_prob in log_probs]
            raise ValueError(f"the members' vocabularies differ in size: {sizes}")
        return torch.stack(log_probs).logsumexp(dim=0), EnsembleState(tuple(states))
