"""Models learn which ending is right: the one with the word of the text.

some apples      1. and stones   2. apples too   3. so birds
"""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from tests.system.helpers import train_quietly

from regard.tasks.registry import build_recipe

THINGS = ["apples", "rivers", "stones", "birds"]
FILLERS = ["they", "were", "very", "old", "and", "so", "we", "took", "some", "home"]
MODELS: dict[str, dict[str, Any]] = {
    "bert": dict(kind="bert", size="tiny", d_model=64, num_heads=4, d_ff=128, dropout=0.0, attention_dropout=0.0),
    "transformer": dict(kind="transformer", d_model=64, num_heads=4, d_ff=128, layers=2, dropout=0.0),
    "recurrent": dict(kind="recurrent", d_model=64, dropout=0.0),
}


def make_example(rng: random.Random) -> dict[str, Any]:
    """A text with one word, and two to four endings, of which one has the same word."""
    things = rng.sample(THINGS, rng.randint(2, 4))
    label = rng.randrange(len(things))
    choices = [" ".join(rng.sample([thing, *rng.choices(FILLERS, k=2)], 3)) for thing in things]
    return {"text": f"{rng.choice(FILLERS)} {things[label]}", "choices": choices, "label": label}


def write(path: Path, count: int) -> list[dict[str, Any]]:
    rng = random.Random(path.name)
    examples = [make_example(rng) for _ in range(count)]
    path.write_text("".join(json.dumps(example) + "\n" for example in examples), encoding="utf-8")
    return examples


@pytest.mark.parametrize("kind", MODELS)
def test_model_learns_endings(kind: str, tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", 800)
    write(tmp_path / "valid.jsonl", 60)
    recipe = build_recipe(
        {
            "name": "endings",
            "task": "choice",
            "data": dict(
                root=str(tmp_path), train={"file": "train.jsonl"}, valid={"file": "valid.jsonl"}, max_length=24
            ),
            "text": {"vocab_size": 200},
            "model": MODELS[kind],
            "training": dict(max_epochs=5, batch_examples=20, learning_rate=2e-3, samples=1),
            "runtime": {"device": "cpu", "threads": 1},
        },
        "test",
    )
    run = train_quietly(recipe, tmp_path / "run").run
    test = write(tmp_path / "test.jsonl", 150)
    predictions = list(run.task.predict(run.model("best"), test))
    assert run.task.score(test, predictions)["accuracy"].value >= 95
    assert {len(prediction["probabilities"]) for prediction in predictions} == {2, 3, 4}
