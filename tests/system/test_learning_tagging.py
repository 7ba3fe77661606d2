"""Models learn names of persons and places from the word before them; a name may be of both kinds.

we met Mr Kalo Rime in Tasu today      Kalo Rime, after "Mr", is a person; Tasu, after "in", is a place
"""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from tests.system.helpers import train_quietly
from tests.tasks.make import changed

from regard.metrics.spans import stray
from regard.tasks.registry import build_recipe
from regard.tasks.tagging import Tagging

FILLERS = ["we", "met", "them", "today", "and", "then", "came", "home", "again"]
SYLLABLES = ["ka", "lo", "ri", "me", "ta", "su", "ne", "vo"]
MODELS: dict[str, dict[str, Any]] = {
    "bert": dict(kind="bert", size="tiny", d_model=64, num_heads=4, d_ff=128, dropout=0.0, attention_dropout=0.0),
    "transformer": dict(kind="transformer", d_model=64, num_heads=4, d_ff=128, layers=2, dropout=0.0)
    | {"positions": "relative"},  # the word that decides is just before the name
    "recurrent": dict(kind="recurrent", d_model=64, dropout=0.0),
}


def make_name(rng: random.Random) -> str:
    return "".join(rng.choices(SYLLABLES, k=2)).capitalize()


def make_example(rng: random.Random, phrases: int) -> dict[str, list[str]]:
    """Phrases of filler words, a word that decides the kind of the name after it, and a name of one or two words."""
    words, tags = [], []
    for _ in range(phrases):
        fillers = rng.choices(FILLERS, k=rng.randint(1, 3))
        trigger, kind = rng.choice([("Mr", "PER"), ("in", "LOC")])
        name = [make_name(rng) for _ in range(rng.randint(1, 2))]
        before = [*fillers, trigger]
        words += [*before, *name]
        tags += [*["O"] * len(before), f"B-{kind}", *[f"I-{kind}"] * (len(name) - 1)]
    return {"words": words, "tags": tags}


def write(path: Path, count: int, phrases: int = 2) -> list[dict[str, list[str]]]:
    rng = random.Random(path.name)
    examples = [make_example(rng, rng.randint(1, phrases)) for _ in range(count)]
    path.write_text("".join(json.dumps(example) + "\n" for example in examples), encoding="utf-8")
    return examples


@pytest.mark.parametrize("kind", MODELS)
def test_model_learns_names(kind: str, tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", 800)
    write(tmp_path / "valid.jsonl", 60)
    recipe = build_recipe(
        {
            "name": "names",
            "task": "tagging",
            "data": dict(
                root=str(tmp_path), train={"file": "train.jsonl"}, valid={"file": "valid.jsonl"}, max_length=40
            ),
            "text": {"lowercase": False, "vocab_size": 90},
            "model": MODELS[kind],
            "training": dict(max_epochs=6, batch_examples=16, learning_rate=3e-3, samples=1),
            "runtime": {"device": "cpu", "threads": 1},
        },
        "test",
    )
    run = train_quietly(recipe, tmp_path / "run").run
    task, model = run.task, run.model("best")
    assert isinstance(task, Tagging) and task.labels == ("B-LOC", "B-PER", "I-LOC", "I-PER", "O")
    test = write(tmp_path / "test.jsonl", 150)
    predictions = list(task.predict(model, test))
    assert task.score(test, predictions)["f1"].value >= 95
    assert all(not stray(prediction["tags"]) for prediction in predictions)
    # A sentence longer than an input is read in several windows, and every word gets a tag.
    long, narrow = write(tmp_path / "long.jsonl", 10, phrases=40), changed(task, data__max_length=18)
    assert max(len(narrow.encode(example)) for example in long) > 5
    predictions = list(narrow.predict(model, long))
    assert [prediction["words"] for prediction in predictions] == [example["words"] for example in long]
    assert narrow.score(long, predictions)["f1"].value >= 65, "names at the borders of windows lack their context"
