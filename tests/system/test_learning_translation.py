"""A Transformer learns to reverse sentences that it has not seen, with both norms and two kinds of positions."""

import random
from pathlib import Path

import pytest
from tests.system.helpers import train_quietly

from regard.run.model import Translator
from regard.tasks.registry import build_recipe

WORDS = ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen"]


def write_reversals(folder: Path, split: str, count: int) -> None:
    rng = random.Random(split)
    with (folder / f"{split}.tsv").open("w", encoding="utf-8") as stream:
        for _ in range(count):
            sentence = rng.choices(WORDS, k=rng.randint(1, 5))
            print(" ".join(sentence), " ".join(reversed(sentence)), sep="\t", file=stream)


@pytest.mark.parametrize(
    ("norm", "positions", "schedule"), [("post", "sinusoidal", "inverse_sqrt"), ("pre", "rotary", "cosine")]
)
def test_transformer_learns_to_reverse(tmp_path: Path, norm: str, positions: str, schedule: str) -> None:
    for split, count in (("train", 4000), ("valid", 100), ("test", 300)):
        write_reversals(tmp_path, split, count)
    files = {split: {"file": f"{split}.tsv"} for split in ("train", "valid", "test")}
    recipe = build_recipe(
        {
            "name": "reverse",
            "data": {"root": str(tmp_path), "max_length": 16, "workers": 1, **files},
            "text": {"kind": "word", "vocab_size": 300},
            "model": dict(size="tiny", d_model=64, num_heads=4, d_ff=128, dropout=0.0, norm=norm, positions=positions),
            "training": dict(
                max_steps=450, batch_tokens=512, schedule=schedule, learning_rate=3e-3, warmup=60,
                validate_every=450, monitor="exact_match", ema=0.98,
            ),
            "decoding": {"beam": 4, "extra_length": 3},
            "runtime": {"device": "cpu", "threads": 1},
        },
        "test",
    )  # fmt: skip
    train_quietly(recipe, tmp_path / "run")
    translator = Translator.load(tmp_path / "run", device="cpu")
    scores = {score.name: score.value for score in translator.evaluate("test").scores}
    assert scores["exact match"] >= 97, scores
    assert scores["BLEU"] > 95 and scores["perplexity"] < 1.5
    explanation = translator.explain("ant bee cat")
    cross = next(item for item in explanation.maps if item.name == "cross")
    assert list(cross.columns)[-1] == "⟨/s⟩"
