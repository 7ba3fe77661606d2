"""The interface of a model that a search can drive: start, step, and a state whose rows can be rearranged.

A search has two axes: B sentences and W hypotheses for each of them. It never looks inside a state, so the KV cache of
a Transformer and the hidden vector of an LSTM look the same to it. It only copies hypotheses from their parents
(`reorder`) and removes sentences that are done (`keep`).

Shapes: B sentences in the batch, W hypotheses a sentence, V vocabulary.
"""

from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

from torch import Tensor


class State(Protocol):
    """The state of a model for B x W hypotheses. Both methods return a new state and do not change this one."""

    def reorder(self, parents: Tensor) -> Self:
        """`parents` (B, W') long: hypothesis w of sentence b continues parents[b, w]; W' may differ from W."""
        ...

    def keep(self, sentences: Tensor) -> Self:
        """`sentences` (B',) long: only these sentences remain, in this order."""
        ...


Source = TypeVar("Source", contravariant=True)
S = TypeVar("S", bound=State)


class Stepper(Protocol[Source, S]):
    """A model that generates one token at a time."""

    def start(self, source: Source) -> S:
        """Encode the source. The state has one empty hypothesis for each sentence (W = 1)."""
        ...

    def step(self, tokens: Tensor, state: S) -> tuple[Tensor, S]:
        """Append `tokens` (B, W) to the hypotheses; return logits (B, W, V) of the next token and the new state."""
        ...


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
