"""Translation by filling in masked words: the loss of a conditional masked language model, and its likelihood.

Training (Ghazvininejad et al. 2019, sections 2.2 and 2.3): of a target of N words n are masked, n uniform in 1 ... N,
and the model has to say what they were, and N itself:

    L = 2 sum over masked i of CE(y_i | X, Y_obs)  +  CE(N | X)

A loss is divided by the tokens of its targets, N words and an end symbol (training/task.py). On average (N + 1) / 2
words are masked, so twice their sum, so divided, is the mean over masked words, and one learning rate suits this and
models that are asked for every word.

The mask is the beginning symbol: it stands before targets and never in them, so no vocabulary needs a new one.

B sentences, T target with its end symbol, V vocabulary; `*` is (B, T) padded or (N,) packed, with room for B sentences.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.layouts import Attentions, Packed, Padded, Tokens
from regard.data.batch import Batch
from regard.data.pairs import Pairs
from regard.data.planning import groups_by_length
from regard.decoding.settings import DecodingSettings
from regard.layers.embeddings import OutputProjection
from regard.losses.crossentropy import Loss
from regard.losses.projected import projected_cross_entropy, projected_r_drop
from regard.tasks.translation import Translation
from regard.text.symbols import BOS, EOS, PAD

MASK = BOS
NO_LENGTH = -100
"""Asks for no length."""


def draw_masked(words: Tensor, rows: Tensor, sentences: int) -> Tensor:
    """Which places hold words, (*) bool, and the sentence of each place, (*) -> which words to mask.

    In a sentence of N words n of them, uniform in 1 ... N. Places are sorted by sentence, words first and in an order
    drawn by lot; the first n of each sentence are taken.
    """
    number = (torch.rand(sentences, device=words.device) * count_in(rows, words, sentences)).floor() + 1
    lot = torch.rand(words.shape, dtype=torch.float64, device=words.device).masked_fill(~words, 1.0)  # words below 1
    place = (2 * rows + lot).flatten().argsort().argsort().view(words.shape)
    sizes = count_in(rows, torch.ones_like(words), sentences)
    before = sizes.cumsum(0) - sizes  # places of the sentences before
    return words & (place - before[rows] < number[rows])


def count_in(rows: Tensor, chosen: Tensor, sentences: int) -> Tensor:
    """How many of the places (*) of each sentence are `chosen`, (B,)."""
    zeros = torch.zeros(sentences, dtype=torch.long, device=rows.device)
    return zeros.scatter_add(0, rows.flatten(), chosen.flatten().long())


def sentences_of(layout: Any) -> tuple[Tensor, int]:
    """The sentence of each place, (*), and for how many there is room."""
    if isinstance(layout, Packed):
        return layout.rows, len(layout.offsets) - 1
    assert isinstance(layout, Padded)
    rows = torch.arange(len(layout.lengths), device=layout.lengths.device)
    return rows[:, None].expand(-1, layout.size), len(rows)


def length_cross_entropy(projection: OutputProjection, counts: Tensor) -> Tensor:
    """-log P(N | X), summed: the projection of the LENGTH tokens to all lengths (B, L), the true lengths (B,)."""
    logits = projection.logits()
    exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return F.cross_entropy(exact, counts, ignore_index=NO_LENGTH, reduction="sum")


@dataclass(frozen=True)
class MaskedTranslation(Translation):
    """The task of a model that writes all words at once."""

    start: ClassVar[str | None] = None

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        """The objective, summed over a batch, with masks drawn anew at every call."""
        smoothing, strength = self.objective.label_smoothing, self.objective.r_drop
        masked, copies = draw_masked(is_word(batch.labels), *sentences_of(batch.target.layout)), 1
        labels, tokens = batch.labels.masked_fill(~masked, PAD), (batch.labels != PAD).sum()
        criterion: Callable[[OutputProjection], Loss] = partial(
            projected_cross_entropy, labels=labels, smoothing=smoothing
        )
        if strength and model.training:
            # One pass over the batch taken twice, masked alike: dropout falls differently on either half.
            batch, masked, copies = batch.repeated(), torch.cat([masked, masked]), 2
            criterion = partial(projected_r_drop, labels=labels, strength=strength, smoothing=smoothing)
        words, length = losses(model, batch, masked, criterion)
        length = length / copies
        return Loss(2 * words.sum + length, tokens, 2 * words.nll + length.detach())

    @torch.no_grad()
    def likelihood(self, model: nn.Module, store: Pairs, budget: int = 4096) -> tuple[float, int]:
        """-log P(Y | X) of every target when it is written in a single pass, in nats, and the number of tokens:

            P(Y | X) = P(N | X) product over i of P(y_i | X)      every word masked

        A true probability of texts, to which the length contributes what the end symbol does elsewhere. Further passes
        are a search and have none, so this judges the model without them.
        """
        device = next(model.parameters()).device
        total, count = 0.0, 0
        lengths = np.maximum(store.src_lengths, store.tgt_lengths).tolist()
        for group in groups_by_length(lengths, budget):
            batch = store.pad(np.array(group)).to(device)
            everything = is_word(batch.labels)
            criterion = partial(projected_cross_entropy, labels=batch.labels.masked_fill(~everything, PAD))
            words, length = losses(model, batch, everything, criterion)
            total, count = total + float(words.nll + length), count + int(batch["target_lengths"].sum())
        return total, count

    @property
    def quick(self) -> DecodingSettings:
        """A quick search for validation: fewer passes, and the likeliest length alone."""
        return DecodingSettings(
            search="mask_predict",
            iterations=min(4, self.decoding.iterations),
            length_candidates=1,
            extra_length=self.decoding.extra_length,
            max_length=self.decoding.max_length,
        )

    def attentions(self, model: Any, source: str, target: Sequence[int]) -> tuple[list[str], list[str], Attentions]:
        """Source pieces behind the LENGTH token, target pieces, and all weights where every word can be seen."""
        device = next(model.parameters()).device
        ids = self.src_vocabulary.encode(source)[: self.max_source - 1]
        src, tgt = (torch.tensor([[*row, EOS]], device=device) for row in (ids, target))
        lengths = [torch.tensor([row.size(1)], device=device) for row in (src, tgt)]
        weights = model.attentions(Padded.of(src, lengths[0]), Padded.of(tgt, lengths[1]))
        pieces = ["⟨length⟩", *self.src_vocabulary.tokens([*ids, EOS])]
        return pieces, self.tgt_vocabulary.tokens([*target, EOS]), weights


def is_word(labels: Tensor) -> Tensor:
    """(*) bool: neither padding nor the end symbol."""
    return (labels != PAD) & (labels != EOS)


def losses(
    model: nn.Module, batch: Batch, masked: Tensor, criterion: Callable[[OutputProjection], Loss]
) -> tuple[Loss, Tensor]:
    """The loss of the words where these are `masked` (*), and the cross-entropy of the lengths.

    A batch without labels has no end symbols, and its lengths do not count either.
    """
    layout = batch.target.layout
    rows, sentences = sentences_of(layout)
    ended = count_in(rows, batch.labels == EOS, sentences) > 0
    counts = count_in(rows, is_word(batch.labels), sentences).masked_fill(~ended, NO_LENGTH)
    target = Tokens(batch.labels.masked_fill(masked, MASK), layout)
    words, lengths = model(batch.source, target)
    return criterion(words), length_cross_entropy(lengths, counts)
