"""One tiny run, trained once, that every test of the command line uses."""

import shutil
from pathlib import Path

import pytest
from tests.cli.command import regard, write_corpus

RECIPE = """
name = "words"
about = "number words, English to German"

[data]
root = "{root}"
train = {{ src = "train.src", tgt = "train.tgt" }}
valid = {{ src = "valid.src", tgt = "valid.tgt" }}
test = {{ src = "test.src", tgt = "test.tgt" }}
max_length = 16
workers = 1

[text]
kind = "word"
vocab_size = 300

[model]
size = "tiny"
d_model = 32
num_heads = 2
d_ff = 64
encoder_layers = 1
decoder_layers = 2
norm = "pre"
dropout = 0.0

[training]
max_steps = 240
batch_tokens = 256
schedule = "inverse_sqrt"
learning_rate = 6e-3
warmup = 20
validate_every = 120
log_every = 20
monitor = "exact_match"
label_smoothing = 0.0

[decoding]
search = "greedy"
extra_length = 4

[runtime]
device = "cpu"
threads = 1
"""


@pytest.fixture(scope="session")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe file beside its text."""
    folder = tmp_path_factory.mktemp("words")
    write_corpus(folder)
    path = folder / "words.toml"
    path.write_text(RECIPE.format(root=folder.as_posix()), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def trained(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run's folder; tests read it, and copy it to change it."""
    folder = tmp_path_factory.mktemp("runs") / "words"
    done = regard("train", recipe, "--folder", folder)
    assert done.status == 0, done.err
    return folder


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> Path:
    """A copy of the run that a test may damage."""
    return Path(shutil.copytree(trained, tmp_path / "copied"))
