"""Cleaning of parallel text: which training pairs of a recipe, or of files, are kept, and why the others are not.

    corpus = recipe_corpus(load_recipe("de.toml"), print)         or file_corpus(data settings)
    cleaned = clean(corpus)
    print(cleaned.account.table())
    for pair, reason in cleaned.results(): ...                    reason is None for a pair that is kept

The pairs of a recipe are judged by the encoder that `regard train` tokenises them with, so that both keep the same
ones. Files have no tokenizer: their lengths count words. The corpus is read once to decide, and again for samples and
to write. In between, memory holds one byte for each pair and the hashes that find duplicates: eight bytes for equal
pairs, eight for equal targets, and 64 for near-duplicates.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt

from regard.data.accounts import Account
from regard.data.arrays import Array
from regard.data.cleaning import CleanSettings
from regard.data.duplicates import Marks
from regard.data.encoders import REASONS, Filters, PairEncoder, PairJudge
from regard.data.examples import Example
from regard.data.fields import PAIRS
from regard.data.formats import read_examples
from regard.data.settings import PairDataSettings
from regard.data.store import Encoded, ProgressCallback, distinct_rows
from regard.errors import UserError
from regard.files import JsonObject
from regard.processes import count_workers, in_chunks, map_in_order
from regard.recipe import Recipe
from regard.run.run import Run
from regard.tasks.base import Report
from regard.tasks.defaults import choose_defaults
from regard.tasks.identification import bundled_probabilities

CODES = {reason: code for code, reason in enumerate(REASONS, 1)}
"""The number of each reason in `Cleaned.decisions`; 0 is for pairs that are kept."""


@dataclass(frozen=True)
class Corpus:
    """Training pairs, which can be read several times, and what judges them."""

    name: str
    read: Callable[[], Iterable[Example]]
    judge: Callable[[list[Example]], Encoded]
    workers: int = 0


@dataclass(frozen=True)
class Cleaned:
    """The decision about every pair of a corpus."""

    corpus: Corpus
    decisions: npt.NDArray[np.uint8]
    """(E,): 0 for a pair that is kept, else the number of its reason (`CODES`)."""

    @property
    def account(self) -> Account:
        """How many pairs were read, kept and left out by each filter; the sum is checked."""
        counts = np.bincount(self.decisions, minlength=len(CODES) + 1).tolist()
        dropped = {reason: counts[code] for reason, code in CODES.items() if counts[code]}
        return Account(self.corpus.name, len(self.decisions), counts[0], dropped).check()

    @property
    def counts(self) -> JsonObject:
        """The account as JSON."""
        account = self.account
        return {"read": account.read, "kept": account.kept, "removed": account.dropped}

    def results(self) -> Iterator[tuple[Example, str | None]]:
        """Every pair with the reason why it is left out, None if it is kept; the corpus is read again."""
        count = 0
        for count, example in enumerate(self.corpus.read(), 1):
            if count > len(self.decisions):
                break
            code = self.decisions[count - 1]
            yield example, REASONS[code - 1] if code else None
        if count != len(self.decisions):
            problem, remedy = "an input file changed while it was read", "start again when no program writes to it"
            raise UserError(problem, remedy, code="changed-file", where=self.corpus.name)

    def samples(self, count: int) -> dict[str, list[Example]]:
        """Up to `count` pairs for each reason, from all parts of the corpus; it is read as far as they go."""
        wanted: dict[int, str] = {}
        for reason, code in CODES.items():
            places = np.flatnonzero(self.decisions == code)
            chosen = np.linspace(0, len(places) - 1, min(count, len(places))).astype(np.int64)
            wanted |= dict.fromkeys(places[chosen].tolist(), reason)
        found: dict[str, list[Example]] = {reason: [] for reason in REASONS if reason in wanted.values()}
        last = max(wanted, default=-1)
        for place, (example, _) in enumerate(self.results() if wanted else ()):
            if place in wanted:
                found[wanted[place]].append(example)
            if place == last:
                break
        return found


def clean(corpus: Corpus, progress: ProgressCallback | None = None) -> Cleaned:
    """Judge every pair of a corpus."""
    decisions, keys, marks = [np.zeros(0, np.uint8)], list[Array](), list[Marks]()
    done = rows = 0
    chunks = in_chunks(corpus.read())
    with closing(map_in_order(corpus.judge, chunks, count_workers(corpus.workers))) as judged:
        for chunk in judged:
            codes = np.array([0 if reason is None else CODES[reason] for reason in chunk.reasons], np.uint8)
            decisions.append(codes)
            rows += int((codes == 0).sum())
            keys += [] if chunk.keys is None else [chunk.keys]
            marks += [] if chunk.marks is None else [chunk.marks]
            done += len(codes)
            if progress is not None:
                progress(done, None)
    joined = np.concatenate(decisions)
    places = np.flatnonzero(joined == 0)
    for reason, repeated in distinct_rows(rows, keys, marks)[1].items():
        joined[places[repeated]] = CODES[reason]
    return Cleaned(corpus, joined)


def file_corpus(data: PairDataSettings) -> Corpus:
    """The training pairs of files, with the filters of the settings."""
    filters = Filters.of(data)
    judge = PairJudge(filters, bundled_probabilities if filters.clean and filters.clean.language else None)
    name = ", ".join(map(str, data.train))
    return Corpus(name, lambda: read_examples(data.train, data.folder, PAIRS), judge, data.workers)


def recipe_corpus(recipe: Recipe, report: Report) -> Corpus:
    """The training pairs of a recipe without those that are held out, with its filters and tokenizers."""
    if not isinstance(recipe.data, PairDataSettings):
        problem, remedy = f"task {recipe.task} has no pairs to clean", "choose a recipe of task translation"
        raise UserError(problem, remedy, code="unsupported", where=recipe.name)
    with TemporaryDirectory() as folder:
        run = Run.create(folder, choose_defaults(recipe, report))
        run.prepare(report)
        task = run.task
    judge = task.encoder(filtered=True)
    assert isinstance(judge, PairEncoder)
    return Corpus(recipe.name, lambda: task.read("train"), judge, recipe.data.workers)


def with_cleaning(data: PairDataSettings) -> PairDataSettings:
    """The settings with the default filters of [data.clean], unless they have filters."""
    return data if data.clean else data.model_copy(update={"clean": CleanSettings()})
