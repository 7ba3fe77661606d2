"""Tiny runs that the tests of the command line use."""

import shutil
from pathlib import Path

import pytest
from tests.conftest import TinyRun


@pytest.fixture(scope="session")
def trained(tiny_run: TinyRun) -> Path:
    """A translation run; tests read it, and use `copied` to change it."""
    return tiny_run("translation")


@pytest.fixture(scope="session")
def recipe(trained: Path) -> Path:
    """The recipe file of the translation run, beside its data."""
    return trained.parents[1] / "translation.toml"


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> Path:
    """A copy of the run that a test may change."""
    return Path(shutil.copytree(trained, tmp_path / "copied"))


@pytest.fixture(scope="session")
def classifier(tiny_run: TinyRun) -> Path:
    return tiny_run("classification")


@pytest.fixture(scope="session")
def recurrent(tiny_run: TinyRun) -> Path:
    """A classifier with a recurrent encoder."""
    return tiny_run("classification", "recurrent")


@pytest.fixture(scope="session")
def regressor(tiny_run: TinyRun) -> Path:
    return tiny_run("regression")


@pytest.fixture(scope="session")
def tagger(tiny_run: TinyRun) -> Path:
    return tiny_run("tagging")


@pytest.fixture(scope="session")
def answerer(tiny_run: TinyRun) -> Path:
    return tiny_run("answering")


@pytest.fixture(scope="session")
def chooser(tiny_run: TinyRun) -> Path:
    return tiny_run("choice")


@pytest.fixture(scope="session")
def pretrained(tiny_run: TinyRun) -> Path:
    return tiny_run("pretraining")


@pytest.fixture(scope="session")
def language(tiny_run: TinyRun) -> Path:
    return tiny_run("language")


@pytest.fixture(scope="session")
def parser(tiny_run: TinyRun) -> Path:
    return tiny_run("parsing")
