"""regard export: the model of a run in the format of another program, with a certificate."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import AsJson, OptionGroup, one_of
from regard.cli.screen import print_json, print_result, print_table, report
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.export.certificate import Bounds, Certificate


@dataclass(frozen=True)
class ComparisonOptions(OptionGroup):
    """How the export is compared with the run."""

    title = "Certificate (default bounds: by the type of the weights)"

    sentences: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Lines to compare both models on [the validation data of the run]."),
    ] = None
    examples: Annotated[int, typer.Option(metavar="N", min=1, help="Number of examples to compare.")] = 100
    max_difference: Annotated[
        float | None, typer.Option(metavar="X", min=0, help="The largest difference of a logit that is allowed.")
    ] = None
    min_identical: Annotated[
        float | None,
        typer.Option(metavar="X", min=0, max=1, help="The smallest share of identical outputs, from 0 to 1."),
    ] = None
    max_score_change: Annotated[
        float | None, typer.Option(metavar="X", min=0, help="The largest change of a score, in points.")
    ] = None

    def change(self, bounds: "Bounds") -> "Bounds":
        """The bounds with those replaced that are given."""
        return bounds.change(self.max_difference, self.min_identical, self.max_score_change)


def export(
    comparison: ComparisonOptions,
    run: Annotated[str, typer.Argument(metavar="RUN", help="The folder of a run; with --check optional.")] = "",
    to: Annotated[
        str, typer.Option(metavar="huggingface|ctranslate2|onnx|torch-export", help="The program that reads it.")
    ] = "huggingface",
    folder: Annotated[
        Path | None, typer.Option("--folder", metavar="FOLDER", help="A new folder [RUN/exports/PROGRAM-CHECKPOINT].")
    ] = None,
    checkpoint: Annotated[
        str, typer.Option(metavar="NAME", help="best, last, averaged (see regard average) or step-00001000.")
    ] = "best",
    quantization: Annotated[
        str | None,
        typer.Option(metavar="int8|float32|...", help="The weights of ctranslate2 [int8] or onnx [float32]."),
    ] = None,
    check: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Compare an export with its run again; write nothing.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the model of a run for another program, with a certificate.

    huggingface: a BERT with the head of its task, a Transformer as MarianMTModel or PegasusForConditionalGeneration.
    ctranslate2: a standard Transformer. onnx and torch-export: Transformers, BERT and recurrent models of every task.
    README.md in the folder has a program that runs the model without regard.

    The exported model is run on the same examples as the model of the run. certificate.json states the largest
    difference of their logits, the share of identical outputs, scores, size and speed. Outside of its bounds it is an
    error, and nothing is written. Bounds depend on the type of the weights: 0.001, 99 % and 0.1 points in 32 bits; 5,
    50 % and 1 point in 8 bits.

    \b
    Examples:
      regard export runs/de --folder de-marian
      regard export runs/sst2 --folder sst2-bert
      regard export runs/de --to ctranslate2 --quantization int8 --folder de-int8
      regard export runs/de --to onnx --folder de-onnx
      regard export --check de-onnx
    """
    if check is not None:
        check_again(check, run, comparison, as_json)
        return
    from regard.export.targets import TARGETS
    from regard.run.exported_engine import EXPORTS
    from regard.run.exporting import export_run
    from regard.run.run import Run

    one_of("--to", to, tuple(TARGETS))
    if not run:
        raise UserError("no run is given", "name the folder of a run", code="missing-option", where="run")
    opened = Run.open(run)
    target = folder or opened.outputs / EXPORTS / f"{to}-{checkpoint}"
    exported = export_run(
        opened, target, to, checkpoint, quantization,
        bounds=comparison.change, sentences=comparison.sentences, limit=comparison.examples, report=report,
    )  # fmt: skip
    if not as_json:
        print_result(f"{exported.weights:,} weights written to {shlex.quote(str(exported.folder))}")
    show(exported.certificate, exported.folder, as_json, weights=exported.weights)


def check_again(folder: Path, run: str, comparison: ComparisonOptions, as_json: bool) -> None:
    """Compare an export with its run, or with the run that is given."""
    from regard.run.exporting import check_export
    from regard.run.run import Run

    opened = Run.open(run) if run else None
    certificate = check_export(
        folder, opened,
        bounds=comparison.change, sentences=comparison.sentences, limit=comparison.examples, report=report,
    )  # fmt: skip
    show(certificate, folder, as_json)


def show(certificate: "Certificate", folder: Path, as_json: bool, **more: object) -> None:
    """Print a certificate."""
    if as_json:
        print_json({"folder": str(folder), **more, **certificate.to_json()})
        return
    directions = "".join(f"; {name}: {count}" for name, count in certificate.directions.items())
    print_result(f"{certificate.examples} examples ({certificate.source}{directions}), {certificate.program}")
    columns = ("", "run", "export", "bound")
    print_table(columns, certificate.rows(), right=columns[1:])
