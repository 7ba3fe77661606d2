"""One prediction as one HTML file: alignment, alternatives, attention, the arithmetic of its heads, and the beam.

It is the served page (serve/page.py) without a server: everything that the views may show is in the file.
"""

import json
from dataclasses import dataclass
from typing import cast

from regard.errors import UserError
from regard.files import JsonObject
from regard.run.alignment import align
from regard.run.inspecting import Inspection, SearchTree
from regard.run.model import Model, Translator
from regard.run.page_data import head_json, inspection_json, tree_json
from regard.run.report import read_metrics, run_facts, title_of
from regard.viz.document import asset, document

SECTIONS = ("result", "inside")
STYLE = ("page.css", "views.css")
PROGRAM = (
    "elements.js", "texts.js", "tables.js", "examples.js", "matrix.js", "lines.js", "sentence.js", "explorer.js",
    "numbers.js", "arithmetic.js", "beam.js", "alternatives.js", "alignment.js", "tabs.js", "inspected.js", "page.js",
)  # fmt: skip
MAX_NUMBERS = 1_500_000
"""Numbers of all heads that a file holds, about 8 MB; of a larger model it holds those of one layer."""
MEAN = -1
"""In place of a layer or a head: the mean of all (viz/page/explorer.js)."""


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
    data = {
        "facts": [list(item) for item in run_facts(model, read_metrics(model.run.folder)).items()],
        "examples": [{"source": shown["input"], "reference": "", "output": "", "correct": None, "maps": shown["maps"]}],
        "output": shown["output"],
        "hypotheses": shown["hypotheses"],
        "links": links_of(model, inspection),
        "tree": search and tree_json(search),
        "heads": heads_of(inspection, layers),
        "layers": layers or [],
        "place": place.to_json(),
    }
    title = f"{title_of(model)}: {shown['input']}"
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


def heads_of(inspection: Inspection, layers: list[int] | None) -> JsonObject:
    """The steps of all heads of these layers, by "map/layer/head"."""
    return {
        f"{item.name}/{layer}/{head}": head_json(inspection, item.name, layer, head)
        for item, calls in zip(inspection.maps, inspection.layers, strict=True)
        for layer, call in enumerate(calls)
        if layers is None or layer in layers
        for head in range(call.num_heads)
    }


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
