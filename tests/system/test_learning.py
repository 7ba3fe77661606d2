"""The real system learns something: sentences it has never seen come out backwards, in either norm and position."""

import random
from pathlib import Path

import pytest

from regard.config import build
from regard.recipe import TranslationRecipe
from regard.run import Translator, evaluate, train

WORDS = ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen"]


def write_reversals(folder: Path, part: str, count: int) -> None:
    rng = random.Random(part)
    with (folder / f"{part}.tsv").open("w", encoding="utf-8") as stream:
        for _ in range(count):
            sentence = rng.choices(WORDS, k=rng.randint(1, 5))
            print(" ".join(sentence), " ".join(reversed(sentence)), sep="\t", file=stream)


@pytest.mark.parametrize(
    ("norm", "positions", "schedule"), [("post", "sinusoidal", "inverse_sqrt"), ("pre", "rotary", "cosine")]
)
def test_a_transformer_learns_to_reverse(tmp_path: Path, norm: str, positions: str, schedule: str) -> None:
    for part, count in (("train", 4000), ("valid", 100), ("test", 300)):
        write_reversals(tmp_path, part, count)
    parts = {part: {"file": f"{part}.tsv"} for part in ("train", "valid", "test")}
    recipe = build(
        TranslationRecipe,
        {
            "name": "reverse",
            "data": {"root": str(tmp_path), "max_length": 16, "workers": 1, **parts},
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
    trained = train(recipe, tmp_path / "run", say=lambda text: None)
    translator = Translator.load(tmp_path / "run", device="cpu")
    result = evaluate(translator, trained.run.recipe.data.test, tmp_path)
    scores = {score.name: score.value for score in result.scores}
    assert scores["exact match"] >= 97, scores
    assert scores["BLEU"] > 95 and scores["perplexity"] < 1.5
    _, maps = translator.explain("ant bee cat")
    cross = next(each for each in maps if each.name == "cross")
    assert list(cross.columns)[-1] == "⟨/s⟩"
