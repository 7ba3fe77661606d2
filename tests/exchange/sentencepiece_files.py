"""SentencePiece files written by hand, as the library writes them."""

import struct
from collections.abc import Sequence
from pathlib import Path

Piece = tuple[str, float, int]


def varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def field(number: int, value: int | float | bytes) -> bytes:
    """One field of a message: an integer, a number of single precision, or bytes."""
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3) + varint(value)


def model_file(pieces: Sequence[Piece], trained: bytes = b"", normalised: bytes = b"") -> bytes:
    """A whole file; what is normal need not be said."""
    message = b""
    for text, score, kind in pieces:
        written = field(1, text.encode()) + field(2, score) + (field(3, kind) if kind != 1 else b"")
        message += field(1, written)
    trainer = field(1, b"corpus.txt") + field(4, 8000) + field(10, 0.9995) + trained
    return message + field(2, trainer) + field(3, field(1, b"identity") + normalised)


def symbols() -> list[Piece]:
    return [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3)]


def write_model(path: Path, scores: dict[str, float]) -> None:
    path.write_bytes(model_file([*symbols(), *((text, score, 1) for text, score in scores.items())]))
