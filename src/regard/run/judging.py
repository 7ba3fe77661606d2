"""What is measured of one model of a ladder: scores, speed, what training took, and where it looks.

The same code on the same sentences for every model and device.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.data.fields import PAIRS
from regard.data.formats import read_examples
from regard.data.sources import Source
from regard.run.alignment import Plane, all_planes, gold_of, plane_names, study
from regard.run.evaluation import evaluate
from regard.run.folder import Run
from regard.run.report import read_metrics
from regard.run.translator import Translator
from regard.run.writer import Writer
from regard.text.symbols import EOS

Readings = Sequence[tuple[str, dict[str, Any]]]
MOST_WORDS, MOST_PIECES = 12, 25  # of a sentence whose attention is drawn


@dataclass(frozen=True)
class Measuring:
    """How every rung is judged, the same for all."""

    engine: str = "readable"
    batch_tokens: int = 4096
    """Source tokens that are decoded together."""
    timed: int = 500
    """Sentences of the test set whose decoding is timed."""
    aligned: int = 200
    """Sentences whose attention is measured."""
    pictures: int = 4
    """Sentences whose attention is drawn."""


def judge_translator(
    folder: Path, valid: Sequence[Any], test: Sequence[Any], measuring: Measuring, readings: Readings
) -> dict[str, Any]:
    """A model that translates: scores and speed of every search, alignment, and pictures."""
    device = Run.open(folder).recipe.runtime.device
    translator = Translator.load(folder, device=device, engine=measuring.engine)
    return {
        "device": device_name(translator.world.device),
        "parameters": sum(weight.numel() for weight in translator.models[0].parameters()),
        "readings": [judge(translator, test, measuring, *reading) for reading in readings],
        **look(translator, valid, test, measuring, readings[-1][1]),
    }


def judge_writer(
    folder: Path, valid: Sequence[Any], test: Sequence[Any], measuring: Measuring, readings: Readings
) -> dict[str, Any]:
    """A model that only writes: how well it expects the test text. There is one way to read it, and no alignment."""
    run = Run.open(folder)
    writer = Writer(run, device=run.recipe.runtime.device)
    found = writer.evaluate(test, run.recipe.data.folder)
    scores = {score.name: score.value for score in found.scores}
    signatures = {score.name: score.signature for score in found.scores}
    return {
        "device": device_name(writer.world.device),
        "parameters": sum(weight.numel() for weight in writer.model.parameters()) or None,
        "readings": [{"title": "", "scores": scores, "signatures": signatures, "sentences_per_second": None}],
        "alignment": None,
        "pictures": [],
    }


JUDGES: dict[str, Callable[..., dict[str, Any]]] = {"translation": judge_translator, "language": judge_writer}
"""How the models of each task are judged."""


def training_facts(folder: Path) -> dict[str, Any]:
    """What training took, validations not counted: steps, tokens seen, seconds and tokens a second.

    What is counted instead of trained, as n-grams are, took none of these.
    """
    records = [record for record in read_metrics(folder) if record["kind"] == "train"]
    if not records:
        return dict.fromkeys(("steps", "tokens", "seconds", "tokens_per_second"))
    seconds, before = 0.0, 0
    for record in records:
        seconds += (record["tokens"] - before) / record["tokens_per_second"]
        before = record["tokens"]
    return {
        "steps": records[-1]["step"],
        "tokens": before,
        "seconds": round(seconds, 2),
        "tokens_per_second": before / seconds,
    }


def judge(
    translator: Translator, test: Sequence[Source], measuring: Measuring, title: str, changes: dict[str, Any]
) -> dict[str, Any]:
    """Scores on the test set with one search, and how fast it decodes."""
    changes = {**changes, "batch_tokens": measuring.batch_tokens}
    found = evaluate(translator, test, translator.run.recipe.data.folder, **changes)
    sources = found.sources[: measuring.timed]
    list(translator.predict(sources[:32], **changes))  # the first batch pays for what is made once
    started = time.perf_counter()
    list(translator.predict(sources, **changes))
    seconds = time.perf_counter() - started
    return {
        "title": title,
        "scores": {score.name: score.value for score in found.scores},
        "signatures": {score.name: score.signature for score in found.scores},
        "sentences_per_second": len(sources) / seconds,
    }


def look(
    translator: Translator,
    valid: Sequence[Source],
    test: Sequence[Source],
    measuring: Measuring,
    changes: dict[str, Any],
) -> dict[str, Any]:
    """How attention aligns and what it looks like; the head is chosen on the validation set, not on the test.

    A model without attention from target to source has no alignment.
    """
    root, count = translator.run.recipe.data.folder, measuring.aligned
    chosen = alignment = None
    if has_cross_attention(translator):
        chosen = study(translator, gold_of(valid) or pairs_of(valid, root), count).best.plane
        found = study(translator, gold_of(test) or pairs_of(test, root), count)
        alignment = {
            **found.at(chosen).to_json(),
            "lowest_aer": found.lowest.aer if found.lowest else None,
            "heads": found.heads,
        }
    sentences = drawn(pairs_of(test, root), measuring.pictures)
    return {"alignment": alignment, "pictures": [picture(translator, *pair, chosen, changes) for pair in sentences]}


def has_cross_attention(translator: Translator) -> bool:
    """Whether the model looks at the source while it writes."""
    return translator.task.attentions(translator.models[0], "1", [EOS])[2].cross is not None


def pairs_of(corpora: Sequence[Source], root: Path) -> Iterator[tuple[str, str]]:
    """The text of corpora."""
    return ((pair["src"], pair["tgt"]) for pair in read_examples(corpora, root, PAIRS))


def drawn(pairs: Iterable[tuple[str, str]], count: int) -> list[tuple[str, str]]:
    """The same few sentences for every model: from short to long, none too large to be drawn."""
    short = [pair for pair in islice(pairs, 500) if 0 < len(pair[0].split()) <= MOST_WORDS]
    short.sort(key=lambda pair: len(pair[0]))
    return [short[int(place * (len(short) - 1))] for place in np.linspace(0.35, 0.95, count)] if short else []


def picture(
    translator: Translator, source: str, reference: str, plane: Plane | None, changes: dict[str, Any]
) -> dict[str, Any]:
    """What a rung writes and where it looked meanwhile; without weights where it has no attention, or too many."""
    prediction = next(translator.predict([source], **changes))
    told = {"source": source, "reference": reference, "output": prediction.text}
    tokens = prediction.hypotheses[0].tokens if prediction.hypotheses else []
    columns, rows, weights = translator.task.attentions(translator.models[0], source, tokens)
    if weights.cross is None or plane is None or max(len(rows), len(columns)) > MOST_PIECES:
        return told
    cross = weights.cross[0].double().cpu().numpy()
    chosen = all_planes(cross)[plane_names(cross).index(plane)]
    return {**told, "rows": rows, "columns": columns, "weights": np.round(chosen, 3).tolist()}


def device_name(device: torch.device) -> str:
    """What it was measured on."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"CPU, {threads} thread{'s' * (threads > 1)}"
