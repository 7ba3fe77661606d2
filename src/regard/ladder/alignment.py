"""Attention as a word alignment: every layer and head measured on sentence pairs, against gold links if there are any.

The target is given, not decoded: both sentences are known, as for any alignment tool, and the row of attention weights
that predicts a token says where it was read from. Links are between words, not tokens: the weights of the tokens of a
word are summed on the source side and averaged on the target side (metrics/alignment.py). A target word whose largest
weight is at the end symbol of the source has no link.

L layers, H heads, T target tokens, S source tokens.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from regard.data.alignments import AlignedPair, gold, unit_links, units, word_tokens
from regard.data.sources import Source
from regard.errors import UserError
from regard.files import JsonObject
from regard.metrics.alignment import (
    AlignmentScore,
    Links,
    agreement,
    argmax_links,
    coverage_error,
    covered,
    entropy,
    pool_words,
    relative_entropy,
    score_links,
)
from regard.run.model import Translator

Array = npt.NDArray[np.float64]
Groups = list[list[int]]
SCORE_NAMES = ("aer", "precision", "recall", "f1")


@dataclass(frozen=True)
class AttentionHead:
    """One head of one layer, counted from 1; head 0 is the mean of a layer, layer 0 the mean of all layers."""

    layer: int
    head: int

    def __str__(self) -> str:
        if not self.layer:
            return "mean of all layers and heads"
        return f"layer {self.layer}, " + (f"head {self.head}" if self.head else "mean of its heads")


@dataclass(frozen=True)
class HeadReport:
    """Measures of one head, means over sentences; links are scored if there are gold links."""

    head: AttentionHead
    links: AlignmentScore | None
    entropy: float
    relative_entropy: float
    covered: float
    coverage_error: float

    def to_json(self) -> JsonObject:
        values = {name: value for name, value in asdict(self).items() if name not in ("head", "links")}
        scores = {name: getattr(self.links, name) for name in SCORE_NAMES} if self.links else {}
        return values | asdict(self.head) | scores


@dataclass(frozen=True)
class AlignmentReport:
    """Measures of every head of a model's cross-attention, and the agreement between them."""

    sentences: int
    heads: list[HeadReport]
    agreement_of_heads: list[float]
    """For each layer, the mean over all pairs of its heads."""
    agreement_of_layers: float
    lowest: AlignmentScore | None
    """The score of one correct link for every target word: one link per word cannot have a lower error."""

    @property
    def head_count(self) -> int:
        """Number of heads of all layers, means not counted."""
        return sum(bool(report.head.head) for report in self.heads)

    @property
    def best(self) -> HeadReport:
        """The head with the lowest alignment error; without gold links, with the lowest coverage error."""
        return min(self.heads, key=lambda report: report.links.aer if report.links else report.coverage_error)

    def of(self, head: AttentionHead) -> HeadReport:
        """The measures of one head."""
        return next(report for report in self.heads if report.head == head)

    def to_json(self) -> JsonObject:
        return {
            "sentences": self.sentences,
            "heads": [report.to_json() for report in self.heads],
            "best": self.best.to_json(),
            "agreement_of_heads": self.agreement_of_heads,
            "agreement_of_layers": self.agreement_of_layers,
            "lowest_aer": self.lowest.aer if self.lowest else None,
        }


def gold_alignments(sources: Sequence[Source]) -> Iterator[AlignedPair] | None:
    """The pairs of builtin corpora with their exact alignments; None if there is any other corpus among them."""
    if not sources or any(source.builtin is None for source in sources):
        return None
    return (pair for item in sources if item.builtin and item.split for pair in gold(item.builtin, item.split))


class TextPair(NamedTuple):
    """A sentence, its translation, and the language of the translation if the run has several."""

    src: str
    tgt: str
    to: str | None = None


def evaluate_alignment(
    translator: Translator, pairs: Iterable[AlignedPair | TextPair], sentences: int = 200
) -> AlignmentReport:
    """Measure every head on the first `sentences` pairs; pairs with gold links are scored too."""
    measured = [one for pair in islice(pairs, sentences) if (one := measure_sentence(translator, pair)) is not None]
    if not measured:
        raise UserError("there is no sentence to measure attention on", "name a text with at least one", code="no-data")
    scored = [one.links for one in measured if one.links is not None]
    sure, possible = [links.sure for links in scored], [links.possible for links in scored]
    scores = [score_links(links, sure, possible) for links in zip(*(one.predicted for one in scored), strict=True)]
    agreements = np.mean([one.agreements for one in measured], axis=0).tolist()
    means = np.mean([one.measures for one in measured], axis=0)
    return AlignmentReport(
        sentences=len(measured),
        heads=[
            HeadReport(head, scores[index] if scores else None, *values.tolist())
            for index, (head, values) in enumerate(zip(measured[0].heads, means, strict=True))
        ],
        agreement_of_heads=agreements[:-1],
        agreement_of_layers=agreements[-1],
        lowest=score_links(list(map(one_link_per_word, sure, possible)), sure, possible) if scored else None,
    )


@dataclass(frozen=True)
class SentenceLinks:
    """The links of one sentence pair: predicted by each head, and the gold ones."""

    predicted: list[Links]
    sure: Links
    possible: Links


@dataclass(frozen=True)
class SentenceReport:
    """The measures of one sentence pair: one row per head; the agreement of the heads of each layer, and of layers."""

    heads: list[AttentionHead]
    measures: Array
    agreements: list[float]
    links: SentenceLinks | None


def measure_sentence(translator: Translator, pair: AlignedPair | TextPair) -> SentenceReport | None:
    """Measure every head on one sentence pair; None if a side is blank."""
    if not pair.src.strip() or not pair.tgt.strip():
        return None
    (src, tgt), weights = cross_attention(translator, pair)
    matrices, T = attention_matrices(weights), len(tgt)
    agreements = [agreement(heads[:, :T]) for heads in (*weights, weights.mean(axis=1))]
    return SentenceReport(
        heads=list_heads(weights),
        measures=measures(matrices, T, len(src)),
        agreements=agreements,
        links=predict_links(translator, pair, src, tgt, matrices) if isinstance(pair, AlignedPair) else None,
    )


def predict_links(
    translator: Translator, pair: AlignedPair, src: list[int], tgt: list[int], matrices: Array
) -> SentenceLinks | None:
    """The links of every head and the gold ones; None if a side was truncated."""
    task = translator.task
    if (task.src_tokenizer.encode(pair.src), task.tgt_tokenizer.encode(pair.tgt)) != (src, tgt):
        return None
    src_units = units(pair.src_segments, src, task.src_tokenizer)
    tgt_units = units(pair.tgt_segments, tgt, task.tgt_tokenizer)
    columns, rows = ([list(group) for group in side.tokens] for side in (src_units, tgt_units))
    return SentenceLinks(
        predicted=[links_between(matrix, columns, rows) for matrix in matrices],
        sure=unit_links(pair.sure, src_units, tgt_units),
        possible=unit_links(pair.possible, src_units, tgt_units),
    )


def cross_attention(translator: Translator, pair: AlignedPair | TextPair) -> tuple[tuple[list[int], list[int]], Array]:
    """The tokens of both sides, truncated as the model reads them, and (L, H, T or T + 1, S + 1) with end symbols last.

    The tokens before the source are left out: the tag of the target language, and LENGTH of a masked model.
    """
    task = translator.task
    tags = task.tags({"to": pair.to} if isinstance(pair, TextPair) and pair.to else {})
    max_tokens = task.max_source - 1
    src = task.src_tokenizer.encode(pair.src)[: max_tokens - len(tags)]
    tgt = task.tgt_tokenizer.encode(pair.tgt)[:max_tokens]
    weights = task.attention_weights(translator.model, pair.src, tgt, tags)[2].cross
    if weights is None:
        raise UserError(
            f"{translator.run.folder} has no cross-attention: {translator.run.recipe.model.summary}",
            "use a run whose model has it",
            code="no-attention",
            where=translator.run.folder,
        )
    return (src, tgt), weights[0, ..., -(len(src) + 1) :].double().cpu().numpy()


def attention_matrices(weights: Array) -> Array:
    """(L, H, T, S) -> (L x (H + 1) + 1, T, S): the heads of each layer and their mean, and the mean of everything."""
    L, H, T, S = weights.shape
    with_means = np.concatenate([weights, weights.mean(axis=1, keepdims=True)], axis=1)
    return np.concatenate([with_means.reshape(L * (H + 1), T, S), weights.mean(axis=(0, 1))[None]])


def list_heads(weights: Array) -> list[AttentionHead]:
    """The heads of `attention_matrices`, in their order."""
    L, H = weights.shape[:2]
    heads = [AttentionHead(layer, head) for layer in range(1, L + 1) for head in (*range(1, H + 1), 0)]
    return [*heads, AttentionHead(0, 0)]


def measures(matrices: Array, T: int, S: int) -> Array:
    """(heads, ...) -> (heads, 4): entropy, relative entropy, covered, coverage error; without the end symbols."""
    rows, words = matrices[:, :T], matrices[:, :T, :S]
    entropies = [entropy(rows).mean(axis=-1), relative_entropy(rows).mean(axis=-1)]
    return np.stack([*entropies, covered(words), coverage_error(words)], axis=-1)


def links_between(matrix: Array, src: Groups, tgt: Groups) -> Links:
    """The links of one head between groups of tokens; the last column, the end of the source, is not a word."""
    end = matrix.shape[-1] - 1
    links = argmax_links(pool_words(matrix, tgt, [*src, [end]]))
    return frozenset((s, t) for s, t in links if s < len(src))


def one_link_per_word(sure: Links, possible: Links) -> Links:
    """One gold link for each target word, a sure one if there is one."""
    links = {t: (s, t) for s, t in sorted(possible)} | {t: (s, t) for s, t in sorted(sure)}
    return frozenset(links.values())


def align(translator: Translator, pairs: Iterable[TextPair], head: AttentionHead, by: str = "words") -> Iterator[Links]:
    """The links of every pair between words (separated by blanks) or tokens; blank lines have none."""
    group: Callable[..., Groups] = word_tokens if by == "words" else _single_tokens
    task = translator.task
    for pair in pairs:
        (src, tgt), weights = cross_attention(translator, pair)
        # Words beyond the maximum length have no tokens; they are at the end.
        src_groups = [tokens for tokens in group(pair.src, src, task.src_tokenizer) if tokens]
        tgt_groups = [tokens for tokens in group(pair.tgt, tgt, task.tgt_tokenizer) if tokens]
        matrix = attention_matrices(weights)[list_heads(weights).index(head)]
        yield links_between(matrix, src_groups, tgt_groups) if src_groups and tgt_groups else frozenset()


def _single_tokens(text: str, ids: Sequence[int], tokenizer: object) -> Groups:
    return [[index] for index in range(len(ids))]
