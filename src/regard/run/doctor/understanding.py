"""Checks of a recipe of understanding: its examples and labels, what is cut of them, and the model that reads them.

B inputs, E examples, O outputs of the head.
"""

import json
import math
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.batch import IGNORE
from regard.data.examples import Example
from regard.data.fields import texts_of
from regard.data.inputs import Inputs
from regard.data.labelled import LabelledSplits, load_splits
from regard.data.sources import Source
from regard.files import write_text
from regard.recipe.understanding import UnderstandingRecipe
from regard.run.doctor.check import FIRST_THIS, Check, Status, guarded
from regard.run.doctor.reading import ReaderPatient, check_pieces, entropy, examine_reader
from regard.run.doctor.texts import LEAKED_TOO_MUCH
from regard.run.folder import Run
from regard.run.seal import SEAL, refuse_other_model
from regard.run.understanding import UnderstandingRun
from regard.runtime import World
from regard.tasks.understanding import shortly

PARTS = ("train", "valid", "test")
SAMPLE = 20_000  # examples a vocabulary is learnt from here
LOOKED_AT = 2_000  # examples; more do not change a share that matters
BY_HEART = 32
FEW = 5  # examples of a class
ONE_SIDED = 0.9
CUT_A_LOT = 0.1
WITHOUT_BOUND = 1 << 30
SHOWN = 60  # characters


def examine_understanding(recipe: UnderstandingRecipe, world: World, quick: bool) -> Iterator[Check]:
    """Everything from the files to the clock; what the rest stands on is raised."""
    if recipe.start_from:
        yield (start := guarded("start", lambda: check_start(recipe)))
        if start.status == "fail":
            yield FIRST_THIS
            return
    parts = load_splits(recipe.data, recipe.fields)
    yield (files := check_files(recipe, parts))
    if files.status == "fail":
        yield FIRST_THIS
        return
    yield show_examples(recipe, parts)
    yield check_labels(recipe.task, parts)
    yield check_overlap(recipe, parts)
    with tempfile.TemporaryDirectory(prefix="regard-doctor-") as temporary:
        run = prepare(recipe, parts, Path(temporary))
        texts = [text for example in run.examples("valid")[:LOOKED_AT] for text in texts_of(example)]
        yield check_pieces(run.vocabulary, texts, bool(recipe.start_from))
        yield guarded("lengths", partial(check_lengths, run))
        share = len(run.splits.train) / len(parts.train)
        yield from examine_reader(UnderstandingPatient(run, world, share), quick)


def check_start(recipe: Any) -> Check:
    """The run to start from is there, was trained, and its model is the recipe's."""
    start = Run.open(recipe.start_from)
    refuse_other_model(start.folder, start.recipe, recipe)
    best = start.checkpoints.resolve("best")
    return Check("start", "pass", f"{start.folder} ({start.recipe.task}, {best.name}): {start.recipe.model.summary}")


def check_files(recipe: UnderstandingRecipe, parts: LabelledSplits) -> Check:
    """Every file could be read to its end (a defect was raised before) and there is something in each part."""
    finding = str(parts.report)
    if not parts.train:
        return Check("files", "fail", finding, "name examples to learn from and to validate by: data.train, data.valid")
    if not parts.test:
        remedy = "name test data, data.test, that no decision was made on, or data.hold_out_test=0.1"
        return Check("files", "warn", f"{finding}\nthere is nothing to test on", remedy)
    return Check("files", "pass", finding)


def show_examples(recipe: UnderstandingRecipe, parts: LabelledSplits) -> Check:
    """What is read as text and as label: wrong columns are seen at a glance, and only so."""
    gold = recipe.fields.target
    lines = []
    for name in PARTS:
        for example in getattr(parts, name)[:1]:
            read = " | ".join(shortly(text, SHOWN) for text in texts_of(example))
            lines.append(f"{name}: {read} -> {shortly(json.dumps(example.get(gold), ensure_ascii=False), SHOWN)}")
    return Check("examples", "pass", "what is read -> what is right, one of each\n" + "\n".join(lines))


def check_labels(task: str, parts: LabelledSplits) -> Check:
    """There is something to tell apart, every class often enough to be learnt, and none that is only in the test."""
    name = "labels"
    if task == "regression":
        values = np.array([example["label"] for example in parts.train])
        finding = f"from {values.min():g} to {values.max():g}, mean {values.mean():.2f}, spread {values.std():.2f}"
        constant = "all are equal: there is nothing to learn"
        return Check(name, "pass", finding) if values.std() else Check(name, "fail", finding, constant)
    counts = Counter(said(parts.train))
    most, times = counts.most_common(1)[0]
    shares = ", ".join(f"{label} {count / counts.total():.0%}" for label, count in counts.most_common(8))
    finding = f"{len(counts)} in the training data: {shares}{', …' if len(counts) > 8 else ''}"
    unknown = {part: sorted(set(said(getattr(parts, part))) - set(counts)) for part in ("valid", "test")}
    if task != "choice" and any(unknown.values()):
        where = "; ".join(f"in {part}: {', '.join(found[:5])}" for part, found in unknown.items() if found)
        return Check(name, "fail", f"{finding}\nnever learnt, {where}", "do both files name their labels alike?")
    if task == "answering":
        return Check(name, "pass", finding)
    if len(counts) < 2:
        return Check(name, "fail", finding, "there is nothing to tell apart: is the column of labels the right one?")
    rare = [label for label, count in counts.items() if count < FEW]
    if rare:
        remedy = f"collect more of them, or call them by another's name: {', '.join(rare[:5])}"
        return Check(name, "warn", f"{finding}; {len(rare)} have less than {FEW} examples", remedy)
    if times > ONE_SIDED * counts.total() and task != "tagging":  # most words are of no name
        remedy = "accuracy says little here: choose the best by training.monitor=f1 or matthews"
        return Check(name, "warn", f"{finding}; always saying {most!r} is right {times / counts.total():.0%}", remedy)
    return Check(name, "pass", finding)


def said(examples: Sequence[Example]) -> Iterator[str]:
    """What is right of each example, or of each of its words, in a word."""
    for example in examples:
        if "tags" in example:
            yield from example["tags"]
        elif "answers" in example:
            yield "an answer" if example["answers"] else "none"
        else:
            yield str(example["label"])


def check_overlap(recipe: UnderstandingRecipe, parts: LabelledSplits) -> Check:
    """No example of valid or test was learnt, or what they measure is memory."""
    learnt = {recipe.fields.dedup_text(example) for example in parts.train}
    held = {part: {recipe.fields.dedup_text(each) for each in getattr(parts, part)} for part in ("valid", "test")}
    shares = {part: len(found & learnt) / len(found) for part, found in held.items() if found}
    finding = ", ".join(f"{share:.1%} of {part}" for part, share in shares.items()) or "there are none"
    worst = max(shares.values(), default=0.0)
    status: Status = "fail" if worst > LEAKED_TOO_MUCH else "warn" if worst else "pass"
    remedy = "write data.keep_apart=true: they are then left out of training" if worst else ""
    return Check("unseen test", status, f"examples that are read in training too: {finding}", remedy)


def prepare(recipe: UnderstandingRecipe, parts: LabelledSplits, temporary: Path) -> UnderstandingRun:
    """A run in a temporary folder on a sample, evenly taken from each part."""
    sources: dict[str, list[Source]] = {}
    for part in PARTS:
        examples = getattr(parts, part)
        sample = examples[:: -(-len(examples) // SAMPLE)] if examples else []
        if sample:
            path = temporary / f"{part}.jsonl"
            write_text(path, "".join(json.dumps(example) + "\n" for example in sample))
        sources[part] = [Source(file=str(path.absolute()))] if sample else []
    plain = {"hold_out": 0.0, "hold_out_test": 0.0, "limit": 0, "keep_apart": False, "workers": 1}
    data = recipe.data.model_copy(update={**sources, **plain})
    run: UnderstandingRun = Run.create(temporary / "run", recipe.model_copy(update={"data": data}))
    run.prepare(lambda _: None)
    (run.folder / SEAL).unlink()  # nothing here is kept: the model is tried with other settings too, without dropout
    return run


def check_lengths(run: UnderstandingRun) -> Check:
    """What is longer than data.max_length is cut, or where every word counts read in several parts."""
    task, longest = run.task(), run.recipe.data.max_length
    whole = replace(task, max_length=WITHOUT_BOUND)
    shares, most = {}, 0
    for part in PARTS:
        lengths = [max(len(each.ids) for each in whole.encode(one)) for one in getattr(run.splits, part)[:LOOKED_AT]]
        most = max([most, *lengths])
        if lengths:
            shares[part] = sum(length > longest for length in lengths) / len(lengths)
    fate = "cut" if task.pooled else "read in several parts"
    finding = ", ".join(f"{part} {share:.1%}" for part, share in shares.items())
    finding = (
        f"inputs of more than data.max_length = {longest} tokens, which are {fate}: {finding}; the longest has {most}"
    )
    if task.pooled and max(shares.values(), default=0.0) > CUT_A_LOT:
        bound = run.recipe.model.length_limit
        more = f"raise data.max_length{f' (the model reads up to {bound})' if bound else ''}, if what is cut matters"
        return Check("lengths", "warn", finding, more)
    return Check("lengths", "pass", finding)


class UnderstandingPatient(ReaderPatient):
    """The recipe's own model, on its own examples."""

    run: UnderstandingRun

    def few(self) -> Any:
        """Examples that no two say the same, of whatever is labelled."""
        fields = self.run.recipe.fields
        distinct = {fields.dedup_text(example): example for example in self.run.splits.train[:LOOKED_AT]}
        return self._batch(list(distinct.values())[:BY_HEART])

    def longest(self, count: int) -> Any:
        store = self.run.store("train")
        return store.pad(np.argsort(-store.lengths[0], kind="stable")[:count]).to(self.world.device)

    def _batch(self, examples: Sequence[Example]) -> Any:
        inputs = Inputs.of(self.task.inputs(examples), self.task.per_token)
        return inputs.pad(np.arange(len(inputs))).to(self.world.device)

    @property
    def full(self) -> int:
        training, longest = self.run.recipe.training, int(self.run.store("train").lengths[0].max())
        step = min(training.batch_examples, max(1, training.batch_tokens // longest))
        return max(1, step // (training.accumulation * self.world.size))

    def expected(self, batch: Any) -> tuple[float, str]:
        if self.run.recipe.task == "regression":
            return math.inf, "mean squared error"
        if self.run.recipe.task == "choice":
            choices = (batch["input_index"] >= 0).sum(dim=1).double()
            return float(choices.log().mean()), "ln of the choices"
        if self.run.recipe.task == "answering":
            return float(batch["source_lengths"].double().log().mean()), "ln of the tokens"
        return math.log(self.task.outputs), f"ln {self.task.outputs}"

    @property
    def unasked(self) -> tuple[str, ...]:
        """What is added to all choices, or to all tokens, changes no softmax over them."""
        return ("head.bias",) if self.run.recipe.task in ("choice", "answering") else ()

    def guessed(self, batch: Any) -> float:
        labels = batch.labels[batch.labels != IGNORE].double()
        if self.run.recipe.task == "regression":
            return float(labels.var(unbiased=False)) or math.inf
        if self.run.recipe.task in ("choice", "answering"):
            return self.expected(batch)[0]
        return entropy(labels.tolist()) or self.expected(batch)[0]

    @property
    def steps(self) -> tuple[int, float]:
        epoch = max(1.0, self.run.batches(self.world).steps_in_epoch(0) / self.share)
        return self.run.recipe.training.settled(round(epoch)).max_steps, epoch
