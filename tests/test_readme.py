"""The README is correct: commands parse, recipes load, Python runs, links exist, both languages show the same."""

import re
import tomllib
from pathlib import Path

import pytest
from tests.pages import ROOT, blocks, check_command, commands, read

from regard.recipe_files import shipped_recipes
from regard.tasks.registry import build_recipe, load_recipe

READMES = [ROOT / "README.md", ROOT / "README.zh.md"]


def test_commands_parse() -> None:
    for path in READMES:
        lines = commands(path)
        assert len(lines) >= 9
        for line in lines:
            check_command(line)


def test_recipes_load() -> None:
    for path in READMES:
        recipes = [build_recipe(tomllib.loads(shown), path.name) for shown in blocks(path, "toml")]
        tasks = [(recipe.name, recipe.task) for recipe in recipes]
        assert tasks == [("my", "translation"), ("reviews", "classification")]


def test_all_shipped_recipes_are_listed_with_their_task() -> None:
    expected = {recipe.stem: load_recipe(recipe.stem).task for recipe in shipped_recipes()}
    for path in READMES:
        listed: dict[str, str] = {}
        for task, names in re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", read(path), re.MULTILINE):
            first, *others = re.split("[,、] ?", names)
            stem = first.rpartition("-")[0]
            listed |= {name if name[0] != "-" else stem + name: task for name in (first, *others)}
        assert listed == expected, path.name


@pytest.mark.parametrize("path", READMES, ids=lambda path: path.name)
def test_python_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The Python of the page runs, with fewer steps and a smaller model."""
    (shown,) = blocks(path, "python")
    small = '"training.max_steps=2", "training.warmup=1", "model.d_model=16", "model.d_ff=16", "runtime.device=cpu"'
    monkeypatch.chdir(tmp_path)
    code = shown.replace('"training.max_steps=500"', small)
    assert code != shown
    exec(compile(code, path.name, "exec"), {})
    assert "(2, 4, " in capsys.readouterr().out, "the shape of the attention: layers, heads, queries, keys"


def test_both_languages_show_the_same() -> None:
    english, chinese = READMES
    assert blocks(english, "toml") == blocks(chinese, "toml")
    assert commands(english) == commands(chinese)
    numbers = [re.findall(r"\d+\.\d+", read(path).split("JoeyNMT")[1]) for path in READMES]
    assert numbers[0] == numbers[1]
