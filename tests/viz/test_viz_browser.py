"""The report page as a browser draws it; needs Chromium, and is skipped without it."""

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from regard.viz.content import Marked, Matrix, Preformatted, Shaded, Shares, Table
from regard.viz.report import AttentionMap, MonitorCurve, Report, ShownExample, write_report

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="Chromium is not installed")
VOID = {"meta", "input", "br", "link"}


class Drawn(HTMLParser):
    """The elements of a page after its program has run: tag, attributes, depth and own text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.open: list[list[str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), []))
        if tag not in VOID:
            self.open.append(self.elements[-1][2])

    def handle_endtag(self, tag: str) -> None:
        if self.open and tag not in VOID:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        for texts in self.open:
            texts.append(data)

    def find(self, tag: str, style: str = "") -> list[tuple[dict[str, str | None], str]]:
        """Attributes and text of every element of a tag with a class."""
        return [
            (attributes, "".join(texts))
            for name, attributes, texts in self.elements
            if name == tag and (not style or style in (attributes.get("class") or "").split())
        ]


def draw(report: Report, folder: Path, language: str = "en") -> Drawn:
    """The page in a browser."""
    path = folder / "page.html"
    write_report(path, report)
    command = [
        str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--disable-extensions", "--no-zygote",
        f"--user-data-dir={folder / 'profile'}", "--dump-dom", f"{path.as_uri()}#{language}",
    ]  # fmt: skip
    result = subprocess.run(command, capture_output=True, timeout=60, check=True)
    drawn = Drawn(result.stdout.decode())
    assert [text for _, text in drawn.find("footer") if text], "the program of the page ran to its end"
    return drawn


def report() -> Report:
    weights = np.full((1, 1, 2, 2), 0.5)
    return Report(
        title="runs <b>",
        facts={"run": "/tmp/runs/a", "version": "regard 1"},
        curves={"train loss": [(1, 3.0), (2, 2.0), (3, 1.0)]},
        monitor=MonitorCurve("accuracy", [(1, 10.0), (2, 60.0), (3, 40.0)], 2),
        learning_rate=[(1, 1e-4), (3, 1e-5)],
        scores=[("accuracy", 87.5, "8 examples")],
        tables=[
            Table("classes", {"class": "text", "F1": "percent", "examples": "count"}, [["<i>", 12.5, 1234]]),
            Matrix("confusion matrix", ["a", "b"], [[3, 1], [0, 6]]),
        ],
        examples=[
            ShownExample(
                "Ada met", Marked("Ada met", [(0, 3, "PER")]), Marked("Ada met", [(0, 3, "PER"), (4, 7, "LOC")]), False,
                [AttentionMap("encoder", ["Ada", "met"], ["Ada", "met"], weights)],
            ),
            ShownExample("two words", "one word", "two words", True, None, 0.975),
            ShownExample("q", Preformatted("S\n└─ a"), Shares(["x", "y"], [0.75, 0.25]), True),
            ShownExample("p", Shaded("", ["lo", "hi"], [0.0, 12.0], 12.0, "bits"), "text"),
        ],
    )  # fmt: skip


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Drawn:
    return draw(report(), tmp_path_factory.mktemp("browser"))


def test_tables_and_matrices(drawn: Drawn) -> None:
    (share,) = drawn.find("td", "share")
    assert share[1] == "12.50" and "--share: 12.5%" in str(share[0]["style"])
    assert "1,234" in [text for _, text in drawn.find("td", "figure")]
    cells = [
        (attributes["title"], text, attributes["style"])
        for attributes, text in drawn.find("td")
        if "→" in (attributes.get("title") or "")
    ]
    counts = [(title, text) for title, text, _ in cells]
    assert counts == [("a → a: 3 (75.0 %)", "3"), ("a → b: 1 (25.0 %)", "1"),
                      ("b → a: 0 (0.0 %)", ""), ("b → b: 6 (100.0 %)", "6")]  # fmt: skip
    colours = [re.findall(r"rgb\(([^)]*)\)", str(style))[0] for title, _, style in cells]
    brightness = [sum(map(int, re.findall(r"\d+", colour))) for colour in colours]
    assert brightness[2] > brightness[1] > brightness[0] > brightness[3], "a larger share is darker"
    assert [text for _, text in drawn.find("td", "total")] == ["4", "6"]
    assert len(drawn.find("td", "diagonal")) == 2


def test_texts_of_examples(drawn: Drawn) -> None:
    spans = [(text, "differs" in str(attributes["class"])) for attributes, text in drawn.find("span", "span")]
    assert spans == [("AdaPER", False), ("AdaPER", False), ("metLOC", True)]
    colours = {text[3:]: str(attributes["class"]).split()[1] for attributes, text in drawn.find("span", "span")}
    assert colours == {"PER": "line-0", "LOC": "line-1"}
    assert [text for _, text in drawn.find("mark")] == ["two", "words"], "words that the reference does not have"
    assert [text for _, text in drawn.find("pre", "drawing")] == ["S\n└─ a"]
    bars = drawn.find("span", "share")
    assert [(text, str(attributes["style"])) for attributes, text in bars] == [
        ("x75 %", "--share: 75%;"), ("y25 %", "--share: 25%;"),
    ]  # fmt: skip
    tokens = drawn.find("span", "token")
    assert [attributes["title"] for attributes, _ in tokens] == ["lo: 0.00 bits", "hi: 12.00 bits"]
    shades = [sum(map(int, re.findall(r"\d+", str(attributes["style"]))[:3])) for attributes, _ in tokens]
    assert shades[0] > shades[1]
    assert [text for _, text in drawn.find("td", "mark")] == ["✗", "✓", "✓", ""]
    assert "97.5 %" in [text for _, text in drawn.find("td", "number")]
    assert len(drawn.find("button", "see")) == 1, "one example has attention"


def test_curves(drawn: Drawn) -> None:
    paths = {str(attributes["class"]).split()[1]: str(attributes["d"]) for attributes, _ in drawn.find("path", "curve")}
    points = {name: [tuple(map(float, pair)) for pair in re.findall(r"[ML]([\d.]+) ([\d.]+)", path)]
              for name, path in paths.items()}  # fmt: skip
    assert points.keys() == {"line-0", "line-2", "line-rate"}
    loss, metric = points["line-0"], points["line-2"]
    assert [x for x, _ in loss] == [x for x, _ in metric], "one axis of steps"
    assert loss[0][1] < loss[1][1] < loss[2][1], "a falling loss falls"
    assert metric[1][1] < metric[2][1] < metric[0][1], "a larger value is higher"
    assert max(y for _, y in loss) < min(y for _, y in metric) < min(y for _, y in points["line-rate"])
    (best,) = drawn.find("circle", "best")
    assert (float(best[0]["cx"] or 0), float(best[0]["cy"] or 0)) == pytest.approx(metric[1], abs=0.1)


def test_names_in_chinese(tmp_path: Path) -> None:
    chinese = draw(report(), tmp_path, "zh")
    assert any("混淆矩阵" in text for _, text in chinese.find("h2"))
    assert any("准确率" in text for _, text in chinese.find("th"))
    assert "runs <b>" in [text for _, text in chinese.find("h1")]
