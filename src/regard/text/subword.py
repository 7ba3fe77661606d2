"""Byte-level tokenizers: decode(encode(text)) == text for every text, since all 256 bytes are tokens."""

import json
from collections.abc import Iterable
from functools import cached_property
from itertools import groupby
from typing import Self

from tokenizers import Encoding
from tokenizers import Tokenizer as HuggingFaceTokenizer

from regard.reading import check_text
from regard.text.symbols import (
    BACK_TRANSLATED,
    BYTE_SYMBOLS,
    IMPLIED,
    PLACEHOLDERS,
    SPECIALS,
    is_tag,
    tagged_language,
    to_bytes,
)
from regard.text.tokenizer import Tokenizer, build_tokenizer

# Tokens are shown with signs for control characters, and with the value of bytes that are not UTF-8, which Python's
# error handler "surrogateescape" decodes as U+DC80 and following.
READABLE = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "␡"}
READABLE |= {0xDC00 + byte: f"<{byte:02X}>" for byte in range(0x80, 0x100)}


class SubwordTokenizer(Tokenizer):
    """A byte-level tokenizer; 0 is padding, 1 begins and 2 ends a sentence (`PAD`, `BOS`, `EOS`)."""

    def __init__(self, tokenizer: HuggingFaceTokenizer) -> None:
        """Wrap a `tokenizers.Tokenizer` whose vocabulary is the special tokens, the bytes and tokens of bytes."""
        self._tokenizer = tokenizer
        self._implied = IMPLIED if tokenizer.normalizer is not None else ""
        entries: dict[str, int] = tokenizer.get_vocab(with_added_tokens=False)
        self._symbols = sorted(entries, key=entries.__getitem__)
        if sorted(entries.values()) != list(range(len(entries))) or tuple(self._symbols[: len(SPECIALS)]) != SPECIALS:
            raise ValueError(f"its first tokens must be {', '.join(SPECIALS)} and its ids must have no gaps")
        if missing := [symbol for symbol in BYTE_SYMBOLS if symbol not in entries]:
            raise ValueError(f"{len(missing)} of the 256 bytes are missing")
        try:
            self._bytes = [to_bytes(token) for token in self._symbols]
        except KeyError as error:
            raise ValueError(f"a token contains {error}, which is not a byte symbol") from error

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the content of `tokenizer.json`; a ValueError says what is wrong with it."""
        return cls(build_tokenizer(text))

    def __len__(self) -> int:
        return len(self._symbols)

    @property
    def special_tokens(self) -> tuple[str, ...]:
        return tuple(self._symbols[: len(SPECIALS)])

    @cached_property
    def max_token_bytes(self) -> int:
        return max(map(len, self._bytes))

    @cached_property
    def language_tags(self) -> dict[str, int]:
        languages = ((tagged_language(token), index) for index, token in enumerate(self._symbols))
        return {language: index for language, index in languages if language is not None}

    @property
    def back_translation_tag(self) -> int | None:
        return self.token_ids.get(BACK_TRANSLATED)

    @cached_property
    def placeholders(self) -> tuple[str, ...]:
        return tuple(symbol for symbol in PLACEHOLDERS if symbol in self.token_ids)

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._encoding(text).ids
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of token ids; special tokens and bytes that are not a whole character are left out."""
        text = b"".join(self._bytes[token] for token in ids).decode("utf-8", "ignore")
        return text.removeprefix(self._implied)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Return readable tokens: `␣` for a space before it, `␊` for a line break, `<E4>` for a single byte."""
        return [self._readable(token) for token in ids]

    def _readable(self, token: int) -> str:
        if token < len(SPECIALS) or is_tag(self._symbols[token]):
            return self._symbols[token]
        text = self._bytes[token].decode("utf-8", "surrogateescape").translate(READABLE)
        if self._implied and len(text) > 1:
            return text.removeprefix(self._implied)
        return "␣" + text[1:] if text.startswith(" ") else text

    def count_unknown_words(self, text: str) -> tuple[int, int]:
        """Count the words of two or more bytes that are encoded byte by byte, and all words; spaces are not words."""
        encoding = self._encoding(text)
        unknown = total = 0
        for _, group in groupby(zip(encoding.word_ids, encoding.ids, strict=True), key=lambda pair: pair[0]):
            tokens = [self._bytes[token] for _, token in group]
            word = b"".join(tokens).strip()
            total += bool(word)
            unknown += len(word) > 1 and all(len(token) == 1 for token in tokens)
        return unknown, total

    def words(self, text: str) -> list[str]:
        """Split `text` into words, written in byte symbols; no token crosses the end of a word."""
        check_text(text)
        return [word for word, _ in self._tokenizer.pre_tokenizer.pre_tokenize_str(text)]

    def encode_word(self, word: str) -> list[int]:
        return self.encode(to_bytes(word).decode().removeprefix(self._implied))

    @cached_property
    def token_ids(self) -> dict[str, int]:
        """The id of every token, written in byte symbols."""
        return {token: index for index, token in enumerate(self._symbols)}

    @cached_property
    def merge_ranks(self) -> dict[tuple[str, str], int]:
        """The merges of byte pair encoding in the order they were learnt; empty for other kinds."""
        merges = json.loads(self.to_json())["model"].get("merges", [])
        return {(left, right): rank for rank, (left, right) in enumerate(merges)}

    def _encoding(self, text: str) -> Encoding:
        return self._tokenizer.encode(check_text(text), add_special_tokens=False)
