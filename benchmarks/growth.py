"""How time and memory grow with the length of sentences, the batch, the width, the vocabulary and the corpus.

    python -m benchmarks.growth                      on the GPU if there is one, else on the CPU
    python -m benchmarks.growth --quick              fewer and smaller points
    python -m benchmarks.growth --pairs 5000000 --stores FOLDER    stores up to this size, kept to be opened again

    python -m benchmarks.growth --draw growth.json   tables and plot of figures that were measured elsewhere

Every axis changes one size and leaves the others. Memory is what the work needs while it lasts, and after a plus sign
the weights and moments that stay. Under each curve stands its exponent, the slope on log-log paper over the upper half
of the points: 1 is linear growth, 2 is quadratic, 0 is none. Nothing is compiled. Seconds on a CPU are seconds of its
threads' own work, except for stores.
"""

import argparse
import json
import math
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.growth_point import Cost, Point, measure

from regard.files import write_json
from regard.reading import read_json

MIB = 2**20
Row = dict[str, Any]
"""axis, value, series, seconds, memory and held (in bytes; of a store: on the disk)."""


@dataclass(frozen=True)
class Axis:
    """One size that changes, and what is measured along it."""

    name: str
    label: str
    values: Sequence[int]
    point: Point
    series: Sequence[tuple[str, str]]
    """(work, layout)"""

    def points(self) -> Iterator[tuple[int, Point]]:
        """Every point with its value, large ones last."""
        for value in self.values:
            changed = {self.name: value} if self.name != "sentence" else {"length": value, "tokens": value}
            for work, layout in self.series:
                yield value, replace(self.point, work=work, layout=layout, **changed)


PAIRS = "pairs"
LABELS = {
    "length": "tokens a sentence, the batch's tokens constant",
    "sentence": "tokens of one sentence alone",
    "tokens": "tokens a batch",
    "d_model": "width d_model",
    "vocabulary": "vocabulary",
    PAIRS: "pairs of the corpus",
}


def powers(first: int, last: int, quick: bool) -> list[int]:
    """Powers of two, every one or every second."""
    exponents = range(int(math.log2(first)), int(math.log2(last)) + 1)
    return [2**exponent for exponent in (exponents[:: -2 if quick else -1])][::-1]


def axes_for(device: str, quick: bool) -> list[Axis]:
    """Sizes that suit the device: base on a GPU, a tenth of it on a CPU."""
    if device == "cuda":
        usual = Point("train", "packed", 32, 16_384, 512, 32_768, 6)
        both = [("train", "packed"), ("train", "padded")]
        encoding = [("encode", "packed"), ("encode", "padded"), ("encode", "written out")]
        ranges = {"tokens": (2**11, 2**16), "d_model": (128, 1024), "vocabulary": (2**12, 2**17)}
        sentence = powers(256, 16_384, quick)
    else:
        usual = Point("train", "padded", 32, 4_096, 128, 8_192, 2)
        both = [("train", "padded")]
        encoding = [("encode", "padded"), ("encode", "written out")]
        ranges = {"tokens": (2**9, 2**13), "d_model": (64, 512), "vocabulary": (2**11, 2**16)}
        sentence = powers(256, 4_096, quick)
    length = Axis("length", LABELS["length"], powers(16, 4_096, quick), usual, [*both, *encoding])
    small = replace(usual, tokens=usual.tokens // 4)
    return [
        length,
        Axis("sentence", LABELS["sentence"], sentence, usual, encoding),
        *(
            Axis(name, LABELS[name], powers(*ends, quick and name != "d_model"), point, both)
            for (name, ends), point in zip(ranges.items(), (usual, small, small), strict=True)
        ),
    ]


def row_of(axis: Axis, value: int, point: Point, cost: Cost | None) -> Row:
    """A point that did not fit into memory has no figures."""
    found = asdict(cost) if cost is not None else {"seconds": None, "memory": None, "held": None}
    return {"axis": axis.name, "value": value, "series": f"{point.work}, {point.layout}", **found}


def measure_axes(axes: Sequence[Axis], device: str, threads: int, repeats: int) -> Iterator[Row]:
    """Every point of every axis: on a GPU one after the other, on a CPU each in a new process."""
    with ExitStack() as stack:
        if device == "cpu":
            context = get_context("forkserver")
            context.set_forkserver_preload(["benchmarks.growth_point"])
            pool = stack.enter_context(ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1))
        for axis in axes:
            for value, point in axis.points():
                arguments = (point, device, threads, repeats)
                cost = pool.submit(measure, *arguments).result() if device == "cpu" else measure(*arguments)
                row = row_of(axis, value, point, cost)
                print(f"{axis.name} {value}, {row['series']}: {shown(row)}", file=sys.stderr)
                yield row


def measure_stores(most: int, folder: Path, workers: int) -> Iterator[Row]:
    """Stores of ten thousand pairs and more, built once and opened by new processes."""
    count = 10_000
    while count <= most:
        command = [sys.executable, "-m", "benchmarks.store_memory", "--json", "--pairs", str(count)]
        command += ["--workers", str(workers), "--folder", str(folder / str(count))]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        built, first, again = found["built"], found["first"], found["again"]
        for series, seconds, memory in (
            ("build", built["seconds"], built["peak"]),
            ("first open, every byte read", first["open_seconds"], first["open_anonymous"]),
            ("open", again["open_seconds"], again["open_anonymous"]),
            ("first batch", again["batch_seconds"], again["batch_anonymous"]),
        ):
            row = dict(axis=PAIRS, value=count, series=series, seconds=seconds, memory=memory, held=built["disk"])
            print(f"pairs {count}, {series}: {shown(row)}", file=sys.stderr)
            yield row
        count = most if count * 10 > most > count else count * 10


def shown(row: Row) -> str:
    """Seconds and memory of a row in a cell."""
    if row["seconds"] is None:
        return "no memory"
    held = f" + {row['held'] / MIB:,.0f}" if row["axis"] != PAIRS else ""
    time = f"{row['seconds']:,.1f} s" if row["seconds"] >= 10 else f"{1000 * row['seconds']:,.1f} ms"
    return f"{time}, {row['memory'] / MIB:,.1f}{held} MiB"


def exponent(rows: Sequence[Row], what: str) -> float:
    """The slope of log(cost) over log(size), by least squares over the upper half of the points."""
    known = [(row["value"], row[what]) for row in rows if row[what]]
    upper = known[-max(3, (len(known) + 1) // 2) :]
    if len(upper) < 2:
        return math.nan
    sizes, costs = np.log(np.array(upper, float)).T
    return float(np.polyfit(sizes, costs, 1)[0])


def curves(rows: Sequence[Row]) -> dict[str, dict[str, list[Row]]]:
    """axis -> series -> rows."""
    found: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        found.setdefault(row["axis"], {}).setdefault(row["series"], []).append(row)
    return found


def show(rows: Sequence[Row]) -> None:
    """A table for each axis, in Markdown, and under each column its exponents."""
    for name, series in curves(rows).items():
        lines = [[LABELS[name], *series]]
        for value in dict.fromkeys(row["value"] for found in series.values() for row in found):
            cells = ({row["value"]: row for row in found}.get(value) for found in series.values())
            lines.append([f"{value:,}", *("" if row is None else shown(row) for row in cells)])
        fitted = ([exponent(found, what) for what in ("seconds", "memory")] for found in series.values())
        lines.append(["exponent", *(f"time {time:.2f}, memory {memory:.2f}" for time, memory in fitted)])
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        lines.insert(1, ["-" * (width - 1) + ":" for width in widths])
        for line in lines:
            print("| " + " | ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) + " |")
        print()


def plot(rows: Sequence[Row], title: str, path: Path) -> None:
    """Every axis twice, time above memory, on log-log paper."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        print(f"no {path}: it needs matplotlib (pip install matplotlib)", file=sys.stderr)
        return
    found = curves(rows)
    columns = min(3, len(found))
    lines = 2 * math.ceil(len(found) / columns)
    figure, panels = pyplot.subplots(lines, columns, figsize=(4.6 * columns, 3.3 * lines), squeeze=False)
    for number, (name, series) in enumerate(found.items()):
        for shift, what in enumerate(("seconds", "memory")):
            draw(panels[2 * (number // columns) + shift][number % columns], LABELS[name], series, what)
    for panel in panels.flat:
        panel.set_visible(bool(panel.has_data()))
    figure.suptitle(f"{title}\nbeside each name the exponent of its curve's upper half: 1 is linear", fontsize=12)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    print(f"drawn: {path}", file=sys.stderr)


def draw(panel: Any, label: str, series: dict[str, list[Row]], what: str) -> None:
    """One panel, its ticks at round numbers."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    for name, points in series.items():
        known = [(row["value"], row[what] / (MIB if what == "memory" else 1)) for row in points if row[what]]
        slope = max(0.0, round(exponent(points, what), 1))
        panel.plot(*zip(*known, strict=True), marker="o", markersize=3.5, label=f"{name}: {slope:.1f}")
    panel.set(xscale="log", yscale="log", ylabel="memory, MiB" if what == "memory" else "seconds")
    panel.set_xlabel(label, fontsize=10)
    values = sorted({row["value"] for points in series.values() for row in points})
    panel.xaxis.set_major_locator(FixedLocator(values[:: -math.ceil(len(values) / 5)]))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    panel.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_minor_locator(NullLocator())
    low, high = panel.get_ylim()
    panel.set_ylim(low / 1.3, high * 1.8 ** len(series))  # room for the names
    panel.legend(fontsize=8, loc="upper left")
    panel.grid(True, alpha=0.3)


def short(value: float) -> str:
    """4,096 as 4k, 5,000,000 as 5M."""
    thousand = 1024 if value % 1024 == 0 else 1000
    for unit, size in (("M", thousand**2), ("k", thousand)):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, write and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--quick", action="store_true", help="every second point only")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads [as torch chooses]")
    parser.add_argument("--repeats", type=int, default=3, help="of which the fastest counts [3]")
    parser.add_argument("--pairs", type=int, default=100_000, help="the largest store; 0 for none [100000]")
    parser.add_argument("--workers", type=int, default=0, help="processes that build a store [one a core]")
    parser.add_argument("--stores", type=Path, help="keep the stores in this folder, and open those that are there")
    parser.add_argument("--output", type=Path, default=Path(), help="folder for growth.json and growth.png [.]")
    parser.add_argument("--draw", type=Path, metavar="FILE", help="measure nothing: show what this growth.json holds")
    options = parser.parse_args(arguments)
    found = read_json(options.draw, dict[str, Any]) if options.draw else measured(options)
    show(found["rows"])
    print(found["where"])
    write_json(options.output / "growth.json", found)
    plot(found["rows"], found["where"], options.output / "growth.png")


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """All points, and where they were measured."""
    axes = axes_for(options.device, options.quick)
    rows = list(measure_axes(axes, options.device, options.threads, options.repeats))
    with ExitStack() as stack:
        folder = options.stores or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        rows += measure_stores(options.pairs, folder, options.workers)
    on_gpu = options.device == "cuda"
    count = options.threads or torch.get_num_threads()
    threads = f"{count} thread{'s' * (count != 1)}"
    where = f"{torch.cuda.get_device_name()}, bf16" if on_gpu else f"CPU ({platform.machine()}, {threads}), fp32"
    return {"where": f"{where}, torch {torch.__version__}", "rows": rows}


if __name__ == "__main__":
    main()
