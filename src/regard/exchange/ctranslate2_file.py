"""The file model.bin of CTranslate2: weights and flags by name. All numbers are little-endian:

    u32 version, the name of the architecture, u32 revision
    u32 count, count x (name, u8 number of dimensions, u32 each dimension, u8 type, u32 bytes of data, the data)
    u32 count, count x (name, the name above that has its content): tied weights

A name is u16 length, the text and a zero. Quantized weights have multipliers, one for each row (int8) or one (int16):

    w = q / scale
"""

import math
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.errors import UserError
from regard.exchange import folders
from regard.exchange.folders import Tensors
from regard.reading import require_regular

VERSIONS = range(4, 7)
ARCHITECTURES = {"TransformerSpec": 8, "TransformerBase": 8, "TransformerBig": 16}
"""Number of heads of models that do not say it."""
TYPES = ("<f4", "i1", "<i2", "<i4", "<f2", "<u2")
BFLOAT16 = 5
MAX_TENSORS = 1 << 16
REMEDY = "choose a standard Transformer, e.g. of OPUS-MT or OpenNMT-py"


@dataclass(frozen=True)
class ModelFile:
    """The content of a model.bin: float32 tensors, and flags and numbers as tensors without dimensions."""

    path: Path
    version: int
    tensors: Tensors
    flags: Tensors

    def pop(self, name: str, default: int) -> int:
        """Remove a whole number from 0 that encoder and decoder must have in common."""
        values = [self.flags.pop(f"{stack}/{name}", torch.tensor(default)).item() for stack in ("encoder", "decoder")]
        if values[0] != values[1] or values[0] < 0 or values[0] % 1:
            raise self.unsupported(f"{name} is {values[0]} in the encoder and {values[1]} in the decoder", name)
        return int(values[0])

    def pop_tensor(self, name: str) -> Tensor:
        """Remove a tensor that is there, checked."""
        tensor = folders.pop_tensor(self.tensors, name, self.tensors[name].shape, self.path)
        assert tensor is not None
        return tensor

    def unsupported(self, problem: str, name: str) -> UserError:
        return folders.unsupported(f"{self.path}: {problem}", f"{self.path}:{name}", REMEDY)


def read_model_file(path: Path) -> ModelFile:
    """All tensors of a model.bin, dequantized."""
    require_regular(path)
    try:
        version, name, values = parse(path.read_bytes())
    except (ValueError, struct.error, LookupError, OverflowError, OSError) as error:
        raise folders.damaged(f"{path} is damaged or is not a model of CTranslate2: {error}", path) from error
    if name not in ARCHITECTURES:
        problem = f"{path}: a model of type {name[:40]!r}, not a translation model"
        raise folders.unsupported(problem, path, f"choose one of type {', '.join(ARCHITECTURES)}")
    tensors = {name: tensor for name, tensor in values.items() if tensor.dim()}
    flags = {name: tensor for name, tensor in values.items() if not tensor.dim()}
    for stack in ("encoder", "decoder"):
        flags.setdefault(f"{stack}/num_heads", torch.tensor(ARCHITECTURES[name]))
    if (older := "encoder/embeddings/weight") in tensors:
        tensors["encoder/embeddings_0/weight"] = tensors.pop(older)
    return ModelFile(path, version, tensors, flags)


def parse(data: bytes) -> tuple[int, str, Tensors]:
    """The version, the architecture and all values of a file; a ValueError says what is wrong."""
    place = 0

    def take(form: str) -> int:
        nonlocal place
        (value,) = struct.unpack_from(f"<{form}", data, place)
        place += struct.calcsize(f"<{form}")
        return int(value)

    def take_name() -> str:
        nonlocal place
        length = take("H")
        place += length
        return data[place - length : place].decode().rstrip("\0")

    if (version := take("I")) not in VERSIONS:
        raise ValueError(f"it has version {version}, not {VERSIONS[0]} to {VERSIONS[-1]}; convert the model again")
    architecture, _, count = take_name(), take("I"), take("I")
    if count > MAX_TENSORS:
        raise ValueError(f"it has {count} tensors")
    values: Tensors = {}
    for _ in range(count):
        name, shape = take_name(), [take("I") for _ in range(take("B"))]
        kind, size = take("B"), take("I")
        dtype = np.dtype(TYPES[kind])
        if 0 in shape or math.prod(shape) * dtype.itemsize != size or place + size > len(data):
            raise ValueError(f"{name} has shape {shape} and {size} bytes")
        array, place = np.frombuffer(data, dtype, math.prod(shape), place), place + size
        if kind == BFLOAT16:  # the upper half of a float32
            array = (array.astype(np.uint32) << 16).view(np.float32)
        values[name] = torch.from_numpy(array.copy()).view(shape)
    aliases = [(take_name(), take_name()) for _ in range(take("I"))]
    for name in [name for name in values if name.endswith("_scale") and name.removesuffix("_scale") in values]:
        base, scale = name.removesuffix("_scale"), values.pop(name).float()
        if not values[base].dim() or scale.numel() not in (1, len(values[base])):
            raise ValueError(f"{name} has {scale.numel()} values, {base} has shape {[*values[base].shape]}")
        values[base] = values[base].float() / scale.view(-1, *[1] * (values[base].dim() - 1))
    for name, tensor in values.items():
        if tensor.dim() and not tensor.is_floating_point():
            raise ValueError(f"{name} has whole numbers and no {name}_scale")
    values = {name: tensor.float() if tensor.dim() else tensor for name, tensor in values.items()}
    return version, architecture, values | {name: values[other] for name, other in aliases}
