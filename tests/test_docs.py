"""All pages: links and anchors lead somewhere, commands parse, and the settings they name exist."""

import re
import tomllib
from functools import cache
from pathlib import Path

import pytest
from tests.pages import (
    ROOT,
    anchors,
    blocks,
    broken_links,
    check_command,
    check_names,
    commands,
    indented_commands,
    inline_commands,
    links,
    read,
)
from tests.test_architecture import ROOMS

from regard.config import describe
from regard.recipe_files import shipped_recipes
from regard.tasks.registry import TASKS

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), ROOT / "benchmarks" / "README.md"]
CURRENT = [page for page in PAGES if page.name != "CHANGELOG.md"]
"""Pages about this version; the changelog names what was removed too."""
SETTING = re.compile(r"\b(?:data|text|model|training|decoding|runtime)\.[a-z_][a-z_.]*(?=[\s=`,;:)]|$)")
FILES = re.compile(r"\.(py|md|toml|json|jsonl|txt|tsv|csv|src|tgt|gz|xz|safetensors|npz|bin|onnx|root)$")


@cache
def settings() -> frozenset[str]:
    """The names of all settings and groups of all tasks."""
    names = {setting.name for task in TASKS.values() for setting in describe(task.recipe_type, lists=True)}
    return frozenset(names | {name.rpartition(".")[0] for name in names})


def test_links_and_anchors_exist() -> None:
    assert broken_links(PAGES) == []


def test_a_broken_link_or_anchor_is_found(tmp_path: Path) -> None:
    page, other = tmp_path / "a.md", tmp_path / "b.md"
    page.write_text(
        "# The first `one`\n[x](b.md#二-two) [x](b.md#no) [x](#the-first-one) [x](#nowhere) [x](c.md#a) [x](c.md)"
    )
    other.write_text("## 二: two!\n```\n# no\n```\n")
    assert broken_links([page]) == ["a.md: b.md#no", "a.md: #nowhere", "a.md: c.md#a", "a.md: c.md"]
    other.write_text("## A (b) & c_d\n### A [b](x.md) c\n# A b c\n#no\n")
    assert anchors(other) == {"a-b--c_d", "a-b-c", "a-b-c-1"}


@pytest.mark.parametrize("page", CURRENT, ids=lambda page: page.name)
def test_commands_of_a_page_parse(page: Path) -> None:
    for line in [*commands(page), *indented_commands(page)]:
        check_command(line)
    for line in inline_commands(page):
        check_names(line)


def test_commands_of_recipes_and_help_parse() -> None:
    shown = 0
    for path in [*shipped_recipes(), *sorted((ROOT / "src" / "regard").rglob("*.py"))]:
        pattern = r"^#  +(regard \w.*)$" if path.suffix == ".toml" else r"^      (regard \w.*)$"
        for line in re.findall(pattern, re.sub(r" \\\n#? *", " ", read(path)), re.MULTILINE):
            for command in line.split(" && "):
                check_command(re.split(r" [<>|] |  ", command)[0])
                shown += 1
    assert shown > 60


def test_wrong_verbs_and_options_are_found() -> None:
    for line in ("regard trian dates", "regard train --beam 3", "regard export RUN --format hf"):
        with pytest.raises(AssertionError):
            check_names(line)
    assert check_names("regard export RUN --to ctranslate2") == "export" and check_names("regard --help") == ""


@pytest.mark.parametrize("page", CURRENT, ids=lambda page: page.name)
def test_settings_that_a_page_names_exist(page: Path) -> None:
    text = re.sub(r"\]\([^)]*\)|^import .*$|^from .*$", "", read(page), flags=re.MULTILINE)
    quoted = re.findall(r"`([^`\n]+)`|^(?: {4}|)(regard .*)$", text, re.MULTILINE)
    named = {name for pair in quoted for part in pair for name in SETTING.findall(part)}
    unknown = {name for name in named if not FILES.search(name) and name.rstrip(".") not in settings()}
    assert unknown == set()


def test_recipes_that_a_page_shows_have_known_settings() -> None:
    for page in CURRENT:
        for shown in re.findall(r"^```toml\n(.*?)^```", read(page), re.DOTALL | re.MULTILINE):
            for group, values in tomllib.loads(shown).items():
                if isinstance(values, dict):
                    assert {f"{group}.{name}" for name in values} <= settings(), page.name


TWINS = (
    "guide", "data", "page", "glossary", "exchange", "design", "extending", "serving", "serving-clients", "deploy",
    "documents", "performance", "dependencies", "equations", "models/translator", "models/languages",
)  # fmt: skip


@pytest.mark.parametrize("name", TWINS)
def test_page_has_a_chinese_twin(name: str) -> None:
    """Both languages have the same headings, code blocks, tables and rows, and link to each other."""
    english, chinese = ROOT / "docs" / f"{name}.md", ROOT / "docs" / f"{name}.zh.md"
    shapes = []
    for page in (english, chinese):
        text, code = split_code(read(page))
        headings = re.findall(r"^(#+) ", text, re.MULTILINE)
        rows = len(re.findall(r"^\|", text, re.MULTILINE))
        shapes.append((headings, rows, [len(block.splitlines()) for block in code]))
    assert shapes[0] == shapes[1]
    assert f"[中文]({chinese.name})" in read(english)
    assert f"[English]({english.name})" in read(chinese)


def split_code(text: str) -> tuple[str, list[str]]:
    """A page without its code blocks, fenced or indented, and these blocks."""
    pattern = re.compile(r"^```.*?^```$|(?<=\n\n)(?: {4}\S[^\n]*\n(?:\n* {4,}\S[^\n]*\n)*)", re.DOTALL | re.MULTILINE)
    return pattern.sub("", text), pattern.findall(text)


def test_chinese_pages_use_one_form_of_words() -> None:
    """One form of address, and the words that students use."""
    for page in PAGES:
        if page.name.endswith(".zh.md") and "lab" not in page.parts:
            found = re.findall(r"您|\d 百万|后置归一化|前置归一化", read(page))
            assert found == [], page.name


@pytest.mark.parametrize("name", ["design.md", "design.zh.md"])
def test_design_lists_all_rooms(name: str) -> None:
    block = next(code for code in split_code(read(ROOT / "docs" / name))[1] if "errors" in code)
    listed = re.findall(r"^ {4}[ \d]  ([a-z_]+) |   (viz|ladder) ", block, re.MULTILINE)
    assert sorted("".join(pair) for pair in listed) == sorted(name for name in ROOMS if not name.startswith("__"))


def test_pages_use_one_word_per_idea() -> None:
    """Commands are commands, runs and recipes are bundled, and two-step translation has a pivot language."""
    other = re.compile(r"comes? with regard|third language|regard VERB|asks no other host|run to start from")
    assert [(page.name, found) for page in CURRENT for found in other.findall(read(page))] == []


def test_files_that_a_page_names_exist() -> None:
    """A path such as `tasks/base.py` is within the package or the repository; those of other projects are not ours."""
    for page in CURRENT:
        for name in re.findall(r"`((?!runs/)(?:[a-z_]+/)+[a-z_]+\.(?:py|toml|js))`", read(page)):
            found = (ROOT / "src" / "regard" / name).exists() or (ROOT / name).exists()
            assert found or page.name.startswith(("serving-clients.", "ledger.")), f"{page.name}: {name}"


@pytest.mark.parametrize("name", ["extending.md", "extending.zh.md"])
def test_extending_quotes_files_that_are_tested(name: str) -> None:
    page = ROOT / "docs" / name
    sources = [read(page.parent / file) for file in links(page) if file.endswith(".py")]
    quotes = blocks(page, "python")
    assert len(quotes) == 4
    assert [quote for quote in quotes if not any(quote in source for source in sources)] == []
