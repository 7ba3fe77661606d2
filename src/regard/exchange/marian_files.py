"""Marian's own files of weights: model.npz, and the binary model.bin of `marian-conv`, quantized or not.

A .npz holds arrays by name. A .bin is a table of contents and then the data, all numbers little-endian:

    u64 version = 1, u64 count
    count x (u64 length of the name, u64 type, u64 number of dimensions, u64 bytes of data)
    the names, each with a zero at its end; the dimensions (i32); u64 length of a gap, and the gap; the data

    type       data
    0x101      int8
    0x404      float32
    0x4101     int8 of intgemm: v = round(m w), then the multiplier m as one float32. A matrix W (K, N) of x W is stored
               as (N, K), which is our order; matrices of embeddings are stored as they are

The settings of the model are a text (YAML) under the name `special:model.yml`. Multipliers of activations, named
`.._QuantMultA`, are not read: our models compute with numbers of 32 bits.
"""

import struct
import zipfile
from pathlib import Path

import numpy as np
import torch

from regard.errors import UserError
from regard.exchange.folders import DOWNLOAD_AGAIN, Tensors
from regard.reading import require_regular

CONFIG = "special:model.yml"
EMBEDDINGS = ("Wemb", "encoder_Wemb", "decoder_Wemb")
INT8, FLOAT32, INTGEMM8 = 0x101, 0x404, 0x4101
MAX_ITEMS = 1 << 16

MarianConfig = dict[str, str | list[str]]


def read_marian_file(path: Path) -> tuple[MarianConfig, Tensors]:
    """The settings and the weights of a model; matrices are (out, in), as in torch."""
    require_regular(path)
    try:
        if path.suffix == ".npz":
            config, tensors = read_npz(path)
        else:
            config, tensors = read_bin(path.read_bytes())
    except (ValueError, LookupError, struct.error, OSError, zipfile.BadZipFile) as error:
        raise UserError(
            f"{path} is damaged or is not a model of Marian: {error}", DOWNLOAD_AGAIN, code="damaged-file", where=path
        ) from error
    return parse_config(config), {name: tensor for name, tensor in tensors.items() if not name.endswith("_QuantMultA")}


def read_npz(path: Path) -> tuple[str, Tensors]:
    """The content of a model.npz."""
    with np.load(path, allow_pickle=False) as arrays:
        config = bytes(arrays[CONFIG].astype(np.uint8)).decode("utf-8")
        tensors = {name: torch.from_numpy(np.array(arrays[name])) for name in arrays.files if name != CONFIG}
    return config, {name: as_linear(name, tensor) for name, tensor in tensors.items()}


def read_bin(data: bytes) -> tuple[str, Tensors]:
    """The content of a model.bin."""
    version, count = struct.unpack_from("<QQ", data)
    if version != 1 or not 0 < count <= MAX_ITEMS:
        raise ValueError(f"it has version {version} and {count} arrays")
    items = [struct.unpack_from("<4Q", data, 16 + 32 * number) for number in range(count)]
    place = 16 + 32 * count
    names, shapes = [], []
    for length, _, _, _ in items:
        names.append(data[place : place + length - 1].decode("utf-8"))
        place += length
    for _, _, dimensions, _ in items:
        shapes.append(struct.unpack_from(f"<{dimensions}i", data, place))
        place += 4 * dimensions
    place += 8 + struct.unpack_from("<Q", data, place)[0]
    config, tensors = "", {}
    for name, shape, (_, kind, _, size) in zip(names, shapes, items, strict=True):
        content, place = data[place : place + size], place + size
        if len(content) < size:
            raise ValueError(f"it ends in the middle of {name}")
        if name == CONFIG:
            config = content.rstrip(b"\0").decode("utf-8")
        elif not name.endswith("_QuantMultA"):
            tensors[name] = decode_item(name, kind, shape, content)
    if not config:
        raise ValueError(f"it has no {CONFIG}")
    return config, tensors


def decode_item(name: str, kind: int, shape: tuple[int, ...], content: bytes) -> torch.Tensor:
    """The tensor of these bytes, in float32."""
    count = int(np.prod(shape, dtype=np.int64))
    if count <= 0:
        raise ValueError(f"{name} has shape {shape}")
    if kind == FLOAT32:
        values = np.frombuffer(content, "<f4", count).astype(np.float32)
        return as_linear(name, torch.from_numpy(values).view(shape))
    if kind != INTGEMM8:
        raise ValueError(f"{name} is of type {kind:#x}, which cannot be read; write it with marian-conv as float32")
    (multiplier,) = struct.unpack_from("<f", content, count)
    quantized = torch.from_numpy(np.frombuffer(content, np.int8, count).astype(np.float32))
    if not multiplier:
        raise ValueError(f"{name} has the multiplier 0")
    return quantized.view(shape if name in EMBEDDINGS else shape[::-1]) / multiplier


def as_linear(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """A matrix (in, out) as (out, in); embeddings and rows stay."""
    is_matrix = tensor.dim() == 2 and tensor.size(0) > 1 and name not in EMBEDDINGS
    return tensor.t().contiguous() if is_matrix else tensor


def parse_config(text: str) -> MarianConfig:
    """The settings of `special:model.yml`, which are lines `key: value` and lists with a line for each item."""
    config: MarianConfig = {}
    key = ""
    for line in text.rstrip("\0").splitlines():
        if line.startswith(("  - ", "- ")):
            items = config.get(key)
            config[key] = [*(items if isinstance(items, list) else []), line.strip().removeprefix("- ")]
        elif ":" in line and not line.startswith(" "):
            key, _, value = line.partition(":")
            config[key] = value.strip().strip("\"'")
    return config
