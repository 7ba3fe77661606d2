"""Hostile folders of other programs: an import is refused with a UserError, or works; nothing else happens."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.exchange.sentencepiece_files import write_model
from tests.exchange.test_exchange_bert import vocabulary
from tests.exchange.test_exchange_marian import vocabularies, written
from tests.hostile import hostile_versions

from regard.errors import UserError
from regard.exchange.bert import SEQUENCE_CLASSIFICATION, FineTunedBert, write_finetuned
from regard.exchange.folders import open_model, read_config
from regard.models.bert import BertSettings
from regard.models.text_encoder import EncoderWithHead, build_encoder
from regard.run.importing import READERS, import_model
from regard.tasks.registry import build_recipe
from regard.training.weights import weights_of

SETTINGS = BertSettings(size="tiny", d_model=16, num_heads=4, d_ff=24, layers=2, max_positions=16)


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    """A small classifier as transformers writes it."""
    torch.manual_seed(1)
    tokenizer = vocabulary()
    model = EncoderWithHead(build_encoder(SETTINGS, len(tokenizer)), 2, True, 0.0)
    finetuned = FineTunedBert(SEQUENCE_CLASSIFICATION, ("good", "bad"), SETTINGS, weights_of(model))
    write_finetuned(tmp_path / "bert", finetuned, tokenizer)
    return tmp_path / "bert"


@pytest.fixture
def marian(tmp_path: Path) -> Path:
    """A small translation model with our tokenizers."""
    written(tmp_path / "marian", vocabularies(joint=True), encoder_layers=1, decoder_layers=1)
    return tmp_path / "marian"


def read(source: Path) -> None:
    """What an import reads before it writes."""
    config = read_config(source / "config.json")
    reader = READERS.get(str(config.get("model_type")))
    if reader is not None:
        build_recipe({"name": "x"} | reader(open_model(source)).values, str(source))


def failures(folder: Path, values_each: int) -> list[str]:
    """The hostile versions of JSON files that the import fails on with anything but a UserError."""
    failed = []
    for path in sorted(folder.glob("*.json")):
        text = path.read_text(encoding="utf-8")
        for name, version in hostile_versions(text, values_each):
            path.write_text(version, encoding="utf-8")
            try:
                read(folder)
            except UserError as error:
                assert error.code and error.problem
            except Exception as error:
                failed.append(f"{path.name}: {name}: {type(error).__name__}: {error}")
        path.write_text(text, encoding="utf-8")
    return failed


def test_hostile_json_of_a_bert(bert: Path) -> None:
    assert not failures(bert, 3)
    import_model(bert, bert.with_name("run"))


def test_hostile_json_of_a_marian(marian: Path) -> None:
    assert not failures(marian, 1)
    import_model(marian, marian.with_name("run"))


def refused(folder: Path, changes: dict[str, Any], name: str = "config.json") -> tuple[str, str]:
    """The code and place of the error that changes of config.json give."""
    path = folder / name
    text = path.read_text(encoding="utf-8")
    path.write_text(json.dumps(json.loads(text) | changes), encoding="utf-8")
    with pytest.raises(UserError) as error:
        import_model(folder, folder.with_name("run"))
    path.write_text(text, encoding="utf-8")
    assert not folder.with_name("run").exists()
    return error.value.code, error.value.where


@pytest.mark.parametrize("value", [None, {}, -1, 0, 1e30, 10**30, "x", True])
def test_counts_of_config_json_are_checked(bert: Path, marian: Path, value: object) -> None:
    for folder in (bert, marian):
        code, where = refused(folder, {"vocab_size": value})
        assert (code, where) == ("damaged-file", f"{folder / 'config.json'}:vocab_size")
    if value is not None:  # null is no value
        keys = {bert: "unsupported", marian: "damaged-file"}
        for folder, expected in keys.items():
            code, where = refused(folder, {"max_position_embeddings": value})
            assert (code, where) == (expected, f"{folder / 'config.json'}:max_position_embeddings")
        path = marian / "generation_config.json"
        assert refused(marian, {"num_beams": value}, path.name) == ("damaged-file", f"{path}:num_beams")


def test_a_model_of_endless_layers_is_refused_at_once(bert: Path, marian: Path) -> None:
    for folder, key in ((bert, "num_hidden_layers"), (marian, "decoder_layers"), (bert, "hidden_size")):
        assert refused(folder, {key: 10**12}) == ("unsupported", f"{folder / 'config.json'}:{key}")


def test_labels_of_config_json_are_checked(bert: Path) -> None:
    where = f"{bert / 'config.json'}:id2label"
    hostile: list[Any] = [
        [[]],
        ["good", "bad"],
        {"0": 1, "1": 2},
        {"0": "good"},
        {"0": "x", "1": "x"},
        {"1": "a", "2": "b"},
    ]
    for value in hostile:
        code, place = refused(bert, {"id2label": value})
        assert code == "damaged-file" and place.startswith(where)
    assert refused(bert, {"id2label": {"0": "\ud800", "1": "x"}}) == ("damaged-file", str(bert / "config.json"))
    assert refused(bert, {"architectures": 3}) == ("damaged-file", f"{bert / 'config.json'}:architectures")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json"])
@pytest.mark.parametrize("kind", ["zero", "pipe", "folder"])
def test_devices_pipes_and_folders_are_refused(bert: Path, name: str, kind: str) -> None:
    path = bert / name
    path.unlink()
    if kind == "zero":
        path.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(UserError) as error:
        import_model(bert, bert.with_name("run"))
    assert (error.value.code, error.value.where) == ("not-a-file", str(path))


def test_damaged_sentencepiece_files_are_refused(tmp_path: Path) -> None:
    from regard.exchange.sentencepiece import read_sentencepiece

    write_model(tmp_path / "source.spm", {"▁a": -1.0, "b": -2.0})
    content = (tmp_path / "source.spm").read_bytes()
    for position in range(len(content)):
        for byte in (0, 0x7F, 0xFF, content[position] ^ 8):
            (tmp_path / "x.spm").write_bytes(content[:position] + bytes([byte]) + content[position + 1 :])
            try:
                read_sentencepiece(tmp_path / "x.spm")
            except UserError as error:
                assert (error.code, error.where) == ("damaged-file", str(tmp_path / "x.spm"))


@pytest.mark.filterwarnings("ignore")  # transformers' own deprecations are not ours to mend
def test_hostile_json_of_other_families(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from tests.exchange import test_exchange_encoders, test_exchange_gpt2, test_exchange_t5

    test_exchange_encoders.saved("Roberta", "classification", tmp_path / "roberta")
    test_exchange_encoders.saved("DistilBert", "tagging", tmp_path / "distilbert")
    test_exchange_gpt2.saved(tmp_path / "gpt2")
    test_exchange_t5.saved(tmp_path / "t5", spm=True)
    for folder in sorted(tmp_path.iterdir()):
        assert not failures(folder, 1), folder.name
