"""regard score: cross-entropies equal those of single tokens; the scores choose pairs in regard clean."""

import gzip
import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from tests.cli.command import fails, regard
from tests.tiny import train_sentences, translate_words

from regard.data.pairs import pad_pairs
from regard.errors import UserError
from regard.run.model import Translator
from regard.run.scoring import cross_entropies, dual_score, exchange_sides, in_direction, score_pairs
from regard.tasks.languages import Languages
from regard.text.symbols import EOS


@pytest.fixture(scope="module")
def translator(trained: Path) -> Translator:
    return Translator.load(trained, device="cpu")


def pairs(count: int) -> list[dict[str, str]]:
    sources = list(dict.fromkeys(train_sentences()))[:count]
    return [{"src": source, "tgt": translate_words(source)} for source in sources]


def one_by_one(translator: Translator, src: str, tgt: str) -> float:
    """-log P(tgt | src) per token: each token from a pass over the ones before it."""
    task, total = translator.task, 0.0
    source, target = [*task.src_tokenizer.encode(src), EOS], [*task.tgt_tokenizer.encode(tgt), EOS]
    for place, token in enumerate(target):
        batch = pad_pairs(*((np.array(ids), np.array([len(ids)])) for ids in (source, target[: place + 1])))
        with torch.no_grad():
            logits = translator.model(batch.source, batch.target).logits()[0, -1].double()
        total -= float(torch.log(torch.softmax(logits, -1)[token]))
    return total / len(target)


def test_cross_entropies_equal_a_computation_token_by_token(translator: Translator) -> None:
    rows = [*pairs(5), {"src": "one two", "tgt": "sechs"}, {"src": "six", "tgt": "eins zwei drei vier"}]
    found = cross_entropies(translator, [{**row, "to": None} for row in rows])
    expected = [one_by_one(translator, row["src"], row["tgt"]) for row in rows]
    assert found == pytest.approx(expected, abs=1e-4)
    scores = [score for _, score in score_pairs(rows, translator)]
    assert scores == pytest.approx([math.exp(-value) for value in expected], abs=1e-4)


def test_the_confidence_of_a_translation_is_its_score(translator: Translator) -> None:
    sources = ["six two nine", "one nine two one", "three", "two six six six one"]
    predictions = list(translator.predict(sources))
    expected = [
        math.exp(-one_by_one(translator, source, prediction["translation"]))
        for source, prediction in zip(sources, predictions, strict=True)
    ]
    for found in (predictions, [prediction["hypotheses"][0] for prediction in predictions]):
        assert [item["confidence"] for item in found] == pytest.approx(expected, abs=1e-4)


def test_the_dual_score_prefers_agreement() -> None:
    assert dual_score(1.0, 1.0) == pytest.approx(math.exp(-1), abs=1e-6)
    assert dual_score(0.5, 1.5) == dual_score(1.5, 0.5) == pytest.approx(math.exp(-2), abs=1e-6)
    assert dual_score(math.inf, 1.0) == 0.0 == dual_score(math.inf, math.inf)


def test_scores_choose_the_good_pairs(trained: Path, tmp_path: Path) -> None:
    good = pairs(12)
    bad = [{"src": one["src"], "tgt": other["tgt"]} for one, other in zip(good, good[1:] + good[:1], strict=True)]
    for side, name in (("src", "a.en"), ("tgt", "a.de")):
        (tmp_path / name).write_text("".join(f"{row[side]}\n" for row in good + bad), encoding="utf-8")
    scored = tmp_path / "scored.tsv.gz"
    result = regard("score", trained, f"{tmp_path / 'a.en'},{tmp_path / 'a.de'}", "-o", scored, "--device", "cpu")
    assert result.status == 0, result.err
    with gzip.open(scored, "rt", encoding="utf-8") as stream:
        rows = [line.rstrip("\n").split("\t") for line in stream]
    assert rows[0] == ["src", "tgt", "score"] and len(rows) == 25
    scores = [float(row[2]) for row in rows[1:]]
    assert min(scores[:12]) > max(scores[12:])
    threshold, out = (min(scores[:12]) + max(scores[12:])) / 2, tmp_path / "out.tsv"
    off = "data.clean.near_duplicates=0"
    cleaned = regard("clean", scored, "--threshold", threshold, off, "data.max_ratio=0", "-o", out)
    assert cleaned.status == 0, cleaned.err
    kept = [line.split("\t")[:2] for line in out.read_text(encoding="utf-8").splitlines()[1:]]
    assert kept == [[row["src"], row["tgt"]] for row in good]


def test_empty_sides_have_the_score_zero_and_files_are_checked(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("one\teins\n\tzwei\n", encoding="utf-8")
    out = tmp_path / "b.tsv"
    result = regard("score", trained, tmp_path / "a.tsv", "-o", out, "--backward", trained, "--device", "cpu", "--json")
    assert result.status == 0 and "score 0" in result.err, result.err
    assert json.loads(result.out) == {"pairs": 2, "zeros": 1, "output": str(out)}
    assert out.read_text(encoding="utf-8").splitlines()[-1] == "\tzwei\t0.0"
    assert fails("score", trained, tmp_path / "a.tsv", "-o", tmp_path / "a.tsv").code == "overwrites-input"
    assert fails("score", trained, tmp_path / "a.tsv", "-o", tmp_path / "a.xlsx").code == "unsupported-file"


def test_pairs_are_scored_only_in_a_trained_direction(translator: Translator) -> None:
    languages = Languages((("en", "de"), ("de", "en"), ("en", "fr"), ("fr", "en")), {"de": 5, "en": 6, "fr": 7})
    task, pair = cast(Any, SimpleNamespace(languages=languages)), {"src": "one", "tgt": "eins"}
    assert in_direction(task, pair, "en", "DE") == {**pair, "to": "de"}
    assert in_direction(task, exchange_sides(pair), "de", None) == {"src": "eins", "tgt": "one", "to": "en"}
    assert in_direction(task, {**pair, "from": "en", "to": "fr"}, "en", "de")["to"] == "fr"
    assert in_direction(translator.task, pair, "en", "de")["to"] is None  # this model names no languages
    for source, target in (("de", "fr"), ("en", "en"), ("en", "xx"), ("de", "de")):
        with pytest.raises(UserError) as error:
            in_direction(task, pair, source, target)
        assert "en-de, de-en" in error.value.remedy
