"""Attention as a word alignment: every layer and head measured on sentence pairs, against gold links if there are any.

`run/alignment.py` computes the weights: the target is given, not decoded, and the row that predicts a token says where
it was read from. Links are between words, not tokens: the weights of a word's tokens are summed on the source side and
averaged on the target side (metrics/alignment.py). A target word whose largest weight is at the source's end symbol has
no link.

L layers, H heads, T target tokens, S source tokens.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice

import numpy as np

from regard.data.alignments import AlignedPair, gold, unit_links, units
from regard.data.arrays import Array
from regard.data.examples import Example
from regard.data.sources import Source
from regard.errors import UserError
from regard.files import JsonObject
from regard.metrics import alignment as metrics
from regard.metrics.alignment import AlignmentScore, Links
from regard.run.alignment import AlignmentHead, EncodedText, cross_attentions, encode_pairs, list_heads, word_groups
from regard.run.model import Translator

SCORE_NAMES = ("aer", "precision", "recall", "f1")
BETWEEN_SPACES = re.compile(r"\S+")
CHUNK_PAIRS = 1000
"""Pairs that are aligned before their links are written."""


@dataclass(frozen=True)
class HeadReport:
    """Statistics of one head, averaged over sentences; links are scored if there are gold links."""

    head: AlignmentHead
    links: AlignmentScore | None
    entropy: float
    relative_entropy: float
    covered: float
    coverage_error: float

    def to_json(self) -> JsonObject:
        values = {name: value for name, value in asdict(self).items() if name not in ("head", "links")}
        scores = {name: getattr(self.links, name) for name in SCORE_NAMES} if self.links else {}
        return values | {"layer": self.head.layer, "head": self.head.head} | scores


@dataclass(frozen=True)
class AlignmentReport:
    """Statistics of every head of a model's cross-attention, and the agreement between heads."""

    sentences: int
    heads: list[HeadReport]
    agreement_of_heads: list[float]
    """For each layer, the mean over all pairs of its heads."""
    agreement_of_layers: float
    lowest: AlignmentScore | None
    """The score of one correct link for every target word: one link per word cannot have a lower error."""

    @property
    def best(self) -> HeadReport:
        """The head with the lowest alignment error; without gold links, with the lowest coverage error."""
        return min(self.heads, key=lambda report: report.links.aer if report.links else report.coverage_error)

    def of(self, head: AlignmentHead) -> HeadReport:
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


def evaluate_alignment(
    translator: Translator, pairs: Iterable[AlignedPair | Example], sentences: int = 200
) -> AlignmentReport:
    """Measure every head on the first `sentences` pairs; pairs with gold links are scored too."""
    measured = measure_sentences(translator, list(islice(pairs, sentences)))
    if not measured:
        raise UserError("there are no sentence pairs to measure", "choose data with pairs", code="no-data")
    scored = [one.links for one in measured if one.links is not None]
    sure, possible = [links.sure for links in scored], [links.possible for links in scored]
    predicted = zip(*(one.predicted for one in scored), strict=True)
    scores = [metrics.score_links(links, sure, possible) for links in predicted]
    agreements = np.mean([one.agreements for one in measured], axis=0).tolist()
    means = np.mean([one.statistics for one in measured], axis=0)
    gold_links = [  # one for each target word, a sure one if there is one
        frozenset(({t: (s, t) for s, t in sorted(maybe)} | {t: (s, t) for s, t in sorted(certain)}).values())
        for certain, maybe in zip(sure, possible, strict=True)
    ]
    return AlignmentReport(
        sentences=len(measured),
        heads=[
            HeadReport(head, scores[index] if scores else None, *values.tolist())
            for index, (head, values) in enumerate(zip(measured[0].heads, means, strict=True))
        ],
        agreement_of_heads=agreements[:-1],
        agreement_of_layers=agreements[-1],
        lowest=metrics.score_links(gold_links, sure, possible) if scored else None,
    )


@dataclass(frozen=True)
class SentenceLinks:
    """The links of one sentence pair: predicted by each head, and the gold ones."""

    predicted: list[Links]
    sure: Links
    possible: Links


@dataclass(frozen=True)
class SentenceReport:
    """Statistics of one sentence pair: a row per head; the agreement of the heads in each layer, and of the layers."""

    heads: list[AlignmentHead]
    statistics: Array
    agreements: list[float]
    links: SentenceLinks | None


def measure_sentences(translator: Translator, pairs: Sequence[AlignedPair | Example]) -> list[SentenceReport]:
    """Measure every head on each sentence pair that has text on both sides."""
    examples = [{"src": pair.src, "tgt": pair.tgt} if isinstance(pair, AlignedPair) else pair for pair in pairs]
    texts = encode_pairs(translator, examples, [example["tgt"] for example in examples])
    reports: dict[int, SentenceReport] = {}
    for index, weights in cross_attentions(translator, texts):
        (source, target), pair = texts[index], pairs[index]
        if not source.text.strip() or not target.text.strip():
            continue
        heads, T = list_heads(*weights.shape[:2]), len(target.spans)
        matrices = np.stack([head.select(weights) for head in heads])  # (heads, T, S + 1)
        words = matrices[..., :-1]  # without the end of the source
        entropies = [metrics.entropy(matrices).mean(axis=-1), metrics.relative_entropy(matrices).mean(axis=-1)]
        reports[index] = SentenceReport(
            heads=heads,
            statistics=np.stack([*entropies, metrics.covered(words), metrics.coverage_error(words)], axis=-1),
            agreements=[metrics.agreement(layer[:, :T]) for layer in (*weights, weights.mean(axis=1))],
            links=predict_links(translator, pair, source, target, matrices) if isinstance(pair, AlignedPair) else None,
        )
    return [reports[index] for index in sorted(reports)]


def predict_links(
    translator: Translator, pair: AlignedPair, source: EncodedText, target: EncodedText, matrices: Array
) -> SentenceLinks | None:
    """The links of every head and the gold ones; None if a side was truncated."""
    task, src = translator.task, source.ids[source.tags :]
    if (task.src_tokenizer.encode(pair.src), task.tgt_tokenizer.encode(pair.tgt)) != (src, target.ids):
        return None
    src_units = units(pair.src_segments, src, task.src_tokenizer)
    tgt_units = units(pair.tgt_segments, target.ids, task.tgt_tokenizer)
    return SentenceLinks(
        predicted=[links_between(matrix, src_units.tokens, tgt_units.tokens) for matrix in matrices],
        sure=unit_links(pair.sure, src_units, tgt_units),
        possible=unit_links(pair.possible, src_units, tgt_units),
    )


def links_between(matrix: Array, src: Sequence[Sequence[int]], tgt: Sequence[Sequence[int]]) -> Links:
    """The links of one head between groups of tokens; the last column, the end of the source, is not a word."""
    end = matrix.shape[-1] - 1
    links = metrics.argmax_links(metrics.pool_words(matrix, tgt, [*src, [end]]))
    return frozenset((s, t) for s, t in links if s < len(src))


def align(
    translator: Translator, examples: Sequence[Example], head: AlignmentHead, by: str = "words"
) -> Iterator[Links]:
    """The links of every pair between words (separated by spaces) or tokens; empty lines have none."""
    for first in range(0, len(examples), CHUNK_PAIRS):
        chunk = examples[first : first + CHUNK_PAIRS]
        texts = encode_pairs(translator, chunk, [example["tgt"] for example in chunk])
        links: list[Links] = [frozenset()] * len(chunk)
        for index, weights in cross_attentions(translator, texts):
            sides = texts[index]
            src, tgt = (
                word_groups(side, BETWEEN_SPACES) if by == "words" else {n: [n] for n in range(len(side.spans))}
                for side in sides
            )
            if src and tgt:
                between = links_between(head.select(weights), list(src.values()), list(tgt.values()))
                numbers = list(src), list(tgt)
                links[index] = frozenset((numbers[0][s], numbers[1][t]) for s, t in between)
        yield from links
