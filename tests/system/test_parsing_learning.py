"""Translators learn to parse: sentences of a small grammar that they have never seen get the right trees."""

from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from regard.config import build
from regard.data.builtin import sample_trees
from regard.recipe import ParsingRecipe
from regard.run import Parser, train
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
    """Sentences of at most five words, none of them in two parts."""
    short = (tree for tree in sample_trees("short") if len(words(tree)) <= 5)
    made = list({tuple(words(tree)): tree for tree in islice(short, 12_000)}.values())
    for part, chosen in (("train", made[:-300]), ("valid", made[-300:-200]), ("test", made[-200:])):
        (folder / f"{part}.ptb").write_text("".join(f"{to_brackets(tree)}\n" for tree in chosen), encoding="utf-8")


@pytest.mark.parametrize("model", ["transformer", "recurrent"])
def test_unseen_sentences_get_their_trees(tmp_path: Path, model: str) -> None:
    write_treebanks(tmp_path)
    parts = {part: {"file": f"{part}.ptb"} for part in ("train", "valid", "test")}
    recipe = build(
        ParsingRecipe,
        {
            "name": "short",
            "task": "parsing",
            "data": {"root": str(tmp_path), "max_length": 48, "workers": 1, **parts},
            "text": {"kind": "word", "vocab_size": 400},
            "model": MODELS[model],
            "training": dict(
                batch_tokens=384, schedule="cosine", warmup=40, clip=1.0, label_smoothing=0.0, **TRAINING[model]
            ),
            "decoding": {"beam": 4, "extra_length": 40},
            "runtime": {"device": "cpu", "threads": 1},
        },
        "test",
    )
    trained = train(recipe, tmp_path / "run", say=lambda text: None)
    assert trained.outcome.metrics["f1"] == trained.outcome.best
    parser = Parser.load(tmp_path / "run", device="cpu")
    found = parser.evaluate(recipe.data.test, tmp_path)
    scores = {score.name: score.value for score in found.scores}
    assert scores["F1"] > 93 and scores["complete match"] > 88, scores
    assert scores["repaired"] < 5, scores
    nothing, parse = parser.parse(["", "Ada slept ."])
    assert parse.brackets == "(ROOT (S (NP (XX Ada)) (VP (XX slept)) (XX .)))" and not parse.repaired
    assert (nothing.brackets, nothing.words, nothing.repaired) == ("", [], False)
