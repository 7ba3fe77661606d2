"""One HTML file that shows what a run learned: its curves, scores, examples, and where every head looked.

The page needs no network and no server: style, program and data are all inside it. Data travel as JSON in a block the
browser does not execute, and the page's security policy lets it run exactly the one program it was written with, so no
sentence in a corpus can do anything but be read.

Shapes: L layers, H heads, R rows (the pieces that look), C columns (the pieces looked at).
"""

import base64
import hashlib
import html
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from regard.files import write_text

Curve = Sequence[tuple[float, float]]
"""Points (step, value), in order of step."""

MOST_POINTS = 2000
PROGRAM = ("elements.js", "curves.js", "examples.js", "matrix.js", "lines.js", "sentence.js", "explorer.js", "page.js")


@dataclass(frozen=True)
class Map:
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
    attention: Sequence[Map] | None = None


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
) -> list[Map]:
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
    return [Map(name, rows, columns, weights) for name, rows, columns, weights in maps if weights is not None]


def render(report: Report) -> str:
    """The report as one HTML page; the same report always gives the same bytes."""
    style = _asset("page.css")
    words = json.loads(_asset("words.json"))
    program = '(() => {\n"use strict";\n' + "\n".join(_asset(name) for name in PROGRAM) + "})();\n"
    return Template(_asset("page.html")).substitute(
        title=html.escape(report.title),
        style=style,
        style_hash=_policy_hash(style),
        program=program,
        program_hash=_policy_hash(program),
        words=embed(words),
        data=embed(page_data(report)),
    )


def write_report(path: Path, report: Report) -> None:
    """Write the page to `path`, whole or not at all."""
    write_text(path, render(report))


def page_data(report: Report) -> dict[str, Any]:
    """The report as plain JSON values: what the page's program reads."""
    return {
        "title": report.title,
        "facts": [[str(key), str(value)] for key, value in report.facts.items()],
        "curves": [{"name": name, "points": _points(curve)} for name, curve in report.curves.items() if len(curve)],
        "rate": _points(report.learning_rate),
        "scores": [[name, _number(value), signature] for name, value, signature in report.scores],
        "examples": [_example(example) for example in report.examples],
    }


def pack_map(attention: Map) -> dict[str, Any]:
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


def embed(value: Any) -> str:
    """JSON that may stand inside a <script> element: `<`, `>` and `&` are escaped, so no text can close it."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")  # half of a surrogate pair becomes its \u escape
    return text.translate({ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})


def _example(example: Example) -> dict[str, Any]:
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


def _asset(name: str) -> str:
    return (resources.files("regard.viz") / "page" / name).read_text(encoding="utf-8")


def _policy_hash(content: str) -> str:
    """How a content security policy names the one inline program, or style, that may be used."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode("utf-8")).digest()).decode("ascii")
