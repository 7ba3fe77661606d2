"""The interface of a model that a search can drive: start, step, and a state whose rows can be rearranged.

A search has two axes: B sentences and W hypotheses for each of them. It never looks inside a state, so the KV cache of
a Transformer and the hidden vector of an LSTM look the same to it. It only copies hypotheses from their parents
(`reorder`) and removes sentences that are done (`keep`). An ensemble is a stepper made of steppers.

Shapes: B sentences in the batch, W hypotheses a sentence, V vocabulary.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

import torch
from torch import Tensor


class State(Protocol):
    """The state of a model for B x W hypotheses. Both methods return a new state and do not change this one."""

    def reorder(self, parents: Tensor) -> Self:
        """`parents` (B, W') long: hypothesis w of sentence b continues parents[b, w]; W' may differ from W."""

    def keep(self, sentences: Tensor) -> Self:
        """`sentences` (B',) long: only these sentences remain, in this order."""


Source = TypeVar("Source", contravariant=True)
S = TypeVar("S", bound=State)


class Stepper(Protocol[Source, S]):
    """A model that generates one token at a time."""

    def start(self, source: Source) -> S:
        """Encode the source. The state has one empty hypothesis for each sentence (W = 1)."""

    def step(self, tokens: Tensor, state: S) -> tuple[Tensor, S]:
        """Append `tokens` (B, W) to the hypotheses; return logits (B, W, V) of the next token and the new state."""


@dataclass(frozen=True)
class Symbols:
    """Ids of the special tokens that a search uses: beginning, end and padding."""

    bos: int
    eos: int
    pad: int

    @property
    def never_produced(self) -> list[int]:
        """Ids that no search may generate: beginning and padding, except one that is also the end."""
        return sorted({self.bos, self.pad} - {self.eos})


@dataclass(frozen=True)
class NoBosState(Generic[S]):
    """The state of the model; `started` is False before the first step."""

    state: S
    started: bool = False

    def reorder(self, parents: Tensor) -> "NoBosState[S]":
        return NoBosState(self.state.reorder(parents), self.started)

    def keep(self, sentences: Tensor) -> "NoBosState[S]":
        return NoBosState(self.state.keep(sentences), self.started)


class NoBosStepper(Generic[Source, S]):
    """A stepper whose state does not contain the beginning symbol: texts begin with their first token, as in GPT-2.

    A search gives the beginning symbol to the first step. Here that step predicts a token, but does not change the
    state, so the first token of the prompt is at position 0.
    """

    def __init__(self, stepper: Stepper[Source, S]) -> None:
        self.stepper = stepper

    def start(self, source: Source) -> NoBosState[S]:
        return NoBosState(self.stepper.start(source))

    def step(self, tokens: Tensor, state: NoBosState[S]) -> tuple[Tensor, NoBosState[S]]:
        logits, after = self.stepper.step(tokens, state.state)
        return logits, NoBosState(after if state.started else state.state, True)


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
