"""A tiny corpus, a recipe for it and the patient the doctor would make of it."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from regard.models.transformer import Transformer
from regard.recipe import load_recipe
from regard.run.doctor.examine import prepare
from regard.run.doctor.patient import Patient
from regard.run.doctor.survey import survey
from regard.run.translation import TranslationRun
from regard.runtime import open_world

ENGLISH = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
GERMAN = ["null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"]
SIZES = {"train": 300, "valid": 40, "test": 40}

RECIPE = """
name = "counting"
[data]
root = "{root}"
train = {{ src = "train.en", tgt = "train.de" }}
valid = {{ src = "valid.en", tgt = "valid.de" }}
test = {{ src = "test.en", tgt = "test.de" }}
max_length = 32
[text]
vocab_size = 320
[model]
d_model = 32
num_heads = 2
d_ff = 64
encoder_layers = 1
decoder_layers = 1
[training]
batch_tokens = 256
max_steps = 100
warmup = 10
[runtime]
device = "cpu"
threads = 1
"""


def numbers() -> Iterator[tuple[str, str]]:
    """Sequences of digits in words, none twice."""
    rng, seen = random.Random(7), set()
    while True:
        digits = tuple(rng.randrange(10) for _ in range(rng.randint(4, 9)))
        if digits not in seen:
            seen.add(digits)
            yield " ".join(ENGLISH[d] for d in digits), " ".join(GERMAN[d] for d in digits)


def write_pairs(folder: Path, part: str, pairs: list[tuple[str, str]]) -> None:
    for side, language in enumerate(("en", "de")):
        (folder / f"{part}.{language}").write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")


def read_pairs(folder: Path, part: str) -> list[tuple[str, str]]:
    sides = [(folder / f"{part}.{language}").read_text(encoding="utf-8").splitlines() for language in ("en", "de")]
    return list(zip(*sides, strict=True))


def write_recipe(folder: Path) -> Path:
    """The corpus and a recipe that is in good health."""
    stream = numbers()
    for part, size in SIZES.items():
        write_pairs(folder, part, [next(stream) for _ in range(size)])
    path = folder / "recipe.toml"
    path.write_text(RECIPE.format(root=folder), encoding="utf-8")
    return path


def admit(recipe: Path, temporary: Path, *overrides: str) -> Patient:
    """The patient as `examine` prepares it."""
    loaded = load_recipe(recipe, overrides)
    return prepare(loaded, open_world(loaded.runtime), survey(loaded.data, seed=1), temporary)


def infect(monkeypatch: pytest.MonkeyPatch, harm: Callable[[Transformer], None]) -> None:
    """From now on every new model comes with a defect."""
    healthy = TranslationRun.new_model

    def new_model(run: TranslationRun) -> Transformer:
        model = healthy(run)
        harm(model)
        return model

    monkeypatch.setattr(TranslationRun, "new_model", new_model)
