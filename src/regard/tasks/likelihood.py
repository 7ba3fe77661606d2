"""The probability that a language model gives to a text, and its loss in training.

N tokens of a text, T tokens of a line, V vocabulary.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.arrays import Array
from regard.data.batch import Batch
from regard.data.bptt import contiguous_segments, sliding_windows
from regard.losses.crossentropy import Loss
from regard.losses.projected import projected_cross_entropy, projected_loss
from regard.models.language_bidirectional import BidirectionalLanguageModel, both_directions
from regard.models.ngram import NGram
from regard.tasks.base import device_of
from regard.text.symbols import EOS
from regard.training.distributed import unwrap

# Scoring a text: maximum number of streams, and minimum tokens of each. A stream begins without context, so that
# a few tokens in ten thousand are a little less probable than in one stream, which would take many times as long.
MAX_STREAMS, STREAM_TOKENS = 16, 8192
BATCH_TOKENS = 4096
"""Tokens scored together."""


def segment_loss(
    model: nn.Module, batch: Batch, state: dict[str, Tensor], smoothing: float, name: str = "cross_entropy"
) -> tuple[Loss, dict[str, Tensor]]:
    """Cross-entropy (or the loss `name`) of a segment, summed, given the state before it, and the state after it.

    A bidirectional model adds the losses of both directions; the count and the likelihood are of the forward one.
    """
    if not isinstance(unwrap(model), BidirectionalLanguageModel):
        projection, after = model(batch["source"], state)
        return projected_loss(projection, batch.labels, smoothing, name), after
    projection, after = model(batch["source"], state, batch.labels)
    forward, backward = both_directions(projection)
    loss = projected_loss(forward, batch.labels, smoothing, name)
    return replace(loss, sum=loss.sum + projected_loss(backward, batch["source"], smoothing, name).sum), after


@torch.no_grad()
def text_likelihood(model: Any, ids: Array, context: int) -> float:
    """-log p of a whole text (N,), in nats: with carried state, or with windows of `context` tokens that overlap."""
    device = device_of(model)
    if isinstance(model, NGram):
        text = torch.from_numpy(np.insert(ids.astype(np.int64), 0, EOS))
        return -float(model.log_probs(text.to(device))[1:].sum())
    streams = max(1, min(MAX_STREAMS, len(ids) // STREAM_TOKENS))
    if model.is_stateful:
        segments = contiguous_segments(ids, streams, max(1, BATCH_TOKENS // streams))
    else:
        segments = sliding_windows(ids, context, max(1, BATCH_TOKENS // context))
    total, state = 0.0, None
    for segment in segments:
        segment = segment.to(device)
        projection, state = model(segment["source"], state)
        total += float(projected_cross_entropy(projection, segment.labels).nll)
    return total


@torch.no_grad()
def token_bits(model: Any, tokens: Sequence[int]) -> list[float]:
    """-log2 p of each token of a line, given those before it."""
    ids = torch.tensor([EOS, *tokens], device=device_of(model))
    if isinstance(model, NGram):
        log_probs = model.log_probs(ids)[1:]
    else:
        logits = model(ids[None, :-1])[0].logits()[0].float()  # (T, V)
        log_probs = logits.log_softmax(dim=-1).gather(1, ids[1:, None])[:, 0]
    return [-value / math.log(2) for value in log_probs.double().tolist()]
