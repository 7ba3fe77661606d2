"""regard export: the model of a run in the format of another program."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import AsJson, RunFolder, one_of
from regard.cli.screen import print_json, print_result
from regard.errors import UserError


def export(
    run: RunFolder,
    to: Annotated[str, typer.Option(metavar="huggingface|ctranslate2", help="The program that reads it.")] = (
        "huggingface"
    ),
    folder: Annotated[
        Path | None, typer.Option("--folder", metavar="FOLDER", help="A new folder [RUN/exports/PROGRAM-CHECKPOINT].")
    ] = None,
    checkpoint: Annotated[
        str, typer.Option(metavar="NAME", help="best, last, averaged (see regard average) or step-00001000.")
    ] = "best",
    quantization: Annotated[
        str | None, typer.Option(metavar="int8|float32|...", help="The weights of ctranslate2 [int8].")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the model of a run for Hugging Face transformers or CTranslate2.

    For transformers, a BERT is written with the head of its task (AutoModelForSequenceClassification and so on), a
    Transformer as MarianMTModel, or as PegasusForConditionalGeneration if model.norm is pre; AutoTokenizer reads the
    vocabulary. The files are read back, both models are run on the same inputs, and the largest difference is printed.

    \b
    Examples:
      regard export runs/de --folder de-marian
      regard export runs/sst2 --folder sst2-bert
      regard export runs/de --to ctranslate2 --quantization int8 --folder de-int8
    """
    from regard.run.exporting import EXPORTS, PROGRAMS, QUANTIZATION, export_run
    from regard.run.run import Run

    one_of("--to", to, PROGRAMS)
    if quantization is not None and to != "ctranslate2":
        raise UserError(
            "--quantization is for --to ctranslate2",
            "leave it out: weights are written as they are",
            code="unsupported-option",
            where="quantization",
        )
    opened = Run.open(run)
    target = folder or opened.folder / EXPORTS / f"{to}-{checkpoint}"
    exported = export_run(opened, target, to, checkpoint, quantization or QUANTIZATION)
    if as_json:
        values = {"folder": str(exported.folder), "to": to, "weights": exported.weights}
        print_json({**values, "difference": exported.difference})
        return
    print_result(f"{exported.weights:,} weights written to {shlex.quote(str(exported.folder))}")
    print_result(f"its {exported.output} differ from those of the run by at most {exported.difference:.1e}")
