"""Reader of CTranslate2 folders: Transformers of OPUS-MT, OpenNMT-py and Argos Translate, and our own exports.

    model.bin                                  weights and flags by name (ctranslate2_file.py)
    config.json                                special tokens; models of version 4 and 5 have them as flags in model.bin
    shared_vocabulary.json, or source_, target_    the token of each row; older ones end in .txt, with a token per line
    source.spm and target.spm, or one *.spm or *.model, also beside the folder (Argos); or our tokenizer.json

An Argos package, *.argosmodel, is a zip file with such a folder `model`, sentencepiece.model and metadata.json.
Three things differ from our Transformer: queries, keys and values are one matrix; the position vectors are a table,
which is read as learned positions if it is not ours; and the models of OPUS-MT begin a translation with a vector of
zeros, the row of our beginning symbol. Models of OpenNMT-py read sources without an end symbol (`text.source_end`).

D model, V vocabulary.
"""

import math
import re
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from zipfile import BadZipFile

import torch
from torch import Tensor

from regard.errors import UserError
from regard.exchange import folders
from regard.exchange.ctranslate2_file import REMEDY, VERSIONS, ModelFile, read_model_file
from regard.exchange.folders import Config, Tensors
from regard.exchange.marian import NEVER_BIAS, POSITIONS, MarianModel, layers, shapes
from regard.exchange.marian_tokenizers import SPM, MarianTokenizers, duplicates, reorder_tokens
from regard.exchange.sentencepiece import read_sentencepiece
from regard.files import open_zip
from regard.layers.norms import EPSILON
from regard.layers.positions import sinusoid
from regard.models.settings import name_of_size
from regard.models.transformer import SIZES, TransformerSettings
from regard.reading import nearest_file, read_json, read_text
from regard.text.factory import load_tokenizer
from regard.text.sentencepiece import assemble
from regard.text.symbols import BOS
from regard.training.weights import rename

FILE, METADATA, PACKAGE, INNER = "model.bin", "metadata.json", ".argosmodel", "model"
OURS = ("src.tokenizer.json", "tgt.tokenizer.json")
MAX_PACKAGE = 1 << 33
ACTIVATIONS = ("relu", "gelu_tanh", "silu", "gelu")
SRC, TGT, OUT = "encoder/embeddings_0/weight", "decoder/embeddings/weight", "decoder/projection/weight"
BIAS = "decoder/projection/bias"
TABLES = ("encoder/position_encodings/encodings", "decoder/position_encodings/encodings")
FUSED = {"self_attention/linear_0": ("query", "key", "value"), "/attention/linear_1": ("key", "value")}
"""Linear layers that are several of ours, concatenated along their outputs."""
IGNORED = re.compile(r"/(alignment_\w+|embeddings_merge|alibi_use_positive_positions|scale_alibi)$")
"""Flags that do not change the models that are read."""
ROTARY = {"rotary_dim": 0, "rotary_interleave": 1, "rotary_base": 10_000}
OWN = "regard"
"""The key in config.json of our exports."""
BEAM = 4


@dataclass(frozen=True)
class CTranslate2Model(MarianModel):
    """A translation model that was read."""

    source_end: bool
    """False if the model reads sources without an end symbol."""
    languages: tuple[str, str]
    """Codes of source and target language; empty if no file names them."""


@dataclass(frozen=True)
class Symbols:
    """The special tokens of a model, and how it uses them."""

    unknown: str
    end: str
    start: str
    zero_start: bool
    """True if a translation begins with a vector of zeros, whatever `start` is; such models are from Marian."""
    source_end: bool
    """True if sources have an end symbol: the library appends it, or the tokenizer of Marian does."""


@contextmanager
def open_package(path: Path) -> Iterator[Path]:
    """A temporary folder with the model, vocabulary and description in a package of Argos Translate."""
    with open_zip(path) as archive, tempfile.TemporaryDirectory(prefix="regard-argos-") as temporary:
        folder, members = Path(temporary), {}
        (folder / INNER).mkdir()
        for info in archive.infolist():  # NAME/FILE and NAME/model/FILE; a name may lead anywhere: only FILE is used
            parts = PurePosixPath(info.filename).parts
            if not info.is_dir() and (len(parts) == 2 or (len(parts) == 3 and parts[1] == INNER)):
                members[folder / INNER / parts[2] if len(parts) == 3 else folder / parts[1]] = info
        if sum(info.file_size for info in members.values()) > MAX_PACKAGE:
            raise UserError(f"{path} has more than {MAX_PACKAGE:,} bytes", code="too-large", where=path)
        try:
            for target, info in members.items():
                with archive.open(info) as stream, target.open("wb") as copy:
                    shutil.copyfileobj(stream, copy)  # a member that is longer than it says is an error of zipfile
        except (BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError, OSError) as error:
            raise folders.damaged(f"{path} is damaged: {error}", path) from error
        yield folder


def find_ctranslate2(source: Path) -> Path | None:
    """The folder of a CTranslate2 model at `source`: itself, or the folder `model` in it; None if there is none."""
    choices = (source, source / INNER)
    return next((path for path in choices if (path / FILE).exists() and any(path.glob("*_vocabulary.*"))), None)


def read_ctranslate2(folder: Path) -> CTranslate2Model:
    """The translation model in a folder that `find_ctranslate2` found."""
    config = read_json(folder / folders.CONFIG, Config) if (folder / folders.CONFIG).exists() else {}
    file = read_model_file(folder / FILE)
    symbols, settings = read_symbols(config, file), read_settings(file, config)
    matrices = [file.pop_tensor(name) for name in (SRC, TGT, OUT)]
    sizes = len(matrices[0]), len(matrices[1])
    text = read_our_tokenizers(folder, sizes) if OWN in config else read_tokenizers(folder, symbols, sizes)
    weights, settings = read_embeddings(settings, matrices, file, text)
    if symbols.zero_start:
        weights["tgt_embedding.weight"][BOS] = 0
    positions = POSITIONS
    if settings.positions == "learned":
        weights["positions.table.weight"] = file.pop_tensor(TABLES[0])
        positions = settings.max_positions
    weights |= read_layers(settings, file)
    languages = read_languages(folder)
    return CTranslate2Model(settings, weights, text.tokenizers, positions, BEAM, symbols.source_end, languages)


def read_languages(folder: Path) -> tuple[str, str]:
    """The codes of the languages in metadata.json of Argos; empty without this file."""
    path = folder.parent / METADATA
    about = read_json(path, Config) if path.exists() else {}
    if prefix := about.get("target_prefix"):
        problem = f"{path}: target_prefix = {prefix!r} is not supported"
        raise folders.unsupported(problem, f"{path}:target_prefix", "choose a package of one language pair")
    src, tgt = (folders.read_value(about, key, str, "", path) for key in ("from_code", "to_code"))
    return src, tgt


def read_symbols(config: Config, file: ModelFile) -> Symbols:
    """The special tokens, from config.json or, in older models, from flags."""
    path = file.path.with_name(folders.CONFIG)
    flags = {name: bool(file.flags.pop(name).item()) for name in [*file.flags] if "/" not in name}
    if file.version < VERSIONS[-1]:
        start = "<s>" if flags.get("with_target_bos", True) else "</s>"
        older = {"decoder_start_token": None if flags.get("user_decoder_start_tokens") else start}
        config = {**older, **{f"add_{name}": flags.get(f"with_{name}", False) for name in ("source_bos", "source_eos")}}
    if config.get("add_source_bos") or config.get("decoder_start_token", "<s>") is None:
        raise file.unsupported("it begins sources with <s>, or translations with a token of the caller", folders.CONFIG)
    defaults = {"unk_token": "<unk>", "eos_token": "</s>", "decoder_start_token": "<s>"}
    unknown, end, start = (folders.read_value(config, key, str, default, path) for key, default in defaults.items())
    zero_start = bool(file.flags.pop("decoder/start_from_zero_embedding", torch.tensor(0)).item())
    source_end = zero_start or bool(config.get("add_source_eos")) or OWN in config
    return Symbols(unknown, end, end if zero_start else start, zero_start, source_end)


def read_settings(file: ModelFile, config: Config) -> TransformerSettings:
    """The settings of the model without `tie` and output bias, which depend on the weights."""
    tensors, path = file.tensors, file.path
    folders.require_weights([name for name in (SRC, TGT, OUT) if name not in tensors], path)
    width, activation = tensors[TGT].shape[-1], file.pop("activation", 0)
    if activation >= len(ACTIVATIONS):
        raise file.unsupported(f"its activation has number {activation}, not one of {', '.join(ACTIVATIONS)}", "ffn")
    epsilon = folders.read_value(config, "layer_norm_epsilon", float, EPSILON, path.with_name(folders.CONFIG))
    if abs(epsilon - EPSILON) > EPSILON:
        raise file.unsupported(f"layer_norm_epsilon = {epsilon} is not {EPSILON}", "layer_norm_epsilon")
    shape = {
        "d_model": width,
        "num_heads": file.pop("num_heads", 8),
        "d_ff": len(tensors.get("encoder/layer_0/ffn/linear_0/weight", ())),
    }
    for stack in ("encoder", "decoder"):
        shape[f"{stack}_layers"] = sum(
            bool(re.fullmatch(rf"{stack}/layer_\d+/ffn/linear_0/weight", x)) for x in tensors
        )
    values = {
        "activation": ACTIVATIONS[activation],
        "norm": "pre" if file.pop("pre_norm", 1) else "post",
        "scale_embeddings": embeddings_are_scaled(file, width),
        "size": name_of_size(shape, SIZES),
        **read_positions(file, width),
    }
    wrong = [name for name, flag in file.flags.items() if flag.item() and not IGNORED.search(name)]
    if wrong:
        raise file.unsupported(f"{wrong[0]} = {file.flags[wrong[0]].item()} is not supported", wrong[0])
    try:
        return TransformerSettings.model_validate(shape | values)
    except ValueError as error:  # a validation error is a ValueError
        raise folders.damaged(f"{path} is damaged or not supported: {error}", path) from error


def embeddings_are_scaled(file: ModelFile, width: int) -> bool:
    """True if embeddings are multiplied by sqrt(D): a flag that is true or missing, or this number."""
    factors = []
    for stack in ("encoder", "decoder"):
        older = file.flags.pop(f"{stack}/embeddings/multiply_by_sqrt_depth", torch.tensor(1, dtype=torch.int8))
        scale = file.flags.pop(f"{stack}/scale_embeddings", older)
        factors.append(scale.item() if scale.is_floating_point() else math.sqrt(width) if scale.item() else 1.0)
    for factor in (math.sqrt(width), 1.0):
        if all(math.isclose(found, factor, rel_tol=1e-3) for found in factors):
            return factor != 1.0
    raise file.unsupported(f"it multiplies embeddings by {factors[0]} and {factors[1]}", "scale_embeddings")


def read_positions(file: ModelFile, width: int) -> Config:
    """Our settings of the positions. A table that is not ours is learned."""
    tables = [file.tensors.get(name) for name in TABLES]
    rotary = {name: flag for name, flag in file.flags.items() if name.rpartition("/")[2] in ROTARY}
    for name in rotary:
        del file.flags[name]
    if any(flag.item() != ROTARY[name.rpartition("/")[2]] for name, flag in rotary.items()):
        raise file.unsupported("its rotary positions are of another kind", next(iter(rotary)))
    if rotary and tables == [None, None]:
        return {"positions": "rotary"}
    table, other = tables
    if table is None or other is None or not torch.equal(table, other) or table.shape[1:] != (width,):
        raise file.unsupported("encoder and decoder have no common table of positions", TABLES[0])
    if not bool(table.any()):
        return {"positions": "none"}
    if width % 2 == 0 and torch.allclose(table, sinusoid(torch.arange(len(table)), width), atol=2e-3):
        return {"positions": "sinusoidal"}
    return {"positions": "learned", "max_positions": len(table)}


def read_our_tokenizers(folder: Path, sizes: tuple[int, int]) -> MarianTokenizers:
    """The tokenizers of our own export, whose tokens are named by their ids."""
    paths = [folder / name for name in OURS] if (folder / OURS[0]).exists() else [folder / folders.TOKENIZER]
    loaded = [load_tokenizer(path) for path in paths]
    if (len(loaded[0]), len(loaded[-1])) != sizes:
        problem = f"{paths[0]} has {len(loaded[0])} tokens, but {FILE} {sizes[0]}"
        raise folders.damaged(problem, paths[0], "the files belong to different models: export the run again")
    return MarianTokenizers((loaded[0], loaded[-1]), [*range(sizes[0])], [*range(sizes[1])], [])


def read_tokenizers(folder: Path, symbols: Symbols, sizes: tuple[int, int]) -> MarianTokenizers:
    """The SentencePiece tokenizers in the folder or beside it, with the rows of the vocabularies."""
    files = find_sentencepiece(folder)
    models = [read_sentencepiece(path) for path in files]
    vocabularies = [read_vocabulary(folder, side, symbols.unknown) for side in ("source", "target")]
    one = vocabularies[0] == vocabularies[1]
    tokenizers, rows = [], []
    for side, (vocabulary, size) in enumerate(zip(vocabularies, sizes, strict=True)):
        if len(vocabulary) != size:
            problem = f"{folder}: the vocabulary has {len(vocabulary)} tokens, but {FILE} {size}"
            raise folders.damaged(problem, folder, "the files belong to different models: download the model again")
        ids = {token: row for row, token in reversed([*enumerate(vocabulary)])}  # of two rows the first counts
        try:
            unknown, end, start = (ids[name] for name in (symbols.unknown, symbols.end, symbols.start))
        except KeyError as error:
            raise folders.damaged(f"{folder}: the vocabulary lacks the special token {error}", folder) from error
        ids |= {"<pad>": ids.get("<pad>", ids.get("<blank>", end)), "</s>": end, "<unk>": unknown}
        tokens, found = reorder_tokens(ids, models if one else [models[side - len(models)]], start)
        model = models[min(side, len(models) - 1)]
        tokenizers.append(assemble(tokens, model.scores, model.characters, model.prefix, model.tidy))
        rows.append(found)
    if one and len(models) == 1:
        tokenizers[1] = tokenizers[0]
    return MarianTokenizers((tokenizers[0], tokenizers[1]), rows[0], rows[1], duplicates(rows[1]))


def find_sentencepiece(folder: Path) -> list[Path]:
    """source.spm and target.spm, or the only SentencePiece model of both sides, in the folder or beside it."""
    if all((folder / name).exists() for name in SPM):
        return [folder / name for name in SPM]
    for place in (folder, folder.parent):
        if len(files := sorted([*place.glob("*.spm"), *place.glob("*.model")])) == 1:
            return files
    remedy = f"copy source.spm and target.spm, or sentencepiece.model, into it; {nearest_file(folder / SPM[0])}"
    raise UserError(f"{folder} has no SentencePiece model", remedy, code="missing-file", where=folder / SPM[0])


def read_vocabulary(folder: Path, side: str, unknown: str) -> list[str]:
    """The token of each row; the library appends <unk> if a file lacks it."""
    names = [f"{name}_vocabulary.{ending}" for name in ("shared", side) for ending in ("json", "txt")]
    path = next((folder / name for name in names if (folder / name).exists()), folder / names[2])
    tokens = read_json(path, list[str]) if path.suffix == ".json" else read_text(path).removesuffix("\n").split("\n")
    return tokens if unknown in tokens else [*tokens, unknown]


def read_embeddings(
    settings: TransformerSettings, matrices: list[Tensor], file: ModelFile, text: MarianTokenizers
) -> tuple[Tensors, TransformerSettings]:
    """The matrices of both sides and of the output in our order of rows and the bias, tied ones once; the settings."""
    rows = text.src_rows, text.tgt_rows, text.tgt_rows
    shape = torch.Size((len(matrices[1]), settings.d_model))
    if matrices[0].shape[1:] != shape[1:] or matrices[2].shape != shape:
        raise folders.damaged(f"{file.path}: the embeddings have different shapes", file.path)
    tied = torch.equal(matrices[2], matrices[1])
    tie = "none" if not tied else "all" if rows[0] == rows[1] and torch.equal(matrices[0], matrices[1]) else "output"
    names = ("src_embedding", "tgt_embedding", "output")
    kept = {"all": ("tgt_embedding",), "output": names[:2], "none": names}[tie]
    weights = {f"{name}.weight": matrices[n][rows[n]] for n, name in enumerate(names) if name in kept}
    bias = folders.pop_tensor(file.tensors, BIAS, shape[:1], file.path)
    bias = (torch.zeros(shape[0]) if bias is None else bias)[text.tgt_rows]
    bias[text.duplicates] = NEVER_BIAS
    if has_bias := bool(bias.any()):
        weights[f"{kept[-1]}.bias"] = bias
    return weights, settings.model_copy(update={"tie": tie, "output_bias": has_bias})


def read_layers(settings: TransformerSettings, file: ModelFile) -> Tensors:
    """The weights of all layers by our names. Raises an error for other weights."""
    expected = layers(shapes(settings, 8, 8))
    tensors = {name: tensor for name, tensor in file.tensors.items() if name not in TABLES}
    for name in [*tensors]:
        for end, parts in FUSED.items():
            if end in name:
                module, _, kind = name.rpartition("/")
                chunks = tensors.pop(name).chunk(len(parts))
                tensors |= {f"{module}/{part}/{kind}": chunk for part, chunk in zip(parts, chunks, strict=False)}
    name_of = partial(rename, patterns=folders.NAMES["ctranslate2"]["modules"])
    for name, shape in expected.items():
        if name.endswith(".bias") and "norm" not in name:  # linear layers may have none
            tensors.setdefault(name_of(name), torch.zeros(shape))
    weights = folders.pop_tensors(tensors, expected, name_of, file.path)
    folders.refuse_weights(tensors, file.path, REMEDY)
    return weights
