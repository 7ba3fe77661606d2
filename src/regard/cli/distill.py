"""regard distill: the translations of a run for its training sources, as training data of another run."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import AsJson, ModelOptions, SearchOptions, one_of
from regard.cli.screen import ProgressLine, print_json, print_result, report
from regard.cli.shell import as_called
from regard.errors import UserError

SPLITS = ("train", "valid", "test")


def distill(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="The teacher's folder; several are an ensemble.")],
    search: SearchOptions,
    model: ModelOptions,
    folder: Annotated[
        Path | None, typer.Option("--folder", metavar="FOLDER", help="The folder for the files [RUN/distilled].")
    ] = None,
    on: Annotated[str, typer.Option(metavar="train|valid|test", help="The split of the recipe's data.")] = "train",
    as_json: AsJson = False,
) -> None:
    """Translate the training data of a run, to train a student on it.

    A corpus has different translations of similar sentences; the teacher always gives one, which is easier to learn
    (Kim & Rush 2016). Models that predict all tokens at once (model.kind = "masked") need it most. FOLDER gets
    train.src and train.tgt, one sentence per line, and a manifest that says how they were made. After an interruption,
    the same command continues.

    \b
    Examples:
      regard distill runs/de
      regard distill runs/de --beam 4 --folder data/distilled
      regard distill runs/de runs/de-2 runs/de-3 --folder data/distilled     an ensemble is the teacher
    """
    from regard.run.distill import distill as write_translations

    split, options = one_of("--on", on, SPLITS), search.changes()
    if options.get("nbest", 1) > 1:
        raise UserError(
            "--nbest is more than 1",
            "a student is trained on one translation of each source; leave it out",
            code="unsupported-option",
            where="nbest",
        )
    translator = model.load_translator(*runs)
    with ProgressLine("translated:") as progress:
        distilled = write_translations(
            translator, folder or translator.run.folder / "distilled", split, progress, **options
        )
    if as_json:
        files = {"src": str(distilled.src), "tgt": str(distilled.tgt)}
        print_json({**files, "lines": distilled.lines, "before": distilled.before, "setting": distilled.setting})
        return
    if distilled.before:
        report(f"{distilled.before:,} of {distilled.lines:,} lines were already translated")
    print_result(f"{distilled.lines:,} sources and their translations: {distilled.src} and {distilled.tgt}")
    use = {"train": "train on them", "valid": "validate on them", "test": "evaluate on them"}[split]
    print_result(as_called(f"{use}: regard train RECIPE {shlex.quote(distilled.setting)}"))
