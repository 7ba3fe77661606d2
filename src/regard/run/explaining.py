"""What a reader looked at while it read one text, and what was said of it then: maps, a line, and a page."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.data.examples import Example as Asked
from regard.data.fields import texts_of
from regard.data.inputs import Input, Inputs
from regard.errors import UserError
from regard.run.given import Given
from regard.run.predictor import Predictor
from regard.run.pretraining import PretrainingRun
from regard.run.report import read_metrics
from regard.tasks.understanding import shortly
from regard.training.console import format_duration
from regard.viz import Example, Map, Report

MOST_PIECES = 160
"""A picture of more is a grey square, and heavy."""
POOLED = "pooled"
"""What looks where one look at all tokens makes a vector of the whole."""


@dataclass(frozen=True)
class Explained:
    """An example, what is said of it, the same in a line, and all attention; none where the reader has none."""

    example: Asked
    said: Asked
    line: str
    maps: list[Map]


def explain(predictor: Predictor, given: Given, place: str = "the text") -> Explained:
    """Ask about one example, and watch."""
    example = predictor.example(given, place)
    inputs = inputs_of(predictor, example)
    said = predictor.meant(next(iter(predictor.task.predict(predictor.model, [example]))))
    line = line_of(predictor, example, said)
    chosen = inputs[said["label"]] if len(inputs) > 1 else inputs[0]  # of several choices the one that was taken
    return Explained(example, said, line, attention_of(predictor, chosen))


def inputs_of(predictor: Predictor, example: Asked) -> list[Input]:
    """What is read of an example; refused where it is too much to look at."""
    if isinstance(predictor.run, PretrainingRun):
        inputs = [predictor.input(example)]
    else:
        inputs = predictor.task.encode(example)
        if len(inputs) > 1 and not predictor.task.together:
            raise UserError(f"the text is read in {len(inputs)} parts", "inspect a shorter one")
    longest = max(len(each.ids) for each in inputs)
    if longest > MOST_PIECES:
        raise UserError(f"the text has {longest} pieces, and more than {MOST_PIECES} are no picture", "inspect a part")
    return inputs


def attention_of(predictor: Predictor, read: Input) -> list[Map]:
    """Every layer and head over the pieces of an input; of a reader that looks once, that look."""
    batch = Inputs.of([[read]], predictor.run.recipe.task == "tagging").pad(np.arange(1)).to(predictor.world.device)
    weights = predictor.reader.attentions(batch.source, batch["segments"]).encoder
    if weights is None:
        return []
    pieces, shown = predictor.run.vocabulary.tokens(read.ids), weights[0].float().cpu().numpy()
    if shown.shape[2] == 1 < len(pieces):
        return [Map("pooling", [POOLED], pieces, shown)]
    return [Map("encoder", pieces, pieces, shown)]


def line_of(predictor: Predictor, example: Asked, said: Asked) -> str:
    """What is said, in a line."""
    if isinstance(predictor.run, PretrainingRun):
        return filled(said)
    line: str = predictor.task.shown({"answers": []} | example, said).output
    return line


def filled(said: Asked) -> str:
    """The likeliest piece of each [MASK], and whether the second text comes next."""
    best = [f"{mask[0]['piece']} ({mask[0]['probability']:.0%})" for mask in said.get("masks", ())]
    return ", ".join([*best, *([f"comes next ({said['next']:.0%})"] if "next" in said else [])])


def reader_report(predictor: Predictor, found: Explained) -> Report:
    """The page about one text."""
    run, source = predictor.run, " | ".join(texts_of(found.example))
    trained = [record for record in read_metrics(run.folder) if record["kind"] == "train"]
    facts: dict[str, Any] = {
        "task": run.recipe.about or run.recipe.task,
        "data": ", ".join(map(str, run.recipe.data.train)),
        "model": run.recipe.model.summary,
        "parameters": f"{sum(weight.numel() for weight in predictor.model.parameters()):,}",
        "vocabulary": f"{len(run.vocabulary):,} pieces",
        "steps": f"{trained[-1]['step']:,}" if trained else "",
        "time": format_duration(trained[-1]["seconds"]) if trained else "",
        "seed": str(run.recipe.runtime.seed),
    }
    return Report(
        title=f"{run.recipe.name}: {shortly(source)}",
        facts={name: fact for name, fact in facts.items() if fact},
        examples=[Example(source, "", found.line, None, found.maps)],
    )
