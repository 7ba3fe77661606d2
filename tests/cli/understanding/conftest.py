"""Tiny runs of every task of understanding, each trained once, that the tests of their commands use."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import regard

GOOD, BAD, THINGS = ("lovely", "fine", "great"), ("dull", "awful", "poor"), ("film", "book", "song", "play")
NAMES, PLACES = ("Ada", "Bob", "Eve", "Max"), ("Rome", "Oslo", "Lima", "Bonn")

RECIPE = """
name = "{task}"
task = "{task}"
[data]
root = "{root}"
train = {{ file = "{task}.train.jsonl" }}
valid = {{ file = "{task}.valid.jsonl" }}
test = {{ file = "{task}.test.jsonl" }}
max_length = 32
workers = 1
{data}
[text]
vocab_size = 200
lowercase = false
[model]
kind = "{kind}"
d_model = 32
layers = 2
dropout = 0.0
{model}
[training]
max_epochs = 12
batch_examples = 16
learning_rate = 4e-3
[runtime]
device = "cpu"
threads = 1
"""
ATTENTIVE = "num_heads = 2\nd_ff = 64\nattention_dropout = 0.0"


def classified(rng: random.Random) -> dict[str, Any]:
    good = rng.random() < 0.5
    text = f"a {rng.choice(GOOD if good else BAD)} {rng.choice(THINGS)} by {rng.choice(NAMES)} in {rng.randrange(999)}"
    return {"text": text, "label": "good" if good else "bad"}


def rated(rng: random.Random) -> dict[str, Any]:
    first, second = rng.choice(THINGS), rng.choice(THINGS)
    return {"text": f"a {first}", "pair": f"the {second}", "label": float(first == second)}


def tagged(rng: random.Random) -> dict[str, Any]:
    name, place = rng.choice(NAMES), rng.choice(PLACES)
    words = [name, "reads", str(rng.randrange(999)), rng.choice(THINGS), "in", place, "."]
    return {"words": words, "tags": ["B-PER", "O", "O", "O", "O", "B-LOC", "O"]}


def answered(rng: random.Random) -> dict[str, Any]:
    name, place = rng.choice(NAMES), rng.choice(PLACES)
    context = f"{name} lives in {place} ."
    who = rng.random() < 0.5
    answer = name if who else place
    question = "Who lives there ?" if who else "Where is the house ?"
    return {"question": question, "context": context, "answers": [{"text": answer, "start": context.index(answer)}]}


def chosen(rng: random.Random) -> dict[str, Any]:
    thing, label = rng.choice(THINGS), rng.randrange(3)
    choices = rng.sample([other for other in THINGS if other != thing], 2)
    choices.insert(label, thing)
    return {"text": f"the {thing} is the", "choices": choices, "label": label}


MAKERS: dict[str, Callable[[random.Random], dict[str, Any]]] = {
    "classification": classified, "regression": rated, "tagging": tagged, "answering": answered, "choice": chosen,
}  # fmt: skip


def write_task(folder: Path, task: str, kind: str = "transformer", data: str = "", model: str = ATTENTIVE) -> Path:
    """Examples in files, and the recipe that learns from them."""
    rng = random.Random(5)
    for part, count in (("train", 160), ("valid", 24), ("test", 24)):
        examples = [MAKERS[task](rng) for _ in range(count)]
        lines = "".join(json.dumps(example) + "\n" for example in examples)
        (folder / f"{task}.{part}.jsonl").write_text(lines, encoding="utf-8")
    path = folder / f"{task}-{kind}.toml"
    text = RECIPE.format(task=task, root=folder.as_posix(), kind=kind, data=data, model=model)
    path.write_text(text, encoding="utf-8")
    return path


def trained(folder: Path, recipe: Path, *settings: str) -> Path:
    run = folder / "runs" / recipe.stem
    done = regard("train", recipe, "--folder", run, *settings)
    assert done.status == 0, done.err
    return run


@pytest.fixture(scope="session")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the files and runs of these tests lie."""
    return tmp_path_factory.mktemp("understanding")


@pytest.fixture(scope="session")
def classifier(ground: Path) -> Path:
    return trained(ground, write_task(ground, "classification"))


@pytest.fixture(scope="session")
def recurrent(ground: Path) -> Path:
    """The same by a recurrent reader."""
    return trained(ground, write_task(ground, "classification", "recurrent", model=""), "training.max_epochs=4")


@pytest.fixture(scope="session")
def rater(ground: Path) -> Path:
    return trained(ground, write_task(ground, "regression"), "training.max_epochs=3")


@pytest.fixture(scope="session")
def tagger(ground: Path) -> Path:
    return trained(ground, write_task(ground, "tagging"))


@pytest.fixture(scope="session")
def answerer(ground: Path) -> Path:
    return trained(ground, write_task(ground, "answering", data="max_question = 8\nstride = 8"))


@pytest.fixture(scope="session")
def chooser(ground: Path) -> Path:
    return trained(ground, write_task(ground, "choice"), "training.max_epochs=3")


@pytest.fixture(scope="session")
def pretrained(ground: Path) -> Path:
    """A BERT that has hardly begun."""
    rng = random.Random(3)
    for part, count in (("train", 60), ("valid", 10), ("test", 10)):
        documents = ("\n".join(classified(rng)["text"] + " ." for _ in range(4)) for _ in range(count))
        (ground / f"documents.{part}.txt").write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    recipe = ground / "pretraining.toml"
    recipe.write_text(PRETRAINING.format(root=ground.as_posix()), encoding="utf-8")
    return trained(ground, recipe)


PRETRAINING = """
name = "pretraining"
task = "pretraining"
[data]
root = "{root}"
train = {{ file = "documents.train.txt" }}
valid = {{ file = "documents.valid.txt" }}
test = {{ file = "documents.test.txt" }}
max_length = 32
workers = 1
[text]
vocab_size = 200
lowercase = false
[model]
d_model = 32
num_heads = 2
d_ff = 64
layers = 2
max_positions = 40
dropout = 0.0
attention_dropout = 0.0
[training]
max_steps = 40
batch_tokens = 512
learning_rate = 4e-3
warmup = 5
validate_every = 20
[runtime]
device = "cpu"
threads = 1
"""
