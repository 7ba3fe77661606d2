"""Models learn to answer questions about texts of several windows, and which questions have no answer."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from tests.system.helpers import train_quietly

from regard.recipe import Recipe
from regard.run.run import Run
from regard.tasks.answering import Answering
from regard.tasks.registry import build_recipe

MODELS: dict[str, dict[str, Any]] = {
    "bert": dict(
        kind="bert", size="tiny", d_model=64, num_heads=4, d_ff=128, layers=1, dropout=0.0, attention_dropout=0.0
    ),
    "transformer": dict(kind="transformer", d_model=64, num_heads=4, d_ff=128, layers=2, dropout=0.0),
    "recurrent": dict(kind="recurrent", d_model=64, layers=1, dropout=0.0),
}
RATES = {"bert": 3e-3, "transformer": 3e-3, "recurrent": 6e-3}
EPOCHS = {"bert": 6, "transformer": 2, "recurrent": 7}

NAMES = ["Anna", "Ben", "Dora", "Emil", "Hugo", "Old Ida", "Jack", "Young Liam"]
PLACES = ["Paris", "New York", "Oslo", "Cape Town", "Cairo", "San Jose", "Bonn", "Quito"]
YEARS = [str(year) for year in range(1980, 1992)]
TEMPLATE = [("Who moved?", "", NAMES, "They"), ("Where did they move?", " moved to ", PLACES, "sea"),
            ("When was that?", " in ", YEARS, "spring")]  # fmt: skip
"""The question, the text before the answer, the answers, and the text in their place if there is no answer."""
ASIDES = ["It rained all day.", "Nobody knew why.", "The train was late again."]


def question(rng: random.Random, unanswerable: float) -> dict[str, Any]:
    """A question about "Anna moved to Paris in 1980", a sentence among others; the answer may be missing."""
    index, missing = rng.randrange(3), rng.random() < unanswerable
    context = "".join(f"{rng.choice(ASIDES)} " for _ in range(rng.randint(0, 3)))
    answers = []
    for number, (_, before, texts, instead) in enumerate(TEMPLATE):
        text = instead if missing and number == index else rng.choice(texts)
        context += before
        if number == index and not missing:
            answers = [{"text": text, "start": len(context)}]
        context += text
    context += "." + "".join(f" {rng.choice(ASIDES)}" for _ in range(rng.randint(0, 3)))
    return {"question": TEMPLATE[index][0], "context": context, "answers": answers}


def write_questions(folder: Path, unanswerable: float) -> None:
    for split, count in (("train", 800), ("valid", 40), ("test", 100)):
        rng = random.Random(split)
        lines = [json.dumps(question(rng, unanswerable)) for _ in range(count)]
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def make_recipe(folder: Path, model: str, start: str = "", **training: Any) -> Recipe:
    files = {split: {"file": f"{split}.jsonl"} for split in ("train", "valid", "test")}
    values = {
        "name": "questions", "task": "answering", "start_from": start,
        "data": {"root": str(folder), "max_length": 24, "max_question": 8, "stride": 6, "max_answer": 4, **files},
        "text": {"vocab_size": 300, "min_frequency": 1},
        "model": MODELS[model],
        "training": dict(
            max_epochs=EPOCHS[model], batch_examples=24, learning_rate=RATES[model], validate_every=10_000,
        ) | training,
        "runtime": {"device": "cpu", "threads": 1, "seed": 3},
    }  # fmt: skip
    return build_recipe(values, "test")


def open_task(folder: Path) -> Answering:
    task = Run.open(folder).task
    assert isinstance(task, Answering)
    return task


def scores(folder: Path) -> dict[str, float]:
    task = open_task(folder)
    examples = list(task.read("test"))
    assert sum(len(task.encode(example)) > 1 for example in examples) > 30, "texts of several windows"
    predictions = list(task.predict(Run.open(folder).model("best"), examples))
    for prediction, example in zip(predictions, examples, strict=True):
        assert prediction["answer"] == example["context"][prediction["start"] : prediction["end"]]
    return {name: score.value for name, score in task.score(examples, predictions).items()}


@pytest.mark.parametrize("kind", MODELS)
def test_model_learns_answers_and_unanswerable_questions(tmp_path: Path, kind: str) -> None:
    write_questions(tmp_path, unanswerable=0.3)
    train_quietly(make_recipe(tmp_path, kind), tmp_path / "run")
    result = scores(tmp_path / "run")
    assert result["exact"] > 90 and result["f1"] > 90, result
    assert result["exact answerable"] > 85 and result["exact unanswerable"] > 85, result


def test_model_without_unanswerable_questions_always_answers_and_can_be_trained_further(tmp_path: Path) -> None:
    write_questions(tmp_path, unanswerable=0.0)
    train_quietly(make_recipe(tmp_path, "transformer"), tmp_path / "first")
    first = open_task(tmp_path / "first")
    assert not first.no_answer and first.new_model().dropout.p == 0
    result = scores(tmp_path / "first")
    assert result["exact"] > 95, result

    more = tmp_path / "more"
    more.mkdir()
    write_questions(more, unanswerable=0.3)
    unchanged = make_recipe(more, "transformer", str(tmp_path / "first"), max_steps=1, learning_rate=1e-9)
    train_quietly(unchanged, more / "second")
    assert open_task(more / "second").no_answer
    assert scores(more / "second")["exact answerable"] > 90, "the head is copied too"
