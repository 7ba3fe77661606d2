"""Ensembles: the shortest limits of length hold, and all models predict token by token."""

from pathlib import Path
from typing import Any

import pytest

from regard.errors import UserError
from regard.run.model import Translator
from regard.run.train import train
from regard.tasks.registry import build_recipe

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
    train(build_recipe(values, "test"), folder / name, report=lambda text: None)
    return folder / name


@pytest.fixture
def unlimited(tmp_path: Path) -> Path:
    (tmp_path / "a.tsv").write_text("ab\tba\ncd\tdc\nabc\tcba\n", encoding="utf-8")
    return trained(tmp_path, "unlimited", SIZES)


def test_the_model_with_the_fewest_positions_limits_the_length(unlimited: Path, tmp_path: Path) -> None:
    bounded = trained(tmp_path, "bounded", SIZES | {"positions": "learned", "max_positions": 20})
    recurrent = trained(tmp_path, "recurrent", dict(kind="recurrent", d_model=8, d_embedding=8))
    for runs in ([unlimited, bounded], [bounded, unlimited], [recurrent, unlimited, bounded]):
        prediction = Translator.load(*runs, device="cpu").predict("abcabcabc", temperature=50.0)
        assert not prediction["finished"] and len(prediction["hypotheses"][0]["tokens"]) == 20


def test_a_masked_model_cannot_be_in_an_ensemble(unlimited: Path, tmp_path: Path) -> None:
    masked = trained(tmp_path, "masked", SIZES | {"kind": "mask-predict"}, "mask_predict")
    for runs in ([unlimited, masked], [masked, unlimited], [masked, masked]):
        with pytest.raises(UserError) as error:
            Translator.load(*runs, device="cpu").translate("ab")
        assert (error.value.code, error.value.where) == ("unsupported", "run")
