"""Answers through the whole system: found by each reader, in texts of several windows, or said to be none."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from regard.recipe import build_recipe
from regard.run import Run, train

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
"""What is asked, what stands before the answer, the answers, and what stands there when it is not said."""
ASIDES = ["It rained all day.", "Nobody knew why.", "The train was late again."]


def question(rng: random.Random, unanswerable: float) -> dict[str, Any]:
    """Anna moved to Paris in 1980: a sentence among others, of which one part is asked for, and may be missing."""
    asked, missing = rng.randrange(3), rng.random() < unanswerable
    context = "".join(f"{rng.choice(ASIDES)} " for _ in range(rng.randint(0, 3)))
    answers = []
    for number, (_, before, texts, instead) in enumerate(TEMPLATE):
        text = instead if missing and number == asked else rng.choice(texts)
        context += before
        if number == asked and not missing:
            answers = [{"text": text, "start": len(context)}]
        context += text
    context += "." + "".join(f" {rng.choice(ASIDES)}" for _ in range(rng.randint(0, 3)))
    return {"question": TEMPLATE[asked][0], "context": context, "answers": answers}


def write_questions(folder: Path, unanswerable: float) -> None:
    for part, count in (("train", 800), ("valid", 40), ("test", 100)):
        rng = random.Random(part)
        lines = [json.dumps(question(rng, unanswerable)) for _ in range(count)]
        (folder / f"{part}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def recipe(folder: Path, model: str, start: str = "", **training: Any) -> Any:
    parts = {part: {"file": f"{part}.jsonl"} for part in ("train", "valid", "test")}
    values = {
        "name": "questions", "task": "answering", "start_from": start,
        "data": {"root": str(folder), "max_length": 24, "max_question": 8, "stride": 6, "max_answer": 4, **parts},
        "text": {"vocab_size": 300, "min_frequency": 1},
        "model": MODELS[model],
        "training": dict(
            max_epochs=EPOCHS[model], batch_examples=24, learning_rate=RATES[model], validate_every=10_000,
        ) | training,
        "runtime": {"device": "cpu", "threads": 1, "seed": 3},
    }  # fmt: skip
    return build_recipe(values, "test")


def scores(folder: Path) -> dict[str, float]:
    run = Run.open(folder)
    task, examples = run.task(), run.examples("test")
    assert sum(len(task.encode(example)) > 1 for example in examples) > 30  # more than a window
    said = list(task.predict(run.model("best"), examples))
    assert all(s["answer"] == e["context"][s["start"] : s["end"]] for s, e in zip(said, examples, strict=True))
    return {name: score.value for name, score in task.scores(examples, said).items()}


@pytest.mark.parametrize("model", MODELS)
def test_answers_are_learnt_and_where_there_is_none(tmp_path: Path, model: str) -> None:
    write_questions(tmp_path, unanswerable=0.3)
    train(recipe(tmp_path, model), tmp_path / "run", say=lambda _: None)
    found = scores(tmp_path / "run")
    assert found["exact"] > 90 and found["f1"] > 90, found
    assert found["exact answerable"] > 85 and found["exact unanswerable"] > 85, found


def test_where_every_question_has_an_answer_one_is_given_and_learning_goes_on_from_it(tmp_path: Path) -> None:
    write_questions(tmp_path, unanswerable=0.0)
    train(recipe(tmp_path, "transformer"), tmp_path / "first", say=lambda _: None)
    first = Run.open(tmp_path / "first")
    assert not first.task().no_answer and first.new_model().dropout.p == 0
    found = scores(tmp_path / "first")
    assert found["exact"] > 95, found

    more = tmp_path / "more"
    more.mkdir()
    write_questions(more, unanswerable=0.3)
    again = recipe(more, "transformer", str(tmp_path / "first"), max_steps=1, learning_rate=1e-9)
    train(again, more / "second", say=lambda _: None)
    assert Run.open(more / "second").task().no_answer
    assert scores(more / "second")["exact answerable"] > 90  # the head too: it says the same
