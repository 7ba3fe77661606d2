"""One HTML file that shows what a run learned: its curves, scores, examples, and where every head looked.

Shapes: L layers, H heads, R rows (the pieces that look), C columns (the pieces looked at).
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
from regard.viz.document import asset, document

Curve = Sequence[tuple[float, float]]
"""Points (step, value), in order of step."""

MOST_POINTS = 2000
SECTIONS = ("learning", "attention", "examples")
PROGRAM = (
    "elements.js", "curves.js", "examples.js", "matrix.js", "lines.js", "sentence.js", "explorer.js", "report.js",
    "page.js",
)  # fmt: skip


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
class Example:
    """One sentence the model was given and what it made of it; `correct` is None where right and wrong say little."""

    source: str
    reference: str
    output: str
    correct: bool | None = None
    attention: Sequence[AttentionMap] | None = None


@dataclass(frozen=True)
class Report:
    """All that one page shows; a part that is empty is left out.

    `curves` share one axis (train and validation loss); `learning_rate` is drawn below them. `scores` are (name, value,
    signature), where the signature says how the value was computed.
    """

    title: str
    facts: Mapping[str, str] = field(default_factory=dict)
    curves: Mapping[str, Curve] = field(default_factory=dict)
    scores: Sequence[tuple[str, float, str]] = ()
    examples: Sequence[Example] = ()
    learning_rate: Curve = ()


def attention_maps(
    source: Sequence[str],
    target: Sequence[str],
    encoder: ArrayLike | None = None,
    decoder: ArrayLike | None = None,
    cross: ArrayLike | None = None,
    start: str | None = "<s>",
) -> list[AttentionMap]:
    """The maps of an encoder-decoder: encoder (L, H, S, S), decoder (L, H, T, T), cross (L, H, T, S); any may be None.

    A row of `decoder` and `cross` is the piece being written. What the decoder can look at is its input: the output
    shifted right by one (Vaswani et al. 2017, section 3.1), so its columns begin with `start`; without a `start` it is
    the output itself.
    """
    shifted = [start, *target[:-1]] if target and start is not None else list(target)
    maps = (
        ("encoder", source, source, encoder),
        ("decoder", target, shifted, decoder),
        ("cross", target, source, cross),
    )
    return [AttentionMap(name, rows, columns, weights) for name, rows, columns, weights in maps if weights is not None]


def render(report: Report) -> str:
    """The report as one HTML page; the same report always gives the same bytes."""
    return document(report.title, SECTIONS, PROGRAM, json.loads(asset("words.json")), page_data(report))


def write_report(path: Path, report: Report) -> None:
    """Write the page to `path`, whole or not at all."""
    write_text(path, render(report))


def page_data(report: Report) -> JsonObject:
    """The report as plain JSON values: what the page's program reads."""
    return {
        "title": report.title,
        "facts": [[str(key), str(value)] for key, value in report.facts.items()],
        "curves": [{"name": name, "points": _points(curve)} for name, curve in report.curves.items() if len(curve)],
        "rate": _points(report.learning_rate),
        "scores": [[name, _number(value), signature] for name, value, signature in report.scores],
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


def _example(example: Example) -> JsonObject:
    names = [attention.name for attention in example.attention or ()]
    if len(set(names)) < len(names):
        raise ValueError(f"maps of one example need names of their own, not {', '.join(names)}")
    return {
        "source": example.source,
        "reference": example.reference,
        "output": example.output,
        "correct": example.correct,
        "maps": [pack_map(attention) for attention in example.attention or ()],
    }


def _points(curve: Curve) -> list[list[float | None]]:
    """A curve as JSON; of a long one, the lowest and highest point of every stretch, and one that is no number."""
    points = np.asarray(curve, dtype=np.float64).reshape(-1, 2)
    if len(points) > MOST_POINTS:
        kept = {0, len(points) - 1}
        for stretch in np.array_split(np.arange(len(points)), MOST_POINTS // 3):
            finite = np.isfinite(points[stretch, 1])
            kept.update(int(n) for n in stretch[~finite][:1])
            if finite.any():
                values = points[stretch[finite], 1]
                kept |= {int(stretch[finite][values.argmin()]), int(stretch[finite][values.argmax()])}
        points = points[sorted(kept)]
    return [[_number(float(x)), _number(float(y))] for x, y in points]


def _number(value: float) -> float | None:
    """A number to six digits; a loss that became infinite or no number at all is None, and the page says so."""
    return float(f"{value:.6g}") if math.isfinite(value) else None
