"""One HTML file about a run: its curves, scores, tables and examples, and the attention weights of every head.

Shapes: L layers, H heads, R rows (the tokens that attend), C columns (the tokens attended to).
"""

import base64
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from regard.files import JsonObject, write_text
from regard.messages import is_chinese, to_page
from regard.viz import content
from regard.viz.content import Block, block_json
from regard.viz.document import asset, document

Curve = Sequence[tuple[float, float]]
"""Points (step, value), in order of step."""

MAX_POINTS = 2000
DRAWN_COLUMNS = 100
"""Width of a drawn tree."""
SECTIONS = ("learning", "tables", "attention", "examples")
PROGRAM: list[str] = json.loads(asset("programs.json"))["report"]


@dataclass(frozen=True)
class AttentionMap:
    """Attention of every layer and head over one pair of sequences: weights (L, H, R, C), each row a distribution.

    `name` is "encoder", "decoder" or "cross", which the page explains, or any other title.
    """

    name: str
    rows: Sequence[str]
    columns: Sequence[str]
    weights: ArrayLike


@dataclass(frozen=True)
class ShownExample:
    """One example and its prediction; `correct` is None if outputs are not simply right or wrong."""

    source: Block
    reference: Block
    output: Block
    correct: bool | None = None
    attention: Sequence[AttentionMap] | None = None
    confidence: float | None = None
    """The probability of the output."""

    @classmethod
    def of(cls, item: content.Description) -> "ShownExample":
        """An example in a list of many: long texts are shortened around their marks, trees are drawn as text."""
        source, reference, output = map(shorten, (item.source, item.reference, next(iter(item.output), "")))
        return cls(source, reference, output, item.correct, confidence=item.confidence)


def shorten(block: Block) -> Block:
    """A block for a list of many examples."""
    if isinstance(block, content.DependencyTree | content.PhraseTree):
        return content.Preformatted(block.draw(DRAWN_COLUMNS))
    return block.excerpt() if isinstance(block, content.Marked) else block


@dataclass(frozen=True)
class MonitorCurve:
    """The monitored validation metric over time, and the step of the best checkpoint."""

    name: str
    points: Curve
    best_step: int | None = None


@dataclass(frozen=True)
class Report:
    """The content of one page; a part that is empty is left out.

    `curves` share one axis (train and validation loss); below them are the monitored metric and the learning rate.
    `scores` are (name, value, signature), where the signature says how the value was computed.
    """

    title: str
    facts: Mapping[str, str] = field(default_factory=dict)
    curves: Mapping[str, Curve] = field(default_factory=dict)
    scores: Sequence[tuple[str, float, str]] = ()
    examples: Sequence[ShownExample] = ()
    learning_rate: Curve = ()
    monitor: MonitorCurve | None = None
    tables: Sequence[content.Table | content.Matrix] = ()


def attention_maps(
    source: Sequence[str],
    target: Sequence[str],
    encoder: ArrayLike | None = None,
    decoder: ArrayLike | None = None,
    cross: ArrayLike | None = None,
    start: str | None = "<s>",
) -> list[AttentionMap]:
    """The maps of an encoder-decoder: encoder (L, H, S, S), decoder (L, H, T, T), cross (L, H, T, S); any may be None.

    A row of `decoder` and `cross` is the token that is predicted. The decoder attends to its input: the output shifted
    right by one (Vaswani et al. 2017, section 3.1), so its columns begin with `start`; without a `start` it is the
    output itself.
    """
    shifted = [start, *target[:-1]] if target and start is not None else list(target)
    maps = (
        ("encoder", source, source, encoder),
        ("decoder", target, shifted, decoder),
        ("cross", target, source, cross),
    )
    return [AttentionMap(name, rows, columns, weights) for name, rows, columns, weights in maps if weights is not None]


def render(report: Report) -> str:
    """The report as one HTML page; the same report gives the same bytes."""
    return document(report.title, SECTIONS, PROGRAM, json.loads(asset("words.json")), page_data(report))


def write_report(path: str | Path, report: Report) -> None:
    """Write the page to `path` atomically."""
    write_text(Path(path), render(report))


def column_title(name: str) -> str:
    """The name of a column of a table in the language of the terminal, as the page has it."""
    words: dict[str, str] = json.loads(asset("words.json"))["zh" if is_chinese() else "en"]
    return words.get(f"name_{name}", name)


def page_data(report: Report) -> JsonObject:
    """The report as plain JSON values, for the script of the page."""
    monitor = report.monitor if report.monitor and len(report.monitor.points) else None
    return {
        "title": report.title,
        "facts": [[str(key), to_page(value)] for key, value in report.facts.items()],
        "curves": [{"name": name, "points": points_json(curve)} for name, curve in report.curves.items() if len(curve)],
        "monitor": monitor and {"name": monitor.name, "points": points_json(monitor.points), "best": monitor.best_step},
        "rate": points_json(report.learning_rate),
        "scores": [[name, _number(value), to_page(signature)] for name, value, signature in report.scores],
        "tables": [table.to_json() for table in report.tables],
        "examples": [_example(example) for example in report.examples],
    }


def pack_map(attention: AttentionMap) -> JsonObject:
    """A map as JSON values, its weights as one byte each (off by at most 1/510) in base64."""
    weights = np.asarray(attention.weights, dtype=np.float64)
    R, C = len(attention.rows), len(attention.columns)
    if weights.ndim != 4 or weights.shape[2:] != (R, C) or 0 in weights.shape[:2]:
        wanted = f"(layers, heads, {R} rows, {C} columns)"
        raise ValueError(f"{attention.name} attention has the shape {weights.shape}, not {wanted}")
    rounding = 1e-3
    if not ((weights >= -rounding) & (weights <= 1 + rounding)).all():
        raise ValueError(f"{attention.name} attention holds weights that are not between 0 and 1")
    bytes_ = np.rint(weights.clip(0, 1) * 255).astype(np.uint8).tobytes()
    return {
        "name": attention.name,
        "rows": list(attention.rows),
        "columns": list(attention.columns),
        "layers": weights.shape[0],
        "heads": weights.shape[1],
        "weights": base64.b64encode(bytes_).decode("ascii"),
    }


def _example(example: ShownExample) -> JsonObject:
    names = [attention.name for attention in example.attention or ()]
    if len(set(names)) < len(names):
        raise ValueError(f"the maps of an example need different names, not {', '.join(names)}")
    return {
        "source": block_json(example.source),
        "reference": block_json(example.reference),
        "output": block_json(example.output),
        "correct": example.correct,
        "confidence": None if example.confidence is None else round(example.confidence, 4),
        "maps": [pack_map(attention) for attention in example.attention or ()],
    }


def points_json(curve: Curve) -> list[list[float | None]]:
    """A curve as JSON; of a long one, the lowest and highest point of every interval, and one that is not finite."""
    points = np.asarray(curve, dtype=np.float64).reshape(-1, 2)
    if len(points) > MAX_POINTS:
        kept = {0, len(points) - 1}
        for interval in np.array_split(np.arange(len(points)), MAX_POINTS // 3):
            finite = np.isfinite(points[interval, 1])
            kept.update(int(n) for n in interval[~finite][:1])
            if finite.any():
                values = points[interval[finite], 1]
                kept |= {int(interval[finite][values.argmin()]), int(interval[finite][values.argmax()])}
        points = points[sorted(kept)]
    return [[_number(float(x)), _number(float(y))] for x, y in points]


def _number(value: float) -> float | None:
    """A number to six digits; None if it is not finite, which the page shows."""
    return float(f"{value:.6g}") if math.isfinite(value) else None
