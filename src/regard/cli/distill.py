"""regard distill: the translations of a run for its training sources, as training data of another run."""

import shlex
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from regard.cli.options import AsJson, ModelOptions, SearchOptions, SourceLanguage, TargetLanguage, one_of
from regard.cli.screen import ProgressLine, print_json, print_result, report
from regard.cli.shell import as_called
from regard.cli.streams import interruptible
from regard.errors import UserError
from regard.messages import Message
from regard.run_files import SPLITS


def distill(
    runs: Annotated[list[str], Argument(metavar="RUN", help="Teacher: a run folder, or several for an ensemble.")],
    search: SearchOptions,
    model: ModelOptions,
    folder: Annotated[
        Path | None,
        Option("--folder", metavar="FOLDER", show_default="RUN/distilled", help="Folder for distilled data."),
    ] = None,
    on: Annotated[str, Option(metavar="train|valid|test", help="Split of the recipe's data to translate.")] = "train",
    source: SourceLanguage = None,
    target: TargetLanguage = None,
    limit: Annotated[
        int | None,
        Option(metavar="N", min=1, show_default="all", help="Maximum number of sources per direction, a fixed sample."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Translate a run's training data, to train a student on the translations."""
    from regard.run.distill import distill as distill_split
    from regard.run.distill import select_directions

    split, options = one_of("--on", on, SPLITS), search.changes()
    if options.get("nbest", 1) > 1:
        remedy = "leave `--nbest` out: a student is trained on one translation per source"
        raise UserError("`--nbest` must be 1 for distillation", remedy, code="unsupported-option", where="nbest")
    translator = model.load_translator(*runs)
    from regard.training.distributed import Ranks, peer_errors

    team = Ranks.of(translator.world)
    with peer_errors(translator.world), interruptible(), ProgressLine(Message("translated:")) as progress:
        directions = select_directions(translator.task, source, target)
        path = folder or translator.run.outputs / "distilled"
        distilled = [
            distill_split(translator, path, split, progress, direction, team, limit, **options)
            for direction in directions
        ]
    sources = [item.source for item in distilled]
    setting = f"data.{split}={sources[0] if len(sources) == 1 else '[' + ', '.join(sources) + ']'}"
    if as_json:
        files = [{"src": str(item.src), "tgt": str(item.tgt), "lines": item.lines} for item in distilled]
        before = sum(item.before for item in distilled)
        first = files[0] | {"lines": sum(item.lines for item in distilled), "before": before, "setting": setting}
        print_json(first | ({"files": files} if len(files) > 1 else {}))
        return
    for item in distilled:
        if item.before:
            report(Message("{before:,} of {lines:,} lines were already translated", **vars(item)))
        print_result(Message("{lines:,} sources and their translations: {src} and {tgt}", **vars(item)))
    command = f"regard train RECIPE {shlex.quote(setting)}"
    print_result(as_called(Message("use them for {split}: {command}", split=split, command=command)))
