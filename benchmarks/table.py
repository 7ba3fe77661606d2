"""From figures to a table: each contender's median multiple of the unit, and its median speed."""

import os
import platform
import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from benchmarks.contender import OUTPUT, SMOOTHING, Shape
from rich.console import Console
from rich.table import Table


@dataclass
class Results:
    """Tokens a second by measure, contender and round."""

    unit: str
    contenders: dict[str, dict[str, Any]] = field(default_factory=dict)
    figures: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    failures: list[tuple[str, str, str]] = field(default_factory=list)
    """(contender, measure or nothing when it never started, why)"""

    def enter(self, name: str, label: str, version: str, parameters: int | None) -> None:
        self.contenders[name] = {"label": label, "version": version, "parameters": parameters}

    def add(self, measure: str, name: str, figure: float) -> None:
        self.figures.setdefault(measure, {}).setdefault(name, []).append(figure)

    def failed(self, label: str, measure: str) -> bool:
        return any((label, measure) == failure[:2] for failure in self.failures)

    def ratio(self, measure: str, name: str) -> float | None:
        """The median over the rounds of its speed as a multiple of the unit's in the same round; all rounds or none."""
        found = self.figures.get(measure, {})
        theirs, units = found.get(name, []), found.get(self.unit, [])
        if not theirs or len(theirs) != len(units):
            return None
        return statistics.median(one / unit for one, unit in zip(theirs, units, strict=True))

    def rows(self) -> Iterator[tuple[str, list[str]]]:
        """(contender, a cell for each measure)."""
        for name, contender in self.contenders.items():
            cells = []
            for measure, found in self.figures.items():
                ratio = self.ratio(measure, name)
                cells.append("–" if ratio is None else f"{ratio:.2f}x ({statistics.median(found[name]):,.0f})")
            yield f"{contender['label']} {contender['version']}", cells

    def as_json(self) -> dict[str, Any]:
        ratios = {measure: {name: self.ratio(measure, name) for name in self.contenders} for measure in self.figures}
        return asdict(self) | {"ratios": ratios}


def facts_of_machine(shape: Shape, tokens: int, rounds: int, text: str) -> list[str]:
    """What a figure means nothing without."""
    model = (
        f"{shape.layers}+{shape.layers} layers, d_model {shape.d_model}, {shape.num_heads} heads, d_ff {shape.d_ff}, "
        f"joint vocabulary of {shape.vocabulary:,}, fp32 where not said otherwise"
    )
    work = (
        f"{text}; {tokens:,} tokens a batch on the longer side, Adam, label smoothing {SMOOTHING}, dropout "
        f"{shape.dropout}; {OUTPUT} tokens written for every sentence"
    )
    reading = (
        f"x: multiple of the torch.nn.Transformer loop, median of {rounds} interleaved rounds; in brackets tokens/s, "
        "median: real source and target tokens trained on, tokens written"
    )
    machine = (
        f"{cpu_model()}, {shape.threads} of {os.cpu_count()} cores used; "
        f"torch {torch.__version__}, Python {platform.python_version()}"
    )
    return [model, work, reading, machine]


def cpu_model() -> str:
    """The processor's own name, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def notes(results: Results, machine: list[str]) -> list[str]:
    """What stands under the table; whoever is missing from it, with the reason."""
    missing = [f"{who}{f', {measure}' if measure else ''}: {why}" for who, measure, why in results.failures]
    return [*machine, *(f"left out: {line}" for line in missing)]


def screen(results: Results, machine: list[str]) -> None:
    table = Table()
    table.add_column("")
    for measure in results.figures:
        table.add_column(measure, justify="right")
    for label, cells in results.rows():
        table.add_row(label, *cells)
    Console(width=150).print(table)
    print("\n".join(notes(results, machine)))


def markdown(results: Results, machine: list[str]) -> None:
    print("| | " + " | ".join(results.figures) + " |")
    print("| --- |" + " ---: |" * len(results.figures))
    for label, cells in results.rows():
        print(f"| {label} | " + " | ".join(cells) + " |")
    print("\n" + "\n".join(f"- {note}" for note in notes(results, machine)))
