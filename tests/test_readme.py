"""README and guide are correct: commands parse, recipes load, Python runs, both languages show the same."""

import re
import tomllib
from pathlib import Path

import pytest
from tests.pages import ROOT, blocks, check_command, commands, read

from regard.recipe_files import shipped_recipes
from regard.tasks.registry import build_recipe, load_recipe

READMES = [ROOT / "README.md", ROOT / "README.zh.md"]
GUIDES = [ROOT / "docs" / "guide.md", ROOT / "docs" / "guide.zh.md"]
PAGES = [*READMES, *GUIDES]


def test_readme_is_a_first_page() -> None:
    for path in READMES:
        assert len(read(path).splitlines()) <= 120, path.name


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_commands_parse(path: Path) -> None:
    lines = commands(path)
    assert len(lines) >= (6 if path in READMES else 45)
    for line in lines:
        check_command(line)


def test_recipes_load() -> None:
    for path in PAGES:
        recipes = [build_recipe(tomllib.loads(shown), path.name) for shown in blocks(path, "toml")]
        tasks = [(recipe.name, recipe.task) for recipe in recipes]
        assert tasks == [("my", "translation"), ("reviews", "classification")][: 1 if path in READMES else 2]


def test_all_shipped_recipes_are_listed_with_their_task() -> None:
    expected = {recipe.stem: load_recipe(recipe.stem).task for recipe in shipped_recipes()}
    for path in GUIDES:
        listed: dict[str, str] = {}
        for task, names in re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", read(path), re.MULTILINE):
            first, *others = re.split("[,、] ?", names)
            stem = first.rpartition("-")[0]
            listed |= {name if name[0] != "-" else stem + name: task for name in (first, *others)}
        assert listed == expected, path.name


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_python_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last Python block of the page runs, with fewer steps and a smaller model."""
    shown = blocks(path, "python")[-1]
    small = '"training.max_steps=2", "training.warmup=1", "model.d_model=16", "model.d_ff=16", "runtime.device=cpu"'
    monkeypatch.chdir(tmp_path)
    code = shown.replace('"training.max_steps=500"', small)
    assert code != shown
    exec(compile(code, path.name, "exec"), {})
    assert "(2, 4, " in capsys.readouterr().out, "the shape of the attention: layers, heads, queries, keys"


def test_first_python_line_translates() -> None:
    """The first Python block of both READMEs is one call, and its value is a German translation."""
    assert blocks(READMES[0], "python")[0] == blocks(READMES[1], "python")[0]
    opening, call = blocks(READMES[0], "python")[0].strip().split("\n\n")
    names: dict[str, object] = {}
    exec(opening, names)
    assert str(eval(call, names)).startswith("Hallo")


def test_both_languages_show_the_same() -> None:
    for english, chinese in (READMES, GUIDES):
        assert blocks(english, "toml") == blocks(chinese, "toml")
        assert commands(english) == commands(chinese)
    numbers = [re.findall(r"\d+\.\d+", read(path).split("JoeyNMT")[1]) for path in GUIDES]
    assert numbers[0] == numbers[1]
