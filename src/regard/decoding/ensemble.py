"""Several models deciding together: an ensemble is a stepper made of steppers.

Shapes: B sentences, W hypotheses, V vocabulary, M members.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.decoding.stepper import State, Stepper


@dataclass(frozen=True)
class EnsembleState:
    """The members' states, rearranged together."""

    states: tuple[State, ...]

    def reorder(self, parents: Tensor) -> "EnsembleState":
        """See `State.reorder`."""
        return EnsembleState(tuple(state.reorder(parents) for state in self.states))

    def keep(self, sentences: Tensor) -> "EnsembleState":
        """See `State.keep`."""
        return EnsembleState(tuple(state.keep(sentences) for state in self.states))


class Ensemble:
    """P(y | Y_<t, X) = sum_m w_m P_m(y | Y_<t, X): the members' probabilities, averaged at every step."""

    def __init__(self, steppers: Sequence[Stepper[Any]], weights: Sequence[float] | None = None) -> None:
        """Members share a vocabulary; `weights` are positive and scaled to sum to one, and equal where not given."""
        weights = [1.0] * len(steppers) if weights is None else list(weights)
        if not steppers:
            raise ValueError("an ensemble needs a member")
        if len(weights) != len(steppers) or min(weights) <= 0:
            raise ValueError(f"an ensemble of {len(steppers)} needs as many positive weights, not {weights}")
        self.steppers = tuple(steppers)
        self.log_weights = [math.log(weight / math.fsum(weights)) for weight in weights]

    def start(self, source: Any) -> EnsembleState:
        """Every member reads the source."""
        return EnsembleState(tuple(stepper.start(source) for stepper in self.steppers))

    def step(self, tokens: Tensor, state: EnsembleState) -> tuple[Tensor, EnsembleState]:
        """(B, W) -> log probabilities (B, W, V): the logarithm of the weighted mean probability."""
        opinions, states = [], []
        for stepper, member, weight in zip(self.steppers, state.states, self.log_weights, strict=True):
            logits, member = stepper.step(tokens, member)
            opinions.append(logits.float().log_softmax(dim=-1) + weight)
            states.append(member)
        if len({opinion.size(-1) for opinion in opinions}) > 1:
            raise ValueError(f"the members' vocabularies differ in size: {[opinion.size(-1) for opinion in opinions]}")
        return torch.stack(opinions).logsumexp(dim=0), EnsembleState(tuple(states))
