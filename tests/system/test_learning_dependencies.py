"""Models learn the dependencies of a small grammar: "of" depends on the noun before it, "near" on the verb."""

from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.system.helpers import train_quietly

from regard.data.builtin import dependency_example, sample_trees
from regard.data.conllu import to_conllu
from regard.run.model import Model
from regard.tasks.registry import build_recipe
from regard.trees import words

MODELS: dict[str, dict[str, Any]] = {
    "recurrent": dict(kind="recurrent", d_model=64, dropout=0.0),
    "transformer": dict(kind="transformer", d_model=64, num_heads=4, d_ff=64, layers=1, dropout=0.0)
    | {"positions": "relative"},
}
LIMITS = {"recurrent": 95, "transformer": 85}
"""Lowest LAS. A Transformer learns more slowly which words are near."""
SIZES = {"train": 500, "valid": 60, "test": 60}


def write_treebanks(folder: Path) -> None:
    """Sentences of at most eight words; no sentence is in two splits."""
    short = (tree for tree in sample_trees("short") if len(words(tree)) <= 8)
    trees = iter({tuple(words(tree)): tree for tree in islice(short, 2 * sum(SIZES.values()))}.values())
    for split, size in SIZES.items():
        text = "".join(to_conllu(dependency_example(tree)) for tree in islice(trees, size))
        (folder / f"{split}.conllu").write_text(text, encoding="utf-8")


@pytest.mark.parametrize("kind", MODELS)
def test_model_learns_dependencies(kind: str, tmp_path: Path) -> None:
    write_treebanks(tmp_path)
    files = {split: {"file": f"{split}.conllu"} for split in SIZES}
    recipe = build_recipe(
        {
            "name": "small",
            "task": "dependencies",
            "data": {"root": str(tmp_path), "max_length": 24, "workers": 1, **files},
            "text": {"vocab_size": 300, "lowercase": False},
            "model": MODELS[kind],
            "parser": {"arc_size": 32, "relation_size": 16, "dropout": 0.0},
            "training": dict(max_epochs=5, batch_examples=16, learning_rate=6e-3, samples=1),
            "runtime": {"device": "cpu", "threads": 1},
        },
        "test",
    )
    trained = train_quietly(recipe, tmp_path / "run")
    assert trained.outcome.metrics["las"] == trained.outcome.best
    model = Model.load(tmp_path / "run", device="cpu")
    scores = {score.name: score.value for score in model.evaluate("test").scores}
    assert scores["LAS"] > LIMITS[kind] and scores["UAS"] >= scores["LAS"], scores
    empty, parse = model.predict(["", "the dog saw a letter ."])
    assert empty["heads"] == []
    assert parse["heads"] == [2, 3, 0, 5, 3, 3]
    assert parse["relations"] == ["det", "nsubj", "root", "det", "obj", "punct"]
