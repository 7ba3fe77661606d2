"""Checks of a translation model: a table per direction and set of sentences, and minimal pairs.

    sentences   everyday sentences with numbers, names and negations (bundled/sentences.tsv)
    phrases     greetings, labels and warnings (bundled/phrases.tsv), without the translation memory that has them
    FILE        parallel text of the user

A minimal pair is a right translation and a wrong one that differ in one place (bundled/minimal_pairs.tsv). Both are
forced: the model does not search, it gives each its probability, and the right one should have the higher.

    margin(x, y, z) = log P(y | x) - log P(z | x)             x source, y right, z wrong
    log P(y | x) = sum over t of log P(y_t | y_<t, x)

The head that decides is the one without which the mean margin is the lowest (Michel et al. 2019, "Are Sixteen Heads
Really Better than One?", section 3: heads are switched off one at a time). Contrastive pairs: Sennrich 2017, "How
Grammatical is Character-level Neural Machine Translation?".
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from regard.data.examples import Example
from regard.data.faults import CHECKS, Case
from regard.errors import UserError
from regard.files import JsonObject
from regard.metrics.translation import bleu, bleu_tokenizer_for, chrf
from regard.run.recording import count_heads, without
from regard.run.scoring import encode_pairs, forced_costs
from regard.run.translating import predict_texts
from regard.run_files import FOLDER
from regard.tasks.identification import bundled_probabilities
from regard.tasks.languages import Direction, main_code
from regard.tasks.writing import MASKED

if TYPE_CHECKING:
    from regard.run.model import Translator

_NAME = re.compile(r"\[([^\]]*)\]")
_CHOICE = re.compile(r"\{([^|}]*)\|([^}]*)\}")
Progress = Callable[[int, int | None], None]


@dataclass(frozen=True)
class Sentence:
    """A sentence to translate; `references`, `names` and `is_phrase` as in `Case`."""

    source: str
    references: tuple[str, ...] = ()
    names: tuple[tuple[str, ...], ...] | None = None
    is_phrase: bool = False


@dataclass(frozen=True)
class CheckedSet:
    """The checks of one set of sentences in one direction.

    counts     for each check, how many translations passed and how many were judged
    failures   (check, case) of translations that did not pass
    """

    direction: Direction
    name: str
    sentences: int
    scores: dict[str, float]
    counts: dict[str, tuple[int, int]]
    failures: list[tuple[str, Case]]

    def share(self, check: str) -> float | None:
        """The share of judged translations that passed; None if none was judged."""
        passed, judged = self.counts[check]
        return passed / judged if judged else None


@dataclass(frozen=True)
class MinimalPair:
    """A source with a right and a wrong translation; `margin` is above 0 if the model prefers the right one."""

    kind: str
    source: str
    right: str
    wrong: str
    margin: float = 0.0


@dataclass(frozen=True)
class CheckedPairs:
    """The minimal pairs of one kind in one direction.

    head             the head that decides, e.g. ("decoder.1.cross", 3), numbered as in `Model.without`
    margin           mean of the pairs, in nats
    margin_without   without this head
    """

    direction: Direction
    kind: str
    pairs: list[MinimalPair]
    margin: float
    head: tuple[str, int] | None = None
    margin_without: float | None = None

    @property
    def right(self) -> int:
        return sum(pair.margin > 0 for pair in self.pairs)


@dataclass(frozen=True)
class CheckResults:
    """The results of `check`: sets of sentences, and minimal pairs."""

    sets: list[CheckedSet] = field(default_factory=list)
    pairs: list[CheckedPairs] = field(default_factory=list)

    def to_json(self) -> JsonObject:
        return {
            "sets": [
                {
                    "from": item.direction[0],
                    "to": item.direction[1],
                    "set": item.name,
                    "sentences": item.sentences,
                    **item.scores,
                    "checks": {name: {"passed": n, "judged": all_} for name, (n, all_) in item.counts.items()},
                    "failures": [
                        {"check": name, "src": case.source, "translation": case.output, "references": case.references}
                        for name, case in item.failures
                    ],
                }
                for item in self.sets
            ],
            "minimal_pairs": [
                {"from": item.direction[0], "to": item.direction[1], "right": item.right}
                | {name: value for name, value in asdict(item).items() if name != "direction"}
                for item in self.pairs
            ],
        }


# ---- sentences of the package ----------------------------------------------------------------------------------------


def read_rows(name: str) -> list[dict[str, str]]:
    """The rows of a bundled table by their column names."""
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    header = lines[0].split("\t")
    return [dict(zip(header, line.split("\t"), strict=True)) for line in lines[1:]]


def bundled_sets(direction: Direction) -> dict[str, list[Sentence]]:
    """The bundled sentences and phrases of a direction; {} if a language is not there."""
    source, target = map(main_code, direction)
    rows, phrases = read_rows("sentences.tsv"), read_rows("phrases.tsv")
    if source == target or not {source, target} <= rows[0].keys():
        return {}
    references: dict[str, list[str]] = {}
    for row in phrases:
        references.setdefault(row[source], []).append(row[target])
    return {
        "sentences": [parse_names(row[source], row[target]) for row in rows],
        "phrases": [Sentence(text, tuple(dict.fromkeys(found)), (), True) for text, found in references.items()],
    }


def parse_names(source: str, target: str) -> Sentence:
    """A row in which names are in brackets, with other ways to write them after |. A name may stay as in the source."""
    forms = [[name.split("|") for name in _NAME.findall(text)] for text in (source, target)]
    source, target = (_NAME.sub(lambda match: match[1].split("|")[0], text) for text in (source, target))
    names = tuple((*translated, original[0]) for original, translated in zip(*forms, strict=True))
    return Sentence(source, (target,), names)


def minimal_pairs(direction: Direction) -> list[MinimalPair]:
    """The bundled minimal pairs of a direction: {right|wrong} in the target, the right text of the source."""
    source, target = map(main_code, direction)
    rows = read_rows("minimal_pairs.tsv")
    if source == target or not {source, target} <= rows[0].keys() - {"kind"}:
        return []
    found = []
    for row in rows:
        right, wrong = (_CHOICE.sub(rf"\{number}", row[target]) for number in (1, 2))
        found.append(MinimalPair(row["kind"], _CHOICE.sub(r"\1", row[source]), right, wrong))
    return found


# ---- the checks ------------------------------------------------------------------------------------------------------


def check(
    model: "Translator",
    files: Iterable[tuple[str, Example]] = (),
    source: str | None = None,
    target: str | None = None,
    *,
    heads: bool = True,
    progress: Progress | None = None,
    **options: object,
) -> CheckResults:
    """Check a model in all trained directions, or in one.

    files      parallel text of the user: (name of a set, {"src", "tgt"?, "from"?, "to"?})
    heads      find the head that decides minimal pairs
    options    those of the search: beam=8, ...
    """
    directions = chosen_directions(model, source, target)
    sets = [(pair, name, found) for pair in directions for name, found in bundled_sets(pair).items()]
    own: dict[tuple[Direction, str], list[Sentence]] = {}
    for name, example in files:
        pair = example_direction(model, example, directions)
        reference = (example["tgt"],) if example.get("tgt") else ()
        own.setdefault((pair, name), []).append(Sentence(example["src"], reference))
    sets += [(*key, found) for key, found in own.items()]
    pairs = {pair: minimal_pairs(pair) if pair in forced_directions(model, pair) else [] for pair in directions}
    if not sets:
        problem = "there are no bundled sentences in the languages of this run"
        raise UserError(problem, "add parallel text, e.g. test.src,test.tgt", code="no-data", where="FILE")
    results, done, rounds = CheckResults(), 0, 1
    if heads and any(pairs.values()):
        rounds += sum(count_heads(model.model).values())
    total = sum(len(found) for _, _, found in sets) + rounds * sum(map(len, pairs.values()))

    def count(number: int) -> None:
        nonlocal done
        done += number
        if progress is not None:
            progress(done, total)

    for direction, name, sentences in sets:
        results.sets.append(check_set(model, direction, name, sentences, options))
        count(len(sentences))
    for direction, found in pairs.items():
        results.pairs.extend(check_pairs(model, direction, found, heads, count) if found else [])
    return results


def chosen_directions(model: "Translator", source: str | None, target: str | None) -> list[Direction]:
    """The directions to check: those that were trained, from `source` and to `target` if these are given."""
    languages = model.task.languages
    if source and target:
        one = languages.choose(source, target)
        return [(one[0] or "", one[1] or "")]
    source, target = (languages.find(code) if code else None for code in (source, target))
    wanted = [pair for pair in languages.directions if source in (None, pair[0]) and target in (None, pair[1])]
    if wanted:
        return list(wanted)
    if languages.directions:
        raise UserError("the run has no such direction", languages.known, code="unknown-pair", where="from")
    remedy = "set `--from` and `--to`, e.g. `--from en --to de`"
    raise UserError("the run does not name its languages", remedy, code="missing-option", where="from")


def example_direction(model: "Translator", example: Example, directions: Sequence[Direction]) -> Direction:
    """The direction of an example: the one it names, or the only one that is checked."""
    if example.get("from") and example.get("to"):
        source, target = model.task.languages.choose(example["from"], example["to"])
        return source or "", target or ""
    if len(directions) > 1:
        problem, remedy = "the languages of the file are not named", "set `--from` and `--to`"
        raise UserError(problem, remedy, code="missing-option", where="from")
    return directions[0]


def check_set(
    model: "Translator", direction: Direction, name: str, sentences: Sequence[Sentence], options: JsonObject
) -> CheckedSet:
    """Translate sentences without a memory, and check the translations."""
    texts = [item.source for item in sentences]
    found = predict_texts(model, texts, *direction, memory=False, **options)
    outputs = [str(prediction["translation"]) for _, prediction in found]
    lettered = [number for number, text in enumerate(outputs) if any(map(str.isalpha, text))]
    probabilities = dict(zip(lettered, bundled_probabilities([outputs[i] for i in lettered]), strict=True))
    source, target = map(main_code, direction)
    cases = [
        Case(
            item.source,
            output,
            (source, target),
            item.references,
            item.names,
            probabilities.get(number),
            item.is_phrase,
        )
        for number, (item, output) in enumerate(zip(sentences, outputs, strict=True))
    ]
    judged = [(check, case, is_kept(case)) for check, is_kept in CHECKS.items() for case in cases]
    counts = {
        check: (sum(kept is True for _, _, kept in group), sum(kept is not None for _, _, kept in group))
        for check, group in ((key, list(items)) for key, items in groupby(judged, lambda item: item[0]))
    }
    failures = [(check, case) for check, case, kept in judged if kept is False]
    return CheckedSet(direction, name, len(cases), reference_scores(cases, target), counts, failures)


def reference_scores(cases: Sequence[Case], target: str) -> dict[str, float]:
    """BLEU and chrF of the cases that have a reference; {} if none has."""
    pairs = [(case.output, case.references[0]) for case in cases if case.references]
    if not pairs:
        return {}
    outputs, references = zip(*pairs, strict=True)
    tokenizer = bleu_tokenizer_for(references, target)
    return {"bleu": bleu(outputs, references, tokenizer).value, "chrf": chrf(outputs, references).value}


# ---- minimal pairs ---------------------------------------------------------------------------------------------------


def forced_directions(model: "Translator", pair: Direction) -> list[Direction]:
    """The direction itself if its model can be forced: not through a pivot language, and written token by token."""
    languages = model.task.languages
    return [pair] if model.task.writing is not MASKED and languages.pivot(*pair) is None else []


def check_pairs(
    model: "Translator",
    direction: Direction,
    pairs: Sequence[MinimalPair],
    heads: bool,
    count: Callable[[int], None] = lambda number: None,
) -> Iterator[CheckedPairs]:
    """The margins of minimal pairs by kind, and the head that decides each kind; `count` is told the pairs done."""
    base = pair_margins(model, direction, pairs)
    count(len(pairs))
    ablated: dict[tuple[str, int], np.ndarray] = {}
    for name, size in count_heads(model.model).items() if heads else ():
        for number in range(size):
            with without(model.model, {name: [number]}, ()):
                ablated[name, number] = pair_margins(model, direction, pairs)
            count(len(pairs))
    for kind in dict.fromkeys(pair.kind for pair in pairs):
        rows = [number for number, pair in enumerate(pairs) if pair.kind == kind]
        judged = [
            MinimalPair(kind, pairs[i].source, pairs[i].right, pairs[i].wrong, round(float(base[i]), 4)) for i in rows
        ]
        head = min(ablated, key=lambda key: float(ablated[key][rows].mean()), default=None)
        lowest = None if head is None else round(float(ablated[head][rows].mean()), 4)
        yield CheckedPairs(direction, kind, judged, round(float(base[rows].mean()), 4), head, lowest)


def pair_margins(model: "Translator", direction: Direction, pairs: Sequence[MinimalPair]) -> np.ndarray:
    """log P(right | source) - log P(wrong | source) of each pair, by forced decoding."""
    to = direction[1] if model.task.languages.tags else None
    examples = [{"src": pair.source, "tgt": text, "to": to} for pair in pairs for text in (pair.right, pair.wrong)]
    right, wrong = np.reshape(forced_costs(model, *encode_pairs(model.task, examples)), (-1, 2)).T
    margins: np.ndarray = wrong - right
    return margins
