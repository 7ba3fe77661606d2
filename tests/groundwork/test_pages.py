"""The pages of docs/groundwork: they show code that runs, what it prints, and both languages show the same."""

import re
from pathlib import Path

import pytest
from benchmarks.groundwork import FOLDER
from tests.groundwork.code import run_page
from tests.pages import blocks, broken_links, links, pictures, read

NAMES = sorted(path.stem for path in (FOLDER / "code").glob("*.py"))
PAGES = [FOLDER / f"{name}{ending}" for name in NAMES for ending in (".md", ".zh.md")]
INDEXES = [FOLDER / "README.md", FOLDER / "README.zh.md"]
SAMPLED = {"word-vectors"}
"""Pages whose neighbours of a word depend on rounding."""
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
MAX_CODE_LINES, MAX_LINES = 85, 180


@pytest.mark.parametrize("name", NAMES)
def test_code_prints_what_the_page_shows(name: str) -> None:
    """Words are equal; numbers may differ by 5 %, since processors round differently."""
    page, (shown,) = run_page(name), blocks(FOLDER / f"{name}.md", "text")
    printed = page.printed
    assert [len(text.splitlines()) for text in (printed, shown)] == [printed.count("\n")] * 2
    if name not in SAMPLED:
        assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", shown).split(), "python -m benchmarks.groundwork"
        found, expected = ([float(number) for number in NUMBER.findall(text)] for text in (printed, shown))
        assert found == pytest.approx(expected, rel=0.05, abs=2e-3), "python -m benchmarks.groundwork"
    for picture, content in page.files.items():
        assert content == read(FOLDER / "pictures" / picture)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_shows_its_code_and_has_every_part(path: Path) -> None:
    name, text = path.name.split(".")[0], read(path)
    assert blocks(path, "python") == [read(FOLDER / "code" / f"{name}.py")], "python -m benchmarks.groundwork"
    assert blocks(path, "sh") == [f"python docs/groundwork/code/{name}.py\n"]
    assert len(blocks(path, "python")[0].splitlines()) <= MAX_CODE_LINES and len(text.splitlines()) <= MAX_LINES
    assert len(re.findall(r"^## ", text, re.MULTILINE)) == 5
    assert any(link.startswith("../../src/regard/") and link.endswith(".py") for link in links(path))


def equations(path: Path) -> list[str]:
    return re.findall(r"^\$\$\n(.*?)\n\$\$$", read(path), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("name", NAMES)
def test_both_languages_show_the_same(name: str) -> None:
    english, chinese = FOLDER / f"{name}.md", FOLDER / f"{name}.zh.md"
    for language in ("python", "text", "sh"):
        assert blocks(english, language) == blocks(chinese, language)
    assert equations(english) == equations(chinese) != [] and pictures(english) == pictures(chinese)
    assert [link.replace(".zh.md", ".md") for link in links(chinese)][2:] == links(english)[2:]
    assert f"[中文]({name}.zh.md)" in read(english) and f"[English]({name}.md)" in read(chinese)
    assert re.search("[\u4e00-\u9fff]", read(chinese)) and not re.search(
        "[\u4e00-\u9fff]", read(english).replace("[中文]", "")
    )


def test_formulas_are_rendered_by_github() -> None:
    """GitHub reads a dollar beside a blank, or beside a letter outside the formula, as a dollar, and \\, as a comma."""
    for path in PAGES:
        text = re.sub(r"^```.*?^```", "", read(path), flags=re.DOTALL | re.MULTILINE)
        inline = re.sub(r"^\$\$\n.*?\n\$\$$", "", text, flags=re.DOTALL | re.MULTILINE)
        formulas = re.findall(r"(.)?\$([^$]+)\$(.)?", re.sub(r"`[^`\n]*`", "", inline))
        assert not any(re.search(r"\\[^A-Za-z]", formula) for formula in equations(path)), path.name
        for before, formula, after in formulas:
            assert formula == formula.strip() and "\n" not in formula, (path.name, formula)
            assert not re.match(r"\w", before) and not re.match(r"\w", after), (path.name, formula)
            assert not re.search(r"\\[^A-Za-z]", formula), (path.name, formula)


def test_indexes_list_all_pages_and_links_exist() -> None:
    for index, ending in zip(INDEXES, (".md", ".zh.md"), strict=True):
        listed = [link for link in links(index) if "/" not in link and not link.startswith("README")]
        assert sorted(listed) == sorted(f"{name}{ending}" for name in NAMES)
    assert {path.name for path in FOLDER.glob("*.md")} == {path.name for path in [*PAGES, *INDEXES]}
    used = {picture for path in PAGES for picture in pictures(path)}
    assert used == {f"pictures/{path.name}" for path in (FOLDER / "pictures").iterdir()}
    assert broken_links([*PAGES, *INDEXES]) == []
