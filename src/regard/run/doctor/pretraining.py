"""Checks of a pretraining recipe: its documents, what the vocabulary makes of them, how often they are read, the model.

The texts are sampled from their beginning on: what a vocabulary and a first step show, they show there.
"""

import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from regard.data.formats import read_examples
from regard.data.pretraining_batches import PretrainingBatches
from regard.data.sources import Source
from regard.files import write_text
from regard.recipe import PretrainingRecipe
from regard.run.doctor.check import FIRST_THIS, Check, Status, guarded
from regard.run.doctor.reading import ReaderPatient, check_pieces, entropy, examine_reader
from regard.run.doctor.texts import LEAKED_TOO_MUCH
from regard.run.doctor.understanding import LOOKED_AT, PARTS, check_start
from regard.run.folder import Run
from regard.run.pretraining import PretrainingRun
from regard.run.seal import SEAL
from regard.runtime import World

SAMPLE, QUICK = 20_000, 5_000  # sentences
LONG = 8  # words: shorter sentences rightly occur in every part
BY_HEART = 8  # inputs


@dataclass
class Read:
    """One of train, valid and test: how much of it there is, its beginning, and its long sentences."""

    documents: int = 0
    sentences: int = 0
    words: int = 0
    sample: list[str] = field(default_factory=list)
    long: set[int] = field(default_factory=set)

    def __str__(self) -> str:
        return f"{self.words:,} words in {self.sentences:,} sentences of {self.documents:,} documents"


def examine_pretraining(recipe: PretrainingRecipe, world: World, quick: bool) -> Iterator[Check]:
    """Everything from the files to the clock; a defect of a file is raised."""
    if recipe.start_from:
        yield (start := guarded("start", lambda: check_start(recipe)))
        if start.status == "fail":
            yield FIRST_THIS
            return
    found = {part: survey(getattr(recipe.data, part), recipe, quick) for part in PARTS}
    yield check_files(recipe, found, quick)
    yield check_overlap(found)
    with tempfile.TemporaryDirectory(prefix="regard-doctor-") as temporary:
        run = prepare(recipe, found, Path(temporary))
        yield check_pieces(run.vocabulary, found["valid"].sample[:LOOKED_AT], bool(recipe.start_from))
        share = min(1.0, SAMPLE / max(1, found["train"].sentences))
        yield from examine_reader(PretrainingPatient(run, world, share), quick)


def survey(files: list[Source], recipe: PretrainingRecipe, quick: bool) -> Read:
    """Read a part, with `quick` its beginning only."""
    result = Read()
    for sentence in islice(read_examples(files, recipe.data.folder, recipe.fields), QUICK if quick else None):
        words = sentence["text"].split()
        result.documents += sentence["first"]
        result.sentences += 1
        result.words += len(words)
        if len(result.sample) < SAMPLE:
            result.sample += ["", sentence["text"]] if sentence["first"] else [sentence["text"]]
        if len(words) >= LONG:
            result.long.add(hash(sentence["text"].strip()))
    return result


def check_files(recipe: PretrainingRecipe, found: dict[str, Read], quick: bool) -> Check:
    """There is something in each part, and documents enough to ask what comes next."""
    counts = ", ".join(f"{part} {each}" for part, each in found.items())
    if not found["train"].sentences or not found["valid"].sentences:
        return Check("files", "fail", counts, "name texts to learn from and to validate by: data.train, data.valid")
    if recipe.data.next_sentence and found["train"].documents < 2:
        remedy = 'write what parts documents (boundary = "heading", or "blank"), or data.next_sentence=false'
        return Check("files", "fail", f"{counts}: half of the second texts must come from another document", remedy)
    if quick:
        return Check("files", "pass", f"read from the beginning of each part: {counts}; --quick reads no further")
    return Check("files", "pass", counts)


def check_overlap(found: dict[str, Read]) -> Check:
    """No long sentence of valid or test was learnt, or what they measure is memory."""
    held = {part: found[part].long for part in ("valid", "test") if found[part].long}
    shares = {part: len(sentences & found["train"].long) / len(sentences) for part, sentences in held.items()}
    finding = ", ".join(f"{share:.1%} of {part}" for part, share in shares.items())
    finding = f"sentences of {LONG} words or more that occur in train too: {finding or 'there are none'}"
    worst = max(shares.values(), default=0.0)
    status: Status = "fail" if worst > LEAKED_TOO_MUCH else "warn" if worst else "pass"
    return Check("unseen test", status, finding, "take them out of the training text" if worst else "")


def prepare(recipe: PretrainingRecipe, found: dict[str, Read], temporary: Path) -> PretrainingRun:
    """A run in a temporary folder on the sample."""
    files: dict[str, list[Source]] = {"test": []}
    for part in ("train", "valid"):
        path = temporary / f"{part}.txt"
        write_text(path, "".join(f"{line}\n" for line in found[part].sample))
        files[part] = [Source(file=str(path.absolute()))]
    data = recipe.data.model_copy(update={**files, "workers": 1})
    run: PretrainingRun = Run.create(temporary / "run", recipe.model_copy(update={"data": data}))
    run.prepare(lambda _: None)
    (run.folder / SEAL).unlink()  # nothing here is kept: the model is tried with other settings too, without dropout
    return run


class PretrainingPatient(ReaderPatient):
    """The recipe's own BERT, on its own documents."""

    run: PretrainingRun

    def few(self) -> Any:
        return self.longest(BY_HEART)

    def longest(self, count: int) -> Any:
        recipe, tokens = self.run.recipe, count * self.run.recipe.data.max_length
        batches = PretrainingBatches(
            self.run.store("train"), recipe.data, self.run.vocabulary, tokens, recipe.runtime.seed
        )
        return batches.batch(0).micro_batches[0].to(self.world.device)

    @property
    def full(self) -> int:
        training = self.run.recipe.training
        parts = training.accumulation * self.world.size
        return max(1, training.batch_tokens // self.run.recipe.data.max_length // parts)

    def expected(self, batch: Any) -> tuple[float, str]:
        return math.log(len(self.run.vocabulary)), "ln V"

    def guessed(self, batch: Any) -> float:
        return entropy(batch.labels[batch.labels != self.run.vocabulary.pad].tolist())

    @property
    def steps(self) -> tuple[int, float]:
        training, pieces = self.run.recipe.training, len(self.run.store("train").tokens)
        epoch = max(1.0, pieces / self.share / training.batch_tokens)
        epochs = training.max_epochs
        return min(training.max_steps, math.ceil(epochs * epoch) if epochs else training.max_steps), epoch
