"""regard inspect, for models that read: what looked at what in a text, and what was said of it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.screen import in_colour, result, result_json
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.run import PretrainingRun, UnderstandingRun

SAMPLE = 'write one in quotation marks: regard inspect RUN "A text."'


def inspect_reader(
    run: "UnderstandingRun | PretrainingRun",
    text: str,
    model: dict[str, Any],
    layer: int | None,
    head: int | None,
    output: Path | None,
    svg: Path | None,
    as_json: bool,
) -> None:
    """Read one text, say what the model says, and draw where it looked."""
    from regard.cli.inspect import drawn, map_values, page_of, plane
    from regard.cli.predict_screen import Drawing
    from regard.files import write_text
    from regard.run import Predictor
    from regard.run.explaining import explain, reader_report
    from regard.run.given import from_json
    from regard.viz import heatmap_svg, write_report

    if model["engine"] != "torch" or model["quantization"]:
        raise UserError("--engine and --quantization are for translators", "leave them out")
    if not text.strip():
        raise UserError("the text is blank", SAMPLE)
    predictor = Predictor(run, **{name: model[name] for name in ("checkpoint", "device", "precision")})
    found = explain(predictor, from_json(text, "the text"))
    if not found.maps:
        raise UserError(
            f"{run.folder} has no attention to show: {run.recipe.model.summary}", "inspect a run whose model looks"
        )
    shown = found.maps[-1]
    title, matrix = plane(shown, layer, head)
    if svg is not None:
        write_text(svg, heatmap_svg(matrix, shown.rows, shown.columns, "; ".join(filter(None, (found.line, title)))))
    page = output or page_of(run.folder)
    if page is not None:
        write_report(page, reader_report(predictor, found))
    if as_json:
        values = {**found.example, "said": found.said, "maps": [map_values(each) for each in found.maps]}
        result_json({**values, "report": str(page) if page else None, "svg": str(svg) if svg else None})
        return
    said = Drawing(in_colour()).show(run.recipe.task, found.example | found.said)
    result(f"{said}\n\n{drawn(shown, title, matrix)}\n")
    if svg is not None:
        result(f"the same as a picture: {svg}")
    if page is not None:
        result(f"every layer and head, to open in a browser: {page}")
