"""regard export: a run's model for another library, with a certificate."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import AsJson, Checkpoint, OptionGroup, one_of
from regard.cli.screen import print_json, print_result, print_table, report
from regard.errors import UserError
from regard.messages import Message, find_message

if TYPE_CHECKING:
    from regard.export.certificate import Bounds, Certificate


@dataclass(frozen=True)
class ComparisonOptions(OptionGroup):
    """How the export is compared with the run."""

    title = "Certificate (default bounds depend on the weights)"

    sentences: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Text file to compare both models on.", show_default="the validation data"),
    ] = None
    examples: Annotated[int, typer.Option(metavar="N", min=1, help="Maximum number of examples to compare.")] = 100
    max_difference: Annotated[
        float | None, typer.Option(metavar="X", min=0, help="Maximum difference between logits.")
    ] = None
    min_identical: Annotated[
        float | None, typer.Option(metavar="X", min=0, max=1, help="Minimum share of identical outputs, from 0 to 1.")
    ] = None
    max_score_change: Annotated[
        float | None, typer.Option(metavar="X", min=0, help="Maximum change in a score, in points.")
    ] = None

    def change(self, bounds: "Bounds") -> "Bounds":
        return bounds.change(self.max_difference, self.min_identical, self.max_score_change)


def export(
    comparison: ComparisonOptions,
    run: Annotated[str, typer.Argument(metavar="RUN", help="Run folder; optional with `--check`.")] = "",
    to: Annotated[
        str, typer.Option(metavar="huggingface|ctranslate2|onnx|torch-export", help="Target library.")
    ] = "huggingface",
    folder: Annotated[
        Path | None,
        typer.Option("--folder", metavar="FOLDER", show_default="RUN/exports/TO-CHECKPOINT", help="New folder."),
    ] = None,
    checkpoint: Checkpoint = "best",
    quantization: Annotated[
        str | None,
        typer.Option(
            metavar="int8|float32|...",
            show_default="int8, or float32 for onnx",
            help="Only with `--to ctranslate2` or `onnx`: weight type.",
        ),
    ] = None,
    check: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Export nothing; compare the export in FOLDER with the run.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Export a run's model to another library, with a certificate."""
    from regard.export.targets import TARGETS
    from regard.run.exported_engine import EXPORTS
    from regard.run.exporting import check_export, export_run
    from regard.run.run import Run

    one_of("--to", to, tuple(TARGETS))
    opened = Run.open(run) if run else None
    bounds, sentences, limit = comparison.change, comparison.sentences, comparison.examples
    if check is not None:
        again = check_export(check, opened, bounds=bounds, sentences=sentences, limit=limit, report=report)
        show(again, check, as_json)
        return
    if opened is None:
        raise UserError("no run is given", "name a run folder", code="missing-option", where="run")
    target = folder or opened.outputs / EXPORTS / f"{to}-{checkpoint}"
    exported = export_run(
        opened, target, to, checkpoint, quantization, bounds=bounds, sentences=sentences, limit=limit, report=report
    )
    show(exported.certificate, exported.folder, as_json, exported.weights)


def show(certificate: "Certificate", folder: Path, as_json: bool, weights: int | None = None) -> None:
    """Print a certificate, and the number of weights if they were just written."""
    from regard.viz.report import column_title

    if as_json:
        count = {} if weights is None else {"weights": weights}
        print_json({"folder": str(folder), **count, **certificate.to_json()})
        return
    if weights is not None:
        written = {"weights": weights, "folder": shlex.quote(str(folder))}
        print_result(Message("{weights:,} weights written to {folder}", **written))
    directions = "".join(f"; {name}: {count}" for name, count in certificate.directions.items())
    data = vars(certificate) | {"source": find_message(certificate.source), "directions": directions}
    print_result(Message("{examples} examples ({source}{directions}), {program}", **data))
    columns = ("", "run", Message("export"), Message("bound"))
    print_table(columns, [(column_title(name), *values) for name, *values in certificate.rows()], right=columns[1:])
