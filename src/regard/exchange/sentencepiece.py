"""The files of SentencePiece (Kudo and Richardson 2018), which Marian's source.spm and target.spm are.

They are protocol buffers: a row of fields, each a number with a value behind it, read here without any library.

    ModelProto      1 a piece, again and again      2 how it was trained       3 how text is normalised
    a piece         1 its text                      2 its score, log p         3 its type
    trained         3 the kind of model, 1 unigram  24 blanks behind words     35 unknown characters as bytes
    normalised      2 a table of characters         3 a blank before the text  4 blanks tidied     5 blanks written as ▁
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.files import nearest_file

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
UNIGRAM = 1


@dataclass(frozen=True)
class SentencePieceModel:
    """Pieces with their scores and types, and how text is normalised before it is cut into them."""

    pieces: list[tuple[str, float, int]]
    characters: bytes
    """The table of characters, as the library `tokenizers` takes it too; none where it is empty."""
    prefix: bool
    tidy: bool

    @property
    def scores(self) -> dict[str, float]:
        """Of the pieces that text can be cut into.

        A piece a user defined is taken wherever it fits: the library gives it the score of the likeliest piece for each
        of its characters, and nothing but itself comes near that.
        """
        best = max((score for _, score, kind in self.pieces if kind == NORMAL), default=0.0)
        return {
            text: len(text) * best - 0.1 if kind == USER_DEFINED else score
            for text, score, kind in self.pieces
            if kind in (NORMAL, USER_DEFINED)
        }


def read_sentencepiece(path: Path) -> SentencePieceModel:
    """Read a .spm or .model file."""
    if not path.exists():
        raise UserError(f"{path}: no such file", nearest_file(path))
    try:
        return parse(path.read_bytes())
    except (ValueError, IndexError, struct.error, TypeError, AttributeError) as error:
        raise UserError(f"{path} is damaged or is no model of SentencePiece: {error}", "fetch it again") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}", "check its permissions") from error


def parse(data: bytes) -> SentencePieceModel:
    """The content of a file; a ValueError says what is wrong with it or cannot be used."""
    pieces, trained, normalised = [], {}, {}
    for number, value in fields(data):
        if number == 1:
            piece = dict(fields(value))
            pieces.append((piece[1].decode("utf-8"), as_float(piece.get(2, 0)), piece.get(3, NORMAL)))
        elif number == 2:
            trained = dict(fields(value))
        elif number == 3:
            normalised = dict(fields(value))
    if not pieces:
        raise ValueError("it holds no pieces")
    if trained.get(3, UNIGRAM) != UNIGRAM:
        raise ValueError("its pieces are merged, and unigram models alone can be read")
    if trained.get(24, 0) or trained.get(35, 0) or not normalised.get(5, 1):
        raise ValueError("it writes blanks behind words, or not at all, or unknown characters as bytes")
    return SentencePieceModel(pieces, normalised.get(2, b""), bool(normalised.get(3, 1)), bool(normalised.get(4, 1)))


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message: their numbers, and integers, 4 or 8 bytes as an integer, or bytes."""
    place = 0
    while place < len(data):
        tag, place = varint(data, place)
        match tag & 7:
            case 0:
                value, place = varint(data, place)
                yield tag >> 3, value
                continue
            case 1:
                size = 8
            case 2:
                size, place = varint(data, place)
            case 5:
                size = 4
            case other:
                raise ValueError(f"a field of kind {other} at byte {place}")
        if place + size > len(data):
            raise ValueError(f"it ends in the middle of a field, at byte {len(data)}")
        part, place = data[place : place + size], place + size
        yield tag >> 3, part if tag & 7 == 2 else int.from_bytes(part, "little")


def varint(data: bytes, place: int) -> tuple[int, int]:
    """An integer written seven bits a byte, the lowest first, and the place behind it."""
    value = shift = 0
    while True:
        byte = data[place]
        value, shift, place = value | (byte & 0x7F) << shift, shift + 7, place + 1
        if byte < 0x80:
            return value, place


def as_float(bits: int) -> float:
    """The number of single precision whose bits these are."""
    number: float = struct.unpack("<f", bits.to_bytes(4, "little"))[0]
    return number
