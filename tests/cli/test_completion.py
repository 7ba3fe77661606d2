"""What the shell offers after a tab, through the interface that the scripts of typer use."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from regard.cli.app import app, build_command
from regard.cli.completion import complete_run
from regard.cli.shell import COMMANDS
from regard.recipe_files import shipped_recipes


def offered(line: str, shell: str = "bash") -> list[str]:
    """The values for the last word of a line."""
    environment = {"_REGARD_COMPLETE": f"complete_{shell}"}
    if shell == "bash":
        environment |= {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - (not line.endswith(" ")))}
    else:
        environment |= {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    return CliRunner().invoke(app, env=environment, prog_name="regard").stdout.split()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the runs runs/a, runs/deep/b and exp/c, and a recipe file."""
    for name in ("runs/a", "runs/deep/b", "exp/c", "other/d", ".hidden/e"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("runs/a", "runs/deep/b", "exp/c", ".hidden/e"):
        (tmp_path / name / "recipe.toml").touch()
    (tmp_path / "mine.toml").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_runs() -> None:
    assert {"runs/a", "exp/c"} <= set(offered("regard predict "))
    assert offered("regard predict runs/") == ["runs/a", "runs/deep/b"]
    assert offered("regard info exp/c") == offered("regard translate exp/") == ["exp/c"]
    assert offered("regard evaluate runs/a --against ex") == ["exp/c"]


def test_absolute_paths_and_folders_that_do_not_exist(folder: Path) -> None:
    assert complete_run(f"{folder}/runs/") == [f"{folder}/runs/a", f"{folder}/runs/deep/b"]
    assert complete_run("nowhere/") == []


def test_recipes() -> None:
    assert offered("regard train multi") == ["multi30k-en-de"]
    assert offered("regard train mi") == ["mine.toml"]
    assert {"training", "training.ema"} <= set(offered("regard recipes --settings tr"))
    assert {path.stem for path in shipped_recipes()} <= set(offered("regard doctor "))


def test_settings() -> None:
    assert {"training.schedule=", "training.ema="} <= set(offered("regard train dates training."))
    whole = offered("regard train dates training.sched")
    assert {"training.schedule=", "training.schedule=cosine"} <= set(whole)
    assert offered("regard train dates training.schedule=cos", "fish") == ["training.schedule=cosine"]


def test_values_of_settings_where_the_shell_splits_words_at_the_equals_sign() -> None:
    assert offered("regard train dates training.schedule = cos") == ["cosine"]
    assert set(offered("regard train dates training.schedule =")) > {"cosine", "linear"}
    assert offered("regard train dates no.such.setting = ") == []


def test_choices() -> None:
    assert set(offered("regard predict runs/a --precision ")) == {"fp32", "bf16", "auto"}
    assert offered("regard predict runs/a --checkpoint b") == ["best"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_run_and_recipe_has_values_to_offer(command: str) -> None:
    for parameter in build_command(command).params:
        if parameter.metavar in ("RUN", "RECIPE", "NAME=VALUE", "CODE"):
            assert parameter._custom_shell_complete is not None


def test_completion_does_not_import_torch() -> None:
    program = (
        "import sys, os; from regard.cli import completion as c; from regard.cli.app import build_command; "
        "[build_command(v) for v in ('train', 'predict')]; c.complete_run(''); c.complete_recipe(''); "
        "c.complete_names(''); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
