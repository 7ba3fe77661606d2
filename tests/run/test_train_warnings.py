"""Warnings that training reports before it starts; it trains all the same."""

import random
from pathlib import Path
from typing import Any

import pytest
from tests.doctor.recipes import WORDS, read_examples, write_examples, write_recipe

from regard.run.train import train
from regard.tasks.registry import load_recipe
from regard.training.log import Logs

SHORT = (
    "training.max_steps=2",
    "training.warmup=0",
    "training.validate_every=2",
    "training.samples=0",
    "training.batch_tokens=20000",
)
RATE = ("training.schedule=constant", "training.learning_rate=0.001")


def warnings(recipe: Path, *settings: str, resume: bool = False) -> list[str]:
    """What training reports as a warning."""
    lines: list[str] = []
    loaded = load_recipe(recipe, [*SHORT, *RATE, *settings])
    train(loaded, recipe.parent / "run", resume=resume, report=lines.append, log=Logs())
    return [line for line in lines if line.startswith("warning: ")]


def change(folder: Path, split: str, key: str, values: list[Any]) -> None:
    path = folder / f"{split}.jsonl"
    write_examples(path, [item | {key: value} for item, value in zip(read_examples(path), values, strict=True)])


@pytest.mark.parametrize("task", ["translation", "classification"])
def test_good_data_and_settings_give_no_warning(task: str, tmp_path: Path) -> None:
    examples = ("training.batch_examples=200",) if task == "classification" else ()
    assert warnings(write_recipe(tmp_path, task), *examples) == []


def test_shuffled_targets_are_reported_once(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    targets = [example["tgt"] for example in read_examples(tmp_path / "train.jsonl")]
    change(tmp_path, "train", "tgt", random.Random(1).sample(targets, len(targets)))
    assert len(warnings(recipe)) == 1
    assert (tmp_path / "run" / "checkpoints" / "step-00000002").is_dir()
    assert warnings(recipe, "training.max_steps=3", resume=True) == []


def test_exchanged_sides_of_valid_are_reported(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    examples = read_examples(tmp_path / "valid.jsonl")
    write_examples(tmp_path / "valid.jsonl", [{"src": item["tgt"], "tgt": item["src"]} for item in examples])
    (line,) = warnings(recipe)
    assert "data.valid" in line


def test_labels_sorted_in_the_file_are_sampled_from_all_of_it(tmp_path: Path) -> None:
    recipe, rng = write_recipe(tmp_path, "classification"), random.Random(1)
    texts = [" ".join(rng.choices(WORDS, k=3)) for _ in range(1600)]
    labels = ["a" if "red" in text or "blue" in text else "b" for text in texts]
    examples = [{"text": text, "label": label} for text, label in zip(texts, labels, strict=True)]
    write_examples(tmp_path / "train.jsonl", sorted(examples, key=lambda example: example["label"]))
    enough = ("training.batch_examples=1600", "data.drop_duplicates=false")
    assert warnings(recipe, *enough) == []
    change(tmp_path, "train", "label", random.Random(1).sample(labels, len(labels)))
    (tmp_path / "other").mkdir()
    assert len(warnings(recipe.rename(tmp_path / "other" / recipe.name), *enough)) == 1


def test_a_warm_up_longer_than_the_training_is_reported(tmp_path: Path) -> None:
    (line,) = warnings(write_recipe(tmp_path), "training.max_steps=10", "training.warmup=4000")
    assert "training.warmup=1," in line


def test_thousands_of_epochs_are_reported(tmp_path: Path) -> None:
    stop = ("training.max_steps=100000", "training.max_minutes=0.0001")
    (line,) = warnings(write_recipe(tmp_path), *stop)
    assert "training.max_epochs=50" in line
