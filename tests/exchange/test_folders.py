"""Folders of transformers, for any model: new folders, keys, tensors, names."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.config import Field, Settings
from regard.errors import UserError
from regard.exchange.folders import (
    check_fixed_values,
    new_folder,
    pop_tensor,
    read_config,
    read_weights,
    reading_settings,
    require_keys,
    require_new_folder,
    require_weights,
)
from regard.training.weights import rename


def refused(call: object, *arguments: object) -> tuple[str, str]:
    """The code and the place of the error of a call."""
    assert callable(call)
    with pytest.raises(UserError) as error:
        call(*arguments)
    return error.value.code, str(error.value.where)


def test_only_a_missing_or_empty_folder_is_written(tmp_path: Path) -> None:
    weights = {"a": torch.arange(4.0).view(2, 2).t()}
    for name in ("missing", "empty"):
        folder = tmp_path / name
        if name == "empty":
            folder.mkdir()
        with new_folder(folder, {"model_type": "bert"}, weights) as path:
            (path / "extra.txt").write_text("more")
        assert sorted(file.name for file in folder.iterdir()) == ["config.json", "extra.txt", "model.safetensors"]
        assert json.loads((folder / "config.json").read_text()) == {"model_type": "bert"}
        assert torch.equal(load_file(folder / "model.safetensors")["a"], weights["a"])
        assert refused(require_new_folder, folder) == ("folder-exists", str(folder))
    (tmp_path / "file").touch()
    assert refused(require_new_folder, tmp_path / "file") == ("folder-exists", str(tmp_path / "file"))


def test_a_folder_that_could_not_be_completed_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), new_folder(tmp_path / "out", {}, {}):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_config_files(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    assert refused(read_config, path) == ("missing-file", str(path))
    path.write_text("[1]")
    assert refused(read_config, path) == ("damaged-file", str(path))
    path.write_text('{"a": 1}')
    assert read_config(path) == {"a": 1}


def test_keys_and_values() -> None:
    path = Path("config.json")
    check_fixed_values({"act": "gelu", "other": 3}, {"act": "gelu", "absent": True}, path, "BERT")
    assert refused(check_fixed_values, {"act": "relu"}, {"act": "gelu"}, path, "BERT") == (
        "unsupported",
        "config.json:act",
    )
    require_keys({"a": None, "b": 1}, ["a", "b"], path)
    assert refused(require_keys, {"a": 1}, ["a", "b", "c"], path) == ("damaged-file", "config.json:b")


class Shape(Settings):
    """Settings with a bound."""

    layers: int = Field(1, gt=0)


def test_a_setting_out_of_bounds_is_reported_by_its_key() -> None:
    def read(value: object, keys: dict[str, str]) -> None:
        with reading_settings(Path("config.json"), keys):
            Shape.model_validate({"layers": value})

    read(2, {})
    assert refused(read, 0, {"layers": "num_layers"}) == ("unsupported", "config.json:num_layers")
    assert refused(read, 0, {}) == ("unsupported", "config.json")


def test_weights_files(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    with pytest.raises(UserError) as error:
        read_weights(path)
    assert error.value.code == "missing-file" and "pytorch_model.bin" not in error.value.remedy
    (tmp_path / "pytorch_model.bin").touch()
    with pytest.raises(UserError) as error:
        read_weights(path)
    assert error.value.code == "missing-file" and "pytorch_model.bin" in error.value.remedy
    path.write_bytes(b"no tensors")
    assert refused(read_weights, path) == ("damaged-file", str(path))
    save_file({"a": torch.ones(2)}, path)
    assert read_weights(path)["a"].tolist() == [1.0, 1.0]


def test_tensors_are_taken_once_in_single_precision() -> None:
    tensors, path = {"a": torch.ones(2, dtype=torch.float16), "b": torch.ones(3)}, Path("m")
    taken = pop_tensor(tensors, "a", torch.Size([2]), path)
    assert taken is not None and taken.dtype == torch.float32 and list(tensors) == ["b"]
    assert pop_tensor(tensors, "a", torch.Size([2]), path) is None
    assert refused(pop_tensor, tensors, "b", torch.Size([2]), path) == ("damaged-file", "m:b")
    require_weights([], path)
    assert refused(require_weights, ["x", "y"], path) == ("damaged-file", "m:x")


def test_names_are_replaced_one_after_another() -> None:
    assert rename("a.0.w", {r"^a": "b", r"^b\.(\d)": r"c\1"}) == "c0.w"
