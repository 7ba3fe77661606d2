"""Inputs of text encoders: tokenized texts with their spans, and special tokens around them.

    BERT                [CLS] A [SEP]       [CLS] A [SEP] B [SEP]       Devlin et al. 2018, section 3
    RoBERTa             <s> A </s>          <s> A </s> </s> B </s>      Liu et al. 2019, section 2.1
    language models     ⟨/s⟩ A ⟨/s⟩         ⟨/s⟩ A ⟨s⟩ B ⟨/s⟩           Radford et al. 2018, section 3.3

A language model of regard reads every line after the end of the line before, so its texts begin with the end symbol
too. It never saw the symbol between two texts; fine-tuning learns it, as that of Radford et al. 2018.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tokenizers import Encoding as HuggingFaceEncoding

from regard.reading import check_text
from regard.text.subword import SubwordTokenizer
from regard.text.symbols import BOS, EOS, PAD
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Encoding:
    """A tokenized text.

    ids     token ids
    spans   of every token, the first character in the text and the one after its last
    words   of every token, the number of its word, from 0; words of control characters have no tokens
    """

    ids: list[int]
    spans: list[tuple[int, int]]
    words: list[int]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, tokens: slice) -> "Encoding":
        return Encoding(self.ids[tokens], self.spans[tokens], self.words[tokens])


@dataclass(frozen=True)
class TextInput:
    """The input of a text encoder: token ids, segments (0 or 1), and the spans and words, None for special tokens."""

    ids: list[int]
    segments: list[int]
    spans: list[tuple[int, int] | None]
    words: list[int | None]
    truncated_tokens: int = 0
    """Number of tokens that were cut off."""


Frame = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Special tokens before the first text, between two texts, and after the last text."""


class InputTokenizer(Tokenizer):
    """The tokenizer of a text encoder."""

    pad: int

    @property
    @abstractmethod
    def frame(self) -> Frame:
        """The special tokens of an input: before the first text, between two texts, and after the last text."""

    @abstractmethod
    def tokenize(self, text: str) -> Encoding:
        """Return the tokens of `text` with their spans and words."""

    @abstractmethod
    def tokenize_words(self, words: Sequence[str]) -> Encoding:
        """Tokenize a text that is split into words already; spans count inside each word."""

    def build_input(
        self,
        first: Encoding,
        second: Encoding | None = None,
        max_length: int | None = None,
        truncate: Literal["longer", "first", "second"] = "longer",
    ) -> TextInput:
        """Make the input of one text or two, of at most `max_length` tokens; `truncate` says which text loses its end.

        If the text that may not be truncated is too long, a ValueError is raised.
        """
        length = len(first) + len(second or ())
        start, between, end = self.frame
        if max_length is not None:
            room = max_length - len(start) - len(end) - (0 if second is None else len(between))
            first, second = truncate_pair(first, second, room, truncate)
        parts = [(start, None, 0), (first.ids, first, 0), (end if second is None else between, None, 0)]
        parts += [(second.ids, second, 1), (end, None, 1)] if second is not None else []
        result = TextInput([], [], [], [], length - len(first) - len(second or ()))
        for ids, encoding, segment in parts:
            result.ids.extend(ids)
            result.segments.extend([segment] * len(ids))
            result.spans.extend(encoding.spans if encoding else [None] * len(ids))
            result.words.extend(encoding.words if encoding else [None] * len(ids))
        return result


class MaskedTokenizer(InputTokenizer):
    """The tokenizer of a masked language model."""

    entries: list[str]
    """The tokens by id."""
    unk: int
    cls: int
    sep: int
    mask: int

    @abstractmethod
    def continues_word(self, token: int) -> bool:
        """Say whether a token continues the word of the token before it."""

    @abstractmethod
    def decode_all(self, ids: Iterable[int]) -> str:
        """Return the text of token ids, special tokens included."""

    def __len__(self) -> int:
        return len(self.entries)

    def encode(self, text: str) -> list[int]:
        return self.tokenize(text).ids

    def tokens(self, ids: Iterable[int]) -> list[str]:
        return [self.entries[token] for token in ids]

    def count_unknown_words(self, text: str) -> tuple[int, int]:
        encoding = self.tokenize(text)
        unknown = {word for word, token in zip(encoding.words, encoding.ids, strict=True) if token == self.unk}
        return len(unknown), len(set(encoding.words))

    @property
    def mask_text(self) -> str:
        """How a masked token is written in a text."""
        return self.entries[self.mask]


def index_tokens(entries: Sequence[str], specials: Sequence[str]) -> dict[str, int]:
    """The id of each token; a ValueError if a special token is missing or a token is there twice."""
    ids = {entry: index for index, entry in enumerate(entries)}
    if missing := [token for token in specials if token not in ids]:
        raise ValueError(f"it has no {' and no '.join(missing)}")
    if len(ids) < len(entries):
        first = next(index for index, entry in enumerate(entries) if ids[entry] != index)
        raise ValueError(f"entry {entries[first]!r} is there twice, in lines {first + 1} and {ids[entries[first]] + 1}")
    return ids


def order_tokens(ids: Mapping[str, int]) -> list[str]:
    """The tokens by id; a ValueError if the ids have gaps."""
    if sorted(ids.values()) != list(range(len(ids))):
        raise ValueError("the ids of its tokens have gaps")
    return sorted(ids, key=ids.__getitem__)


class ByteLevelInputTokenizer(InputTokenizer):
    """A tokenizer of bytes, whose tokens may begin with a space."""

    def tokenize(self, text: str) -> Encoding:
        """Return the tokens of `text`; a span does not include the spaces at the beginning of a token."""
        encoding = encoding_of(self._tokenizer.encode(check_text(text), add_special_tokens=False))
        spans = [(end - len(text[start:end].lstrip()), end) for start, end in encoding.spans]
        return Encoding(encoding.ids, spans, encoding.words)

    def tokenize_words(self, words: Sequence[str]) -> Encoding:
        """Tokenize words as they are in a text: each but the first has a space before it."""
        spaced = [f" {check_text(word)}" if number else check_text(word) for number, word in enumerate(words)]
        encoding = encoding_of(self._tokenizer.encode(spaced, is_pretokenized=True, add_special_tokens=False))
        spaces = [int(word > 0) for word in encoding.words]
        spans = [
            (max(start - space, 0), max(end - space, 0))
            for (start, end), space in zip(encoding.spans, spaces, strict=True)
        ]
        return Encoding(encoding.ids, spans, encoding.words)


class SubwordInputTokenizer(ByteLevelInputTokenizer, SubwordTokenizer):
    """The byte-level tokenizer of a language model."""

    pad, frame = PAD, ((EOS,), (BOS,), (EOS,))


def encoding_of(encoding: HuggingFaceEncoding) -> Encoding:
    """Convert a Hugging Face encoding to ours; it must not contain special tokens."""
    words = [word for word in encoding.word_ids if word is not None]  # None only for special tokens
    return Encoding(encoding.ids, encoding.offsets, words)


def truncate_pair(
    first: Encoding, second: Encoding | None, max_length: int, which: str
) -> tuple[Encoding, Encoding | None]:
    """Truncate two texts to `max_length` tokens together; "longer" cuts the longer one, or the second of equals."""
    if second is None:
        keep, keep_second = min(len(first), max_length), 0
    elif which == "first":
        keep, keep_second = min(len(first), max_length - len(second)), len(second)
    elif which == "second":
        keep, keep_second = len(first), min(len(second), max_length - len(first))
    else:
        keep_second = min(len(second), max(max_length // 2, max_length - len(first)))
        keep = min(len(first), max_length - keep_second)
    if min(keep, keep_second) < 0:
        raise ValueError(f"the text that may not be truncated has more than {max_length} tokens")
    return first[:keep], None if second is None else second[:keep_second]
