"""Scores of sentence pairs by our own models: dual conditional cross-entropy.

Junczys-Dowmunt 2018, "Dual Conditional Cross-Entropy Filtering of Noisy Parallel Corpora", section 3.1. A model A
translates x to y, a model B back; H is the mean negative log-probability per token, the end symbol included:

    H_A(y | x) = -1/|y| sum over t of log P_A(y_t | y_<t, x)

    score(x, y) = exp(-( |H_A(y|x) - H_B(x|y)|  +  1/2 (H_A(y|x) + H_B(x|y)) ))       from 0 to 1, the best

A bad pair is improbable in both directions; one that is probable in one direction only is suspicious, too. Without a
backward model the score is exp(-H_A(y|x)), the geometric mean of the token probabilities. A pair that a model cannot
read (an empty side, or more tokens than its positions) has the score 0.

Forced decoding (`forced_costs`) is also what `regard check` compares minimal pairs by.
"""

import math
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import torch

from regard.data.examples import Example
from regard.data.pairs import pad_pairs
from regard.data.planning import groups_by_length
from regard.errors import UserError
from regard.losses.crossentropy import negative_log_likelihood
from regard.tasks.translation import Translation
from regard.tasks.writing import MASKED
from regard.text.symbols import PAD
from regard.work import recall_groups

if TYPE_CHECKING:
    from regard.run.model import Translator

CHUNK_PAIRS = 1024
BATCH_TOKENS = 4096
MAX_TOKENS = 1024
"""Tokens of a side that a model without a limit of its own reads."""
DIGITS = 6


def score_pairs(
    pairs: Iterable[Example],
    forward: "Translator",
    backward: "Translator | None" = None,
    languages: tuple[str | None, str | None] = (None, None),
) -> Iterator[tuple[Example, float]]:
    """Each pair with its score; `languages` are those of pairs that name none, for models of several languages."""
    remaining, (source, target) = iter(pairs), languages
    while chunk := list(islice(remaining, CHUNK_PAIRS)):
        entropies = cross_entropies(forward, [in_direction(forward.task, pair, source, target) for pair in chunk])
        others = entropies
        if backward is not None:
            reverse = [in_direction(backward.task, exchange_sides(pair), target, source) for pair in chunk]
            others = cross_entropies(backward, reverse)
        yield from zip(chunk, map(dual_score, entropies, others), strict=True)


def dual_score(forward: float, backward: float) -> float:
    """The score of a pair from both cross-entropies; with equal ones it is exp(-H)."""
    if math.isinf(forward) or math.isinf(backward):
        return 0.0
    return round(math.exp(-(abs(forward - backward) + (forward + backward) / 2)), DIGITS)


def exchange_sides(pair: Example) -> Example:
    """The pair of the other direction."""
    return {"src": pair["tgt"], "tgt": pair["src"], "from": pair.get("to"), "to": pair.get("from")}


def in_direction(task: Translation, pair: Example, source: str | None, target: str | None) -> Example:
    """A pair with the model's code of its target language if the model has several; a UserError if the model was not
    trained in this direction: it would find every pair improbable."""
    languages = task.languages
    source, target = languages.choose(pair.get("from") or source, pair.get("to") or target)
    if source and languages.directions and (source, target) not in languages.directions:
        problem = f"the model was not trained to translate from {source} to {target}"
        raise UserError(problem, languages.known, code="unknown-pair", where="RUN")
    return {"src": pair["src"], "tgt": pair["tgt"], "to": target if languages.tags else None}


def cross_entropies(translator: "Translator", pairs: list[Example]) -> list[float]:
    """H(tgt | src) of each pair in nats per token; infinite for a pair that the model cannot read."""
    task, kind = translator.task, translator.task.recipe.model.kind
    if task.writing is MASKED:
        problem, remedy = f"a model of kind {kind} does not write token by token", "score with a different model"
        raise UserError(problem, remedy, code="unsupported-model", where="RUN")
    sources, targets = encode_pairs(task, pairs)
    limit, found = task.recipe.model.length_limit or MAX_TOKENS, [math.inf] * len(pairs)
    sizes = [max(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
    readable = [i for i, pair in enumerate(pairs) if pair["src"].strip() and pair["tgt"].strip() and sizes[i] <= limit]
    groups = [[readable[i] for i in group] for group in groups_by_length([sizes[i] for i in readable], BATCH_TOKENS)]

    def key(group: list[int]) -> object:
        return [[pairs[i]["src"], pairs[i]["tgt"], pairs[i]["to"]] for i in group]

    def compute(group: list[int]) -> list[float]:
        return forced_costs(translator, [sources[i] for i in group], [targets[i] for i in group])

    for group, costs in recall_groups(groups, key, compute):
        for i, cost in zip(group, costs, strict=True):
            found[i] = cost / len(targets[i])
    return found


def encode_pairs(task: Translation, pairs: list[Example]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Token ids of both sides of each pair, with their end symbol; `to` adds the tag of a target language."""
    columns = task.encoder(filtered=False)(pairs).columns
    sides = (columns[name] for name in ("src", "tgt"))
    sources, targets = (np.split(values, np.cumsum(lengths)[:-1]) for values, lengths in sides)
    return sources, targets


@torch.no_grad()
def forced_costs(translator: "Translator", sources: list[np.ndarray], targets: list[np.ndarray]) -> list[float]:
    """-log P(target | source) of each row in nats, by forced decoding of one batch: the model does not search."""
    sides = ((np.concatenate(rows), np.array([len(row) for row in rows])) for rows in (sources, targets))
    batch = pad_pairs(*sides).to(translator.world.device)
    logits = translator.model(batch.source, batch.target).logits().float()  # (B, T, V)
    nll = negative_log_likelihood(logits.flatten(0, -2), batch.labels.flatten()).view(len(sources), -1)
    costs: list[float] = nll.double().masked_fill(batch.labels == PAD, 0).sum(1).tolist()
    return costs
