"""How a run's attention aligns: every layer and head measured on sentences, against gold links where there are any.

The translation is given, not searched for: both texts are known, as they are to any alignment tool, and the row that
writes a piece says where it was read from. Links are read off words, not pieces: the weights of a word's pieces are
added up where it is looked at and averaged where it looks (metrics/alignment.py). A word that looks mostly at the
end of the source is linked to nothing, which is how attention says that a word comes from nowhere.

L layers, H heads, T target pieces, S source pieces.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.data.alignments import AlignedPair, gold, unit_links, units, word_tokens
from regard.data.sources import Source
from regard.errors import UserError
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
from regard.run.translator import Translator

Array = npt.NDArray[np.float64]
Groups = list[list[int]]
BY = ("words", "pieces")


@dataclass(frozen=True)
class Plane:
    """One head of one layer, counted from 1; 0 stands for the mean of a layer's heads, or of all layers."""

    layer: int
    head: int

    def __str__(self) -> str:
        if not self.layer:
            return "mean of all layers and heads"
        return f"layer {self.layer}, " + (f"head {self.head}" if self.head else "mean of its heads")


@dataclass(frozen=True)
class Measured:
    """What one plane does, in means over sentences; links are scored where gold exists."""

    plane: Plane
    links: AlignmentScore | None
    entropy: float
    relative_entropy: float
    covered: float
    coverage_error: float

    def to_json(self) -> dict[str, Any]:
        values = asdict(self)
        del values["links"]
        values |= values.pop("plane")
        names = ("aer", "precision", "recall", "f1")
        return values | ({name: getattr(self.links, name) for name in names} if self.links else {})


@dataclass(frozen=True)
class Study:
    """Every plane of a model's cross-attention, and how much they have in common."""

    sentences: int
    planes: list[Measured]
    agreement_of_heads: list[float]
    """For each layer, the mean over all pairs of its heads."""
    agreement_of_layers: float
    lowest: AlignmentScore | None
    """What one right link for every target word would score: below this no choice of one link a word can come."""

    @property
    def heads(self) -> int:
        """All heads of all layers; of one, all means are the same plane."""
        return sum(bool(each.plane.head) for each in self.planes)

    @property
    def best(self) -> Measured:
        """The plane with the lowest error; without gold the one that comes nearest to reading every word once."""
        return min(self.planes, key=lambda plane: plane.links.aer if plane.links else plane.coverage_error)

    def at(self, plane: Plane) -> Measured:
        """The measures of one plane."""
        return next(each for each in self.planes if each.plane == plane)

    def to_json(self) -> dict[str, Any]:
        return {
            "sentences": self.sentences,
            "planes": [plane.to_json() for plane in self.planes],
            "best": self.best.to_json(),
            "agreement_of_heads": self.agreement_of_heads,
            "agreement_of_layers": self.agreement_of_layers,
            "lowest_aer": self.lowest.aer if self.lowest else None,
        }


def gold_of(corpora: Sequence[Source]) -> Iterator[AlignedPair] | None:
    """The pairs of corpora whose alignments are known by construction; None if any other is among them."""
    if not corpora or any(corpus.builtin is None for corpus in corpora):
        return None
    return (pair for each in corpora if each.builtin and each.split for pair in gold(each.builtin, each.split))


def study(translator: Translator, pairs: Iterable[AlignedPair | tuple[str, str]], sentences: int = 200) -> Study:
    """Measure every layer and head on the first `sentences` pairs; those with known parts are scored as well."""
    seen = [one for pair in islice(pairs, sentences) if (one := look(translator, pair)) is not None]
    if not seen:
        raise UserError("there is no sentence to measure attention on", "name a text with at least one")
    judged = [one.judged for one in seen if one.judged is not None]
    sure, possible = [one.sure for one in judged], [one.possible for one in judged]
    scores = [score_links(found, sure, possible) for found in zip(*(one.found for one in judged), strict=True)]
    shared = np.mean([one.agreements for one in seen], axis=0).tolist()
    return Study(
        sentences=len(seen),
        planes=[
            Measured(plane, scores[n] if scores else None, *values.tolist())
            for n, (plane, values) in enumerate(
                zip(seen[0].planes, np.mean([one.measures for one in seen], axis=0), strict=True)
            )
        ],
        agreement_of_heads=shared[:-1],
        agreement_of_layers=shared[-1],
        lowest=score_links(list(map(one_each, sure, possible)), sure, possible) if judged else None,
    )


@dataclass(frozen=True)
class Judged:
    """The links of one sentence: those that each plane found, and the gold ones."""

    found: list[Links]
    sure: Links
    possible: Links


@dataclass(frozen=True)
class Seen:
    """One sentence: a row of measures for each plane; agreements of heads in each layer, and of the layers."""

    planes: list[Plane]
    measures: Array
    agreements: list[float]
    judged: Judged | None


def look(translator: Translator, pair: AlignedPair | tuple[str, str]) -> Seen | None:
    """Every plane of one sentence; None where a side is blank."""
    source, target = (pair.src, pair.tgt) if isinstance(pair, AlignedPair) else pair
    if not source.strip() or not target.strip():
        return None
    (src, tgt), weights = cross_attention(translator, source, target)
    planes, T = all_planes(weights), len(tgt)
    agreements = [agreement(heads[:, :T]) for heads in (*weights, weights.mean(axis=1))]
    return Seen(
        planes=plane_names(weights),
        measures=measures(planes, T, len(src)),
        agreements=agreements,
        judged=judge(translator, pair, src, tgt, planes) if isinstance(pair, AlignedPair) else None,
    )


def judge(translator: Translator, pair: AlignedPair, src: list[int], tgt: list[int], planes: Array) -> Judged | None:
    """The links of every plane beside the gold ones; None where a side was too long for the model."""
    task = translator.task
    if (task.src_vocabulary.encode(pair.src), task.tgt_vocabulary.encode(pair.tgt)) != (src, tgt):
        return None
    ours = units(pair.src_segments, src, task.src_vocabulary)
    theirs = units(pair.tgt_segments, tgt, task.tgt_vocabulary)
    columns, rows = ([list(each) for each in side.tokens] for side in (ours, theirs))
    return Judged(
        found=[links_between(plane, columns, rows) for plane in planes],
        sure=unit_links(pair.sure, ours, theirs),
        possible=unit_links(pair.possible, ours, theirs),
    )


def cross_attention(translator: Translator, source: str, target: str) -> tuple[tuple[list[int], list[int]], Array]:
    """The pieces of both sides, as many as the model takes, and (L, H, T or T + 1, S + 1): the ends come last.

    What a model puts before the source, as masked ones do the LENGTH token, is no word and is left out.
    """
    task, room = translator.task, translator.task.max_source - 1
    src, tgt = task.src_vocabulary.encode(source)[:room], task.tgt_vocabulary.encode(target)[:room]
    weights = task.attentions(translator.models[0], source, tgt)[2].cross
    if weights is None:
        raise UserError(
            f"{translator.run.folder} has no attention from target to source: {translator.run.recipe.model.summary}",
            "align with a run whose model has one",
        )
    return (src, tgt), weights[0, ..., -(len(src) + 1) :].double().cpu().numpy()


def all_planes(weights: Array) -> Array:
    """(L, H, T, S) -> (L x (H + 1) + 1, T, S): each layer's heads and their mean, and the mean of everything."""
    L, H, T, S = weights.shape
    with_means = np.concatenate([weights, weights.mean(axis=1, keepdims=True)], axis=1)
    return np.concatenate([with_means.reshape(L * (H + 1), T, S), weights.mean(axis=(0, 1))[None]])


def plane_names(weights: Array) -> list[Plane]:
    """What the planes of `all_planes` are, in their order."""
    L, H = weights.shape[:2]
    return [Plane(layer, head) for layer in range(1, L + 1) for head in (*range(1, H + 1), 0)] + [Plane(0, 0)]


def measures(planes: Array, T: int, S: int) -> Array:
    """(planes, ...) -> (planes, 4): entropy, relative entropy, covered, coverage error; the ends are not words."""
    written, read = planes[:, :T], planes[:, :T, :S]
    looks = [entropy(written).mean(axis=-1), relative_entropy(written).mean(axis=-1)]
    return np.stack([*looks, covered(read), coverage_error(read)], axis=-1)


def links_between(plane: Array, src: Groups, tgt: Groups) -> Links:
    """The links of one plane between groups of pieces; the end of the source, its last column, is no word."""
    end = plane.shape[-1] - 1
    links = argmax_links(pool_words(plane, tgt, [*src, [end]]))
    return frozenset((s, t) for s, t in links if s < len(src))


def one_each(sure: Links, possible: Links) -> Links:
    """One link for each target word: a sure one where there is one."""
    chosen = {t: (s, t) for s, t in sorted(possible)} | {t: (s, t) for s, t in sorted(sure)}
    return frozenset(chosen.values())


def align(translator: Translator, pairs: Iterable[tuple[str, str]], plane: Plane, by: str = "words") -> Iterator[Links]:
    """The links of every pair between words (what stands between blanks) or pieces; blank lines have none."""
    groups: Callable[..., Groups] = word_tokens if by == "words" else _each_piece
    task = translator.task
    for source, target in pairs:
        (src, tgt), weights = cross_attention(translator, source, target)
        ours, theirs = groups(source, src, task.src_vocabulary), groups(target, tgt, task.tgt_vocabulary)
        # What was cut off has no pieces, and stands at the end.
        ours, theirs = [group for group in ours if group], [group for group in theirs if group]
        chosen = all_planes(weights)[plane_names(weights).index(plane)]
        yield links_between(chosen, ours, theirs) if ours and theirs else frozenset()


def _each_piece(text: str, ids: Sequence[int], vocabulary: object) -> Groups:
    return [[place] for place in range(len(ids))]
