"""What the page of a run shows, as JSON values: a run, a prediction, a head, a beam, curves, and a map of texts.

The server answers with these values (serve/page.py). `render_inspection` writes one prediction into one HTML file with
alignment, alternatives, attention, the arithmetic of its heads, and the beam: the served page without a server.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import cast

import numpy as np
from torch import Tensor

from regard.errors import UserError
from regard.files import JsonObject
from regard.messages import to_page
from regard.run import report
from regard.run.alignment import align
from regard.run.inspecting import Inspection, SearchTree, has_beam, inspect_attention, inspect_beam, predicts_next
from regard.run.model import Explanation, Input, Model, Translator
from regard.run.recording import count_heads
from regard.run.report import Record
from regard.run_files import METRICS
from regard.tasks.operations import empty_prediction
from regard.viz.content import block_json
from regard.viz.document import asset, document, pack_array
from regard.viz.report import pack_map, points_json

MAX_CURVE_BYTES = 4_000_000
"""Bytes of metrics.jsonl that one answer reads; the rest follows with the next."""
MAX_TEXTS = 50
"""Texts of one map."""
SHOWN_HYPOTHESES = 5
SECTIONS = ("result", "inside")
STYLE = ("page.css", "views.css")
PROGRAM = (
    "elements.js", "texts.js", "tables.js", "examples.js", "figure.js", "matrix.js", "lines.js", "sentence.js",
    "explorer.js", "numbers.js", "arithmetic.js", "beam.js", "alternatives.js", "alignment.js", "tabs.js",
    "inspected.js", "page.js",
)  # fmt: skip
MAX_NUMBERS = 1_500_000
"""Numbers of all heads that a file holds, about 8 MB; of a larger model it holds those of one layer."""
MEAN = -1
"""In place of a layer or a head: the mean of all (viz/page/explorer.js)."""


def run_json(name: str, model: Model) -> JsonObject:
    """What a page must know to draw the form of a run."""
    task, recipe = model.task, model.run.recipe
    return {
        "name": name,
        "task": task.name,
        "about": recipe.about or task.title,
        "model": to_page(recipe.model.summary),
        "fields": form_fields(model),
        "attention": task.recipe.has_attention,
        "beam": beam_width(model),
        "next": predicts_next(task),
        "vectors": task.text_encoder is not None,
        "curves": (model.run.folder / METRICS).is_file(),
        "monitor": recipe.training.monitor,
        "mask": (task.text_encoder and task.text_encoder.mask) or None,
    }


def architecture_json(model: Model) -> JsonObject:
    """The picture of a model's parts in both languages."""
    shown = model.architecture()
    return {"en": shown.svg(chinese=False), "zh": shown.svg(chinese=True), "text": to_page(shown.title)}


def form_fields(model: Model) -> list[JsonObject]:
    """The fields of an example that a person fills in: the required ones, and a second text if the run reads pairs."""
    task, fields = model.task, model.task.recipe.fields
    known = task.text_encoder and task.text_encoder.pairs
    takes_pairs = "pair" in fields.inputs if known is None else known
    optional = ["pair"] if takes_pairs and "pair" not in fields.required else []
    return [
        {"name": name, "required": name not in optional, "list": name == "choices"}
        for name in [*fields.required, *optional]
    ]


def beam_width(model: Model) -> int:
    """The number of hypotheses of the run's own search; 0 if its search is no beam."""
    task = model.task
    if task.search is None or not has_beam(task):
        return 0
    return task.search.settings.beam if task.search.settings.search == "beam" else 1


def nbest_options(model: Model) -> JsonObject:
    """Options that give the best outputs and do not change the first one."""
    width = beam_width(model)
    return {"nbest": min(width, SHOWN_HYPOTHESES)} if width > 1 and model.task.languages is not None else {}


def named_heads(model: Model, off: Sequence[str]) -> dict[str, list[int]]:
    """Heads of maps, "cross/0/1" for layer 0 and head 1 of cross-attention, by the names that `Model.without` takes."""
    counts, heads = count_heads(model.model), dict[str, list[int]]()
    for each in off:
        kind, layer, head = each.split("/")
        names = [name for name in counts if name.endswith("cross") == (kind == "cross")]
        names = [name for name in names if kind == "cross" or name.startswith(kind)] or names
        if int(layer) >= len(names) or int(head) >= counts[names[int(layer)]]:
            raise UserError(f"there is no head {each}", "choose a head of a map", code="invalid-option", where="off")
        heads.setdefault(names[int(layer)], []).append(int(head))
    return heads


def prediction_json(model: Model, value: Input, chosen: int = 0, off: Sequence[str] = ()) -> JsonObject:
    """A prediction in its own form, its best alternatives, and its attention maps, those of alternative `chosen`.
    `problem` says why there are no maps, if the text is too long for them. Heads in `off` are switched off."""
    if off:
        with model.without(heads=named_heads(model, off)):
            return prediction_json(model, value, chosen)
    options = nbest_options(model)
    problem = None
    try:
        inspection = inspect_attention(model, value, chosen=chosen, **options)
    except UserError as error:
        if error.code != "too-long":
            raise
        problem = f"{error.problem}; {error.remedy}"
        example = model.task.parse(value, "the text")
        inspection = Inspection(Explanation(example, model.predict(example, **options), []), [])
    return {**inspection_json(model, inspection), "chosen": chosen, "problem": problem}


def inspection_json(model: Model, inspection: Inspection) -> JsonObject:
    """A prediction and the maps behind it."""
    example, prediction = inspection.explanation.example, inspection.explanation.prediction
    found = prediction.get("hypotheses", []) if prediction.get("parts") == 1 else []
    has_text = empty_prediction(model.task, example) is None
    return {
        "input": model.task.to_line(example),
        "output": [block_json(block) for block in model.task.describe(example, prediction).output] if has_text else [],
        "score": prediction.get("score"),
        "hypotheses": [{key: item[key] for key in ("text", "score", "finished")} for item in found],
        "maps": [
            pack_map(item) | {"steps": bool(calls)}
            for item, calls in zip(inspection.maps, inspection.layers, strict=True)
        ],
    }


def example_head_json(model: Model, value: Input, chosen: int, name: str, layer: int, head: int) -> JsonObject:
    """The steps of one head for a prediction, as `prediction_json` shows it."""
    return head_json(inspect_attention(model, value, chosen=chosen, **nbest_options(model)), name, layer, head)


def head_json(inspection: Inspection, name: str, layer: int, head: int) -> JsonObject:
    """The steps of one head for all queries: arrays of float32 by name; null where a model has none."""
    steps = inspection.arithmetic(name, layer, head)
    values = {field.name: getattr(steps, field.name) for field in fields(steps)}
    arrays = {
        key: pack_array(value.detach().float().cpu().numpy()) if isinstance(value, Tensor) else value
        for key, value in values.items()
    }
    return {"map": name, "layer": layer, "head": head, **arrays}


def beam_json(model: Model, value: Input, width: int | None = None) -> JsonObject:
    """The beam as a tree; `width` is that of the run by default."""
    own = beam_width(model)
    options = nbest_options(model) if width in (None, own) else {"beam": width, "nbest": width}
    return tree_json(inspect_beam(model, value, **options))


def tree_json(search: SearchTree) -> JsonObject:
    """Nodes as lists: step, parent (null: none), token, log P of the token, log P, score, outcome."""
    nodes = [
        [node.step, node.parent, name, *(round(x, 4) for x in (node.log_prob, node.total, node.score)), node.outcome]
        for node, name in zip(search.tree.nodes, search.tokens, strict=True)
    ]
    return {"width": search.width, "alpha": search.alpha, "nodes": nodes, "leaves": search.tree.leaves}


def curves_json(folder: Path, monitor: str, seen: str = "") -> JsonObject:
    """The curves of a run from metrics.jsonl, also while it trains.

    `seen` is the value of an earlier answer: the new answer has only what was written since. `reset` is True if the
    file was replaced in between, as when a run is resumed: then the answer has everything.
    """
    records, seen_now, reset = new_records(folder / METRICS, seen)
    curve = report.monitor_curve(records, monitor)
    return {
        "seen": seen_now,
        "reset": reset,
        "curves": [{"name": name, "points": points_json(curve)} for name, curve in report.loss_curves(records).items()],
        "rate": points_json(report.learning_rate(records)),
        "monitor": curve and {"name": curve.name, "points": points_json(curve.points), "best": curve.best_step},
        "seconds": next((item["seconds"] for item in reversed(records) if item["kind"] == "train"), None),
    }


def new_records(path: Path, seen: str) -> tuple[list[Record], str, bool]:
    """The complete lines after the place that `seen` names, the new place, and True if it starts from the beginning."""
    if not path.is_file():
        return [], "", True
    with path.open("rb") as stream:
        status = path.stat()
        file, _, place = seen.partition(":")
        known = file == str(status.st_ino) and place.isdecimal() and int(place) <= status.st_size
        start = int(place) if known else 0
        stream.seek(start)
        block = stream.read(MAX_CURVE_BYTES)
    block = block[: block.rfind(b"\n") + 1]
    records = [report.checked_record(line, str(path)) for line in block.splitlines()]
    return [record for record in records if record], f"{status.st_ino}:{start + len(block)}", not known


def texts_json(model: Model, texts: Sequence[str]) -> JsonObject:
    """Texts as points: their two main directions (principal components), and the cosine of every pair."""
    if not 2 <= len(texts) <= MAX_TEXTS:
        problem = f"cannot compare {len(texts)} texts"
        raise UserError(problem, f"enter 2 to {MAX_TEXTS} texts, one per line", code="invalid-option", where="texts")
    vectors = np.stack([item.vector for item in model.embed(list(texts), pool="mean", normalize=True)]).astype("f8")
    centred = vectors - vectors.mean(axis=0)
    _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    points = centred @ directions[:2].T
    points = np.pad(points, ((0, 0), (0, 2 - points.shape[1])))
    total = float((sizes**2).sum()) or 1.0
    return {
        "texts": list(texts),
        "points": points.round(6).tolist(),
        "shares": [round(float(size**2) / total, 4) for size in sizes[:2]],
        "cosines": (vectors @ vectors.T).clip(-1, 1).round(4).tolist(),
    }


# ---- one prediction as one file --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """The layer and the head that a page shows first, from 1; None: the mean of all."""

    layer: int | None = None
    head: int | None = None

    def to_json(self) -> JsonObject:
        layer = self.layer or (1 if self.head else 0)
        return {"layer": layer - 1 if layer else MEAN, "head": self.head - 1 if self.head else MEAN}


def render_inspection(model: Model, inspection: Inspection, search: SearchTree | None, place: Place) -> str:
    """The page; the same values give the same bytes."""
    shared, texts = json.loads(asset("words.json")), json.loads(asset("page_words.json"))
    words = {language: texts[language] | shared[language] for language in texts}
    shown = inspection_json(model, inspection)
    layers = stored_layers(inspection, place)
    heads = {
        f"{item.name}/{layer}/{head}": head_json(inspection, item.name, layer, head)
        for item, calls in zip(inspection.maps, inspection.layers, strict=True)
        for layer, call in enumerate(calls)
        if layers is None or layer in layers
        for head in range(call.num_heads)
    }
    facts = report.run_facts(model, report.read_metrics(model.run.folder))
    data = {
        "facts": [[name, to_page(fact)] for name, fact in facts.items()],
        "examples": [{"source": shown["input"], "reference": "", "output": "", "correct": None, "maps": shown["maps"]}],
        "output": shown["output"],
        "hypotheses": shown["hypotheses"],
        "links": links_of(model, inspection),
        "tree": search and tree_json(search),
        "heads": heads,
        "layers": layers or [],
        "place": place.to_json(),
    }
    title = f"{report.title_of(model)}: {shown['input']}"
    return document(title, SECTIONS, PROGRAM, words, data, STYLE)


def stored_layers(inspection: Inspection, place: Place) -> list[int] | None:
    """The layers whose heads the file holds, from 0; None: all."""
    numbers = 0
    for calls in inspection.layers:
        for call in calls:
            steps = call.head(0)
            arrays = (value for value in vars(steps).values() if hasattr(value, "numel"))
            numbers += call.num_heads * sum(array.numel() for array in arrays)
    if numbers <= MAX_NUMBERS:
        return None
    last = max(len(calls) for calls in inspection.layers)
    return [(place.layer or last) - 1]


def links_of(model: Model, inspection: Inspection) -> list[list[int]]:
    """Which part of a translation comes from which part of its source; none for other tasks."""
    example, prediction = inspection.explanation.example, inspection.explanation.prediction
    if model.task.languages is None:
        return []
    try:
        (links,) = align(cast(Translator, model), [example], [str(prediction["translation"])])
    except UserError:  # a model without cross-attention
        return []
    return [list(link) for link in links]
