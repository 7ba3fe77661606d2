"""Samples of BERT pretraining: sentences with masked tokens, and as a model fills them in."""

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from regard.data.batch import IGNORE
from regard.data.inputs import Input, Inputs
from regard.data.pretraining import InputBuilder, SampledPairs, TokenizedDocuments, choose_masked
from regard.random import rng
from regard.training.task import Sample

if TYPE_CHECKING:
    from regard.tasks.pretraining import Pretraining

SAMPLE_TOKENS = (8, 40)
"""Minimum and maximum tokens of a sentence shown as a sample."""
REPORT_SENTENCES = 10
"""Sentences in a report."""


@torch.no_grad()
def masked_samples(task: "Pretraining", model: nn.Module, store: TokenizedDocuments, count: int) -> list[Sample]:
    """Some sentences with masked tokens, as they are, and as the model fills them in."""
    data, seed = task.recipe.data, task.recipe.runtime.seed
    lengths = np.diff(store.sentences)
    fit = np.flatnonzero((lengths >= SAMPLE_TOKENS[0]) & (lengths <= min(SAMPLE_TOKENS[1], data.max_length - 2)))
    some = fit[:count]
    nothing = np.zeros(len(some), np.int64)
    drawn = SampledPairs(store.sentences[some], lengths[some], nothing, nothing, np.full(len(some), IGNORE))
    row = InputBuilder(store, task.tokenizer, data.whole_words)(drawn)
    positions = choose_masked(row, data.masked, rng(seed))
    masked, filled = row.ids.copy(), row.ids.copy()
    masked[positions] = task.tokenizer.mask
    begins, device = np.cumsum(row.lengths) - row.lengths, next(model.parameters()).device
    for first, length in zip(begins, row.lengths, strict=True):
        there = positions[(positions >= first) & (positions < first + length)]
        rows = [[Input(masked[first : first + length].tolist(), [0] * int(length), [IGNORE])]]
        batch = Inputs.of(rows, per_token=False).pad(np.arange(1)).to(device)
        predicting = there - first - int(task.recipe.model.causal)  # a causal model predicts a token at the one before
        words, _ = model(batch.source, batch["segments"], torch.as_tensor(predicting, device=device))
        filled[there] = words.logits().argmax(dim=-1).cpu().numpy()
    texts = ([task.tokenizer.decode_all(ids[f + 1 : f + n - 1]) for ids in (masked, row.ids, filled)]
             for f, n in zip(begins, row.lengths, strict=True))  # fmt: skip
    return [Sample(*text) for text in texts]
