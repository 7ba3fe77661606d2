"""regard evaluate, for a language model: how well it expects a text."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.options import one_of
from regard.cli.screen import result, result_json, say, table
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.data.sources import Source
    from regard.run.language import LanguageRun


def evaluate_text(
    run: "LanguageRun", on: str, file: str | None, model: dict[str, Any], output: Path | None, as_json: bool
) -> None:
    """Score the run's test text, or another one, by token, word and character."""
    from regard.files import require_writable, write_json
    from regard.run import Writer

    writer = Writer(run, **{name: model[name] for name in ("checkpoint", "device", "precision")})
    name, texts, root = texts_of(run, on, file)
    path = output or run.folder / "evaluations" / f"{name}-{writer.checkpoint}.json"
    require_writable(path)
    say(f"reading {', '.join(map(str, texts))} with {run.folder} ({writer.checkpoint})")
    found = writer.evaluate(texts, root)
    write_json(path, found.to_json())
    if as_json:
        result_json({"file": str(path), **found.to_json()})
        return
    rows = [[score.name, f"{score.value:.3f}", score.signature] for score in found.scores]
    table(("metric", "value", "computed as"), rows, right=("value",))
    result(f"in {found.seconds:.1f} seconds; scores: {path}")


def texts_of(run: "LanguageRun", on: str, file: str | None) -> "tuple[str, list[Source], Path]":
    """A name for the texts, the texts, and the folder their names are relative to."""
    from regard.data.sources import Source

    if file is not None:
        return Path(file).name, [Source(file=file)], Path()
    part = one_of("--on", on, ("test", "valid"))
    texts: list[Source] = getattr(run.recipe.data, part)
    if not texts:
        raise UserError(f"the recipe of {run.folder} names no {part} data", "write --on valid, or give --file FILE")
    return part, texts, run.recipe.data.folder
