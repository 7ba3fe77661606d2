"""Checks of a language model's recipe: its text, what the vocabulary makes of it, how often it is read, and the model.

The training text is sampled from its beginning on: what a vocabulary and a first step show, they show there.
"""

import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from regard.data.formats import read_examples
from regard.data.sources import Source
from regard.data.texts import TextNormalizer
from regard.files import write_text
from regard.models.ngram import NGramSettings
from regard.recipe import LanguageRecipe
from regard.run.doctor.check import Check, Status, guarded
from regard.run.doctor.learning import OWN_DEFECT
from regard.run.doctor.texts import LEAKED_TOO_MUCH, SPELLED_A_LOT, SPELLED_TOO_MUCH
from regard.run.language import LanguageRun
from regard.runtime import World, autocast, seed_everything

PARTS = ("train", "valid", "test")
SAMPLE, QUICK = 20_000, 5_000  # lines
LONG = 8  # words: shorter lines (headings, blanks) rightly occur in every part
MANY_EPOCHS = 300
FIRST_LOSS_TOLERANCE = 2.0


@dataclass
class Lines:
    """One of train, valid and test: how much of it there is, its beginning, and its long lines."""

    lines: int = 0
    words: int = 0
    sample: list[str] = field(default_factory=list)
    long: set[int] = field(default_factory=set)


def examine_language(recipe: LanguageRecipe, world: World, quick: bool) -> Iterator[Check]:
    """Everything from the files to the first step; a defect of a file is raised."""
    found = {part: survey(getattr(recipe.data, part), recipe, quick) for part in PARTS}
    yield check_files(recipe, found, quick)
    yield check_overlap(found)
    with tempfile.TemporaryDirectory(prefix="regard-doctor-") as temporary:
        run = prepare(recipe, found, Path(temporary))
        yield guarded("vocabulary", partial(check_vocabulary, run))
        if not isinstance(recipe.model, NGramSettings):
            unread = Check("epochs", "skip", "takes reading all of the text; ask without --quick")
            yield unread if quick else guarded("epochs", lambda: check_epochs(recipe, run, found["train"].words))
            yield guarded("first step", lambda: check_first_step(run, world))


def survey(texts: list[Source], recipe: LanguageRecipe, quick: bool) -> Lines:
    """Read a part, with `quick` its beginning only."""
    result, reading = Lines(), TextNormalizer(recipe.data.single_blanks)
    for example in islice(read_examples(texts, recipe.data.folder, recipe.fields), QUICK if quick else None):
        line = reading(example["text"])
        words = line.split()
        result.lines += 1
        result.words += len(words) + 1
        if len(result.sample) < SAMPLE:
            result.sample.append(line)
        if len(words) >= LONG:
            result.long.add(hash(line.strip()))
    return result


def check_files(recipe: LanguageRecipe, found: dict[str, Lines], quick: bool) -> Check:
    """Every file could be read to its end (a defect was raised before) and there is something in each part."""
    counts = ", ".join(f"{part} {found[part].words:,} words in {found[part].lines:,} lines" for part in PARTS)
    if quick:
        return Check("files", "pass", f"read from the beginning of each part: {counts}; --quick reads no further")
    if not recipe.data.test:
        remedy = "name a test text, data.test, that no decision was made on"
        return Check("files", "warn", f"UTF-8 text; {counts}: there is nothing to test on", remedy)
    return Check("files", "pass", f"UTF-8 text; {counts}")


def check_overlap(found: dict[str, Lines]) -> Check:
    """No long line of valid or test was learnt, or what they measure is memory."""
    name = "unseen test"
    held = {part: found[part].long for part in ("valid", "test") if found[part].long}
    shares = {part: len(lines & found["train"].long) / len(lines) for part, lines in held.items()}
    finding = ", ".join(f"{share:.1%} of {part}" for part, share in shares.items())
    finding = f"lines of {LONG} words or more that occur in train too: {finding or 'there are none'}"
    worst = max(shares.values(), default=0.0)
    status: Status = "fail" if worst > LEAKED_TOO_MUCH else "warn" if worst else "pass"
    remedy = "take them out of the training text: the score would measure memory"
    return Check(name, status, finding, remedy if worst else "")


def prepare(recipe: LanguageRecipe, found: dict[str, Lines], temporary: Path) -> LanguageRun:
    """A run in a temporary folder on the sample."""
    texts: dict[str, list[Source]] = {}
    for part in ("train", "valid"):
        path = temporary / f"{part}.txt"
        write_text(path, "".join(f"{line}\n" for line in found[part].sample))
        texts[part] = [Source(file=str(path.absolute()))]
    data = recipe.data.model_copy(update={**texts, "test": [], "workers": 1})
    run: LanguageRun = LanguageRun.create(temporary / "run", recipe.model_copy(update={"data": data, "start_from": ""}))
    run.prepare(lambda _: None)
    return run


def check_vocabulary(run: LanguageRun) -> Check:
    """Words are written with few pieces, few of them byte by byte, and not too many are <unk>."""
    name, vocabulary, valid = "vocabulary", run.vocabulary, run.store("valid")
    data = run.recipe.data
    lines = [run.reading(line["text"]) for line in read_examples(data.valid, data.folder, run.recipe.fields)]
    spelled, words = (sum(column) for column in zip(*map(vocabulary.count_unknown_words, lines), strict=True))
    share = spelled / max(1, words)
    finding = f"{len(vocabulary):,} pieces (at most {run.recipe.text.vocab_size:,}); {len(valid) / valid.words:.2f} "
    finding += f"tokens a word in the validation text, {share:.1%} of words in bytes"
    if run.reading.words is not None:
        unknown = sum(line.split().count("<unk>") for line in lines)
        finding += f", {unknown / max(1, words):.1%} <unk> (measured on a sample)"
    if share > SPELLED_A_LOT:
        remedy = "a larger text.vocab_size, a smaller text.min_frequency, data.unknown_below, or another text.kind"
        return Check(name, "fail" if share > SPELLED_TOO_MUCH else "warn", finding, remedy)
    return Check(name, "pass", finding)


def check_epochs(recipe: LanguageRecipe, run: LanguageRun, words: int) -> Check:
    """How many steps an epoch has, and how often the whole text will be read."""
    training, sample = recipe.training, run.store("train")
    columns = training.batch_tokens // recipe.data.bptt
    tokens = words * len(sample) / sample.words
    epochs = training.max_steps * training.batch_tokens / max(1.0, tokens)
    finding = f"{columns} columns read {recipe.data.bptt} tokens at a time; {training.max_steps:,} steps are about "
    finding += f"{epochs:.1f} epochs"
    if epochs > MANY_EPOCHS:
        return Check("epochs", "warn", finding, "it will know the text by heart: lower training.max_steps")
    if epochs < 1:
        return Check("epochs", "warn", finding, "not all of the text will be read: raise training.max_steps")
    return Check("epochs", "pass", finding)


def check_first_step(run: LanguageRun, world: World) -> Check:
    """A model that knows nothing gives every token about the same chance, and every weight gets a gradient."""
    name = "first step"
    seed_everything(run.recipe.runtime.seed, "weights")
    model = run.new_model().to(world.device).train()
    batch = run.batches(world).batch(0).micro_batches[0].to(world.device)
    with autocast(world):
        loss = run.task().loss(model, batch)
    (loss.sum / loss.count).backward()
    first, expected = float(loss.nll / loss.count), math.log(len(run.vocabulary))
    finding = f"{first:.2f} nats a token, about {expected:.2f} expected of an untrained model (ln V)"
    parameters = dict(model.named_parameters())
    silent = [key for key, p in parameters.items() if p.grad is None or not bool(torch.isfinite(p.grad).all())]
    if silent:
        return Check(name, "fail", f"{finding}; no finite gradient reaches {', '.join(silent[:3])}", OWN_DEFECT)
    size = sum(p.numel() for p in parameters.values())
    finding += f"; gradients reach all {len(parameters)} tensors of {size:,} parameters"
    if not np.isfinite(first) or abs(first - expected) > FIRST_LOSS_TOLERANCE:
        return Check(name, "fail", finding, "weights or labels are scaled or aligned wrongly; " + OWN_DEFECT)
    return Check(name, "pass", finding)
