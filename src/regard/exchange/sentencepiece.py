"""Reader of SentencePiece files (Kudo and Richardson 2018), such as Marian's source.spm and target.spm.

They are protocol buffers: a sequence of fields with a number and a value, read here without any library.

    ModelProto        1 a subword, repeated          2 trainer settings             3 normalizer settings
    subword           1 its text                     2 its score, log p             3 its type
    trainer           3 model type, 1 is unigram     24 blanks behind words         35 unknown characters as bytes
    normalizer        2 character map                3 add a blank before the text  4 remove extra blanks
                      5 write blanks as ▁
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.exchange.folders import damaged
from regard.reading import read_bytes

NORMAL, UNKNOWN, CONTROL, USER_DEFINED = range(1, 5)
"""Types of subwords."""
UNIGRAM = 1


@dataclass(frozen=True)
class SentencePieceModel:
    """Subwords with their scores and types, and the normalisation of the text."""

    pieces: list[tuple[str, float, int]]
    characters: bytes
    """The character map in the format of the library `tokenizers`; empty if there is none."""
    prefix: bool
    """True if a blank is added before the text."""
    tidy: bool
    """True if extra blanks are removed."""

    @property
    def scores(self) -> dict[str, float]:
        """The scores of all subwords that a text can be tokenized into.

        SentencePiece uses a user-defined subword wherever it matches: its score is that of the best subword for each of
        its characters, and no other tokenization comes near it.
        """
        best = max((score for _, score, kind in self.pieces if kind == NORMAL), default=0.0)
        return {
            text: len(text) * best - 0.1 if kind == USER_DEFINED else score
            for text, score, kind in self.pieces
            if kind in (NORMAL, USER_DEFINED)
        }


def read_sentencepiece(path: Path) -> SentencePieceModel:
    content = read_bytes(path)
    try:
        return parse(content)
    except (ValueError, LookupError, struct.error, TypeError, AttributeError, OverflowError) as error:
        raise damaged(f"{path} is damaged or is not a supported SentencePiece model: {error}", path) from error


def parse(data: bytes) -> SentencePieceModel:
    """The content of a file; raises a ValueError that says what is damaged or not supported."""
    pieces, trainer, normalizer = [], {}, {}
    for number, value in fields(data):
        if number == 1:
            piece = dict(fields(value))
            pieces.append((piece[1].decode("utf-8"), as_float(piece.get(2, 0)), piece.get(3, NORMAL)))
        elif number == 2:
            trainer = dict(fields(value))
        elif number == 3:
            normalizer = dict(fields(value))
    if not pieces:
        raise ValueError("it contains no subwords")
    if trainer.get(3, UNIGRAM) != UNIGRAM:
        raise ValueError("it is not a unigram model")
    if trainer.get(24, 0) or trainer.get(35, 0) or not normalizer.get(5, 1):
        raise ValueError("it writes blanks behind words or not at all, or unknown characters as bytes")
    return SentencePieceModel(pieces, normalizer.get(2, b""), bool(normalizer.get(3, 1)), bool(normalizer.get(4, 1)))


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message: number, and an integer (varint, 4 or 8 bytes) or bytes."""
    position = 0
    while position < len(data):
        tag, position = varint(data, position)
        match tag & 7:
            case 0:
                value, position = varint(data, position)
                yield tag >> 3, value
                continue
            case 1:
                size = 8
            case 2:
                size, position = varint(data, position)
            case 5:
                size = 4
            case other:
                raise ValueError(f"a field of type {other} at byte {position}")
        if position + size > len(data):
            raise ValueError(f"it ends in the middle of a field, at byte {len(data)}")
        content, position = data[position : position + size], position + size
        yield tag >> 3, content if tag & 7 == 2 else int.from_bytes(content, "little")


def varint(data: bytes, position: int) -> tuple[int, int]:
    """An integer with seven bits a byte, lowest first, and the position behind it."""
    value = shift = 0
    while True:
        byte = data[position]
        value, shift, position = value | (byte & 0x7F) << shift, shift + 7, position + 1
        if byte < 0x80:
            return value, position


def as_float(bits: int) -> float:
    number: float = struct.unpack("<f", bits.to_bytes(4, "little"))[0]
    return number
