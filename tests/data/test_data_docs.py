"""The recipes of docs/data.md load, and read the files beside them."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from regard.data.formats import read_examples
from regard.tasks.registry import TASKS, build_recipe

PAGES = [Path(__file__).parents[2] / "docs" / name for name in ("data.md", "data.zh.md")]
FENCED = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_recipe_reads_the_files_beside_it(page: Path, tmp_path: Path) -> None:
    blocks = FENCED.findall(page.read_text(encoding="utf-8"))
    for _, file, content in blocks:
        if file:
            (tmp_path / file).write_text(content, encoding="utf-8")
    recipes = [tomllib.loads(content) for kind, _, content in blocks if kind == "toml"]
    seen = set()
    for values in recipes:
        recipe = build_recipe(values, page.name)
        for source in [*recipe.data.train, *recipe.data.valid, *recipe.data.test]:
            assert len(list(read_examples([source], tmp_path, recipe.fields))) >= 1
            seen |= {path.name for path in source.files(tmp_path)}
    assert seen == {file for _, file, _ in blocks if file}, "every file shown is read"
    assert {values["task"] for values in recipes} == {
        "classification", "regression", "tagging", "dependencies", "answering", "choice", "translation",
    }  # fmt: skip


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_of_the_table_are_examples(page: Path) -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(\{.*?\})`", page.read_text(encoding="utf-8"), re.MULTILINE)
    shown = {task: json.loads(example) for task, example in rows if '"' in example and "=" not in example}
    assert len(shown) == 7
    for task, example in shown.items():
        assert TASKS[task].recipe_type.fields.parse(example) == example


def test_both_languages_show_the_same() -> None:
    english, chinese = (list(FENCED.findall(page.read_text(encoding="utf-8"))) for page in PAGES)
    assert english == chinese
