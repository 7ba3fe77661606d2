"""Toy translation: pairs of token sequences as batches, their loss, and exact match by greedy search.

    pair_batch(sources, targets) -> {"source", "lengths", "labels"}
    translation_loss(model, batch)    teacher forcing, for every model of regard that translates
    exact_match(model, batch)         share of targets that the model writes alone, without an error

Tokens of a toy are counted from 0; `SHIFT` is added, because the first ids are special symbols.

B pairs, S source, T target with its end symbol.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.attention.layouts import Padded, Tokens
from regard.decoding.constraints import Rules
from regard.decoding.rollout import greedy_search
from regard.decoding.stepper import S, Stepper, Symbols
from regard.lab.toys import IGNORE, ToyTensors
from regard.losses.crossentropy import Loss, cross_entropy
from regard.text.symbols import BOS, EOS, PAD, SPECIALS

SHIFT = len(SPECIALS)
SYMBOLS = Symbols(BOS, EOS, PAD)


def pair_batch(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> ToyTensors:
    """Pad pairs: source (B, S) and its lengths (B,), labels (B, T) with the end symbol."""
    rows = [torch.tensor(list(source)) + SHIFT for source in sources]
    labels = [torch.tensor([*(token + SHIFT for token in target), EOS]) for target in targets]
    return {
        "source": nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD),
        "lengths": torch.tensor([len(row) for row in rows]),
        "labels": nn.utils.rnn.pad_sequence(labels, batch_first=True, padding_value=IGNORE),
    }


def reversed_pairs(
    generator: torch.Generator, words: int, length: int, size: int = 64, wrong: float = 0.0
) -> ToyTensors:
    """Random words, and as the target the same words in reverse, of which a share is `wrong`."""
    rows = torch.randint(words, (size, length), generator=generator)
    target = rows.flip(1)
    if wrong:
        errors = torch.rand(size, length, generator=generator) < wrong
        target = torch.where(errors, torch.randint(words, (size, length), generator=generator), target)
    return pair_batch(rows.tolist(), target.tolist())


def source_of(batch: ToyTensors) -> Tokens:
    return Padded.of(batch["source"], batch["lengths"])


def shifted_target(labels: Tensor) -> Tokens:
    """The input of the decoder (B, T): the labels, one position later."""
    inputs = torch.cat([torch.full((len(labels), 1), BOS), labels[:, :-1]], dim=1)
    return Padded.of(inputs.masked_fill(inputs == IGNORE, PAD), (labels != IGNORE).sum(dim=1))


def translation_loss(model: nn.Module, batch: ToyTensors, smoothing: float = 0.0) -> Loss:
    """Cross-entropy of every target token, given the source and the target tokens before it."""
    logits = model(source_of(batch), shifted_target(batch["labels"])).logits()
    return cross_entropy(logits, batch["labels"], smoothing=smoothing, ignore=IGNORE)


def write(model: Stepper[Tokens, S], batch: ToyTensors) -> list[list[int]]:
    """The targets that the model writes alone, by greedy search; at most two tokens longer than the longest label."""
    limit = torch.full((len(batch["source"]),), batch["labels"].size(1) + 2)
    found = greedy_search(model, source_of(batch), limit, Rules(SYMBOLS))
    return [[token - SHIFT for token in best[0].tokens] for best in found]


def targets_of(batch: ToyTensors) -> list[list[int]]:
    """The targets of a batch, without the end symbol."""
    return [[token - SHIFT for token in row if token not in (EOS, IGNORE)] for row in batch["labels"].tolist()]


def exact_match(model: Stepper[Tokens, S], batch: ToyTensors) -> float:
    """Share of targets that the model writes without an error; it is in the mode of evaluation, as after `fit_toy`."""
    return share_equal(write(model, batch), targets_of(batch))


def share_equal(written: Sequence[Sequence[int]], wanted: Sequence[Sequence[int]]) -> float:
    return sum(found == right for found, right in zip(written, wanted, strict=True)) / len(wanted)
