"""Translation models of Marian (Junczys-Dowmunt et al. 2018) in its own files, such as those that Firefox ships.

    model.npz, model.*.bin    the weights and the settings
    vocab.*.spm               SentencePiece model of both sides; or srcvocab.*.spm and trgvocab.*.spm
    config.*.yml, lex.*       not read: options of Marian, and its short list of words that may be written

The model is our Transformer with post-norm. In most students the decoder has recurrent units in the place of
self-attention (`model.decoder_layer = "ssru"`). Four things differ from the paper:

    positions   all sines, then all cosines, of wavelengths 2 pi 10000^(i / (D / 2 - 1)). They are read as learned ones
    beginning   a translation begins with a vector of zeros: the row of our beginning symbol
    <unk>       is never written
    bias        they add one to the logit of each token

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

D model, V vocabulary.
"""

import math
import re
import struct
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.errors import UserError
from regard.exchange import folders
from regard.exchange.folders import Tensors
from regard.exchange.marian import NEVER_BIAS, MarianModel, layers, shapes
from regard.exchange.sentencepiece import read_sentencepiece
from regard.models.settings import name_of_size
from regard.models.transformer import SIZES, TransformerSettings
from regard.reading import nearest_file, require_regular
from regard.text.sentencepiece import SentencePieceTokenizer, assemble
from regard.text.symbols import BOS, EOS, PAD, SPECIALS
from regard.training.weights import rename

POSITIONS = 1024
"""The number of positions of a run that is made from such a model."""
MARIAN_ENDINGS = (".npz", ".bin")
"""Ends of the names of files of weights."""
SETTINGS = "special:model.yml"
EMBEDDINGS = ("Wemb", "encoder_Wemb", "decoder_Wemb")
INT8, FLOAT32, INTGEMM8 = 0x101, 0x404, 0x4101
MAX_ITEMS = 1 << 16
MarianConfig = dict[str, str | list[str]]
BIAS, OUTPUT = "decoder_ff_logit_out_b", "decoder_ff_logit_out_W"
END, UNKNOWN = "</s>", "<unk>"
FIXED_VALUES: dict[str, list[str]] = folders.NAMES["marian_binary"]["fixed"]
SHAPE: dict[str, str] = folders.NAMES["marian_binary"]["settings"]
DECODERS = {"self-attention": "attention", "rnn": "ssru"}
"""Values of transformer-decoder-autoreg, and of model.decoder_layer."""
SUBLAYERS: dict[str, str] = folders.NAMES["marian_binary"]["modules"]


def find_marian_file(folder: Path) -> Path | None:
    """The file of weights in a folder of Marian; None if there is none."""
    names = sorted(path for ending in MARIAN_ENDINGS for path in folder.glob(f"*{ending}"))
    models = [path for path in names if path.name.startswith("model") and not path.name.startswith("model.safetensors")]
    return models[0] if models else None


def read_marian_binary(path: Path) -> MarianModel:
    """The translation model of a file and of the vocabularies beside it."""
    config, tensors = read_marian_file(path)
    settings = read_settings(config, path)
    files = find_vocabularies(path)
    texts = [read_vocabulary(file) for file in dict.fromkeys(files)]
    (src, _), (tgt, unknown) = texts[0], texts[-1]
    weights = read_embeddings(settings, tensors, (len(src), len(tgt)), unknown, path)
    tie = "none" if "output.weight" in weights else "output" if "src_embedding.weight" in weights else "all"
    settings = settings.model_copy(update={"tie": tie})
    weights["positions.table.weight"] = position_table(POSITIONS, settings.d_model)
    weights |= read_layers(settings, tensors, path)
    return MarianModel(settings, weights, (src, tgt), POSITIONS, beam=1)


def read_settings(config: MarianConfig, path: Path) -> TransformerSettings:
    """The settings of the model without `tie`, which depends on the weights."""
    for key, supported in FIXED_VALUES.items():
        if (value := config.get(key, supported[0])) not in supported:
            remedy = f"choose a model with {' or '.join(map(repr, supported))}"
            raise folders.unsupported(f"{path}: {key} = {value!r} is not supported", f"{path}:{key}", remedy)
    autoreg = str(config.get("transformer-decoder-autoreg", "self-attention"))
    if autoreg not in DECODERS or (autoreg == "rnn" and config.get("dec-cell") != "ssru"):
        key, remedy = "transformer-decoder-autoreg", "choose a model with self-attention, or rnn with dec-cell = ssru"
        raise folders.unsupported(f"{path}: {key} = {autoreg!r} is not supported", f"{path}:{key}", remedy)
    try:
        sizes = {name: int(str(config[key])) for name, key in SHAPE.items()}
        if sizes["d_model"] < 4 or sizes["d_model"] % 2:
            raise ValueError(f"{SHAPE['d_model']} = {sizes['d_model']} has no positions of Marian")
        fixed = {"positions": "learned", "max_positions": POSITIONS, "output_bias": True}
        activation = folders.activation_name(config.get("transformer-ffn-activation", "swish"))
        values = {"activation": activation, "decoder_layer": DECODERS[autoreg], "size": name_of_size(sizes, SIZES)}
        return TransformerSettings.model_validate(sizes | fixed | values)
    except (LookupError, ValueError) as error:  # a validation error is a ValueError
        raise folders.damaged(f"{path}: its settings are damaged or not supported: {error}", path) from error


def find_vocabularies(path: Path) -> tuple[Path, Path]:
    """The SentencePiece models of source and target beside the weights; the same one for a shared vocabulary."""
    files = sorted(path.parent.glob("*.spm"))  # srcvocab comes before trgvocab
    if not files:
        problem = f"{path.parent} has no vocabulary (*.spm)"
        remedy = f"download all files of the model; {nearest_file(path.parent / 'vocab.spm')}"
        raise UserError(problem, remedy, code="missing-file", where=path.parent / "vocab.spm")
    if len(files) > 2:
        problem = f"{path.parent} has {len(files)} vocabularies (*.spm), more than source and target"
        raise UserError(problem, "move each model into its own folder", code="damaged-model", where=path.parent)
    return files[0], files[-1]


def read_vocabulary(path: Path) -> tuple[SentencePieceTokenizer, int]:
    """The tokenizer, and its id of <unk>. Row n of the model is our id n + 2, but for the end: row 0 is our EOS."""
    model = read_sentencepiece(path)
    pieces = [text for text, _, _ in model.pieces]
    if pieces[:1] != [END] or UNKNOWN not in pieces:
        problem = f"{path}: the first token is not {END}, or there is no {UNKNOWN}"
        raise folders.damaged(problem, path, "use the vocabulary file of the Marian model")
    tokens = [*SPECIALS, *pieces[1:]]
    return assemble(tokens, model.scores, model.characters, model.prefix, model.tidy), tokens.index(UNKNOWN)


def read_embeddings(
    settings: TransformerSettings, tensors: Tensors, sizes: tuple[int, int], unknown: int, path: Path
) -> Tensors:
    """The matrices of both sides and of the output in our order of rows, and the bias; tied ones occur once."""
    width, rows = settings.d_model, [size - EOS for size in sizes]
    shared = folders.pop_tensor(tensors, "Wemb", torch.Size((rows[1], width)), path)
    src = folders.pop_tensor(tensors, "encoder_Wemb", torch.Size((rows[0], width)), path)
    tgt = folders.pop_tensor(tensors, "decoder_Wemb", torch.Size((rows[1], width)), path)
    output = folders.pop_tensor(tensors, OUTPUT, torch.Size((rows[1], width)), path)
    bias = folders.pop_tensor(tensors, BIAS, torch.Size((1, rows[1])), path)
    matrix = shared if tgt is None else tgt
    if matrix is None:
        folders.require_weights(["Wemb"], path)
        raise AssertionError
    weights: Tensors = {}
    if src is not None or output is not None:
        weights["src_embedding.weight"] = with_symbols(matrix if src is None else src)
    weights["tgt_embedding.weight"] = with_symbols(matrix)
    if output is not None:
        weights["output.weight"] = with_symbols(output)
    logit_bias = torch.zeros(sizes[1])
    logit_bias[EOS:] = 0.0 if bias is None else bias[0]
    logit_bias[[PAD, BOS, unknown]] = NEVER_BIAS
    return weights | {f"{'tgt_embedding' if output is None else 'output'}.bias": logit_bias}


def with_symbols(matrix: Tensor) -> Tensor:
    """Rows of padding and beginning, which are zeros, before the others (V, D)."""
    return torch.cat([torch.zeros(EOS, matrix.size(1)), matrix])


def position_table(positions: int, d_model: int) -> Tensor:
    """Marian's positions (P, D): sin(p / 10000^(i / (D / 2 - 1))) for all i, then the cosines."""
    half = d_model // 2
    wavelengths = torch.exp(torch.arange(half) * -(math.log(10000.0) / (half - 1)))
    angles = torch.arange(positions)[:, None] * wavelengths
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def read_layers(settings: TransformerSettings, tensors: Tensors, path: Path) -> Tensors:
    """The weights of all layers by our names. Raises an error for other weights."""
    expected = layers(shapes(settings, EOS + 1, EOS + 1))
    rows = {name: torch.Size((1, *shape)) if len(shape) == 1 else shape for name, shape in expected.items()}
    weights = folders.pop_tensors(tensors, rows, partial(marian_name, decoder_layer=settings.decoder_layer), path)
    folders.refuse_weights(tensors, path, "this kind of model is not supported")
    return {name: tensor.view(expected[name]) for name, tensor in weights.items()}


def marian_name(name: str, decoder_layer: str) -> str:
    """encoder.0.attention.query.weight -> encoder_l1_self_Wq"""
    stack, number, rest = name.split(".", 2)
    end = rename(f".{rest}", SUBLAYERS)
    if stack == "decoder" and decoder_layer == "ssru":
        end = end.replace("_self_Wo_ln_", "_rnn_ffn_ln_")
    return f"{stack}_l{int(number) + 1}{end}"


def languages_of(path: Path) -> tuple[str, str]:
    """The languages in the name of a file of Firefox, model.enpt.intgemm8.bin; empty if it has none."""
    found = re.fullmatch(r"model\.([a-z]{2})([a-z]{2})\..*", path.name)
    return (found[1], found[2]) if found else ("", "")


def read_marian_file(path: Path) -> tuple[MarianConfig, Tensors]:
    """The settings and the weights of a model; matrices are (out, in), as in torch."""
    require_regular(path)
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                config = bytes(arrays[SETTINGS].astype(np.uint8)).decode("utf-8")
                named = {name: torch.from_numpy(np.array(arrays[name])) for name in arrays.files if name != SETTINGS}
            tensors = {name: as_linear(name, tensor) for name, tensor in named.items()}
        else:
            config, tensors = read_bin(path.read_bytes())
    except (ValueError, LookupError, TypeError, struct.error, OSError, EOFError, zipfile.BadZipFile) as error:
        raise folders.damaged(f"{path} is damaged or is not a model of Marian: {error}", path) from error
    return parse_config(config), {name: tensor for name, tensor in tensors.items() if not name.endswith("_QuantMultA")}


def read_bin(data: bytes) -> tuple[str, Tensors]:
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
        if name == SETTINGS:
            config = content.rstrip(b"\0").decode("utf-8")
        elif not name.endswith("_QuantMultA"):
            tensors[name] = decode_item(name, kind, shape, content)
    if not config:
        raise ValueError(f"it has no {SETTINGS}")
    return config, tensors


def decode_item(name: str, kind: int, shape: tuple[int, ...], content: bytes) -> torch.Tensor:
    """The tensor of these bytes, in float32."""
    count = math.prod(shape)
    if not 0 < count <= len(content) or min(shape, default=1) < 0:
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
