"""regard export: a run's model for another program."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import AsJson, RunFolder, one_of
from regard.cli.screen import result, result_json


def export(
    run: RunFolder,
    to: Annotated[str, typer.Option(metavar="huggingface|ctranslate2", help="Which program is to read it.")] = (
        "huggingface"
    ),
    folder: Annotated[
        Path | None, typer.Option("--folder", "-o", metavar="FOLDER", help="A new folder [RUN/exports/PROGRAM-NAME].")
    ] = None,
    checkpoint: Annotated[
        str, typer.Option(metavar="NAME", help="best, last, averaged (see regard average) or step-00001000.")
    ] = "best",
    quantization: Annotated[
        str | None,
        typer.Option(metavar="int8|float32|...", help="How ctranslate2 keeps the weights; int8 if not said."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a run's model for transformers or CTranslate2.

    For transformers a BERT is written with the head of its task (AutoModelForSequenceClassification and so on), and a
    Transformer as MarianMTModel, or as PegasusForConditionalGeneration where model.norm is pre; AutoTokenizer reads the
    vocabulary. What was written is read back and asked the same as the run: the largest difference is said.

    \b
    Examples:
      regard export runs/de --folder de-marian
      regard export runs/sst2 --folder sst2-bert
      regard export runs/de --to ctranslate2 --quantization int8 --folder de-int8
    """
    from regard.errors import UserError
    from regard.run import Run
    from regard.run.exporting import PROGRAMS, export_run

    one_of("--to", to, PROGRAMS)
    if quantization is not None and to != "ctranslate2":
        raise UserError("--quantization is for --to ctranslate2", "leave it out: weights are written as they are")
    opened = Run.open(run)
    place = folder or opened.folder / "exports" / f"{to}-{checkpoint}"
    done = export_run(opened, place, to, checkpoint, quantization or "int8")
    if as_json:
        result_json({"folder": str(done.folder), "to": to, "weights": done.weights, "difference": done.difference})
        return
    result(f"{done.weights:,} weights written to {shlex.quote(str(done.folder))}")
    result(f"read back, its {done.of} differ from the run's by at most {done.difference:.1e}")
