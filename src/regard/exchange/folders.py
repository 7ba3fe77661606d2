"""Folders of Hugging Face `transformers`, for any model: config.json, and weights in one of several formats.

*.safetensors       tensors by name, of 16 or 32 bits
*.onnx              tensors of a graph, also quantized
pytorch_model.bin   a pickle, which can hold code: read only when asked, and then only its tensors

An ONNX file has the weights of an encoder by their names in the model that was exported from torch: those of biases,
norms and embeddings. A matrix of a linear layer may lose its name: its transpose is a constant of a node, and the name
of the node is the path of the layer:

    /bert/encoder/layer.0/attention/self/query/MatMul   x W^T, with the constant W^T   -> bert...query.weight = W

ONNX Runtime writes a quantized weight as three constants, name_quantized, name_scale and name_zero_point, with one
scale for the whole matrix or for each column:

    w = scale (q - zero_point)

Only weights are read, not the graph: config.json says what the model is. A graph with fused layers has lost the names,
and is refused because weights are missing.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from regard.config import SettingError
from regard.errors import UserError
from regard.files import JsonObject, default_permissions, replacing, write_json
from regard.reading import check_type, nearest_file, read_json, read_toml, require_regular
from regard.training.weights import Tensors as Tensors

if TYPE_CHECKING:
    from onnx import GraphProto

Config = JsonObject
NAMES: JsonObject = read_toml(Path(__file__).with_name("names.toml"))
"""What other libraries call settings and weights, by model."""
CONFIG, WEIGHTS, PICKLED = "config.json", "model.safetensors", "pytorch_model.bin"
TOKENIZER, TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"
DOWNLOAD_AGAIN = "download the model again"
MAX_COUNT = 1 << 24
"""Largest vocabulary, number of positions or beam that is read."""
ACTIVATIONS = {"swish": "silu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}
"""Activation functions that have another name here."""
ONNX = "model.onnx"
PRODUCTS = ("MatMul", "MatMulInteger", "Gemm")
LAYER = re.compile(r"^/(.+)/(?:Gemm_)?(?:MatMul|Gemm)(?:_quant)?$")
"""The path of a layer in the name of a node."""
QUANTIZED, SCALE, ZERO = "_quantized", "_scale", "_zero_point"
WORDS = re.compile(r"^(.*?)((?:roberta|distilbert|bert)\.)?embeddings\.word_embeddings\.weight$")
"""The names of the word vectors: what was put around the model, and the name of the encoder in it."""
HEADS = ("cls.", "lm_head.", "vocab_", "classifier.", "pre_classifier.", "qa_outputs.", "pooler.")
"""Modules of the classes of transformers outside of the encoder."""
T = TypeVar("T")


def damaged(problem: str, where: Path | str, remedy: str = DOWNLOAD_AGAIN) -> UserError:
    return UserError(problem, remedy, code="damaged-file", where=where)


def unsupported(problem: str, where: Path | str, remedy: str) -> UserError:
    return UserError(problem, remedy, code="unsupported", where=where)


def read_config(path: Path) -> Config:
    if not path.exists():
        remedy = f"choose a folder written by `save_pretrained`; {nearest_file(path)}"
        raise UserError(f"{path}: no such file", remedy, code="missing-file", where=path)
    return read_json(path, Config)


def read_value(config: Config, key: str, kind: type[T], default: T, path: Path) -> T:
    """The value of a key, checked; `default` if the key is missing or null."""
    value = config.get(key)
    return default if value is None else check_type(value, kind, f"{path}:{key}")


def read_count(config: Config, key: str, default: int | None, path: Path) -> int:
    """A positive number that is not larger than any model has; `default`, if there is one, for a missing key."""
    value = read_value(config, key, int, default or 0, path)
    if not 0 < value <= MAX_COUNT:
        raise damaged(f"{path}: {key} = {config.get(key)!r} is not a number from 1 to {MAX_COUNT:,}", f"{path}:{key}")
    return value


def check_fixed_values(config: Config, fixed: Mapping[str, object], path: Path, model: str) -> None:
    """Raise an error if a key has another value than the one that is supported. A missing key has that value."""
    for key, value in fixed.items():
        if config.get(key, value) != value:
            problem = f"{path}: {key} = {config[key]!r} is not supported for {model}"
            raise unsupported(problem, f"{path}:{key}", f"choose a model with {key} = {value!r}")


def require_keys(config: Config, keys: Sequence[str], path: Path) -> None:
    if missing := [key for key in keys if key not in config]:
        problem = f"{path} has no {', '.join(missing)}"
        raise damaged(problem, f"{path}:{missing[0]}", "choose a folder written by `save_pretrained`")


@contextmanager
def reading_settings(path: Path, keys: Mapping[str, str]) -> Iterator[None]:
    """Replace a validation error of our settings by one that names the key of config.json."""
    try:
        yield
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        cause = first.get("ctx", {}).get("error")
        name = cause.key if isinstance(cause, SettingError) else str(first["loc"][0]) if first["loc"] else ""
        key = keys.get(name, "")
        problem = f"{path}: {f'{key}: ' if key else ''}{cause or first['msg']}"
        raise unsupported(problem, f"{path}:{key}" if key else path, "choose a different model") from error


def read_weights(path: Path) -> Tensors:
    """All tensors of a model.safetensors."""
    if not path.exists():
        pickled = path.with_name(PICKLED).exists()
        remedy = (
            f"{PICKLED} is a pickle, which can hold code: add `--allow-pickle` to read only the tensors, or load it "
            "with transformers and save it with `save_pretrained`"
        )
        raise UserError(
            f"{path}: no such file", remedy if pickled else nearest_file(path), code="missing-file", where=path
        )
    require_regular(path)
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise damaged(f"{path} is damaged or cannot be read: {error}", path) from error


def read_pickled(path: Path) -> Tensors:
    """All tensors of a pytorch_model.bin; anything in it that is not a tensor is refused, not executed."""
    require_regular(path)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # pickle and torch raise many kinds
        raise damaged(f"{path} is damaged, or holds more than tensors: {error}", path) from error
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise damaged(f"{path} holds more than tensors by name", path)
    return {str(name): tensor for name, tensor in content.items()}


def activation_name(name: object) -> object:
    return ACTIVATIONS.get(name, name) if isinstance(name, str) else name


def huggingface_activation(name: str) -> str:
    return "gelu_new" if name == "gelu_tanh" else name


def pop_tensor(tensors: Tensors, key: str, shape: torch.Size, path: Path) -> Tensor | None:
    """Remove `key` from the tensors and return it in float32, checked; None if it is missing."""
    tensor = tensors.pop(key, None)
    if tensor is None:
        return None
    if tensor.shape != shape:
        problem = f"{path}: {key} has shape {tuple(tensor.shape)}, but {CONFIG} says {tuple(shape)}"
        raise damaged(problem, f"{path}:{key}", f"the two files belong to different models: {DOWNLOAD_AGAIN}")
    if not tensor.is_floating_point() or not bool(tensor.float().isfinite().all()):
        problem = f"{path}: {key} contains NaN, infinite or non-float values ({tensor.dtype})"
        raise UserError(problem, DOWNLOAD_AGAIN, code="not-finite", where=f"{path}:{key}")
    return tensor.float()


def pop_tensors(
    tensors: Tensors,
    expected: Mapping[str, torch.Size],
    name_of: Callable[[str], str],
    path: Path,
    optional: Sequence[str] = (),
) -> Tensors:
    """Remove the expected weights, which the file names by `name_of`; return them by our names.

    A module whose prefix is in `optional` may be missing completely.
    """
    popped = {name: pop_tensor(tensors, name_of(name), shape, path) for name, shape in expected.items()}
    weights = {name: tensor for name, tensor in popped.items() if tensor is not None}
    absent = tuple(module for module in optional if not any(name.startswith(module) for name in weights))
    require_weights([name_of(name) for name in expected if name not in weights and not name.startswith(absent)], path)
    return weights


def require_weights(missing: list[str], path: Path) -> None:
    """Raise an error if weights are missing, given by their names in the file."""
    if missing:
        problem = f"{path} lacks {len(missing)} weights, the first is {missing[0]}"
        raise damaged(problem, f"{path}:{missing[0]}", f"{DOWNLOAD_AGAIN}, or save it again with save_pretrained")


def refuse_weights(extra: Iterable[str], path: Path, remedy: str) -> None:
    """Raise an error if a file has weights that the model does not have, given by their names."""
    if names := list(extra):
        problem = f"{path} contains {len(names)} unknown weights, the first is {names[0]}"
        raise unsupported(problem, f"{path}:{names[0]}", remedy)


def find_tokenizer(folder: Path, vocabulary: str, merges: str = "") -> Path:
    """The vocabulary in a folder, or else its tokenizer.json, which has everything."""
    path = folder / (vocabulary if (folder / vocabulary).exists() else TOKENIZER)
    if not path.exists():
        files = f"{vocabulary} and {merges}" if merges else vocabulary
        problem = f"{folder} has no tokenizer: neither {files} nor {TOKENIZER}"
        remedy = f"download all files of the model; {nearest_file(path)}"
        raise UserError(problem, remedy, code="missing-file", where=path)
    return path


def require_quantization(quantization: str, supported: Sequence[str]) -> None:
    """Raise an error for a type of weights that a library does not have."""
    if quantization not in supported:
        problem = f"unknown quantization {quantization!r}"
        raise UserError(problem, f"choose one of {', '.join(supported)}", code="invalid-setting", where="quantization")


def require_new_folder(folder: Path) -> None:
    """Raise an error if the folder exists and is not empty: nothing is overwritten."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        problem = f"{folder} already exists and is not empty"
        raise UserError(problem, "choose a new folder with `--folder`", code="folder-exists", where=folder)


@contextmanager
def new_folder(folder: Path, config: Config, weights: Tensors) -> Iterator[Path]:
    """Write a folder completely or not at all; the caller adds other files to the path that is yielded."""
    require_new_folder(folder)
    with replacing(folder, folder=True) as path:
        write_json(path / CONFIG, config)
        tensors = {key: tensor.detach().cpu().contiguous() for key, tensor in weights.items()}
        with default_permissions(path / WEIGHTS):
            save_file(tensors, path / WEIGHTS, metadata={"format": "pt"})
        yield path


@dataclass(frozen=True)
class ModelFiles:
    """The content of config.json and all tensors of a model, and where they were read."""

    folder: Path
    config: Config
    tensors: Tensors
    weights_path: Path

    @property
    def config_path(self) -> Path:
        return self.folder / CONFIG


def open_model(model: Path | ModelFiles, allow_pickle: bool = False, weights: Path | None = None) -> ModelFiles:
    """Read a folder, with the weights of the file `weights` or of the first that is found; what is read already stays.

    With `allow_pickle` the weights may be in pytorch_model.bin.
    """
    if isinstance(model, ModelFiles):
        return model
    config, path = read_config(model / CONFIG), weights or find_weights(model, allow_pickle)
    if path.suffix == ".onnx":
        return ModelFiles(model, config, read_onnx_weights(path), path)
    if path.suffix == ".bin" and not allow_pickle:
        problem = f"{path} is a pickle, which can hold code"
        raise unsupported(problem, path, "set `--allow-pickle` to read only the tensors of the file")
    return ModelFiles(model, config, read_pickled(path) if path.suffix == ".bin" else read_weights(path), path)


def find_weights(folder: Path, allow_pickle: bool) -> Path:
    """The file of weights in a folder; model.safetensors if there is none, which is then missing."""
    others = sorted(folder.glob("*.safetensors"))
    graphs = sorted([*folder.glob("*.onnx"), *folder.glob("onnx/*.onnx")], key=lambda path: (path.name != ONNX, path))
    if (folder / WEIGHTS).exists() or len(others) > 1:
        return folder / WEIGHTS
    if others:
        return others[0]
    if allow_pickle and (folder / PICKLED).exists():
        return folder / PICKLED
    return graphs[0] if graphs and (graphs[0].name == ONNX or len(graphs) == 1) else folder / WEIGHTS


def read_onnx_weights(path: Path) -> Tensors:
    """All weights of an encoder and its output layer, in float32."""
    require_regular(path)
    try:
        import onnx
        from onnx import numpy_helper
    except ImportError as error:
        problem = f"{path} needs the package onnx, which cannot be imported ({error})"
        raise UserError(problem, "pip install 'regard[onnx]'", code="missing-package", where="onnx") from error
    try:
        graph = onnx.load(str(path)).graph
        constants = {item.name: torch.tensor(numpy_helper.to_array(item)) for item in graph.initializer}
    except Exception as error:  # protobuf and onnx raise many kinds
        raise damaged(f"{path} is damaged or is not an ONNX model: {error}", path) from error
    weights = {name: tensor for name, tensor in dequantized(constants).items() if tensor.is_floating_point()}
    weights = name_matrices(graph, weights)
    found = next((match for name in weights if (match := WORDS.match(name))), None)
    if found is None:
        return weights
    wrapper, encoder = found[1], found[2] or ""  # a module around the model is left out, and other modules in it
    names = {name.removeprefix(wrapper): tensor for name, tensor in weights.items() if name.startswith(wrapper)}
    return {name: tensor for name, tensor in names.items() if not encoder or name.startswith((encoder, *HEADS))}


def dequantized(constants: Tensors) -> Tensors:
    """Every quantized weight as its numbers, by the name without `_quantized`."""
    result: Tensors = {}
    for name, tensor in constants.items():
        base = name.removesuffix(QUANTIZED)
        scale, zero = constants.get(base + SCALE), constants.get(base + ZERO)
        if name != base and scale is not None and zero is not None:
            result[base] = (tensor.float() - zero.float()) * scale.float()
        elif not name.endswith((SCALE, ZERO)):
            result[name] = tensor
    return result


def name_matrices(graph: "GraphProto", weights: Tensors) -> Tensors:
    """The weights by the names of their layers; constants of products are transposed."""
    named = dict(weights)
    for node in graph.node:
        layer = LAYER.match(node.name)
        constant = node.input[1].removesuffix(QUANTIZED) if node.op_type in PRODUCTS and len(node.input) > 1 else ""
        if layer is None or constant not in weights:
            continue
        as_torch = any(attribute.name == "transB" and attribute.i for attribute in node.attribute)
        named.pop(constant, None)
        matrix: Tensor = weights[constant]
        named[f"{layer[1].replace('/', '.')}.weight"] = matrix if as_torch else matrix.t().contiguous()
    return named
