"""The lineage from word vectors to BERT as one picture, in English and Chinese, from timeline.toml.

python -m benchmarks.timeline       writes docs/pictures/timeline.svg and timeline.zh.svg
"""

from pathlib import Path
from typing import Any

from regard.files import write_text
from regard.reading import read_toml
from regard.viz.svg import Drawing, measure, number, page, text

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
COLOURS = {"recurrent": "#009e73", "convolution": "#0072b2", "attention": "#e69f00", "pretraining": "#cc79a7"}
KINDS = {
    "en": dict(zip(COLOURS, ("recurrent", "convolutional", "attention only", "pretrained"), strict=True)),
    "zh": dict(zip(COLOURS, ("循环网络", "卷积网络", "只用注意力", "预训练"), strict=True)),
}
YEAR, LINE_X, ROW = 52, 70, 46
"""Pixels: the width of a year, the place of the line, and the height of an entry."""


def entries() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_toml(Path(__file__).with_suffix(".toml"))["entry"]
    return found


def timeline_svg(language: str) -> str:
    """A line from the first year to the last, an entry for each paper, and what the colours mean."""
    shown, body, widest = entries(), list[str](), 0.0
    height = ROW * len(shown)
    body.append(f'<path class="axis" d="M{LINE_X} 0V{height}"/>')
    years = [entry["date"][:4] for entry in shown]
    for row, entry in enumerate(shown):
        y, (name, idea), colour = ROW * row, entry[language], COLOURS[entry["kind"]]
        if row == 0 or years[row] != years[row - 1]:
            body.append(text(0, y + 17, years[row], 'class="title"'))
            body.append(f'<path class="grid" d="M{YEAR - 12} {y + 12}H{LINE_X}"/>')
        body.append(f'<circle cx="{LINE_X}" cy="{y + 12}" r="6" fill="{colour}"/>')
        body.append(text(LINE_X + 16, y + 17, name, 'class="title"'))
        body.append(text(LINE_X + 28 + measure(name), y + 17, f"{entry['authors']} {years[row]}"))
        body.append(text(LINE_X + 16, y + 35, idea))
        widest = max(widest, measure(idea), measure(name) + measure(entry["authors"]) + 80)
    x = LINE_X + 16.0
    for kind, label in KINDS[language].items():
        body.append(f'<circle cx="{number(x + 5)}" cy="{height + 14}" r="5" fill="{COLOURS[kind]}"/>')
        body.append(text(x + 15, height + 19, label))
        x += measure(label) + 36
    return page(Drawing(max(LINE_X + 16 + widest, x), height + 24, "\n".join(body)))


def main() -> None:
    for language, name in (("en", "timeline.svg"), ("zh", "timeline.zh.svg")):
        write_text(FOLDER / name, timeline_svg(language))
        print(FOLDER / name)


if __name__ == "__main__":
    main()
