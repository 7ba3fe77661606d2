"""regard inspect: the attention weights behind one prediction."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.attention import draw_map, map_svg, map_values, select_head
from regard.cli.directions import detect_source
from regard.cli.options import AsJson, ModelOptions, Options, RunFolder, SearchOptions, SourceLanguage, TargetLanguage
from regard.cli.screen import panel, print_drawing, print_json, print_result, report
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.run.inspecting import Inspection
    from regard.run.inspection_page import Place
    from regard.run.model import Model

MAX_TITLE_CHARACTERS = 60


def inspect(
    run: RunFolder,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="One example, as regard predict takes it.")],
    search: SearchOptions,
    model: ModelOptions,
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Show the attention for this translation or continuation.")
    ] = None,
    layer: Annotated[int | None, typer.Option(metavar="N", help="Draw this layer, from 1 [the last].")] = None,
    head: Annotated[int | None, typer.Option(metavar="N", help="Draw this head, from 1 [the mean of all].")] = None,
    source: SourceLanguage = None,
    to: TargetLanguage = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", "--html", metavar="FILE", help="The HTML page [RUN/inspect.html].")
    ] = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the heat map as an SVG picture.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the attention weights of a model for one example.

    The terminal shows the prediction and a heat map: each row is a token, and its cells are its attention weights for
    the tokens of the columns. For translation and parsing these are the weights from the output to the source; for a
    language model those from each token to the tokens before it, in the prompt and its continuation; for other tasks
    those between the tokens of the text, or of attention pooling. A model without attention has nothing to show.

    The HTML page is one file without network: every layer and head, the arithmetic of each head step by step, and for
    translation the alignment, the best outputs and the beam; of two steps (German to English to French) the second.

    \b
    Examples:
      regard inspect runs/dates "Sunday, November 15, 2026" --svg attention.svg
      regard inspect runs/de "A dog runs." --target "Ein Hund rennt." --json
      regard inspect translator "A dog runs." --to de --html dog.html
      regard inspect runs/sst-2 "A film to remember." --layer 3 --head 2
      regard inspect runs/wikitext-2-transformer "The capital of" --max-length 20
    """
    from regard.files import require_writable
    from regard.run.inspection_page import Place

    if svg is not None:
        require_writable(svg)
    loaded = model.load(run)
    options = search.changes() | direction_options(loaded, text, source, to)
    searched = with_nbest(loaded, options, target)
    inspection = explain(loaded, text, target, searched)
    shown, (example, prediction) = inspection.maps[-1], inspection.pair
    select_head(shown, layer, head)  # an unknown layer or head is an error before anything is written
    write_picture(svg, loaded, inspection, layer, head)
    page = output or default_page(loaded.run.outputs)
    if page is not None:
        write_page(page, loaded, inspection, Place(layer, head), searched if target is None else None)
    if as_json:
        values = {**example, "prediction": loaded.task.configure(**options).output(prediction)}
        values["maps"] = [map_values(item) for item in inspection.maps]
        print_json({**values, "report": page and str(page), "svg": svg and str(svg)})
        return
    print_drawing(f"{draw_output(loaded, inspection)}\n\n{draw_map(shown, layer, head)}\n")
    for name, path in (("picture", svg), ("every layer and head", page)):
        if path is not None:
            print_result(f"{name}: {path}")


def direction_options(model: "Model", text: str, source: str | None, to: str | None) -> Options:
    """The options of the direction of a translation; without --from the language of the text is detected."""
    options = {name: code for name, code in (("from", source), ("to", to)) if code is not None}
    if model.task.languages is None or source is not None or to is None:
        return options
    detected = detect_source(model.task.languages, model.task.languages.choose(None, to)[1], text)
    return options | {"from": detected} if detected else options


def draw_output(model: "Model", inspection: "Inspection") -> str:
    """The prediction for a terminal."""
    from regard.viz.terminal import draw

    return draw(model.task.describe(*inspection.pair), panel())


def write_picture(
    path: Path | None, model: "Model", inspection: "Inspection", layer: int | None, head: int | None
) -> None:
    """Write the heat map of the last map, with the output as its title; nothing without a path."""
    if path is None:
        return
    from regard.files import write_text
    from regard.viz.content import truncate

    title = truncate(model.task.describe(*inspection.pair).summary, MAX_TITLE_CHARACTERS)
    write_text(path, map_svg(inspection.maps[-1], title, layer, head))


def with_nbest(model: "Model", options: Options, target: str | None) -> Options:
    """The options of a search, so that the page has the best outputs of the run's own search."""
    from regard.run.page_data import nbest_options

    own = target is None and not options.keys() - {"from", "to"}
    return nbest_options(model) | options if own else options


def explain(model: "Model", text: str, target: str | None, options: Options) -> "Inspection":
    """The prediction for a text and its attention weights; a UserError if the model has none."""
    from regard.run.inspecting import inspect_attention
    from regard.tasks.inputs import parse_json_line

    if not text.strip():
        remedy = 'write one in quotation marks: regard inspect RUN "A text."'
        raise UserError("the text is blank", remedy, code="blank-input", where="text")
    recipe = model.run.recipe
    if not model.task.has_attention:
        unused = "; its pooling is not used" if recipe.model.has_attention else ""
        raise UserError(
            f"the outputs of {model.run.folder} depend on no attention: task {recipe.task}, {recipe.model.summary}"
            + unused,
            'inspect a run whose model has attention, for example one with model.kind = "transformer"',
            code="no-attention",
            where=model.run.folder,
        )
    inspection = inspect_attention(model, parse_json_line(text, "the text"), target, **options)
    if not inspection.maps:
        raise UserError(
            "the text has no tokens, so there is no attention to show",
            "write another text",
            code="blank-input",
            where="text",
        )
    return inspection


def write_page(path: Path, model: "Model", inspection: "Inspection", place: "Place", options: Options | None) -> None:
    """Write the page; without `options` of a search it has no beam."""
    from regard.files import write_text
    from regard.run.inspecting import has_beam, inspect_beam
    from regard.run.inspection_page import render_inspection

    search = None
    if options is not None and has_beam(model.task.configure(**options)):
        search = inspect_beam(model, inspection.explanation.example, **options)
    write_text(path, render_inspection(model, inspection, search, place))


def default_page(folder: Path) -> Path | None:
    """The page inside the run folder; None if the folder is read-only."""
    if os.access(folder, os.W_OK) or not folder.exists():
        return folder / "inspect.html"
    report(f"no page is written: {folder} is read-only; --output FILE writes it elsewhere")
    return None
