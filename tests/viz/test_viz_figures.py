"""Figures: every head on one sheet, and the formats of a file, read back by other programs."""

import io
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.errors import UserError
from regard.viz import figures
from regard.viz.figures import figure_bytes, write_figure
from regard.viz.svg import heads_svg, heatmap_svg

NAME = "{http://www.w3.org/2000/svg}"
ROWS, COLUMNS = ["老人", "b", "c"], ["x", "yyyy"]
MORE, EMPTY = (0x0B, 0x5C, 0xAD), (0xF3, 0xF4, 0xF6)


def near(value: float) -> Any:
    return pytest.approx(value, abs=0.01)


def attribute(element: ET.Element, name: str) -> float:
    return float(element.get(name, "nan"))


def moved_to(root: ET.Element, inner: str) -> tuple[float, float]:
    """How far the group that has the text `inner` is moved."""
    for group in root.iter(f"{NAME}g"):
        if any(text.text == inner for text in group.findall(f"{NAME}text")):
            x, y = re.findall(r"[-\d.]+", group.get("transform", ""))
            return float(x), float(y)
    raise AssertionError(inner)


def test_every_head_has_its_place_on_the_sheet() -> None:
    weights = np.random.default_rng(0).dirichlet([1, 1], (2, 4, 3))
    root = ET.fromstring(heads_svg(weights, ROWS, COLUMNS, "标题"))
    grounds = [rect for rect in root.iter(f"{NAME}rect") if rect.get("class") == "empty" and rect.get("width") == "30"]
    places = [(attribute(rect, "x"), attribute(rect, "y")) for rect in grounds]
    assert len(places) == 8 and all(rect.get("height") == "45" for rect in grounds)
    (left, top), pitch = places[0], 7.8 * len("layer {}.") + 14
    assert places == [(near(left + head * pitch), near(top + layer * pitch)) for layer in range(2) for head in range(4)]
    cells = [rect for rect in root.iter(f"{NAME}rect") if rect.find(f"{NAME}title") is not None]
    expected = [
        (places[layer * 4 + head][0] + 15 * column, places[layer * 4 + head][1] + 15 * row, weight)
        for (layer, head, row, column), weight in np.ndenumerate(weights)
        if weight >= 0.005
    ]
    found = [tuple(attribute(cell, name) for name in ("x", "y", "fill-opacity")) for cell in cells]
    np.testing.assert_allclose(found, expected, atol=0.011)
    assert {(cell.get("width"), cell.get("height")) for cell in cells} == {("15", "15")}


def test_tokens_layers_and_heads_are_named_beside_their_matrices() -> None:
    root = ET.fromstring(heads_svg(np.full((2, 3, 3, 2), 0.5), ROWS, COLUMNS))
    texts = [(text.text, attribute(text, "x"), attribute(text, "y"), text) for text in root.iter(f"{NAME}text")]
    first, *_ = [rect for rect in root.iter(f"{NAME}rect") if rect.get("width") == "30"]
    left, top, pitch = attribute(first, "x"), attribute(first, "y"), 7.8 * len("layer {}.") + 14
    assert left == 20 + 4 * 7.8 + 8 and top == 20 + 4 * 7.8 + 10
    for layer in range(2):
        rows = [(name, x, y) for name, x, y, _ in texts if name in ROWS][3 * layer : 3 * layer + 3]
        wanted = [(name, left - 6, top + layer * pitch + 15 * n + 12) for n, name in enumerate(ROWS)]
        assert rows == [(name, near(x), near(y)) for name, x, y in wanted]
        (place,) = [(x, y) for name, x, y, _ in texts if name == f"layer {layer + 1}"]
        assert place == (12, near(top + layer * pitch + 22.5))
    for head in range(3):
        columns = [item for item in texts if item[0] in COLUMNS][2 * head : 2 * head + 2]
        for n, (_, x, y, text) in enumerate(columns):
            assert (x, y) == (near(left + head * pitch + 15 * n + 12), near(top - 6))
            turn, *centre = map(float, re.findall(r"[-\d.]+", text.get("transform", "")))
            assert turn == -90 and centre == pytest.approx([x, y])
        assert [x for name, x, *_ in texts if name == f"head {head + 1}"] == [near(left + head * pitch)]
    assert moved_to(root, "0.5") == (left, near(top + 2 * pitch)), "the legend is below all"
    wide, high = left + 3 * pitch - 14 + 28, top + 2 * pitch + 14 + 28
    assert (attribute(root, "width"), attribute(root, "height")) == (near(wide), near(high))


def test_the_legend_has_the_signs_that_occur() -> None:
    for weights, shown in (([0.0, 0.5], ["0", "0.5", "1"]), ([-0.5, 0.5], ["-1", "-0.5", "0", "0.5", "1"])):
        root = ET.fromstring(heads_svg([[[weights]]], ["a"], ["x", "y"]))
        assert [text.text for text in root.iter(f"{NAME}text")][-len(shown) :] == shown
        assert "-0.5" in shown or not any((text.text or "").startswith("-") for text in root.iter(f"{NAME}text"))


def test_large_matrices_are_further_apart() -> None:
    names = [f"t{n}" for n in range(20)]
    root = ET.fromstring(heads_svg(np.full((1, 2, 20, 20), 0.05), names, names))
    one, two = (attribute(rect, "x") for rect in root.iter(f"{NAME}rect") if rect.get("width") == "300")
    assert two - one == 300 + 14


def test_a_png_has_the_pixels_of_the_drawing() -> None:
    pytest.importorskip("vl_convert")
    image = pytest.importorskip("PIL.Image")
    weights = np.array([[1.0, 0.5], [0.0, 0.25]])
    svg = heatmap_svg(weights, ["猫", "b"], ["x", "y"])
    root = ET.fromstring(svg)
    picture = image.open(io.BytesIO(figure_bytes(svg, ".png"))).convert("RGB")
    assert picture.size == pytest.approx([3 * attribute(root, side) for side in ("width", "height")], abs=1)
    (ground,) = [rect for rect in root.iter(f"{NAME}rect") if rect.get("width") == "44"]
    left, top = attribute(ground, "x") + 14, attribute(ground, "y") + 14
    for (row, column), weight in np.ndenumerate(weights):
        pixel = picture.getpixel((round(3 * (left + 22 * column + 11)), round(3 * (top + 22 * row + 11))))
        mixed = [weight * full + (1 - weight) * none for full, none in zip(MORE, EMPTY, strict=True)]
        assert pixel == pytest.approx(mixed, abs=1.5)


def test_a_png_of_a_large_drawing_is_bounded() -> None:
    pytest.importorskip("vl_convert")
    image = pytest.importorskip("PIL.Image")
    svg = '<svg xmlns="http://www.w3.org/2000/svg" width="18000" height="10" viewBox="0 0 18000 10"/>'
    assert image.open(io.BytesIO(figure_bytes(svg, ".png"))).size == (9000, 5)


@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="pdftotext is not installed")
def test_the_text_of_a_pdf_is_text(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    path = tmp_path / "figure.pdf"
    write_figure(path, heatmap_svg([[1.0]], ["rows"], ["columns"], "Title of it"))
    text = subprocess.run(["pdftotext", path, "-"], capture_output=True, check=True, text=True).stdout
    assert "rows" in text.split() and "Title of it" in text
    size = re.search(rb"/MediaBox\s*\[\s*0 0 ([\d.]+) ([\d.]+)", path.read_bytes())
    root = ET.fromstring(heatmap_svg([[1.0]], ["rows"], ["columns"], "Title of it"))
    expected = [attribute(root, side) for side in ("width", "height")]
    if size is not None:  # else the page is in a compressed object
        ratio = [float(size[n + 1]) / expected[n] for n in range(2)]
        assert ratio[0] == pytest.approx(ratio[1], rel=0.01)


def fonts(language: str) -> bool:
    """True if the machine has a font for a language."""
    listed = shutil.which("fc-list") and subprocess.run(
        ["fc-list", f":lang={language}"], capture_output=True, check=False
    )
    return bool(listed and listed.stdout.strip())


@pytest.mark.skipif(not fonts("zh"), reason="no Chinese font is installed")
def test_chinese_characters_are_drawn_and_not_boxes() -> None:
    pytest.importorskip("vl_convert")
    pictures = {figure_bytes(heatmap_svg([[1.0]], [name], ["x"]), ".png") for name in ("猫", "狗", "注")}
    assert len(pictures) == 3


def test_files_that_cannot_be_written_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.jpg", "a", "a.svg.gz"):
        with pytest.raises(UserError) as refused:
            write_figure(tmp_path / name, "<svg/>")
        assert refused.value.code == "unsupported-format" and refused.value.where == str(tmp_path / name)
    missing: Any = lambda name: None  # noqa: E731
    monkeypatch.setattr(figures, "find_spec", missing)
    for name in ("a.pdf", "a.PNG"):
        with pytest.raises(UserError) as refused:
            write_figure(tmp_path / name, "<svg/>")
        assert refused.value.code == "missing-package" and "regard[figures]" in str(refused.value.remedy)
    assert list(tmp_path.iterdir()) == []
    write_figure(tmp_path / "a.SVG", "<svg/>")
    assert (tmp_path / "a.SVG").read_text() == "<svg/>", "SVG needs no package"
