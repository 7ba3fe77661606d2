"""regard inspect: the attention weights behind one prediction, or the parts of a model."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from regard.cli import options as opt
from regard.cli.attention import FigureOptions, draw_map, map_values
from regard.cli.documents import detect_source
from regard.cli.options import Options
from regard.cli.screen import panel, print_drawing, print_json, print_result, report
from regard.errors import UserError
from regard.messages import Message

if TYPE_CHECKING:
    from regard.run.inspecting import Inspection
    from regard.run.model import Model


def inspect(
    run: opt.RunFolder,
    search: opt.SearchOptions,
    model: opt.ModelOptions,
    figure: FigureOptions,
    text: Annotated[
        str | None, Argument(metavar="TEXT", show_default=False, help="Input for the model, as in `regard predict`.")
    ] = None,
    architecture: Annotated[
        bool,
        Option("--architecture", help="Draw the model's parts instead of its attention; RUN may also be a recipe."),
    ] = False,
    target: Annotated[
        str | None, Option(metavar="TEXT", help="Show the attention for this output instead of the model's own.")
    ] = None,
    layer: opt.Layer = None,
    head: opt.Head = None,
    source: opt.SourceLanguage = None,
    to: opt.TargetLanguage = None,
    output: Annotated[
        Path | None,
        Option("--output", "-o", "--html", metavar="FILE", show_default="RUN/inspect.html", help="HTML page to write."),
    ] = None,
    as_json: opt.AsJson = False,
) -> None:
    """Show a model's attention weights for one example."""
    from regard.run.page_data import nbest_options
    from regard.viz.terminal import draw

    figure.check()
    if architecture:
        return show_architecture(run, figure.figure, as_json)
    if text is None:
        remedy = "add a text in quotation marks, or `--architecture`"
        raise UserError("TEXT is missing", remedy, code="missing-input", where="text")
    loaded = model.load(run)
    options = search.changes() | direction_options(loaded, text, source, to)
    own_search = target is None and not options.keys() - {"from", "to"}
    searched = nbest_options(loaded) | options if own_search else options  # the page has the best outputs
    inspection = explain(loaded, text, target, searched)
    shown, (example, prediction) = inspection.maps[-1], inspection.pair
    described = loaded.task.describe(example, prediction)
    drawing = f"{draw(described, panel())}\n\n{draw_map(shown, layer, head)}\n"
    figure.write(shown, described.summary, layer, head)
    page = output or default_page(loaded.run.outputs)
    if page is not None:
        write_page(page, loaded, inspection, (layer, head), searched if target is None else None)
    if as_json:
        output_ = loaded.task.configure(**options).output(prediction)
        values = {**example, "prediction": output_, "maps": list(map(map_values, inspection.maps))}
        return print_json({**values, "report": page and str(page), "figure": figure.figure and str(figure.figure)})
    print_drawing(drawing)
    return print_paths({Message("picture"): figure.figure, Message("every layer and head"): page})


def show_architecture(name: str, figure: Path | None, as_json: bool) -> None:
    """Print and draw the parts of a run's model, or of the model that a recipe would train."""
    from dataclasses import asdict

    from regard.run.architecture import recipe_architecture, task_architecture
    from regard.run.run import Run
    from regard.run_files import RECIPE, find_run
    from regard.tasks.registry import load_recipe
    from regard.viz.figures import write_figure

    folder = find_run(name)
    if folder.is_dir() or (folder / RECIPE).is_file():
        run = Run.open(folder)
        shown, path = task_architecture(run.task), figure or run.outputs / "architecture.svg"
    else:
        recipe = load_recipe(name)
        shown, path = recipe_architecture(recipe), figure or Path(f"{recipe.name}-architecture.svg")
    write_figure(path, shown.svg())
    if as_json:
        return print_json(asdict(shown) | {"parameters": shown.parameters, "figure": str(path)})
    print_drawing(f"{shown}\n")
    return print_paths({Message("picture"): path})


def print_paths(written: dict[Message, Path | None]) -> None:
    for title, path in written.items():
        if path is not None:
            print_result(Message("{key}: {value}", key=title, value=path))


def direction_options(model: "Model", text: str, source: str | None, to: str | None) -> Options:
    """The options of the direction of a translation; without --from the language of the text is detected."""
    options = {name: code for name, code in (("from", source), ("to", to)) if code is not None}
    languages = model.task.languages
    if languages is None or source is not None or to is None:
        return options
    target = languages.choose(None, to)[1]
    detected = detect_source(languages, target, text)
    return options | {"from": detected} if languages.pivot(detected, target) else options


def explain(model: "Model", text: str, target: str | None, options: Options) -> "Inspection":
    """The prediction for a text and its attention weights; a UserError if the model has none."""
    from regard.run.inspecting import inspect_attention
    from regard.tasks.inputs import parse_json_line

    if not text.strip():
        remedy = 'add a text in quotation marks: `regard inspect RUN "A text."`'
        raise UserError("the text is empty", remedy, code="blank-input", where="text")
    recipe = model.run.recipe
    if not model.task.recipe.has_attention:
        unused = "; the attention pooling is not used" if recipe.model.has_attention else ""
        raise UserError(
            f"the outputs of {model.run.folder} do not depend on attention: task {recipe.task}, {recipe.model.summary}"
            + unused,
            'inspect a run whose model has attention, for example `model.kind = "transformer"`',
            code="no-attention",
            where=model.run.folder,
        )
    inspection = inspect_attention(model, parse_json_line(text, "the text"), target, **options)
    if not inspection.maps:
        problem = "the text has no tokens, so there is no attention to show"
        raise UserError(problem, "use a text with words", code="blank-input", where="text")
    return inspection


def write_page(
    path: Path, model: "Model", inspection: "Inspection", shown: tuple[int | None, int | None], options: Options | None
) -> None:
    """Write the page, which first shows a layer and a head; without the `options` of a search it has no beam."""
    from regard.files import write_text
    from regard.run.inspecting import has_beam, inspect_beam
    from regard.run.page_data import Place, render_inspection

    search = None
    if options is not None and has_beam(model.task.configure(**options)):
        search = inspect_beam(model, inspection.explanation.example, **options)
    write_text(path, render_inspection(model, inspection, search, Place(*shown)))


def default_page(folder: Path) -> Path | None:
    """The page inside the run folder; None if the folder is read-only."""
    if os.access(folder, os.W_OK) or not folder.exists():
        return folder / "inspect.html"
    report(Message("no page is written: {folder} is read-only; set `--output FILE` to write it", folder=folder))
    return None
