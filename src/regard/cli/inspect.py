"""regard inspect: the attention weights behind one prediction."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.attention import draw_map, map_svg, map_values, select_head
from regard.cli.options import AsJson, ModelOptions, Options, RunFolder, SearchOptions
from regard.cli.screen import panel, print_drawing, print_json, print_result, report
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.run.model import Explanation, Model

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
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="The HTML page [RUN/inspect.html].")
    ] = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the heat map as an SVG picture.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the attention weights of a model for one example.

    The terminal shows the prediction and a heat map: each row is a token, and its cells are its attention weights for
    the tokens of the columns. For translation and parsing these are the weights from the output to the source; for a
    language model those from each token to the tokens before it, in the prompt and its continuation; for other tasks
    those between the tokens of the text, or those of attention pooling. The HTML page shows every layer and head. A
    model whose outputs depend on no attention (recurrent, n-gram) has nothing to show.

    \b
    Examples:
      regard inspect runs/dates "Sunday, November 15, 2026"
      regard inspect runs/dates "Sunday, November 15, 2026" --layer 1 --head 3
      regard inspect runs/dates "Sunday, November 15, 2026" --svg attention.svg
      regard inspect runs/de "A dog runs." --target "Ein Hund rennt." --json
      regard inspect runs/sst-2 "A film to remember." --layer 3 --head 2
      regard inspect runs/wikitext-2-transformer "The capital of" --max-length 20
    """
    from regard.files import require_writable, write_text
    from regard.run.report import explanation_report
    from regard.tasks.base import truncate
    from regard.viz.report import write_report

    if svg is not None:
        require_writable(svg)
    loaded, options = model.load(run), search.changes()
    explanation = explain(loaded, text, target, options)
    shown, example, prediction = explanation.maps[-1], explanation.example, explanation.prediction
    select_head(shown, layer, head)  # an unknown layer or head is an error before anything is written
    if svg is not None:
        title = truncate(loaded.task.sample(example, prediction).output, MAX_TITLE_CHARACTERS)
        write_text(svg, map_svg(shown, title, layer, head))
    page = output or default_page(loaded.run.folder)
    if page is not None:
        write_report(page, explanation_report(loaded, explanation))
    if as_json:
        values = {**example, "prediction": loaded.task.configure(**options).output(prediction)}
        maps = [map_values(item) for item in explanation.maps]
        print_json({**values, "maps": maps, "report": page and str(page), "svg": svg and str(svg)})
        return
    print_drawing(f"{loaded.task.render(example, prediction, panel())}\n\n{draw_map(shown, layer, head)}\n")
    if svg is not None:
        print_result(f"picture: {svg}")
    if page is not None:
        print_result(f"every layer and head: {page}")


def explain(model: "Model", text: str, target: str | None, options: Options) -> "Explanation":
    """The prediction for a text and its attention weights; a UserError if the model has none."""
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
    explanation = model.explain(parse_json_line(text, "the text"), target, **options)
    if not explanation.maps:
        raise UserError(
            "the text has no tokens, so there is no attention to show",
            "write another text",
            code="blank-input",
            where="text",
        )
    return explanation


def default_page(folder: Path) -> Path | None:
    """The page inside the run folder; None if the folder is read-only."""
    if os.access(folder, os.W_OK):
        return folder / "inspect.html"
    report(f"no page is written: {folder} is read-only; --output FILE writes it elsewhere")
    return None
