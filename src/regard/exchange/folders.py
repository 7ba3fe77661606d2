"""The folders in which `transformers` keeps its models, whichever they are: a config.json and a model.safetensors."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from regard.errors import UserError
from regard.files import nearest_file, read_json, replacing, write_json

Tensors = dict[str, Tensor]
Config = dict[str, Any]

CONFIG, WEIGHTS, PICKLED = "config.json", "model.safetensors", "pytorch_model.bin"
TOKENIZER, TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"


def read_config(path: Path) -> Config:
    """What a config.json says."""
    if not path.exists():
        raise UserError(f"{path}: no such file", f"name a folder written by save_pretrained; {nearest_file(path)}")
    config = read_json(path)
    if not isinstance(config, dict):
        raise UserError(f"{path} holds no settings", "name a folder written by save_pretrained")
    return config


def check_fixed_values(config: Config, usual: Mapping[str, Any], path: Path, model: str) -> None:
    """Keys for which one value alone is the model that can be read; where they are not written, they have it."""
    for key, value in usual.items():
        if config.get(key, value) != value:
            raise UserError(
                f"{path}: {key} = {config[key]!r} is another model than {model}", f"only {key} = {value!r} can be read"
            )


def require_keys(config: Config, keys: Sequence[str], path: Path) -> None:
    """Keys that must be there."""
    if missing := [key for key in keys if key not in config]:
        raise UserError(f"{path} does not say {', '.join(missing)}", "name a folder written by save_pretrained")


@contextmanager
def reading_settings(path: Path, keys: Mapping[str, str]) -> Iterator[None]:
    """Turn what our settings say against a value into an error that calls it by their key."""
    try:
        yield
    except ValidationError as error:
        problem = error.errors()[0]
        key = keys.get(str(problem["loc"][0]), "") if problem["loc"] else ""
        given = f"{key} = {problem['input']!r}: " if key else ""
        raise UserError(f"{path}: {given}{problem['msg']}", "this model cannot be read") from error


def read_weights(path: Path) -> Tensors:
    """All tensors of a model.safetensors."""
    if not path.exists():
        pickled = path.with_name(PICKLED).exists()
        remedy = f"{PICKLED} can run programs when it is opened: load it with transformers and save_pretrained it again"
        raise UserError(f"{path}: no such file", remedy if pickled else nearest_file(path))
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} is damaged or cannot be read: {error}", "fetch it again") from error


def rename_weight(name: str, modules: Mapping[str, str]) -> str:
    """The name of a weight with each expression of `modules` replaced, one after another."""
    for ours, theirs in modules.items():
        name = re.sub(ours, theirs, name)
    return name


def pop_tensor(found: Tensors, key: str, shape: torch.Size, path: Path) -> Tensor | None:
    """Take `key` out of what was found, as single precision; None where it is not there."""
    tensor = found.pop(key, None)
    if tensor is not None and tensor.shape != shape:
        raise UserError(
            f"{path}: {key} is {tuple(tensor.shape)}, and by {CONFIG} it should be {tuple(shape)}",
            "the two files are not of the same model: fetch both again",
        )
    return None if tensor is None else tensor.float()


def require_weights(missing: list[str], path: Path) -> None:
    """Weights, by their names, without which a model is not whole."""
    if missing:
        raise UserError(
            f"{path} lacks {len(missing)} weights, the first is {missing[0]}",
            "fetch the model again, or save it again with save_pretrained",
        )


def require_new_folder(folder: Path) -> None:
    """What is there is never overwritten."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} is there already", "name a folder that does not exist yet")


@contextmanager
def new_folder(folder: Path, config: Config, weights: Tensors) -> Iterator[Path]:
    """Write a folder, whole or not at all; what else belongs into it is written to the place that is given."""
    require_new_folder(folder)
    with replacing(folder, folder=True) as place:
        write_json(place / CONFIG, config)
        tensors = {key: tensor.detach().cpu().contiguous() for key, tensor in weights.items()}
        save_file(tensors, place / WEIGHTS, metadata={"format": "pt"})
        yield place
