"""Figures as files: the SVG as it is drawn, or converted to PDF or PNG.

The conversion is vl-convert's, the extra `figures`: it needs no other program, finds a font for every script (Chinese
too), and keeps the text of a PDF as text. It has no dark colours: they are for browsers only.
"""

import re
from importlib.util import find_spec
from pathlib import Path

from regard.errors import UserError
from regard.files import replacing, require_writable

FORMATS = (".svg", ".pdf", ".png")
PNG_SCALE = 3.0
"""Pixels of a PNG for each pixel of the drawing: about 300 per inch."""
MAX_PIXELS = 9_000
"""Pixels of the longer side of a PNG; a larger drawing has fewer per inch. A PDF has no such bound."""


def check_figure(path: Path) -> None:
    """Raise a UserError if no figure can be written to `path`; called before the work whose result goes there."""
    if path.suffix.lower() not in FORMATS:
        problem = f"{path}: figures are {', '.join(FORMATS)} files"
        raise UserError(problem, "use one of these file extensions", code="unsupported-format", where=path)
    if path.suffix.lower() != ".svg" and find_spec("vl_convert") is None:
        problem = f"{path}: PDF and PNG figures need the package vl-convert-python"
        remedy = 'pip install "regard[figures]", or use the file extension .svg'
        raise UserError(problem, remedy, code="missing-package", where="vl-convert-python")
    require_writable(path)


def write_figure(path: Path, svg: str) -> None:
    """Write a picture into a file, whose extension decides the format."""
    check_figure(path)
    with replacing(path) as temporary:
        temporary.write_bytes(figure_bytes(svg, path.suffix.lower()))


def figure_bytes(svg: str, format: str) -> bytes:
    """The content of a figure file."""
    if format == ".svg":
        return svg.encode("utf-8")
    import vl_convert

    if format == ".pdf":
        return vl_convert.svg_to_pdf(svg)
    sides = re.findall(r'(?:width|height)="([\d.e+]+)"', svg)[:2]  # those of the whole
    return vl_convert.svg_to_png(svg, scale=min(PNG_SCALE, MAX_PIXELS / max(map(float, sides))))
