"""The files of a model to import: config.json, and weights in one of several formats.

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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import UserError
from regard.exchange.folders import (
    CONFIG,
    PICKLED,
    WEIGHTS,
    Config,
    Tensors,
    damaged,
    read_config,
    read_pickled,
    read_weights,
    unsupported,
)
from regard.reading import require_regular

ONNX = "model.onnx"
PRODUCTS = ("MatMul", "MatMulInteger", "Gemm")
LAYER = re.compile(r"^/(.+)/(?:Gemm_)?(?:MatMul|Gemm)(?:_quant)?$")
"""The path of a layer in the name of a node."""
QUANTIZED, SCALE, ZERO = "_quantized", "_scale", "_zero_point"
WORDS = re.compile(r"^(.*?)((?:roberta|distilbert|bert)\.)?embeddings\.word_embeddings\.weight$")
"""The names of the word vectors: what was put around the model, and the name of the encoder in it."""
HEADS = ("cls.", "lm_head.", "vocab_", "classifier.", "pre_classifier.", "qa_outputs.", "pooler.")
"""Modules of the classes of transformers outside of the encoder."""


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
        raise unsupported(
            f"{path} is a pickle, which can hold code", path, "write --allow-pickle to read only its tensors"
        )
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


# ---- ONNX ------------------------------------------------------------------------------------------------------------


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
    return without_wrapper(name_matrices(graph, weights))


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


def name_matrices(graph: Any, weights: Tensors) -> Tensors:
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


def without_wrapper(weights: Tensors) -> Tensors:
    """The weights without the name of a module around the model, and without those of other modules in it."""
    found = next((match for name in weights if (match := WORDS.match(name))), None)
    if found is None:
        return weights
    wrapper, encoder = found[1], found[2] or ""
    names = {name.removeprefix(wrapper): tensor for name, tensor in weights.items() if name.startswith(wrapper)}
    return {name: tensor for name, tensor in names.items() if not encoder or name.startswith((encoder, *HEADS))}
