"""regard evaluate, for a parser: how many of the gold brackets it finds."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.options import ModelOptions
from regard.cli.screen import Ticker, result, result_json, say, table

if TYPE_CHECKING:
    from regard.data.sources import Source
    from regard.run import ParsingRun

TEXTS = ("sources", "references", "outputs")


def evaluate_trees(
    run: "ParsingRun",
    data: "tuple[str, list[Source], Path]",
    changes: dict[str, Any],
    model: ModelOptions,
    output: Path | None,
    as_json: bool,
) -> None:
    """Parse a treebank and compare; the trees are kept beside the scores."""
    from regard.files import require_writable, write_json
    from regard.run import Parser

    name, corpora, root = data
    parser = Parser([run], **asdict(model))
    title = "-".join([name, model.checkpoint, *(f"{key}={value}" for key, value in changes.items())])
    path = output or run.folder / "evaluations" / f"{title}.json"
    require_writable(path)
    say(f"parsing {', '.join(map(str, corpora))} with {run.folder} ({model.checkpoint})")
    with Ticker("parsed:") as ticker:
        found = parser.evaluate(corpora, root, ticker, **changes)
    write_json(path, found.to_json())
    if as_json:
        brief = {key: value for key, value in found.to_json().items() if key not in TEXTS}
        result_json({"file": str(path), **brief, "sentences": len(found.sources)})
        return
    rows = [[score.name, f"{score.value:.2f}", score.signature] for score in found.scores]
    table(("metric", "value", "computed as"), rows, right=("value",))
    result(f"{len(found.sources):,} sentences in {found.seconds:.1f} seconds; trees and scores: {path}")
