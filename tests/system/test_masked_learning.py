"""A masked model learns a language in which every word is said twice, length and all, and writes it in one pass."""

import random
from pathlib import Path

import pytest

from regard.config import build
from regard.recipe import TranslationRecipe
from regard.run import Translator, train

LETTERS = "abcde"


def write_doubles(folder: Path, part: str, count: int) -> list[tuple[str, str]]:
    rng, pairs = random.Random(part), []
    for _ in range(count):
        digits = rng.choices(range(len(LETTERS)), k=rng.randint(1, 4))
        pairs.append((" ".join(map(str, digits)), " ".join(f"{LETTERS[d]} {LETTERS[d]}" for d in digits)))
    (folder / f"{part}.tsv").write_text("".join(f"{src}\t{tgt}\n" for src, tgt in pairs), encoding="utf-8")
    return pairs


def test_a_masked_model_learns_words_and_lengths(tmp_path: Path) -> None:
    pairs = {
        part: write_doubles(tmp_path, part, count) for part, count in (("train", 3000), ("valid", 40), ("test", 150))
    }
    recipe = build(
        TranslationRecipe,
        {
            "name": "doubles",
            "data": {
                "root": str(tmp_path), "max_length": 16, "workers": 1, "drop_duplicates": False,
                "train": {"file": "train.tsv"}, "valid": {"file": "valid.tsv"},
            },
            "text": {"kind": "word", "vocab_size": 300},
            "model": dict(
                kind="masked", size="tiny", d_model=64, num_heads=4, d_ff=128, dropout=0.0, norm="pre", max_length=16
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
    train(recipe, tmp_path / "run", say=lambda text: None)
    translator = Translator.load(tmp_path / "run", device="cpu")
    sources, references = [src for src, _ in pairs["test"]], [tgt for _, tgt in pairs["test"]]
    for iterations in (1, 4):
        outputs = translator.translate(sources, iterations=iterations)
        exact = sum(output == reference for output, reference in zip(outputs, references, strict=True))
        assert exact >= 0.97 * len(references), (iterations, exact)
    likeliest = translator.translate(sources, length_candidates=1)
    lengths = [(len(mine.split()), len(text.split())) for mine, text in zip(likeliest, references, strict=True)]
    assert sum(mine == true for mine, true in lengths) >= 0.97 * len(lengths), "the likeliest length is the right one"
    prediction, maps = translator.explain("3 1 4")
    assert prediction.text == "d d b b e e"
    assert {each.name for each in maps} == {"encoder", "decoder", "cross"}
    decoder = next(each for each in maps if each.name == "decoder")
    assert list(decoder.rows) == list(decoder.columns), "every place looks at the words themselves"
    assert next(translator.predict(["3 1 4"], prefixes=["d"])).text == "d d b b e e"


@pytest.mark.parametrize("search", ["beam", "greedy"])
def test_a_search_word_by_word_is_refused_before_training(search: str) -> None:
    data = {"train": {"file": "train.tsv"}, "valid": {"file": "valid.tsv"}}
    values = {"name": "doubles", "data": data, "model": {"kind": "masked"}, "decoding": {"search": search}}
    with pytest.raises(Exception, match="mask_predict"):
        build(TranslationRecipe, values, "test")
