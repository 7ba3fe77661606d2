"""A vocabulary: text to numbers and back.

Whatever its kind, `decode(encode(text)) == text` for every text that can be written in UTF-8. A vocabulary is one
`tokenizer.json` that the Hugging Face library `tokenizers` reads as well.
"""

import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar

from tokenizers import Tokenizer

from regard.errors import UserError
from regard.files import nearest_file, write_text
from regard.text.symbols import BYTE_SYMBOLS, IMPLIED, SPECIALS, to_bytes

# How pictures show what has no picture: control characters by their symbols, undecodable bytes (which Python's
# "surrogateescape" writes as U+DC80 and on) by their value.
READABLE = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "␡"}
READABLE |= {0xDC00 + byte: f"<{byte:02X}>" for byte in range(0x80, 0x100)}


class Vocabulary:
    """The pieces a model reads and writes; 0 is padding, 1 begins and 2 ends a sentence (`PAD`, `BOS`, `EOS`)."""

    kinds: ClassVar[dict[str, type["Vocabulary"]]] = {}
    """The classes of vocabularies that are not made of bytes, by the kind of model their files hold."""

    def __init_subclass__(cls, model: str, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Vocabulary.kinds[model] = cls

    def __init__(self, tokenizer: Any) -> None:
        """Wrap a `tokenizers.Tokenizer` whose entries are the special symbols, the bytes and pieces made of bytes."""
        self._tokenizer = tokenizer
        self._implied = IMPLIED if tokenizer.normalizer is not None else ""
        entries: dict[str, int] = tokenizer.get_vocab(with_added_tokens=False)
        self._pieces = sorted(entries, key=entries.__getitem__)
        if sorted(entries.values()) != list(range(len(entries))) or tuple(self._pieces[: len(SPECIALS)]) != SPECIALS:
            raise ValueError(f"its first entries must be {', '.join(SPECIALS)} and its numbers have no gaps")
        if missing := [symbol for symbol in BYTE_SYMBOLS if symbol not in entries]:
            raise ValueError(f"{len(missing)} of the 256 bytes are missing from it")
        try:
            self._bytes = [to_bytes(piece) for piece in self._pieces]
        except KeyError as error:
            raise ValueError(f"it holds a piece with {error}, which stands for no byte") from error

    def __len__(self) -> int:
        """The number of pieces."""
        return len(self._pieces)

    @property
    def symbols(self) -> tuple[str, ...]:
        """How the entries for padding, beginning and end are written."""
        return tuple(self._pieces[: len(SPECIALS)])

    def encode(self, text: str) -> list[int]:
        """The numbers of the pieces of `text`, without beginning and end."""
        ids: list[int] = self._encoding(text).ids
        return ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` for many texts at once, on all cores."""
        for text in texts:
            refuse_surrogates(text)
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`; special symbols say nothing, bytes that are no UTF-8 become the sign U+FFFD."""
        text = b"".join(self._bytes[number] for number in ids).decode("utf-8", "replace")
        return text.removeprefix(self._implied)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Each piece as a person reads it: `␣` for a space before it, `␊` for a line break, `<E4>` for a lone byte."""
        return [self._readable(number) for number in ids]

    def _readable(self, number: int) -> str:
        if number < len(SPECIALS):
            return SPECIALS[number]
        text = self._bytes[number].decode("utf-8", "surrogateescape").translate(READABLE)
        if self._implied and len(text) > 1:
            return text.removeprefix(self._implied)
        return "␣" + text[1:] if text.startswith(" ") else text

    def words(self, text: str) -> list[str]:
        """The words of `text` before they are cut into pieces, written in byte symbols."""
        refuse_surrogates(text)
        return [word for word, _ in self._tokenizer.pre_tokenizer.pre_tokenize_str(text)]

    def encode_word(self, word: str) -> list[int]:
        """The numbers of the pieces of one of `words`."""
        return self.encode(to_bytes(word).decode().removeprefix(self._implied))

    def spelled_out(self, text: str) -> tuple[int, int]:
        """How many words of `text` the vocabulary knows no part of (every byte is a piece), and of how many.

        What takes a single byte anyhow (a digit, a comma) and blanks count as known.
        """
        encoding = self._encoding(text)
        spelled = total = 0
        for _, group in groupby(zip(encoding.word_ids, encoding.ids, strict=True), key=lambda pair: pair[0]):
            parts = [self._bytes[number] for _, number in group]
            word = b"".join(parts).strip()
            total += bool(word)
            spelled += len(word) > 1 and all(len(part) == 1 for part in parts)
        return spelled, total

    @cached_property
    def longest(self) -> int:
        """The bytes of the longest piece: `n` bytes of text are at least `n / longest` pieces."""
        return max(map(len, self._bytes))

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of every piece, written in byte symbols."""
        return {piece: number for number, piece in enumerate(self._pieces)}

    @cached_property
    def merge_ranks(self) -> dict[tuple[str, str], int]:
        """The merges of byte pair encoding, the first learnt first; other kinds have none."""
        merges = json.loads(self.to_json())["model"].get("merges", [])
        return {(left, right): rank for rank, (left, right) in enumerate(merges)}

    def to_json(self) -> str:
        """The content of `tokenizer.json`."""
        text: str = self._tokenizer.to_str(pretty=True)
        return text

    def save(self, path: Path) -> None:
        """Write `tokenizer.json`."""
        write_text(path, self.to_json())

    @classmethod
    def from_json(cls, text: str) -> "Vocabulary":
        """The inverse of `to_json`, whichever class it was of; a ValueError says what is wrong with `text`."""
        try:
            tokenizer = Tokenizer.from_str(text)
        except Exception as error:  # the library raises nothing more specific
            raise ValueError(str(error)) from error
        return Vocabulary.kinds.get(type(tokenizer.model).__name__, Vocabulary)(tokenizer)

    @classmethod
    def load(cls, path: Path) -> "Vocabulary":
        """Read a `tokenizer.json` that this toolkit wrote."""
        try:
            return cls.from_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise UserError(f"{path}: no such vocabulary", nearest_file(path)) from error
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror}", "name a tokenizer.json") from error
        except ValueError as error:  # a UnicodeDecodeError is one too
            raise UserError(f"{path} is damaged or is no vocabulary: {error}", "train the vocabulary again") from error

    def _encoding(self, text: str) -> Any:
        return self._tokenizer.encode(refuse_surrogates(text), add_special_tokens=False)


def refuse_surrogates(text: str) -> str:
    """Return `text`, unless it holds half a surrogate pair: that is no character and cannot be written in UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        around = ascii(text[max(0, error.start - 10) : error.end + 10])
        problem = f"the text holds {text[error.start]!a}, half of a surrogate pair, near {around}"
        raise UserError(problem, "repair the text: surrogates are no characters") from error
    return text
