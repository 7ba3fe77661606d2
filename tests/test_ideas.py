"""The pages of docs/ideas are correct: quotes, pictures, links and commands, and both languages show the same."""

import re
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from benchmarks.pictures_chinese import chinese_picture
from tests.pages import ROOT, blocks, broken_links, check_command, commands, links, pictures, read

from regard.tasks.registry import build_recipe, load_recipe

IDEAS = ROOT / "docs" / "ideas"
NAMES = (
    "language", "recurrent", "additive", "multiplicative", "scores", "local", "hard", "alignment", "convolutional",
    "multi-head", "positions", "restricted", "masked", "pooling", "bert", "pretraining", "fine-tuning", "chat",
    "parsing", "dependencies", "features", "ladder", "cost",
)  # fmt: skip
PAGES = [IDEAS / f"{name}{ending}" for name in NAMES for ending in (".md", ".zh.md")]
INDEXES = [IDEAS / "README.md", IDEAS / "README.zh.md"]
MAX_LINES, MAX_QUOTED_LINES = 130, 15
EQUATION = r"^\$\$\n(.*?)\n\$\$$"


def without_code(path: Path) -> str:
    return re.sub(r"^```.*?^```", "", read(path), flags=re.DOTALL | re.MULTILINE)


def equations(path: Path) -> list[str]:
    return re.findall(EQUATION, without_code(path), re.DOTALL | re.MULTILINE)


def inline_formulas(path: Path) -> list[tuple[str, str, str]]:
    """The formulas within lines, each with the character before it and after it."""
    text = re.sub(EQUATION, "", without_code(path), flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"(.)?\$([^$]+)\$(.)?", text)


def test_links_exist() -> None:
    assert broken_links([*PAGES, *INDEXES]) == []


def test_pages_have_equations_code_pictures_and_references() -> None:
    for path in PAGES:
        text = read(path)
        assert len(re.findall(r"^\$\$$", text, re.MULTILINE)) % 2 == 0, path.name
        assert "$$\n" in text or "| $" in text, path.name
        assert any(link.startswith("../../src/regard/") and link.endswith(".py") for link in links(path)), path.name
        assert pictures(path), path.name
        assert "python -m benchmarks.pictures --only" in text, f"{path.name}: the command that draws the picture"
        assert len(text.splitlines()) <= MAX_LINES, path.name


def test_pictures_contain_no_scripts_or_images() -> None:
    for path in PAGES:
        for picture in pictures(path):
            assert picture.endswith(".svg"), path.name
            root = ET.fromstring(read(path.parent / picture))
            tags = {element.tag.split("}")[1] for element in root.iter()}
            assert not {"script", "image", "foreignObject"} & tags, picture


def test_all_pictures_are_used_and_all_pages_are_listed() -> None:
    used = {(path.parent / picture).resolve() for path in PAGES for picture in pictures(path)}
    assert used == {path.resolve() for path in (IDEAS / "pictures").glob("*.svg")}
    for index, ending in zip(INDEXES, (".md", ".zh.md"), strict=True):
        listed = [link for link in links(index) if "/" not in link and not link.startswith("README")]
        assert listed == [f"{name}{ending}" for name in NAMES]
    assert {path.name for path in IDEAS.glob("*.md")} == {path.name for path in [*PAGES, *INDEXES]}


def test_chinese_pages_show_pictures_with_chinese_labels() -> None:
    for path in (IDEAS / "pictures").glob("*.svg"):
        if ".zh." not in path.name:
            drawn, chinese = chinese_picture(read(path)), path.with_suffix(".zh.svg")
            assert (read(chinese) if chinese.exists() else read(path)) == drawn, "python -m benchmarks.pictures_chinese"


def test_formulas_are_rendered_by_github() -> None:
    """GitHub reads a dollar beside a blank, or beside a letter outside the formula, as a dollar, and \\, as a comma."""
    for path in PAGES:
        inline = inline_formulas(path)
        formulas = [*equations(path), *(formula for _, formula, _ in inline)]
        assert not any(re.search(r"\\[^A-Za-z]", formula) for formula in formulas), path.name
        for before, formula, after in inline:
            assert formula == formula.strip() and "\n\n" not in formula, (path.name, formula)
            assert not re.match(r"\w", before) and not re.match(r"\w", after), (path.name, formula)


def test_quoted_code_is_in_a_linked_file() -> None:
    wrong = []
    for path in PAGES:
        files = [path.parent / link for link in links(path) if link.endswith(".py")]
        sources = [[line.strip() for line in read(file).splitlines()] for file in files if file.exists()]
        quotes = [[line.strip() for line in block.splitlines()] for block in blocks(path, "python")]
        assert quotes, path.name
        for quote in quotes:
            size = len(quote)
            assert size <= MAX_QUOTED_LINES, path.name
            if not any(lines[start : start + size] == quote for lines in sources for start in range(len(lines))):
                wrong.append(f"{path.name}: {quote[0]}")
    assert wrong == []


def test_commands_parse_and_recipes_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in PAGES:
        folder = tmp_path / path.stem
        folder.mkdir()
        monkeypatch.chdir(folder)
        for shown in blocks(path, "toml"):
            recipe = build_recipe(tomllib.loads(shown), path.name)
            (folder / f"{recipe.name}.toml").write_text(shown, encoding="utf-8")
        lines = commands(path)
        assert lines, path.name
        for line in lines:
            verb, arguments = check_command(line)
            if verb in ("train", "ladder"):
                settings = [argument for argument in arguments[1:] if "=" in argument]
                load_recipe(arguments[0] if arguments else "numbers", settings)


def test_both_languages_show_the_same() -> None:
    for name in NAMES:
        english, chinese = IDEAS / f"{name}.md", IDEAS / f"{name}.zh.md"
        for language in ("python", "sh", "toml"):
            assert blocks(english, language) == blocks(chinese, language), name
        assert pictures(english) == [picture.replace(".zh.", ".") for picture in pictures(chinese)], name
        assert equations(english) == equations(chinese), name
        numbers = [
            sorted(re.findall(r"\d+\.\d+", re.sub(r"\(http[^)]*\)", "", read(path)))) for path in (english, chinese)
        ]
        assert numbers[0] == numbers[1], name
        assert f"[中文]({name}.zh.md)" in read(english)
        assert f"[English]({name}.md)" in read(chinese)
