"""Chinese versions of the pictures in docs/ideas: the same drawing with the labels of pictures.zh.toml.

python -m benchmarks.pictures_chinese       writes docs/ideas/pictures/NAME.zh.svg for every NAME.svg with a label
"""

import html
import re
from functools import cache
from pathlib import Path

from regard.files import write_text
from regard.reading import read_toml

FOLDER = Path(__file__).parents[1] / "docs" / "ideas" / "pictures"
TABLE = Path(__file__).parent / "pictures.zh.toml"
TEXT = re.compile(r"(?<=>)[^<>\n]+(?=</(?:text|title)>)")


@cache
def table() -> dict[str, dict[str, str]]:
    return read_toml(TABLE)


def chinese_label(text: str) -> str:
    """A label in Chinese, or the same text if the table does not have it: a token or a number."""
    for pattern, replacement in table()["labels"].items():
        if found := re.fullmatch(pattern, text):
            return found.expand(replacement)
    for measure, replacement in table()["measures"].items():  # the title of a bar: "label, measure: value"
        label, comma, value = text.partition(f", {measure}: ")
        if comma:
            return f"{chinese_label(label)}，{replacement}：{value}"
    label, colon, point = text.partition(": ")  # the title of a point: "label: x, y"
    return f"{chinese_label(label)}：{point}" if colon and chinese_label(label) != label else text


def chinese_picture(svg: str) -> str:
    """A picture with Chinese labels."""
    return TEXT.sub(lambda found: html.escape(chinese_label(html.unescape(found[0])), quote=False), svg)


def main() -> None:
    for path in sorted(FOLDER.glob("*.svg")):
        svg = path.read_text(encoding="utf-8")
        if ".zh." not in path.name and chinese_picture(svg) != svg:
            write_text(path.with_suffix(".zh.svg"), chinese_picture(svg))
            print(path.with_suffix(".zh.svg"))


if __name__ == "__main__":
    main()
