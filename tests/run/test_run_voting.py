"""Runs that vote on one text: as long as all of them can read and write, and only those that write word by word."""

from pathlib import Path
from typing import Any

import pytest

from regard.config import build
from regard.errors import UserError
from regard.recipe import TranslationRecipe
from regard.run import Translator, train

SIZES = dict(size="tiny", d_model=16, num_heads=2, d_ff=16, encoder_layers=1, decoder_layers=1)


def trained(folder: Path, name: str, model: dict[str, Any], search: str = "greedy") -> Path:
    values = {
        "name": name,
        "data": {"root": str(folder), "train": {"file": "a.tsv"}, "valid": {"file": "a.tsv"}, "max_length": 16},
        "text": {"kind": "char", "vocab_size": 300},
        "model": model,
        "training": dict(max_steps=2, batch_tokens=64, warmup=1, schedule="constant", learning_rate=1e-3, samples=0),
        "decoding": {"search": search},
        "runtime": {"device": "cpu", "threads": 1},
    }
    train(build(TranslationRecipe, values, "test"), folder / name, say=lambda text: None)
    return folder / name


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    (tmp_path / "a.tsv").write_text("ab\tba\ncd\tdc\nabc\tcba\n", encoding="utf-8")
    return trained(tmp_path, "endless", SIZES)


def test_nobody_is_asked_for_more_words_than_it_has_positions_for(endless: Path, tmp_path: Path) -> None:
    bounded = trained(tmp_path, "bounded", SIZES | {"positions": "learned", "max_positions": 20})
    recurrent = trained(tmp_path, "recurrent", dict(kind="recurrent", d_model=8, d_embedding=8))
    for runs in ([endless, bounded], [bounded, endless], [recurrent, endless, bounded]):
        found = next(Translator.load(*runs, device="cpu").predict(["abcabcabc"], temperature=50.0)).hypotheses[0]
        assert not found.finished and len(found.tokens) == 20


def test_a_model_that_writes_all_words_at_once_has_no_vote(endless: Path, tmp_path: Path) -> None:
    masked = trained(tmp_path, "masked", SIZES | {"kind": "masked"}, "mask_predict")
    for runs in ([endless, masked], [masked, endless], [masked, masked]):
        with pytest.raises(UserError) as error:
            Translator.load(*runs, device="cpu")
        assert (error.value.code, error.value.where) == ("unsupported", "run")
