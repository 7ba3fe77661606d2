"""Each kind of reader learns, from a recipe and files, whose a name is: the same may be a person's and a place's.

we met Mr Kalo Rime in Tasu today      Kalo Rime is a person, for he is a Mr; Tasu a place, for one is in it
"""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from regard.recipe.understanding import TaggingRecipe

from regard.config import build
from regard.metrics.entities import stray
from regard.run import train

FILLERS = ["we", "met", "them", "today", "and", "then", "came", "home", "again"]
SYLLABLES = ["ka", "lo", "ri", "me", "ta", "su", "ne", "vo"]
READERS: dict[str, dict[str, Any]] = {
    "bert": dict(kind="bert", size="tiny", d_model=64, num_heads=4, d_ff=128, dropout=0.0, attention_dropout=0.0),
    "transformer": dict(kind="transformer", d_model=64, num_heads=4, d_ff=128, layers=2, dropout=0.0)
    | {"positions": "relative"},  # what tells a name stands just before it
    "recurrent": dict(kind="recurrent", d_model=64, dropout=0.0),
}


def name(rng: random.Random) -> str:
    return "".join(rng.choices(SYLLABLES, k=2)).capitalize()


def sentence(rng: random.Random, stretches: int) -> dict[str, list[str]]:
    """Fillers, and between them names of one word or two, each after a word that tells whose it is."""
    words, tags = [], []
    for _ in range(stretches):
        some = rng.choices(FILLERS, k=rng.randint(1, 3))
        trigger, kind = rng.choice([("Mr", "PER"), ("in", "LOC")])
        parts = [name(rng) for _ in range(rng.randint(1, 2))]
        before = [*some, trigger]
        words += [*before, *parts]
        tags += [*["O"] * len(before), f"B-{kind}", *[f"I-{kind}"] * (len(parts) - 1)]
    return {"words": words, "tags": tags}


def write(path: Path, count: int, stretches: int = 2) -> list[dict[str, list[str]]]:
    rng = random.Random(path.name)
    examples = [sentence(rng, rng.randint(1, stretches)) for _ in range(count)]
    path.write_text("".join(json.dumps(each) + "\n" for each in examples), encoding="utf-8")
    return examples


@pytest.mark.parametrize("kind", READERS)
def test_names_are_learnt(kind: str, tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", 800)
    write(tmp_path / "valid.jsonl", 60)
    recipe = build(
        TaggingRecipe,
        {
            "name": "names",
            "task": "tagging",
            "data": dict(
                root=str(tmp_path), train={"file": "train.jsonl"}, valid={"file": "valid.jsonl"}, max_length=40
            ),
            "text": {"lowercase": False, "vocab_size": 90},
            "model": READERS[kind],
            "training": dict(max_epochs=6, batch_examples=16, learning_rate=3e-3, samples=1),
            "runtime": {"device": "cpu", "threads": 1},
        },
        "test",
    )
    trained = train(recipe, tmp_path / "run", say=lambda text: None)
    assert trained.run.labels == ("B-LOC", "B-PER", "I-LOC", "I-PER", "O")
    test = write(tmp_path / "test.jsonl", 150)
    task, model = trained.run.task(), trained.run.model("best")
    said = list(task.predict(model, test))
    assert task.scores(test, said)["f1"].value >= 95
    assert all(not stray(each["tags"]) for each in said)
    # Sentences longer than an input are read in several, here of the lengths it knows, and no word goes untagged.
    long, narrow = write(tmp_path / "long.jsonl", 10, stretches=40), replace(task, max_length=18)
    assert max(len(narrow.encode(each)) for each in long) > 5
    said = list(narrow.predict(model, long))
    assert [each["words"] for each in said] == [each["words"] for each in long]
    assert narrow.scores(long, said)["f1"].value >= 65, "cut off from its neighbours a name is not told"
