"""The examples of docs/documents.md: source, translation and links give the result."""

import re
from pathlib import Path

import pytest

from regard.documents.document import SegmentTranslation, open_document

PAGE = (Path(__file__).parents[2] / "docs" / "documents.md").read_text(encoding="utf-8")
BLOCKS = [
    dict(re.findall(r"^    (\w+) {2,}(.*)$", block, re.MULTILINE))
    for block in re.findall(r"(?:^    .*\n)+", PAGE, re.MULTILINE)
    if "    result " in block
]


def link(source: str, target: str, pair: str) -> tuple[int, int, int, int]:
    first, second = pair.split("-")
    s, t = (re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) for word, text in ((first, source), (second, target)))
    assert s and t, pair
    return (*s.span(), *t.span())


@pytest.mark.parametrize("example", BLOCKS, ids=lambda example: example["source"])
def test_examples_of_the_page(example: dict[str, str]) -> None:
    translation = example["translation"]
    placeholders = ("⦅0⦆", "⦅1⦆") if "⦅" in translation else ()
    glossary = dict([example["glossary"].split(" = ")]) if "glossary" in example else {}
    document = open_document(example["source"], "html", language="en", glossary=glossary, placeholders=placeholders)
    (segment,) = document.segments
    links = tuple(link(segment.text, translation, pair) for pair in example["links"].split())
    assert document.render([SegmentTranslation(translation, links=links)]) == example["result"]


def test_the_page_has_examples() -> None:
    assert len(BLOCKS) >= 6
