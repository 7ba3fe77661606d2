"""A language model whose texts begin with their first token, as the prompts of GPT-2 do.

A search gives the beginning symbol to the first step. Here that step predicts a token, but does not change the state:
it stays empty, so the first token of the prompt is at position 0.

B sentences, W hypotheses, V vocabulary.
"""

from dataclasses import dataclass
from typing import Generic

from torch import Tensor

from regard.decoding.stepper import S, Source, Stepper


@dataclass(frozen=True)
class NoBosState(Generic[S]):
    """The state of the model; `started` is False before the first step."""

    state: S
    started: bool = False

    def reorder(self, parents: Tensor) -> "NoBosState[S]":
        """Rearrange the hypotheses."""
        return NoBosState(self.state.reorder(parents), self.started)

    def keep(self, sentences: Tensor) -> "NoBosState[S]":
        """Keep only these sentences, in this order."""
        return NoBosState(self.state.keep(sentences), self.started)


class NoBosStepper(Generic[Source, S]):
    """A stepper whose state does not contain the beginning symbol."""

    def __init__(self, stepper: Stepper[Source, S]) -> None:
        self.stepper = stepper

    def start(self, source: Source) -> NoBosState[S]:
        """The state before the beginning symbol."""
        return NoBosState(self.stepper.start(source))

    def step(self, tokens: Tensor, state: NoBosState[S]) -> tuple[Tensor, NoBosState[S]]:
        """(B, W) -> logits (B, W, V) of the next token."""
        logits, after = self.stepper.step(tokens, state.state)
        return logits, NoBosState(after if state.started else state.state, True)
