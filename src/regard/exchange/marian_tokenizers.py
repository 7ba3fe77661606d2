"""The vocabularies of a translator in the folders of `transformers`, in and out.

    source.spm, target.spm    how Marian cuts the text of either side (see sentencepiece.py)
    vocab.json                the numbers of the pieces of both; with target_vocab.json, of the source alone
    tokenizer.json            what ours are, and what is written; of the target in a folder of its own, if it is another

Marian's end symbol has number 0, its padding the last one, and what begins a translation is padding too. Ours have
padding 0, beginning 1 and end 2, so the rows of its matrices are ordered anew: the number n of ours is the row rows[n]
of theirs. A row may have to serve two numbers. Then the second is silent: it is read, and is never to be written.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.errors import UserError
from regard.exchange.folders import CONFIG, TOKENIZER, TOKENIZER_CONFIG, Config
from regard.exchange.sentencepiece import SentencePieceModel, read_sentencepiece
from regard.files import nearest_file, read_json, write_json
from regard.text import BOS, EOS, PAD, Vocabulary
from regard.text.sentencepiece import HIDDEN, UNKNOWN, assemble, is_code
from regard.text.symbols import SPECIALS

SPM, NUMBERS = ("source.spm", "target.spm"), ("vocab.json", "target_vocab.json")
TARGET = "target"
"""The folder of the target's vocabulary, where it is not the source's."""


class MarianTokenizers(NamedTuple):
    """Source and target vocabulary, the rows that their numbers are of, and the target's numbers that are silent."""

    vocabularies: tuple[Vocabulary, Vocabulary]
    src_rows: list[int]
    tgt_rows: list[int]
    duplicates: list[int]


def read_vocabularies(folder: Path, config: Config) -> MarianTokenizers:
    """The vocabularies of `folder`, whichever files it has."""
    if (folder / SPM[0]).exists():
        return read_sentencepiece_tokenizers(folder, config)
    if not (folder / TOKENIZER).exists():
        raise UserError(
            f"{folder} has no vocabulary: neither {' and '.join(SPM)} nor {TOKENIZER} is there",
            f"fetch all files of the model; {nearest_file(folder / SPM[0])}",
        )
    src = read_tokenizer(folder / TOKENIZER)
    other = folder / TARGET / TOKENIZER
    tgt = read_tokenizer(other) if other.exists() else src
    symbols = {key: config.get(f"{key}_token_id") for key in ("pad", "decoder_start", "eos")}
    if list(symbols.values()) != [PAD, BOS, EOS]:
        raise UserError(f"{folder / CONFIG}: {symbols} are other numbers than {TOKENIZER} has", "fetch the model again")
    sizes = config["vocab_size"], config.get("decoder_vocab_size", config["vocab_size"])
    for vocabulary, size in zip((src, tgt), sizes, strict=True):
        if len(vocabulary) != size:
            raise UserError(
                f"{folder / TOKENIZER} has {len(vocabulary)} pieces, and by {CONFIG} there are {size}",
                "the files are not of the same model: fetch them again",
            )
    return MarianTokenizers((src, tgt), list(range(len(src))), list(range(len(tgt))), [])


def read_sentencepiece_tokenizers(folder: Path, config: Config) -> MarianTokenizers:
    """The vocabularies of Marian's own files."""
    models = [read_sentencepiece(folder / name) for name in SPM]
    apart = (folder / NUMBERS[1]).exists()
    found = []
    for side, model in enumerate(models):
        path = folder / NUMBERS[side if apart else 0]
        token_ids = read_vocab_json(
            path, config["vocab_size"] if not (apart and side) else config["decoder_vocab_size"]
        )
        start = config.get("decoder_start_token_id") if side or not apart else None
        try:
            entries, rows = reorder_tokens(token_ids, [model] if apart else models, start)
        except KeyError as error:
            raise UserError(f"{path} has no {error}", "fetch the model again") from error
        found.append((assemble(entries, model.scores, model.characters, model.prefix, model.tidy), rows))
    (src, src_rows), (tgt, tgt_rows) = found
    return MarianTokenizers((src, tgt), src_rows, tgt_rows, duplicates(tgt_rows))


def read_vocab_json(path: Path, size: int) -> dict[str, int]:
    """A vocab.json: pieces and their numbers, which leave none out."""
    if not path.exists():
        raise UserError(f"{path}: no such file", nearest_file(path))
    token_ids = read_json(path)
    if not isinstance(token_ids, dict) or sorted(map(str, token_ids.values())) != sorted(map(str, range(size))):
        raise UserError(
            f"{path} does not number {size} pieces from 0 on, as {CONFIG} says", "fetch the model again, all its files"
        )
    return token_ids


def reorder_tokens(
    token_ids: dict[str, int], models: Sequence[SentencePieceModel], start: int | None
) -> tuple[list[str], list[int]]:
    """The pieces in our order, and the row of each: symbols first, then as they were.

    Pieces text is cut into that have no number there are read as <unk>, and so they have its row.
    """
    pad, end, unknown = token_ids["<pad>"], token_ids["</s>"], token_ids[UNKNOWN]
    first = [pad, pad if start is None else start, end]
    rest = {piece: row for piece, row in sorted(token_ids.items(), key=lambda item: item[1]) if row not in first}
    missing = dict.fromkeys(piece for model in models for piece in model.scores if piece not in token_ids)
    return [*SPECIALS, *rest, *missing], [*first, *rest.values(), *(unknown for _ in missing)]


def duplicates(rows: Sequence[int]) -> list[int]:
    """The numbers whose row is another's already: of the symbols the end comes first, then the beginning."""
    seen: set[int] = set()
    found = []
    for number in (EOS, BOS, PAD, *range(EOS + 1, len(rows))):
        if rows[number] in seen:
            found.append(number)
        seen.add(rows[number])
    return found


def read_tokenizer(path: Path) -> Vocabulary:
    """A tokenizer.json that was written here, without what `transformers` needs besides."""
    content = read_json(path)
    if isinstance(content, dict):
        content = content | {"post_processor": None, "added_tokens": [], "truncation": None, "padding": None}
    try:
        return Vocabulary.from_json(json.dumps(content))
    except ValueError as error:
        raise UserError(
            f"{path} is damaged or is no vocabulary of this toolkit: {error}",
            f"of other programs {' and '.join(SPM)} can be read",
        ) from error


def write_vocabularies(folder: Path, vocabularies: tuple[Vocabulary, Vocabulary], longest: int) -> None:
    """The tokenizers of both sides, which append the end symbol to every text."""
    src, tgt = vocabularies
    places = {folder: src} if src.to_json() == tgt.to_json() else {folder: src, folder / TARGET: tgt}
    for place, vocabulary in places.items():
        write_json(place / TOKENIZER, build_tokenizer_json(vocabulary))
        write_json(place / TOKENIZER_CONFIG, tokenizer_config(vocabulary, longest))


def build_tokenizer_json(vocabulary: Vocabulary) -> dict[str, Any]:
    """The content of a tokenizer.json with the end symbol behind every text, and languages known by their codes."""
    content: dict[str, Any] = json.loads(vocabulary.to_json())
    end = vocabulary.symbols[EOS]
    template = [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": end, "type_id": 0}}]
    pair = [template[0], {"Sequence": {"id": "B", "type_id": 0}}, template[1]]
    content["post_processor"] = {
        "type": "TemplateProcessing",
        "single": template,
        "pair": pair,
        "special_tokens": {end: {"id": end, "ids": [EOS], "tokens": [end]}},
    }
    for number, entry in enumerate(content["model"]["vocab"] if content["model"]["type"] == "Unigram" else ()):
        if is_code(code := entry[0].removeprefix(HIDDEN)):
            entry[0] = code
            kind = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
            content["added_tokens"].append({"id": number, "content": code} | kind)
    return content


def tokenizer_config(vocabulary: Vocabulary, longest: int) -> dict[str, Any]:
    pad, begin, end = vocabulary.symbols
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": pad,
        "bos_token": begin,
        "eos_token": end,
        "model_max_length": longest,
        "clean_up_tokenization_spaces": False,
    }
