"""What a model must offer to be searched: a beginning, a step, and a state whose rows can be rearranged.

A search walks two axes, sentences B and hypotheses W of each. It never looks inside a state: a Transformer's key/value
cache and an LSTM's hidden vector are the same to it. All it asks is that hypotheses can be copied from their parents
(`reorder`) and that sentences which are finished can leave the batch (`keep`).

Shapes: B sentences in the batch, W hypotheses a sentence, V vocabulary.
"""

from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

from torch import Tensor


class State(Protocol):
    """What a model remembers of B x W hypotheses; rearranging returns a new state and leaves this one as it was."""

    def reorder(self, parents: Tensor) -> Self:
        """`parents` (B, W') long: hypothesis w of sentence b continues parents[b, w] of it; W' may differ from W."""
        ...

    def keep(self, sentences: Tensor) -> Self:
        """`sentences` (B',) long: only these sentences remain, in this order."""
        ...


S = TypeVar("S", bound=State)


class Stepper(Protocol[S]):
    """A model that writes one token at a time."""

    def start(self, source: Any) -> S:
        """Read the source; one hypothesis a sentence (W = 1), nothing written yet."""
        ...

    def step(self, tokens: Tensor, state: S) -> tuple[Tensor, S]:
        """Append `tokens` (B, W) to every hypothesis; return the next token's logits (B, W, V) and the state after."""
        ...


@dataclass(frozen=True)
class Symbols:
    """Ids of the tokens a search must know: the one to begin with, the one that ends a text, and padding."""

    bos: int
    eos: int
    pad: int

    @property
    def never_produced(self) -> list[int]:
        """Padding and the beginning are not text; where a vocabulary shares one of them with the end, the end wins."""
        return sorted({self.bos, self.pad} - {self.eos})
