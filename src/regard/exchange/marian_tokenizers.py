"""The tokenizers of a translation model in folders of `transformers`, read and written.

    source.spm, target.spm    Marian's SentencePiece models of both sides (see sentencepiece.py)
    vocab.json                the ids of the subwords of both sides; with target_vocab.json, of the source only
    tokenizer.json            our tokenizer, which is what we write; in a folder of its own for a different target

In Marian the end symbol has id 0, padding has the last id, and padding also begins a translation. In our tokenizers
padding is 0, beginning is 1 and end is 2. So the rows of its matrices are reordered: our id n is row rows[n] of theirs.
Two ids may need the same row. Then the second is a duplicate: it may occur in the input and is never generated.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from regard.errors import UserError
from regard.exchange import folders
from regard.exchange.folders import Config
from regard.exchange.sentencepiece import SentencePieceModel, read_sentencepiece
from regard.files import write_json
from regard.reading import nearest_file, read_json
from regard.text.factory import tokenizer_from_json
from regard.text.sentencepiece import HIDDEN, UNKNOWN, assemble, is_code
from regard.text.symbols import BOS, EOS, PAD, PLACEHOLDERS, SPECIALS, language_tag
from regard.text.tokenizer import Tokenizer

SPM, VOCAB_FILES = ("source.spm", "target.spm"), ("vocab.json", "target_vocab.json")
TARGET = "target"
"""The folder of the target tokenizer if it differs from the source tokenizer."""


class MarianTokenizers(NamedTuple):
    """Source and target tokenizer, the matrix rows of their ids, and the duplicate ids of the target."""

    tokenizers: tuple[Tokenizer, Tokenizer]
    src_rows: list[int]
    tgt_rows: list[int]
    duplicates: list[int]


def read_tokenizers(folder: Path, config: Config) -> MarianTokenizers:
    """The tokenizers in `folder`, from SentencePiece files or from tokenizer.json."""
    path = folders.find_tokenizer(folder, *SPM)
    if path.name == SPM[0]:
        return read_sentencepiece_tokenizers(folder, config)
    src = read_tokenizer(path)
    target = folder / TARGET / folders.TOKENIZER
    tgt = read_tokenizer(target) if target.exists() else src
    symbols = {key: config.get(f"{key}_token_id") for key in ("pad", "decoder_start", "eos")}
    if list(symbols.values()) != [PAD, BOS, EOS]:
        problem = f"{folder / folders.CONFIG}: the ids {symbols} differ from those of {folders.TOKENIZER}"
        raise folders.damaged(problem, folder / folders.CONFIG)
    src_size = folders.read_count(config, "vocab_size", None, folder / folders.CONFIG)
    sizes = src_size, folders.read_count(config, "decoder_vocab_size", src_size, folder / folders.CONFIG)
    for tokenizer, size in zip((src, tgt), sizes, strict=True):
        if len(tokenizer) != size:
            problem = f"{folder / folders.TOKENIZER} has {len(tokenizer)} tokens, but {folders.CONFIG} says {size}"
            remedy = f"the files belong to different models: {folders.DOWNLOAD_AGAIN}"
            raise folders.damaged(problem, folder / folders.TOKENIZER, remedy)
    return MarianTokenizers((src, tgt), list(range(len(src))), list(range(len(tgt))), [])


def read_sentencepiece_tokenizers(folder: Path, config: Config) -> MarianTokenizers:
    """The tokenizers of Marian's own files."""
    models = [read_sentencepiece(folder / name) for name in SPM]
    separate = (folder / VOCAB_FILES[1]).exists()
    sides = []
    for side, model in enumerate(models):
        path = folder / VOCAB_FILES[side if separate else 0]
        key = "decoder_vocab_size" if separate and side else "vocab_size"
        token_ids = read_vocab_json(path, folders.read_count(config, key, None, folder / folders.CONFIG))
        start = read_start(config, len(token_ids), folder / folders.CONFIG) if side or not separate else None
        try:
            tokens, rows = reorder_tokens(token_ids, [model] if separate else models, start)
        except KeyError as error:
            raise folders.damaged(f"{path} has no {error}", path) from error
        sides.append((assemble(tokens, model.scores, model.characters, model.prefix, model.tidy), rows))
    (src, src_rows), (tgt, tgt_rows) = sides
    return MarianTokenizers((src, tgt), src_rows, tgt_rows, duplicates(tgt_rows))


def read_start(config: Config, size: int, path: Path) -> int | None:
    """The id that begins a translation; None if config.json has none."""
    start = folders.read_value(config, "decoder_start_token_id", int, -1, path)
    if start >= size or start < -1:
        problem = f"{path}: decoder_start_token_id = {start} is not below vocab_size = {size}"
        raise folders.damaged(problem, f"{path}:decoder_start_token_id")
    return None if start < 0 else start


def read_vocab_json(path: Path, size: int) -> dict[str, int]:
    """A vocab.json: subwords and their ids, which are 0 to size - 1."""
    if not path.exists():
        raise UserError(f"{path}: no such file", nearest_file(path), code="missing-file", where=path)
    token_ids = read_json(path, dict[str, int])
    if len(token_ids) != size or sorted(token_ids.values()) != list(range(size)):
        problem = f"{path}: the ids must be 0 to {size - 1}, because {folders.CONFIG} names a vocabulary of {size}"
        raise folders.damaged(problem, path, "download all files of the model again")
    return token_ids


def reorder_tokens(
    token_ids: dict[str, int], models: Sequence[SentencePieceModel], start: int | None
) -> tuple[list[str], list[int]]:
    """The tokens in our order, and the row of each: special tokens first, then the others in their order.

    Subwords of the SentencePiece models without an id are read as <unk>, so they have its row.
    """
    pad, end, unknown = token_ids["<pad>"], token_ids["</s>"], token_ids[UNKNOWN]
    first = [pad, pad if start is None else start, end]
    others = {token: row for token, row in sorted(token_ids.items(), key=lambda item: item[1]) if row not in first}
    missing = dict.fromkeys(token for model in models for token in model.scores if token not in token_ids)
    return [*SPECIALS, *others, *missing], [*first, *others.values(), *(unknown for _ in missing)]


def duplicates(rows: Sequence[int]) -> list[int]:
    """The ids whose row already belongs to another id; end comes before beginning, beginning before padding."""
    seen: set[int] = set()
    ids = []
    for token_id in (EOS, BOS, PAD, *range(EOS + 1, len(rows))):
        if rows[token_id] in seen:
            ids.append(token_id)
        seen.add(rows[token_id])
    return ids


def read_tokenizer(path: Path) -> Tokenizer:
    """A tokenizer.json that `write_tokenizers` wrote, without what it added for `transformers`."""
    content = read_json(path, Config)
    added = folders.read_value(content, "added_tokens", list[dict[str, object]], [], path)
    placeholders = [token for token in added if token.get("content") in PLACEHOLDERS]
    content |= {"post_processor": None, "added_tokens": placeholders, "truncation": None, "padding": None}
    try:
        return tokenizer_from_json(json.dumps(content))
    except ValueError as error:
        problem = f"{path} is damaged or is not a tokenizer of this toolkit: {error}"
        raise folders.damaged(problem, path, f"for models from other tools, add {' and '.join(SPM)}") from error


def write_tokenizers(folder: Path, tokenizers: tuple[Tokenizer, Tokenizer], max_length: int) -> None:
    """Write the tokenizers of both sides. They append the end symbol to every text."""
    src, tgt = tokenizers
    sides = {folder: src} if src.to_json() == tgt.to_json() else {folder: src, folder / TARGET: tgt}
    for path, tokenizer in sides.items():
        write_json(path / folders.TOKENIZER, build_tokenizer_json(tokenizer))
        pad, begin, end = tokenizer.special_tokens
        config = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "pad_token": pad,
            "bos_token": begin,
            "eos_token": end,
            "model_max_length": max_length,
            "clean_up_tokenization_spaces": False,
        }
        write_json(path / folders.TOKENIZER_CONFIG, config)


def build_tokenizer_json(tokenizer: Tokenizer) -> Config:
    """The content of a tokenizer.json that appends the end symbol and knows codes and tags of languages in text."""
    content: Config = json.loads(tokenizer.to_json())
    end = tokenizer.special_tokens[EOS]
    single = [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": end, "type_id": 0}}]
    pair = [single[0], {"Sequence": {"id": "B", "type_id": 0}}, single[1]]
    content["post_processor"] = {
        "type": "TemplateProcessing",
        "single": single,
        "pair": pair,
        "special_tokens": {end: {"id": end, "ids": [EOS], "tokens": [end]}},
    }
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    for token_id, entry in enumerate(content["model"]["vocab"] if content["model"]["type"] == "Unigram" else ()):
        if is_code(code := entry[0].removeprefix(HIDDEN)):
            entry[0] = code
            content["added_tokens"].append({"id": token_id, "content": code} | flags)
    tags = [{"id": token_id, "content": language_tag(name)} for name, token_id in tokenizer.language_tags.items()]
    content["added_tokens"] += [tag | flags for tag in tags]
    content["added_tokens"].sort(key=lambda token: token["id"])
    return content
