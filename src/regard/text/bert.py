"""The tokenizer of BERT (Devlin et al. 2018, section 3; the details are those of the authors' program).

    clean         remove control characters; every kind of white space becomes a space
    lowercase     and strip accents, in the uncased models
    split         on spaces; every punctuation sign and every Chinese character is a word
    WordPiece     (Wu et al. 2016, section 4.1): the longest token that fits, left to right; tokens that continue a word
                  begin with ##. A word that cannot be spelled so is [UNK] as a whole.
    input         [CLS] A [SEP], or [CLS] A [SEP] B [SEP]

Encoding loses case and unknown words, so every token has its span in the text. The names of the special tokens in a
text are the special tokens: "Paris is the [MASK] of France." has a masked word.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers
from tokenizers import Encoding as HuggingFaceEncoding
from tokenizers import Tokenizer as HuggingFaceTokenizer

from regard.errors import UserError
from regard.files import write_text
from regard.reading import parse_json, read_text
from regard.text.tokenizer import Tokenizer, require_unicode

PAD, UNK, CLS, SEP, MASK = SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CONTINUATION = "##"
MAX_WORD_LENGTH = 100
"""Words with more characters become [UNK]."""


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
class BertInput:
    """The input of BERT: token ids, segments (0 or 1), and the spans and words, None for special tokens."""

    ids: list[int]
    segments: list[int]
    spans: list[tuple[int, int] | None]
    words: list[int | None]
    truncated_tokens: int = 0
    """Number of tokens that were cut off."""


class BertTokenizer(Tokenizer):
    """The tokenizer of a BERT model."""

    def __init__(
        self,
        entries: Sequence[str],
        lowercase: bool = True,
        strip_accents: bool | None = None,
        split_chinese: bool = True,
    ) -> None:
        """`entries` are the tokens by id. `strip_accents` None means: same as `lowercase`."""
        self.entries = list(entries)
        ids = {entry: index for index, entry in enumerate(self.entries)}
        if missing := [token for token in SPECIALS if token not in ids]:
            raise ValueError(f"it has no {' and no '.join(missing)}")
        if len(ids) < len(self.entries):
            first = next(index for index, entry in enumerate(self.entries) if ids[entry] != index)
            last = ids[self.entries[first]]
            raise ValueError(f"entry {self.entries[first]!r} is there twice, in lines {first + 1} and {last + 1}")
        self.pad, self.unk, self.cls, self.sep, self.mask = (ids[token] for token in SPECIALS)
        self.lowercase, self.strip_accents, self.split_chinese = lowercase, strip_accents, split_chinese
        self._tokenizer = assemble(ids, lowercase, strip_accents, split_chinese)

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def special_tokens(self) -> tuple[str, ...]:
        return SPECIALS

    @property
    def max_token_bytes(self) -> int:
        """Unlimited: [UNK] stands for any number of bytes."""
        return sys.maxsize

    def encode(self, text: str) -> list[int]:
        """Return the token ids of `text`, without [CLS] and [SEP]."""
        return self.tokenize(text).ids

    def tokenize(self, text: str) -> Encoding:
        """Return the tokens of `text` with their spans and words."""
        return _encoding(self._tokenizer.encode(require_unicode(text), add_special_tokens=False))

    def tokenize_words(self, words: Sequence[str]) -> Encoding:
        """Tokenize a text that is split into words already; spans count inside each word."""
        for word in words:
            require_unicode(word)
        return _encoding(self._tokenizer.encode(words, is_pretokenized=True, add_special_tokens=False))

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Return the tokens as written in the vocabulary."""
        return [self.entries[token] for token in ids]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the normalised text of token ids; special tokens other than [UNK] are left out."""
        omitted = {self.pad, self.cls, self.sep, self.mask}
        text: str = self._tokenizer.decode([i for i in ids if i not in omitted], skip_special_tokens=False)
        return text

    def count_unknown_words(self, text: str) -> tuple[int, int]:
        """Count the words that are [UNK], and all words."""
        encoding = self.tokenize(text)
        unknown = {word for word, token in zip(encoding.words, encoding.ids, strict=True) if token == self.unk}
        return len(unknown), len(set(encoding.words))

    def build_input(
        self,
        first: Encoding,
        second: Encoding | None = None,
        max_length: int | None = None,
        truncate: Literal["longer", "first", "second"] = "longer",
    ) -> BertInput:
        """Make [CLS] first [SEP] second [SEP] of at most `max_length` tokens; `truncate` says which text loses its end.

        If the text that may not be truncated is too long, a ValueError is raised.
        """
        length = len(first) + len(second or ())
        if max_length is not None:
            first, second = truncate_pair(first, second, max_length - (2 if second is None else 3), truncate)
        parts = [([self.cls], None, 0), (first.ids, first, 0), ([self.sep], None, 0)]
        parts += [(second.ids, second, 1), ([self.sep], None, 1)] if second is not None else []
        result = BertInput([], [], [], [], length - len(first) - len(second or ()))
        for ids, encoding, segment in parts:
            result.ids.extend(ids)
            result.segments.extend([segment] * len(ids))
            result.spans.extend(encoding.spans if encoding else [None] * len(ids))
            result.words.extend(encoding.words if encoding else [None] * len(ids))
        return result

    def save_vocab_txt(self, path: Path) -> None:
        """Write `vocab.txt`, one token per line; it does not contain the normalisation."""
        write_text(path, "".join(f"{entry}\n" for entry in self.entries))

    @classmethod
    def from_json(cls, text: str) -> "BertTokenizer":
        """Read the content of a `tokenizer.json`, of other programs too; a ValueError says what is wrong with it."""
        content = parse_json(text)
        model, normalizer = (content.get(key) or {} for key in ("model", "normalizer"))
        if model.get("type", "WordPiece") != "WordPiece" or normalizer.get("type") != "BertNormalizer":
            raise ValueError(f"it is {model.get('type')} with {normalizer.get('type')}, not WordPiece of BERT")
        ids: dict[str, int] = model.get("vocab", {})
        if sorted(ids.values()) != list(range(len(ids))):
            raise ValueError("the ids of its tokens have gaps")
        entries = sorted(ids, key=ids.__getitem__)
        accents, chinese = normalizer.get("strip_accents"), normalizer.get("handle_chinese_chars", True)
        return cls(entries, normalizer.get("lowercase", True), accents, chinese)

    @classmethod
    def load(cls, path: Path) -> "BertTokenizer":
        """Read a `tokenizer.json`."""
        return _read(path, cls.from_json)

    @classmethod
    def load_vocab_txt(
        cls, path: Path, lowercase: bool = True, strip_accents: bool | None = None, split_chinese: bool = True
    ) -> "BertTokenizer":
        """Read a `vocab.txt`, which does not contain the normalisation."""
        return _read(path, lambda text: cls(_lines(text), lowercase, strip_accents, split_chinese))


def assemble(
    ids: dict[str, int], lowercase: bool, strip_accents: bool | None, split_chinese: bool
) -> HuggingFaceTokenizer:
    """Make the `tokenizers.Tokenizer` with the steps above."""
    tokenizer = HuggingFaceTokenizer(
        models.WordPiece(
            ids, unk_token=UNK, continuing_subword_prefix=CONTINUATION, max_input_chars_per_word=MAX_WORD_LENGTH
        )
    )
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=split_chinese, strip_accents=strip_accents, lowercase=lowercase
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix=CONTINUATION)
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in SPECIALS])
    return tokenizer


def _encoding(encoding: HuggingFaceEncoding) -> Encoding:
    words = [
        word for word in encoding.word_ids if word is not None
    ]  # None only for special tokens, which are not added
    return Encoding(encoding.ids, encoding.offsets, words)


def truncate_pair(
    first: Encoding, second: Encoding | None, max_length: int, which: str
) -> tuple[Encoding, Encoding | None]:
    """Truncate two texts to `max_length` tokens together.

    "longer" is the authors' method: the longer text loses its last token, the second one if both are equal.
    """
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


def _lines(text: str) -> list[str]:
    """Split a `vocab.txt` at line feeds only: other line separators are tokens."""
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def _read(path: Path, make: Callable[[str], BertTokenizer]) -> BertTokenizer:
    """Read a file and make a tokenizer of it; errors name the file."""
    try:
        return make(read_text(path))
    except (ValueError, AttributeError, TypeError, OverflowError) as error:  # bad JSON is a ValueError
        raise UserError(
            f"{path} is damaged or is not a tokenizer of BERT: {error}",
            "give the vocab.txt or tokenizer.json of the model",
            code="damaged-file",
            where=path,
        ) from error
