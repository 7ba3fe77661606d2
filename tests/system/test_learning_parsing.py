"""Translation models learn to parse sentences of a small grammar that they have not seen."""

from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.system.helpers import train_quietly

from regard.data.builtin import sample_trees
from regard.run.model import Model
from regard.tasks.registry import build_recipe
from regard.trees import to_brackets, words

MODELS: dict[str, dict[str, Any]] = {
    "transformer": dict(size="tiny", d_model=64, d_ff=128, norm="pre", positions="rotary", dropout=0.0),
    "recurrent": dict(kind="recurrent", d_model=48, d_embedding=48, dropout=0.0),
}
TRAINING: dict[str, dict[str, Any]] = {
    "transformer": dict(max_steps=350, validate_every=350, learning_rate=4e-3),
    "recurrent": dict(max_steps=180, validate_every=180, learning_rate=6e-3),
}


def write_treebanks(folder: Path) -> None:
    """Trees of at most five words; no sentence is in two splits."""
    short = (tree for tree in sample_trees("short") if len(words(tree)) <= 5)
    trees = list({tuple(words(tree)): tree for tree in islice(short, 12_000)}.values())
    for split, selected in (("train", trees[:-300]), ("valid", trees[-300:-200]), ("test", trees[-200:])):
        (folder / f"{split}.ptb").write_text("".join(f"{to_brackets(tree)}\n" for tree in selected), encoding="utf-8")


@pytest.mark.parametrize("kind", MODELS)
def test_model_learns_to_parse(tmp_path: Path, kind: str) -> None:
    write_treebanks(tmp_path)
    files = {split: {"file": f"{split}.ptb"} for split in ("train", "valid", "test")}
    recipe = build_recipe(
        {
            "name": "short",
            "task": "parsing",
            "data": {"root": str(tmp_path), "max_length": 48, "workers": 1, **files},
            "text": {"kind": "word", "vocab_size": 400},
            "model": MODELS[kind],
            "training": dict(
                batch_tokens=384, schedule="cosine", warmup=40, clip=1.0, label_smoothing=0.0, **TRAINING[kind]
            ),
            "decoding": {"beam": 4, "extra_length": 40},
            "runtime": {"device": "cpu", "threads": 1},
        },
        "test",
    )
    trained = train_quietly(recipe, tmp_path / "run")
    assert trained.outcome.metrics["f1"] == trained.outcome.best
    model = Model.load(tmp_path / "run", device="cpu")
    scores = {score.name: score.value for score in model.evaluate("test").scores}
    assert scores["F1"] > 93 and scores["complete match"] > 88, scores
    assert scores["repaired"] < 5, scores
    empty, parse = model.predict(["", "Ada slept ."])
    assert parse["tree"] == "(ROOT (S (NP (XX Ada)) (VP (XX slept)) (XX .)))" and not parse["repaired"]
    assert (empty["tree"], empty["tokens"], empty["repaired"]) == ("", [], False)
