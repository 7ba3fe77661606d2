"""What every contender of the benchmark is built to and asked to do.

They differ in how they were written, not in what they compute: the same shape, the same batches, one optimizer step a
batch, and exactly `OUTPUT` tokens for every sentence. Weights are random: they cost the same as learnt ones.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.batch import Batch
from regard.text.symbols import BOS, EOS, PAD

OUTPUT = 16
WIDTHS = (1, 4)
"""Of the searches: greedy and beam."""
SMOOTHING, RATE = 0.1, 1e-4


@dataclass(frozen=True)
class Shape:
    """What all are built to; `threads` they may use."""

    vocabulary: int = 8000
    d_model: int = 256
    num_heads: int = 4
    d_ff: int = 1024
    layers: int = 3
    dropout: float = 0.1
    threads: int = 1


class Contender(Protocol):
    """Built from a `Shape`; one that cannot learn has no `train`."""

    version: str
    model: Any
    """The module whose parameters are counted, or None."""

    def decode(self, src: Tensor, lengths: Tensor, width: int) -> list[int]:
        """Greedy (width 1) or beam search over (B, S) padded sources -> how many tokens each sentence got."""
        ...


class Learner(Contender, Protocol):
    """A contender that trains."""

    def train(self, batch: Batch) -> None:
        """One optimizer step."""
        ...


def smoothed_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """torch's own cross-entropy with label smoothing, for contenders that bring none along."""
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD, label_smoothing=SMOOTHING)


def renumbering(vocabulary: int, pad: int, bos: int, eos: int) -> Tensor:
    """(V,) our ids -> theirs, for libraries whose special symbols have numbers of their own; words take the rest."""
    theirs = {PAD: pad, BOS: bos, EOS: eos}
    free = (number for number in range(vocabulary) if number not in theirs.values())
    return torch.tensor([theirs[number] if number in theirs else next(free) for number in range(vocabulary)])
