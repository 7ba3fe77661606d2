"""How decoders write: token by token, or all tokens at once by filling in masked ones. Losses and likelihoods of both.

In the training of a conditional masked language model (Ghazvininejad et al. 2019, sections 2.2 and 2.3), n of the N
tokens of a target are masked, n uniform in 1 ... N. The model predicts the masked tokens, and N itself:

    L = 2 sum over masked i of CE(y_i | X, Y_obs)  +  CE(N | X)

A loss is divided by the tokens of its targets, N tokens and an end symbol (training/task.py). On average (N + 1) / 2
tokens are masked. So twice their sum, divided in this way, is the mean over masked tokens, and the same learning rate
works for this model and for models that predict every token.

The mask is the beginning symbol: it never occurs inside a target, so the vocabulary needs no new symbol.

B sentences, T target with its end symbol, V vocabulary; `*` is (B, T) padded or (N,) packed, for B sentences.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.layouts import Layout, Packed, Padded, Tokens
from regard.data.batch import Batch
from regard.decoding.settings import DecodingSettings
from regard.layers.embeddings import OutputProjection
from regard.losses.crossentropy import Loss
from regard.losses.projected import projected_cross_entropy, projected_loss, projected_r_drop
from regard.losses.reinforce import reinforce
from regard.messages import Message
from regard.tasks.checks import ExpectedLoss
from regard.text.symbols import BOS, EOS, PAD

MASK = BOS
Criterion = Callable[[OutputProjection], Loss]
NO_LENGTH = -100
"""Target of a sentence whose length does not count."""


class TokenByToken:
    """How a decoder that predicts each token from those before it learns and is decoded; a part of a task."""

    start_symbol = "⟨s⟩"
    """The symbol before the decoder's words in pictures; None if the decoder reads the words themselves."""
    causal_sequence = "target"

    def loss(
        self, model: nn.Module, batch: Batch, smoothing: float = 0.0, r_drop: float = 0.0, name: str = "cross_entropy"
    ) -> Loss:
        """Cross-entropy with label smoothing and R-Drop, or the loss `name`, summed over the target tokens."""
        labels = batch.labels
        loss = partial(projected_loss, labels=labels, smoothing=smoothing, name=name)
        if r_drop and model.training:  # one pass over the batch repeated twice, with different dropout in each half
            batch = batch.repeated()
            loss = partial(projected_r_drop, labels=labels, strength=r_drop, smoothing=smoothing)
        projection = model(batch.source, batch.target)
        computed = loss(projection)
        return computed if projection.samples is None else reinforce(computed, projection, labels)

    def likelihood(self, model: nn.Module, batch: Batch) -> tuple[float, int]:
        """Negative log-likelihood of the targets given their sources, in nats, and the number of target tokens."""
        loss = self.loss(model, batch)
        return float(loss.nll), int(loss.count)

    def expected_loss(self, batch: Batch, vocabulary: int, max_length: int | None) -> ExpectedLoss | None:
        """None: the doctor checks the logits."""
        return None

    def quick_search(self, decoding: DecodingSettings) -> DecodingSettings:
        """Greedy search for validation; the final evaluation uses the search of the recipe."""
        kept = decoding.model_dump(include={"extra_length", "max_length", "loop_guard"})
        return DecodingSettings(search="greedy", **kept)

    def decoder_input(self, target: Sequence[int]) -> list[int]:
        """What the decoder reads for a whole target: the tokens shifted right by one."""
        return [BOS, *target]

    def source_tokens(self, tokens: list[str]) -> list[str]:
        return tokens


def sample_masked(words: Tensor, rows: Tensor, sentences: int) -> Tensor:
    """Sample which tokens to mask: n of the N tokens of a sentence, n uniform in 1 ... N.

    `words` (*) marks positions that hold tokens, `rows` (*) the sentence of each position. Positions are sorted by
    sentence, tokens first and in random order; the first n of each sentence are masked.
    """
    number = (torch.rand(sentences, device=words.device) * count_in(rows, words, sentences)).floor() + 1
    order = torch.rand(words.shape, dtype=torch.float64, device=words.device).masked_fill(~words, 1.0)  # tokens below 1
    rank = (2 * rows + order).flatten().argsort().argsort().view(words.shape)
    sizes = count_in(rows, torch.ones_like(words), sentences)
    before = sizes.cumsum(0) - sizes  # positions of the sentences before
    return words & (rank - before[rows] < number[rows])


def count_in(rows: Tensor, selected: Tensor, sentences: int) -> Tensor:
    """The number of selected positions (*) of each sentence, (B,)."""
    zeros = torch.zeros(sentences, dtype=torch.long, device=rows.device)
    return zeros.scatter_add(0, rows.flatten(), selected.flatten().long())


def sentences_of(layout: Layout) -> tuple[Tensor, int]:
    """The sentence of each position, (*), and the number of sentences of the layout."""
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


class MaskedTokens:
    """How a model that writes all tokens at once learns and is decoded; a part of a task."""

    start_symbol = None
    causal_sequence = ""

    def loss(self, model: nn.Module, batch: Batch, smoothing: float, r_drop: float, name: str) -> Loss:
        """The objective, summed over a batch, with masks sampled at every call; `name` is always cross_entropy."""
        masked, copies = sample_masked(is_word(batch.labels), *sentences_of(batch.target.layout)), 1
        labels, tokens = batch.labels.masked_fill(~masked, PAD), (batch.labels != PAD).sum()
        criterion: Criterion = partial(projected_cross_entropy, labels=labels, smoothing=smoothing)
        if r_drop and model.training:
            # One pass over the batch repeated twice with the same masks and different dropout.
            batch, masked, copies = batch.repeated(), torch.cat([masked, masked]), 2
            criterion = partial(projected_r_drop, labels=labels, strength=r_drop, smoothing=smoothing)
        words, length = masked_loss(model, batch, masked, criterion)
        length = length / copies
        return Loss(2 * words.sum + length, tokens, 2 * words.nll + length.detach())

    def likelihood(self, model: nn.Module, batch: Batch) -> tuple[float, int]:
        """-log P(Y | X) of all targets written in a single pass, in nats, and the number of tokens:

            P(Y | X) = P(N | X) product over i of P(y_i | X)      every token masked

        This is a true probability of texts. Further passes are a search and have none.
        """
        everything = is_word(batch.labels)
        criterion = partial(projected_cross_entropy, labels=batch.labels.masked_fill(~everything, PAD))
        words, length = masked_loss(model, batch, everything, criterion)
        return float(words.nll + length), int(batch["target_lengths"].sum())

    def expected_loss(self, batch: Batch, vocabulary: int, max_length: int | None) -> ExpectedLoss:
        """Twice the mean of ln V over masked tokens, about half of all, and the length once in a sentence."""
        tokens = int(batch["target_lengths"].sum())
        lengths = math.log(max_length or 1) * len(batch.labels) / tokens
        return ExpectedLoss(math.log(vocabulary) + 0.5 + lengths, Message("ln V + 1/2 and the length"), 1.5)

    def quick_search(self, decoding: DecodingSettings) -> DecodingSettings:
        """Fewer passes and the most probable length only, for validation."""
        kept = decoding.model_dump(include={"extra_length", "max_length"})
        iterations = min(4, decoding.iterations)
        return DecodingSettings(search="mask_predict", iterations=iterations, length_candidates=1, **kept)

    def decoder_input(self, target: Sequence[int]) -> list[int]:
        """What the decoder reads for a whole target: every token, visible."""
        return [*target, EOS]

    def source_tokens(self, tokens: list[str]) -> list[str]:
        return ["⟨length⟩", *tokens]


def is_word(labels: Tensor) -> Tensor:
    """(*) bool: True if a label is neither padding nor the end symbol."""
    return (labels != PAD) & (labels != EOS)


def masked_loss(model: nn.Module, batch: Batch, masked: Tensor, criterion: Criterion) -> tuple[Loss, Tensor]:
    """The loss of the `masked` (*) tokens, and the cross-entropy of lengths, if the batch has end symbols."""
    layout = batch.target.layout
    rows, sentences = sentences_of(layout)
    ended = count_in(rows, batch.labels == EOS, sentences) > 0
    counts = count_in(rows, is_word(batch.labels), sentences).masked_fill(~ended, NO_LENGTH)
    target = Tokens(batch.labels.masked_fill(masked, MASK), layout)
    words, lengths = model(batch.source, target)
    return criterion(words), length_cross_entropy(lengths, counts)


LEFT_TO_RIGHT, MASKED = TokenByToken(), MaskedTokens()
