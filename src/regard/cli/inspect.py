"""regard inspect: what a model looked at while it translated one sentence, or read one text."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.inspect_reader import inspect_reader
from regard.cli.options import AsJson, ModelOptions, RunFolder, SearchOptions
from regard.cli.screen import in_colour, result, result_json, say
from regard.errors import UserError

if TYPE_CHECKING:
    import numpy.typing as npt

    from regard.run import Translator
    from regard.viz import Map


def inspect(
    run: RunFolder,
    sentence: Annotated[str, typer.Argument(metavar="SENTENCE", help="What to translate, or to read, and explain.")],
    search: SearchOptions,
    model: ModelOptions,
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Explain this translation instead of the model's own.")
    ] = None,
    layer: Annotated[int | None, typer.Option(metavar="N", help="Draw this layer, from 1 [the last].")] = None,
    head: Annotated[int | None, typer.Option(metavar="N", help="Draw this head, from 1 [their mean].")] = None,
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Where the page goes [RUN/inspect.html].")] = None,
    svg: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write what the terminal shows as a picture.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a model looked at while it translated or read.

    For a translator the terminal shows the attention from the decoder to the source: a row is a piece being written, a
    column a piece of the source, and darker means more. The page it writes shows every layer and head, of the encoder
    and decoder too. A model of understanding says what it says of the text, given as to regard predict, and shows its
    pieces looking at each other; a recurrent reader shows which pieces it heard in the end.

    \b
    Examples:
      regard inspect runs/dates "Sunday, November 15, 2026"
      regard inspect runs/dates "Sunday, November 15, 2026" --layer 1 --head 3
      regard inspect runs/dates "Sunday, November 15, 2026" --svg attention.svg
      regard inspect runs/de "A dog runs." --target "Ein Hund rennt." --json
      regard inspect runs/sst-2 "A film to remember." --layer 3 --head 2
    """
    from regard.files import require_writable
    from regard.run import PretrainingRun, Run, UnderstandingRun

    if svg is not None:
        require_writable(svg)
    if isinstance(opened := Run.open(run), UnderstandingRun | PretrainingRun):
        if target is not None or search.changes():
            raise UserError("--target and the options of a search are for translators", "leave them out")
        inspect_reader(opened, sentence, asdict(model), layer, head, output, svg, as_json)
        return
    translator = model.load(run)
    explained = explain(translator, sentence, target, search.changes())
    show(translator, sentence, *explained, (layer, head), output, svg, as_json)


def show(
    translator: "Translator",
    sentence: str,
    text: str,
    score: float | None,
    maps: "list[Map]",
    chosen: tuple[int | None, int | None],
    output: Path | None,
    svg: Path | None,
    as_json: bool,
) -> None:
    """The translation and its attention: on the terminal, as a page, and as a picture if one is asked for."""
    from regard.files import write_text
    from regard.run.report import sentence_report
    from regard.viz import heatmap_svg, write_report

    if not maps:
        raise UserError(
            f"{translator.run.folder} has no attention to show: {translator.run.recipe.model.summary}",
            "inspect a run whose model looks at its source",
        )
    title, matrix = plane(maps[-1], *chosen)
    if svg is not None:
        write_text(svg, heatmap_svg(matrix, maps[-1].rows, maps[-1].columns, title))
    page = output or page_of(translator.run.folder)
    if page is not None:
        write_report(page, sentence_report(translator, sentence, text, maps))
    if as_json:
        shown, report = [map_values(found) for found in maps], str(page) if page else None
        picture = str(svg) if svg else None
        found = {"source": sentence, "translation": text, "score": score, "maps": shown}
        result_json({**found, "report": report, "svg": picture})
        return
    result(f"{text}\n\n{drawn(maps[-1], title, matrix)}\n")
    if svg is not None:
        result(f"the same as a picture: {svg}")
    if page is not None:
        result(f"every layer and head, to open in a browser: {page}")


def page_of(folder: Path) -> Path | None:
    """Where the page of a run goes; one that may only be read gets none, and whoever asked is told."""
    if os.access(folder, os.W_OK):
        return folder / "inspect.html"
    say(f"no page is written: {folder} may only be read; --output FILE puts it elsewhere")
    return None


def explain(
    translator: "Translator", sentence: str, target: str | None, changes: dict[str, Any]
) -> "tuple[str, float | None, list[Map]]":
    """The translation, its score, and the maps of encoder, decoder and cross attention."""
    if not sentence.strip():
        raise UserError("the sentence is blank", 'write one in quotation marks: regard inspect RUN "A sentence."')
    longest = translator.task.max_source
    sides = [(sentence, translator.task.src_vocabulary), (target or "", translator.task.tgt_vocabulary)]
    for text, vocabulary in sides:
        pieces = len(vocabulary.encode(text)) + 1
        if pieces > longest:
            raise UserError(
                f"the text has {pieces} pieces, and this run was trained with data.max_length={longest}",
                "inspect one sentence, or a part of it",
            )
    if target is not None:
        return target, None, translator.attention(sentence, target)
    prediction, maps = translator.explain(sentence, **changes)
    return prediction.text, prediction.hypotheses[0].score, maps


def draw(cross: "Map", layer: int | None = None, head: int | None = None) -> str:
    """The heat map of one head of one layer, or of the mean of its heads, under a line that says which."""
    return drawn(cross, *plane(cross, layer, head))


def drawn(cross: "Map", title: str, matrix: "npt.NDArray[Any]") -> str:
    """A matrix of the map for the terminal."""
    from regard.viz import heatmap

    return f"{title}\n\n{heatmap(matrix, cross.rows, cross.columns, colour=in_colour())}"


def plane(cross: "Map", layer: int | None, head: int | None) -> "tuple[str, npt.NDArray[Any]]":
    """The weights of one head of one layer, or the mean of its heads, and which they are in words."""
    import numpy as np

    weights = np.asarray(cross.weights)
    layers, heads = weights.shape[:2]
    for name, number, count in (("layer", layer, layers), ("head", head, heads)):
        if number is not None and not 1 <= number <= count:
            raise UserError(f"there is no {name} {number}", f"there are {name}s 1 to {count}")
    chosen = layer or layers
    of_layer = weights[chosen - 1]
    if layers == heads == 1 and len(weights[0, 0]) == 1:
        return cross.name, of_layer[0]
    title = f"{'cross ' if cross.name == 'cross' else ''}attention, layer {chosen} of {layers}, "
    if head is None:
        return f"{title}mean of {heads} heads", of_layer.mean(axis=0)
    return f"{title}head {head} of {heads}", of_layer[head - 1]


def map_values(found: "Map") -> dict[str, Any]:
    """A map as plain values, its weights (layer, head, row, column) to four digits."""
    import numpy as np

    weights = np.asarray(found.weights, dtype=np.float64).round(4).tolist()
    return {"name": found.name, "rows": list(found.rows), "columns": list(found.columns), "weights": weights}
