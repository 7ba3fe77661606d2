"""The paired bootstrap of every task equals a plain loop that draws examples and scores them anew."""

import random
from typing import Any

import numpy as np
import pytest
from tests.tasks.make import make_task
from tests.tasks.test_parsing import vocabularies

from regard.metrics.significance import paired_bootstrap
from regard.tasks.answering import Answering
from regard.tasks.base import AnyTask
from regard.tasks.choice import Choice
from regard.tasks.classification import Classification, Regression
from regard.tasks.dependencies import Dependencies
from regard.tasks.parsing import Parsing
from regard.tasks.tagging import Tagging
from regard.tasks.translation import Translation
from regard.text.bert import SPECIALS, BertTokenizer

VOCABULARY = BertTokenizer([*SPECIALS, "a"])
CLASSES, TAGS, ENTITIES = ("x", "y", "z"), ("D", "N", "V"), ("B-LOC", "B-PER", "I-LOC", "I-PER", "O")
TREES = ("(S (NP (XX a) (XX b)) (VP (XX c)))", "(S (NP (XX a)) (VP (XX b) (XX c)))", "(S (XX a) (XX b) (XX c))")
WORDS, RELATIONS, EXAMPLES = ("the", "cat", "sat", "near", "a", "tree"), ("det", "nsubj:pass", "root"), 30
Values = list[dict[str, Any]]


def some(rng: random.Random, kinds: tuple[str, ...], most: int = 6) -> list[str]:
    return [rng.choice(kinds) for _ in range(rng.randint(1, most))]


def guess(rng: random.Random, gold: list[str], kinds: tuple[str, ...], wrong: float) -> list[str]:
    return [rng.choice(kinds) if rng.random() < wrong else item for item in gold]


def draw(name: str, rng: random.Random) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """An example and the predictions of a bad and of a better system."""
    shares = (0.6, 0.3)
    if name in ("classes", "choice"):
        gold = [rng.choice(CLASSES)]
        return {"label": gold[0], "choices": CLASSES}, [{"label": guess(rng, gold, CLASSES, p)[0]} for p in shares]
    if name == "numbers":
        value = rng.random()
        return {"label": value}, [{"score": value + share * rng.random()} for share in shares]
    if name in ("tags", "entities"):
        kinds = TAGS if name == "tags" else ENTITIES
        tags = some(rng, kinds)
        return {"tags": tags}, [{"tags": guess(rng, tags, kinds, share)} for share in shares]
    if name == "dependencies":
        relations = some(rng, RELATIONS)
        heads = [rng.randrange(4) for _ in relations]
        parses = [
            {
                "heads": [head if rng.random() > share else 0 for head in heads],
                "relations": guess(rng, relations, RELATIONS, share),
            }
            for share in shares
        ]
        return {"heads": heads, "relations": relations}, parses
    if name == "parsing":
        trees = [{"tree": rng.choice(TREES), "repaired": rng.random() < share} for share in shares]
        return {"tree": rng.choice(TREES)}, trees
    words = some(rng, WORDS, 9)
    outputs = [" ".join(guess(rng, words, WORDS, share)) for share in shares]
    text = " ".join(words)
    example = {"src": text, "tgt": text, "answers": [{"text": text, "start": 0}] if rng.random() < 0.8 else []}
    return example, [{"translation": output, "answer": output} for output in outputs]


def task_of(name: str) -> AnyTask:
    settings = {"training.monitor": name} if name in ("ter", "exact_match") else {}
    makers: dict[str, Any] = {
        "classes": lambda: make_task(Classification, VOCABULARY, CLASSES),
        "choice": lambda: make_task(Choice, VOCABULARY),
        "numbers": lambda: make_task(Regression, VOCABULARY),
        "tags": lambda: make_task(Tagging, VOCABULARY, TAGS),
        "entities": lambda: make_task(Tagging, VOCABULARY, ENTITIES),
        "dependencies": lambda: make_task(Dependencies, VOCABULARY, RELATIONS),
        "parsing": lambda: make_task(Parsing, *vocabularies()),
        "answers": lambda: make_task(Answering, VOCABULARY),
    }
    task: AnyTask = makers.get(name, lambda: make_task(Translation, *vocabularies(), settings=settings))()
    return task


EXPECTED = {
    "classes": ["accuracy", "f1", "macro_f1", "matthews"],
    "choice": ["accuracy"],
    "numbers": ["pearson", "spearman"],
    "tags": ["precision", "recall", "f1", "accuracy"],
    "entities": ["precision", "recall", "f1", "accuracy"],
    "dependencies": ["UAS", "LAS"],
    "parsing": ["f1", "precision", "recall", "complete", "repaired"],
    "answers": ["exact match", "F1"],
    "ter": ["bleu", "chrf", "ter"],
    "exact_match": ["bleu", "chrf", "exact match"],
}

KEYS = {
    "answers": ["exact", "f1"],
    "dependencies": ["uas", "las"],
    "exact_match": ["bleu", "chrf", "exact_match"],
}
"""The keys of the same scores in `Task.score`, where they differ."""


@pytest.mark.parametrize("name", EXPECTED)
def test_the_bootstrap_equals_a_plain_loop(name: str) -> None:
    rng, task, resamples = random.Random(3), task_of(name), 12
    drawn = [draw(name, rng) for _ in range(EXAMPLES)]
    examples = [example for example, _ in drawn]
    systems = [[predictions[index] for _, predictions in drawn] for index in (0, 1)]
    first, second = (task.scorer(examples, predictions) for predictions in systems)
    found = paired_bootstrap(first, second, EXAMPLES, resamples, seed=8)
    assert list(found) == EXPECTED[name]
    keys = dict(zip(found, KEYS.get(name, found), strict=True))
    whole = [task.score(examples, predictions) for predictions in systems]
    generator, deltas = np.random.default_rng(8), []
    for _ in range(resamples):
        rows = generator.integers(EXAMPLES, size=EXAMPLES)
        scores = [task.score([examples[row] for row in rows], [system[row] for row in rows]) for system in systems]
        deltas.append({key: scores[1][key].value - scores[0][key].value for key in keys.values()})
    for key, item in ((keys[own], item) for own, item in found.items()):
        assert (item.base, item.other) == pytest.approx((whole[0][key].value, whole[1][key].value))
        values = np.array([delta[key] for delta in deltas])
        assert (item.ci_low, item.ci_high) == pytest.approx(tuple(np.percentile(values, [2.5, 97.5])))
        as_large = np.abs(values - values.mean()) >= abs(item.delta) - 1e-9
        assert item.p_value == pytest.approx((1 + as_large.sum()) / (1 + resamples))
        assert item.delta != 0 or key == "complete"
