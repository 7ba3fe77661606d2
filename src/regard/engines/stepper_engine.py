"""The reference engine: the searches of `decoding` over any stepper, in batches of sentences of similar length.

Shapes: B sentences in a batch, S source.
"""

from collections.abc import Sequence
from typing import Generic

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.attention.layouts import Padded, Tokens
from regard.data.planning import groups_by_length
from regard.decoding.beam import BeamObserver
from regard.decoding.engine import DecodingRequest
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search import decode
from regard.decoding.stepper import S, Stepper, Symbols


class StepperEngine(Generic[S]):
    """A model, an ensemble or any other stepper on its `device`, searched by `decoding.search.decode`.

    `observe` sees every step of a beam search.
    """

    def __init__(
        self, stepper: Stepper[Tokens, S], symbols: Symbols, device: torch.device, observe: BeamObserver | None = None
    ) -> None:
        self.stepper, self.symbols, self.device, self.observe = stepper, symbols, device, observe

    def observed(self, observe: BeamObserver) -> "StepperEngine[S]":
        return StepperEngine(self.stepper, self.symbols, self.device, observe)

    def decode(self, request: DecodingRequest) -> list[list[Hypothesis]]:
        """Decode in batches of at most `settings.batch_tokens` source tokens."""
        results: list[list[Hypothesis]] = [[] for _ in request.sources]
        lengths = [len(source) for source in request.sources]
        groups = list(groups_by_length(lengths, request.settings.batch_tokens))
        for index, hypotheses in request.decode_groups(groups, self._decode_batch):
            results[index] = hypotheses
        return results

    @torch.inference_mode()
    def _decode_batch(self, batch: DecodingRequest) -> list[list[Hypothesis]]:
        return decode(
            self.stepper,
            Padded.of(*pad_rows(batch.sources, self.symbols.pad, self.device)),
            torch.tensor(batch.max_new_tokens, device=self.device),
            self.symbols,
            batch.settings,
            prefixes=batch.prefixes,
            sentence_ids=batch.sentence_ids,
            observe=self.observe,
        )


def pad_rows(rows: Sequence[Sequence[int]], pad: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Token ids padded to a rectangle (B, S), and their lengths (B,)."""
    ids = pad_sequence([torch.tensor(row, dtype=torch.long) for row in rows], batch_first=True, padding_value=pad)
    return ids.to(device), torch.tensor([len(row) for row in rows], device=device)
