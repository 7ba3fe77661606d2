"""The readable engine: our own searches over anything that steps, in groups of sentences of like length.

B sentences of a group, S source.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.attention import Padded
from regard.decoding import DecodingSettings, Hypothesis, Stepper, Symbols, decode
from regard.decoding.grouping import groups_by_length


class Searching:
    """A model (or an ensemble, or anything else that steps) on its `device`, searched as `decoding` knows how to."""

    def __init__(self, stepper: Stepper[Any], symbols: Symbols, device: torch.device) -> None:
        self.stepper, self.symbols, self.device = stepper, symbols, device

    def decode(
        self,
        sources: Sequence[Sequence[int]],
        limits: Sequence[int],
        settings: DecodingSettings,
        *,
        prefixes: Sequence[Sequence[int]] | None = None,
        numbers: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """See `Engine.decode`; `settings.batch_tokens` bounds what is decoded together."""
        numbers = range(len(sources)) if numbers is None else numbers
        found: list[list[Hypothesis]] = [[] for _ in sources]
        for group in groups_by_length([len(source) for source in sources], settings.batch_tokens):
            forced = None if prefixes is None else [prefixes[i] for i in group]
            with torch.inference_mode():
                answers = decode(
                    self.stepper,
                    Padded.of(*lined_up([sources[i] for i in group], self.symbols.pad, self.device)),
                    torch.tensor([limits[i] for i in group], device=self.device),
                    self.symbols,
                    settings,
                    prefixes=forced if forced and any(forced) else None,
                    numbers=[numbers[i] for i in group],
                )
            for index, hypotheses in zip(group, answers, strict=True):
                found[index] = hypotheses
        return found


def lined_up(rows: Sequence[Sequence[int]], pad: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Rows of ids as one rectangle (B, S), filled up with padding, and their lengths (B,)."""
    ids = pad_sequence([torch.tensor(row, dtype=torch.long) for row in rows], batch_first=True, padding_value=pad)
    return ids.to(device), torch.tensor([len(row) for row in rows], device=device)
