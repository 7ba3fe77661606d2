"""A masked model learns to write every word twice: the words and the lengths, in one pass."""

import random
from pathlib import Path

import pytest
from tests.system.helpers import train_quietly

from regard.errors import UserError
from regard.run.model import Translator
from regard.tasks.registry import build_recipe

LETTERS = "abcde"


def write_doubles(folder: Path, split: str, count: int) -> list[tuple[str, str]]:
    rng, pairs = random.Random(split), []
    for _ in range(count):
        digits = rng.choices(range(len(LETTERS)), k=rng.randint(1, 4))
        pairs.append((" ".join(map(str, digits)), " ".join(f"{LETTERS[d]} {LETTERS[d]}" for d in digits)))
    (folder / f"{split}.tsv").write_text("".join(f"{src}\t{tgt}\n" for src, tgt in pairs), encoding="utf-8")
    return pairs


def test_masked_model_learns_words_and_lengths(tmp_path: Path) -> None:
    pairs = {
        split: write_doubles(tmp_path, split, count) for split, count in (("train", 3000), ("valid", 40), ("test", 150))
    }
    recipe = build_recipe(
        {
            "name": "doubles",
            "data": {
                "root": str(tmp_path), "max_length": 16, "workers": 1, "drop_duplicates": False,
                "train": {"file": "train.tsv"}, "valid": {"file": "valid.tsv"},
            },
            "text": {"kind": "word", "vocab_size": 300},
            "model": dict(
                kind="mask-predict", size="tiny", d_model=64, num_heads=4, d_ff=128, dropout=0.0, norm="pre",
                max_length=16,
            ),
            "training": dict(
                max_steps=450, batch_tokens=384, schedule="cosine", learning_rate=3e-3, warmup=60,
                validate_every=450, monitor="exact_match", label_smoothing=0.0, ema=0.98,
            ),
            "decoding": {"iterations": 4, "length_candidates": 3},
            "runtime": {"device": "cpu", "threads": 1},
        },
        "test",
    )  # fmt: skip
    train_quietly(recipe, tmp_path / "run")
    translator = Translator.load(tmp_path / "run", device="cpu")
    sources, references = [src for src, _ in pairs["test"]], [tgt for _, tgt in pairs["test"]]
    for iterations in (1, 4):
        outputs = translator.translate(sources, iterations=iterations)
        exact = sum(output == reference for output, reference in zip(outputs, references, strict=True))
        assert exact >= 0.97 * len(references), (iterations, exact)
    outputs = translator.translate(sources, length_candidates=1)
    lengths = [(len(output.split()), len(text.split())) for output, text in zip(outputs, references, strict=True)]
    assert sum(predicted == true for predicted, true in lengths) >= 0.97 * len(lengths), "the most probable length"
    explanation = translator.explain("3 1 4")
    assert explanation.prediction["translation"] == "d d b b e e"
    assert {item.name for item in explanation.maps} == {"encoder", "decoder", "cross"}
    decoder = next(item for item in explanation.maps if item.name == "decoder")
    assert list(decoder.rows) == list(decoder.columns), "the decoder reads the words themselves"
    (prediction,) = translator.predict([{"src": "3 1 4", "prefix": "d"}])
    assert prediction["translation"] == "d d b b e e"


@pytest.mark.parametrize("search", ["beam", "greedy"])
def test_masked_model_accepts_no_other_search(search: str) -> None:
    data = {"train": {"file": "train.tsv"}, "valid": {"file": "valid.tsv"}}
    values = {"name": "doubles", "data": data, "model": {"kind": "mask-predict"}, "decoding": {"search": search}}
    with pytest.raises(UserError) as error:
        build_recipe(values, "test")
    assert (error.value.code, error.value.where) == ("invalid-setting", "decoding.search")
