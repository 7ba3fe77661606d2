"""Each kind of reader learns, from a recipe and files, which ending is right: the one that speaks of what is announced.

some apples      1. and stones   2. apples too   3. so birds
"""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from regard.recipe.understanding import ChoiceRecipe

from regard.config import build
from regard.run import train

THINGS = ["apples", "rivers", "stones", "birds"]
FILLERS = ["they", "were", "very", "old", "and", "so", "we", "took", "some", "home"]
READERS: dict[str, dict[str, Any]] = {
    "bert": dict(kind="bert", size="tiny", d_model=64, num_heads=4, d_ff=128, dropout=0.0, attention_dropout=0.0),
    "transformer": dict(kind="transformer", d_model=64, num_heads=4, d_ff=128, layers=2, dropout=0.0),
    "recurrent": dict(kind="recurrent", d_model=64, dropout=0.0),
}


def story(rng: random.Random) -> dict[str, Any]:
    """What is announced, and two to four endings of which one speaks of it."""
    things = rng.sample(THINGS, rng.randint(2, 4))
    label = rng.randrange(len(things))
    choices = [" ".join(rng.sample([thing, *rng.choices(FILLERS, k=2)], 3)) for thing in things]
    return {"text": f"{rng.choice(FILLERS)} {things[label]}", "choices": choices, "label": label}


def write(path: Path, count: int) -> list[dict[str, Any]]:
    rng = random.Random(path.name)
    examples = [story(rng) for _ in range(count)]
    path.write_text("".join(json.dumps(each) + "\n" for each in examples), encoding="utf-8")
    return examples


@pytest.mark.parametrize("kind", READERS)
def test_endings_are_learnt(kind: str, tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", 800)
    write(tmp_path / "valid.jsonl", 60)
    recipe = build(
        ChoiceRecipe,
        {
            "name": "endings",
            "task": "choice",
            "data": dict(
                root=str(tmp_path), train={"file": "train.jsonl"}, valid={"file": "valid.jsonl"}, max_length=24
            ),
            "text": {"vocab_size": 200},
            "model": READERS[kind],
            "training": dict(max_epochs=5, batch_examples=20, learning_rate=2e-3, samples=1),
            "runtime": {"device": "cpu", "threads": 1},
        },
        "test",
    )
    trained = train(recipe, tmp_path / "run", say=lambda text: None)
    test = write(tmp_path / "test.jsonl", 150)
    task = trained.run.task()
    said = list(task.predict(trained.run.model("best"), test))
    assert task.scores(test, said)["accuracy"].value >= 95
    assert {len(each["probabilities"]) for each in said} == {2, 3, 4}
