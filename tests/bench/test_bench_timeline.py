"""The timeline shows what timeline.toml says: dates as on arXiv, papers as on the pages of docs/ideas."""

import re
import xml.etree.ElementTree as ET

import pytest
from benchmarks.timeline import FOLDER, entries, timeline_svg
from tests.pages import ROOT, read


def test_dates_are_those_of_arxiv_and_in_order() -> None:
    dates = [entry["date"] for entry in entries()]
    assert dates == sorted(dates) and (dates[0][:4], dates[-1][:4]) == ("2013", "2018")
    for entry in entries():
        if found := re.search(r"arxiv.org/abs/(\d\d)(\d\d)\.", entry["url"]):
            assert entry["date"] == f"20{found[1]}-{found[2]}", entry["authors"]


def test_pages_cite_the_papers() -> None:
    for entry in entries():
        for ending in (".md", ".zh.md") if "page" in entry else ():
            text = read(ROOT / "docs" / "ideas" / f"{entry['page']}{ending}")
            assert entry["url"] in text and entry["authors"] in text, entry["authors"]


@pytest.mark.parametrize(("language", "name"), [("en", "timeline.svg"), ("zh", "timeline.zh.svg")])
def test_the_picture_is_the_one_that_is_drawn(language: str, name: str) -> None:
    drawn = timeline_svg(language)
    assert read(FOLDER / name) == drawn
    texts = [element.text for element in ET.fromstring(drawn).iter() if element.tag.endswith("text")]
    assert all(text in texts for entry in entries() for text in entry[language])
