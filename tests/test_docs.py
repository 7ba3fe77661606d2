"""All pages: links and anchors lead somewhere, commands parse, and the settings they name exist."""

import re
import tomllib
from functools import cache
from pathlib import Path

import pytest
from tests.pages import (
    ROOT,
    anchors,
    broken_links,
    check_command,
    check_names,
    commands,
    indented_commands,
    inline_commands,
    read,
)

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
