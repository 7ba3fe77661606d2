"""The pages of docs/ideas: quotes, pictures and links exist, commands parse, and both languages agree."""

import re
import shlex
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from regard.cli.app import build_command
from regard.tasks.registry import build_recipe, load_recipe

ROOT = Path(__file__).parents[1]
IDEAS = ROOT / "docs" / "ideas"
NAMES = (
    "language", "recurrent", "additive", "multiplicative", "scores", "local", "hard", "alignment", "convolutional",
    "multi-head", "positions", "restricted", "masked", "pooling", "bert", "pretraining", "fine-tuning", "chat",
    "parsing", "ladder",
)  # fmt: skip
PAGES = [IDEAS / f"{name}{ending}" for name in NAMES for ending in (".md", ".zh.md")]
INDEXES = [IDEAS / "README.md", IDEAS / "README.zh.md"]
MAX_LINES, MAX_QUOTED = 130, 15


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def commands(path: Path) -> list[str]:
    lines = [re.split(r" [<>|] ", line)[0] for block in blocks(path, "sh") for line in block.splitlines()]
    return [line for line in lines if line.startswith("regard ")]


def links(path: Path) -> list[str]:
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [link for link in re.findall(r"\]\(([^)#]+)\)", text) if not link.startswith("http")]


def pictures(path: Path) -> list[str]:
    return re.findall(r"!\[[^\]]+\]\(([^)]+)\)", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", [*PAGES, *INDEXES], ids=lambda path: path.name)
def test_links_exist(path: Path) -> None:
    for link in links(path):
        assert (path.parent / link).exists(), link


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_have_equation_code_picture_and_reference(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(re.findall(r"^\$\$$", text, re.MULTILINE)) % 2 == 0
    assert "$$\n" in text or "| $" in text
    assert any(link.startswith("../../src/regard/") and link.endswith(".py") for link in links(path))
    assert pictures(path)
    assert "python -m benchmarks.pictures --only" in text, "every picture has its command beside it"
    assert len(text.splitlines()) <= MAX_LINES


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pictures_contain_no_scripts(path: Path) -> None:
    for picture in pictures(path):
        assert picture.endswith(".svg")
        root = ET.fromstring((path.parent / picture).read_text(encoding="utf-8"))
        assert not {"script", "image", "foreignObject"} & {element.tag.split("}")[1] for element in root.iter()}


def test_every_picture_is_shown_and_every_page_is_listed() -> None:
    shown = {(path.parent / picture).resolve() for path in PAGES for picture in pictures(path)}
    assert shown == {path.resolve() for path in (IDEAS / "pictures").glob("*.svg")}
    for index, ending in zip(INDEXES, (".md", ".zh.md"), strict=True):
        listed = [link for link in links(index) if "/" not in link and not link.startswith("README")]
        assert listed == [f"{name}{ending}" for name in NAMES]
    assert {path.name for path in IDEAS.glob("*.md")} == {path.name for path in [*PAGES, *INDEXES]}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_equations_are_valid_on_github(path: Path) -> None:
    """A dollar beside a blank, or one that a letter touches from outside, is a dollar; \\, is a comma."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    equations = re.findall(r"^\$\$\n(.*?)\n\$\$$", text, re.DOTALL | re.MULTILINE)
    inline = re.findall(r"(.)?\$([^$]+)\$(.)?", re.sub(r"^\$\$\n.*?\n\$\$$", "", text, flags=re.DOTALL | re.MULTILINE))
    assert not any(re.search(r"\\[^A-Za-z]", text) for text in [*equations, *(inner for _, inner, _ in inline)])
    for before, inner, after in inline:
        assert inner == inner.strip() and "\n\n" not in inner, inner
        assert not re.match(r"\w", before) and not re.match(r"\w", after), inner


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_quoted_lines_are_in_a_linked_file(path: Path) -> None:
    sources = [
        [line.strip() for line in (path.parent / link).read_text(encoding="utf-8").splitlines()]
        for link in links(path)
        if link.endswith(".py")
    ]
    quoted = [[line.strip() for line in block.splitlines()] for block in blocks(path, "python")]
    assert quoted
    for lines in quoted:
        assert len(lines) <= MAX_QUOTED
        assert any(source[start : start + len(lines)] == lines for source in sources for start in range(len(source))), (
            "\n".join(lines)
        )


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_commands_parse_and_their_settings_load(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = commands(path)
    assert lines
    monkeypatch.chdir(tmp_path)
    for number, shown in enumerate(blocks(path, "toml")):
        (tmp_path / f"{tomllib.loads(shown)['name']}.toml").write_text(shown, encoding="utf-8")
        assert build_recipe(tomllib.loads(shown), f"block {number}").name
    for line in lines:
        verb, *arguments = shlex.split(line)[1:]
        build_command(verb).make_context(verb, list(arguments))
        if verb in ("train", "ladder"):
            settings = [argument for argument in arguments[1:] if "=" in argument]
            load_recipe(arguments[0] if arguments else "numbers", settings)


@pytest.mark.parametrize("name", NAMES)
def test_languages_agree(name: str) -> None:
    english, chinese = IDEAS / f"{name}.md", IDEAS / f"{name}.zh.md"
    for language in ("python", "sh", "toml"):
        assert blocks(english, language) == blocks(chinese, language)
    assert pictures(english) == pictures(chinese)
    texts = [path.read_text(encoding="utf-8") for path in (english, chinese)]
    equations = [re.findall(r"^\$\$\n(.*?)\n\$\$$", text, re.DOTALL | re.MULTILINE) for text in texts]
    assert equations[0] == equations[1]
    figures = [sorted(re.findall(r"\d+\.\d+", re.sub(r"\(http[^)]*\)", "", text))) for text in texts]
    assert figures[0] == figures[1], "the same numbers"
    assert f"[中文]({name}.zh.md)" in texts[0]
    assert f"[English]({name}.md)" in texts[1]
