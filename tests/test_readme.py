"""The README: its commands parse, its recipes load, its Python runs, and its links exist."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from regard.cli.app import build_command
from regard.tasks.registry import build_recipe, load_recipe, shipped_recipes

ROOT = Path(__file__).parents[1]
READMES = [ROOT / "README.md", ROOT / "README.zh.md"]
PAGES = [*READMES, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "benchmarks/README.md"]


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)


def commands(path: Path) -> list[str]:
    """Every `regard ...` line of a page's shell blocks, without comments, redirections and torchrun before it."""
    lines = [line.split("  #")[0].strip() for block in blocks(path, "sh") for line in block.splitlines()]
    lines = [re.sub(r"^torchrun .*? -m regard", "regard", re.split(r" [<>|] ", line)[0]) for line in lines]
    return [line for line in lines if line.startswith("regard ")]


@pytest.mark.parametrize("path", READMES, ids=lambda path: path.name)
def test_commands_parse(path: Path) -> None:
    lines = commands(path)
    assert len(lines) >= 9
    for line in lines:
        verb, *arguments = shlex.split(line)[1:]
        build_command(verb).make_context(verb, arguments)  # refuses unknown options and missing arguments


@pytest.mark.parametrize("path", READMES, ids=lambda path: path.name)
def test_recipes_load(path: Path) -> None:
    recipes = [build_recipe(tomllib.loads(shown), "README") for shown in blocks(path, "toml")]
    assert [(recipe.name, recipe.task) for recipe in recipes] == [("my", "translation"), ("reviews", "classification")]


@pytest.mark.parametrize("path", READMES, ids=lambda path: path.name)
def test_every_shipped_recipe_is_listed_with_its_task(path: Path) -> None:
    rows = re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", path.read_text(encoding="utf-8"), re.MULTILINE)
    listed: dict[str, str] = {}
    for task, names in rows:
        first, *rest = re.split("[,、] ?", names)
        stem = first.rpartition("-")[0]
        listed |= {name if name[0] != "-" else stem + name: task for name in (first, *rest)}
    assert listed == {recipe.stem: load_recipe(recipe.stem).task for recipe in shipped_recipes()}


@pytest.mark.parametrize("path", READMES, ids=lambda path: path.name)
def test_python_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The code runs with fewer steps and a smaller model."""
    (shown,) = blocks(path, "python")
    small = '"training.max_steps=2", "training.warmup=1", "model.d_model=16", "model.d_ff=16", "runtime.device=cpu"'
    monkeypatch.chdir(tmp_path)
    code = shown.replace('"training.max_steps=500"', small)
    assert code != shown
    exec(compile(code, path.name, "exec"), {})
    assert "(2, 4, " in capsys.readouterr().out, "the shape of the attention: layers, heads, queries, keys"


def test_languages_agree() -> None:
    for language in ("toml",):
        assert blocks(READMES[0], language) == blocks(READMES[1], language)
    assert commands(READMES[0]) == commands(READMES[1])
    figures = [re.findall(r"\d+\.\d+", path.read_text(encoding="utf-8").split("JoeyNMT")[1]) for path in READMES]
    assert figures[0] == figures[1]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_exist(path: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
        if not link.startswith("http"):
            assert (path.parent / link).exists(), link
