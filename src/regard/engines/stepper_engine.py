"""The readable engine: our own searches over anything that steps, in groups of sentences of like length.

B sentences of a group, S source.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.attention.layouts import Padded
from regard.data.planning import groups_by_length
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search import decode
from regard.decoding.settings import DecodingSettings
from regard.decoding.stepper import Stepper, Symbols


class StepperEngine:
    """A model (or an ensemble, or anything else that steps) on its `device`, searched as `decoding` knows how to."""

    def __init__(self, stepper: Stepper[Any], symbols: Symbols, device: torch.device) -> None:
        self.stepper, self.symbols, self.device = stepper, symbols, device

    def decode(
        self,
        sources: Sequence[Sequence[int]],
        max_new_tokens: Sequence[int],
        settings: DecodingSettings,
        *,
        prefixes: Sequence[Sequence[int]] | None = None,
        sentence_ids: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """See `Engine.decode`; `settings.batch_tokens` bounds what is decoded together."""
        sentence_ids = range(len(sources)) if sentence_ids is None else sentence_ids
        found: list[list[Hypothesis]] = [[] for _ in sources]
        for group in groups_by_length([len(source) for source in sources], settings.batch_tokens):
            forced = None if prefixes is None else [prefixes[i] for i in group]
            with torch.inference_mode():
                answers = decode(
                    self.stepper,
                    Padded.of(*pad_rows([sources[i] for i in group], self.symbols.pad, self.device)),
                    torch.tensor([max_new_tokens[i] for i in group], device=self.device),
                    self.symbols,
                    settings,
                    prefixes=forced if forced and any(forced) else None,
                    sentence_ids=[sentence_ids[i] for i in group],
                )
            for index, hypotheses in zip(group, answers, strict=True):
                found[index] = hypotheses
        return found


def pad_rows(rows: Sequence[Sequence[int]], pad: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Rows of ids as one rectangle (B, S), filled up with padding, and their lengths (B,)."""
    ids = pad_sequence([torch.tensor(row, dtype=torch.long) for row in rows], batch_first=True, padding_value=pad)
    return ids.to(device), torch.tensor([len(row) for row in rows], device=device)
