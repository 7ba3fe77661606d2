"""The wheel, installed into an empty environment, has everything that the commands need."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from tests.pages import ROOT

from regard import __version__
from regard.recipe_files import shipped_recipes


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of a new environment with the wheel; other packages are those of this environment."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "clean", symlinks=True)
    python = folder / "clean" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel)], check=True, capture_output=True)
    (site,) = (folder / "clean").glob("lib/python*/site-packages")
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return python.parent


def run(*command: str | Path, folder: Path) -> str:
    """Run a program as a user does, in a folder of its own; return what it prints."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_installed_package_is_the_one_in_the_wheel(installed: Path, tmp_path: Path) -> None:
    code = "import regard; print(regard.__file__, regard.__version__)"
    path, version = run(installed / "python", "-c", code, folder=tmp_path).split()
    assert Path(path).is_relative_to(installed.parent) and version == __version__


def test_the_wheel_has_the_recipes_and_the_files_of_pages(installed: Path, tmp_path: Path) -> None:
    (package,) = installed.parent.glob("lib/python*/site-packages/regard")
    assert {path.name for path in (package / "recipes").iterdir()} == {path.name for path in shipped_recipes()}
    source = ROOT / "src" / "regard"
    files = {path.relative_to(source) for path in source.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert {path for path in files if not (package / path).is_file()} == set()
    shown = run(installed / "regard", "recipes", "dates", folder=tmp_path)
    assert shown.strip() == (ROOT / "recipes" / "dates.toml").read_text(encoding="utf-8").strip()


def test_the_demo_runs_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    settings = ("runtime.device=cpu", "runtime.threads=1", "training.max_steps=20")
    printed = json.loads(run(installed / "regard", "demo", "dates", *settings, "--quick", "--json", folder=tmp_path))
    assert printed["step"] == 20
    assert printed["sentences"] > 0 and printed["scores"]["perplexity"] > 1
    page = tmp_path / "runs" / "demo-dates" / "report.html"
    assert page.is_file() and (tmp_path / printed["report"]) == page
