"""Saving what the page shows as SVG and PNG."""

import io
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.cli.command import regard
from tests.page.conftest import OpenPage, Served, opened
from tests.page.test_page_browser import SENTENCE, show, type_text

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAME = "{http://www.w3.org/2000/svg}"
LIGHT = np.array([[244, 244, 239], [190, 221, 217], [94, 170, 176], [24, 104, 131], [8, 42, 74]])
"""The colours of the weights 0, 1/4, 1/2, 3/4 and 1."""


def save(page: "Page", kind: str, inside: str = "#inside") -> tuple[str, bytes]:
    """Press a button that saves; the name and the content of the file."""
    with page.expect_download() as waited:
        page.locator(f"{inside} .save button:has-text('{kind}')").click()
    return waited.value.suggested_filename, Path(waited.value.path()).read_bytes()


def test_the_matrix_of_a_head(open_page: OpenPage, served: Served) -> None:
    page = open_page(color_scheme="light")
    type_text(page)
    page.locator(".overview tbody tr").nth(1).locator(".thumb").nth(1).click()
    page.hover(".matrix")
    attention = served.models["numbers"].explain(SENTENCE).maps[-1]
    weights = np.asarray(attention.weights)[1, 1]
    name, content = save(page, "SVG")
    root = ET.fromstring(content)
    assert name == "attention-cross.svg" and not root.findall(f".//{NAME}style") and b"class=" not in content
    tiles = [rect for rect in root.iter(f"{NAME}rect") if rect.get("fill", "").startswith("rgb(") and rect.get("x")]
    tiles = [rect for rect in tiles if rect.get("width") == rect.get("height")]
    pitch = float(tiles[1].get("x", 0)) - float(tiles[0].get("x", 0))
    places = [(float(rect.get("x", 0)), float(rect.get("y", 0))) for rect in tiles]
    columns = len(attention.columns)
    (left, top), count = places[0], weights.size
    expected = [(left + pitch * (n % columns), top + pitch * (n // columns)) for n in range(count)]
    np.testing.assert_allclose(places, expected)
    colours = [[int(part) for part in re.findall(r"\d+", rect.get("fill", ""))] for rect in tiles]
    wanted = [[np.interp(w, np.linspace(0, 1, 5), LIGHT[:, n]) for n in range(3)] for w in weights.ravel()]
    assert np.abs(np.array(colours) - wanted).max() <= 2, "a weight of the page is one byte"
    texts = [text.text for text in root.iter(f"{NAME}text")][1:]
    assert texts == [*attention.rows, *attention.columns]
    image = pytest.importorskip("PIL.Image")
    name, content = save(page, "PNG")
    picture = image.open(io.BytesIO(content)).convert("RGB")
    assert name == "attention-cross.png" and picture.size == tuple(3 * int(root.get(s, 0)) for s in ("width", "height"))
    (inner,) = root.findall(f"{NAME}svg")
    x, y = (3 * (float(inner.get(side, 0)) + place + pitch / 2) for side, place in zip("xy", places[-1], strict=True))
    assert picture.getpixel((round(x), round(y))) == pytest.approx(colours[-1], abs=2)


def test_lines_beam_curves_and_a_file_without_a_server(
    open_page: OpenPage, browser: "Browser", served: Served, tmp_path: Path
) -> None:
    page = open_page()
    type_text(page)
    page.get_by_role("group", name="View").get_by_role("button").nth(1).click()
    threads = page.locator(".threads path").count()
    root = ET.fromstring(save(page, "SVG")[1])
    curves = [path for path in root.iter(f"{NAME}path") if path.get("stroke-width")]
    assert len(curves) == threads and all(path.get("stroke", "").startswith("rgb(") for path in curves)
    page.get_by_role("group", name="View").get_by_role("button").nth(2).click()
    assert page.locator("#inside .save").count() == 0, "a text is not a figure"
    show(page, "beam", ".beam .node")
    boxes = page.locator(".beam .node rect").count()
    assert save(page, "SVG")[1].count(b'rx="8"') == boxes
    show(page, "training", ".plot")
    name, content = save(page, "SVG")
    assert name == "training.svg" and len(ET.fromstring(content).findall(f"{NAME}svg")) == page.locator(".plot").count()
    path = tmp_path / "page.html"
    assert regard("inspect", served.folders["numbers"], SENTENCE, "--html", path).status == 0
    with opened(browser, path.as_uri()) as file:
        file.wait_for_selector(".matrix")
        assert save(file, "PNG")[1].startswith(b"\x89PNG")
