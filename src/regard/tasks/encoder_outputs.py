"""The outputs of a text encoder with a head for some examples.

O outputs of the head, T tokens.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.batch import Batch
from regard.data.inputs import Input, Inputs
from regard.data.planning import groups_by_length
from regard.losses.crossentropy import Loss

BATCH_TOKENS = 16_384
"""Tokens, padding included, of one batch of predictions."""


@dataclass(frozen=True)
class Outputs:
    """The logits of some examples, one tensor (O,) or (T, O) for each of their inputs, and their summed loss."""

    logits: list[list[Tensor]]
    nll: float
    count: int


@torch.no_grad()
def run_inputs(
    model: nn.Module,
    encoded: Sequence[list[Input]],
    criterion: Callable[[Tensor, Batch], Loss],
    pooled: bool,
    per_token: bool,
    grouped: bool,
) -> Outputs:
    """Run a model, which is in evaluation mode, on the inputs of examples; inputs of similar length share a batch.

    `pooled`, `per_token` and `grouped` are those of the task (`LabelledTask`).
    """
    device = next(model.parameters()).device
    units = list(encoded) if grouped else [[item] for item in chain(*encoded)]
    logits_of: list[list[Tensor]] = [[] for _ in units]
    nll, count = 0.0, 0
    lengths, sizes = [max(len(i.ids) for i in unit) for unit in units], [len(unit) for unit in units]
    for group in groups_by_length(lengths, BATCH_TOKENS, sizes):
        inputs = Inputs.of([units[index] for index in group], per_token)
        batch = inputs.pad(np.arange(len(group))).to(device)
        logits = model(batch.source, batch["segments"]).float()
        loss = criterion(logits, batch)
        nll, count = nll + float(loss.nll), count + int(loss.count)
        rows = iter(logits.cpu())
        for index in group:
            logits_of[index] = [row if pooled else row[: len(i.ids)] for i, row in zip(units[index], rows)]  # noqa: B905
    if not grouped:
        rest = iter(logits_of)
        logits_of = [[next(rest)[0] for _ in example] for example in encoded]
    return Outputs(logits_of, nll, count)
