"""BERT's way from text to numbers (Devlin et al. 2018, section 3; the details are those of the authors' program).

    clean         control characters go, every kind of blank becomes a space
    lower-case    and accents go too, in the models called uncased
    words         between blanks; each punctuation sign and each Chinese character is a word of its own
    pieces        WordPiece (Wu et al. 2016, section 4.1): the longest entry that fits, left to right; pieces that
                  continue a word are written ##so. A word that cannot be spelled so is [UNK] as a whole.
    input         [CLS] A [SEP], or [CLS] A [SEP] B [SEP]

Unlike the vocabularies one can learn here this one forgets: what was lower-cased or unknown does not come back. So each
piece remembers where in the text it stood. The names of the special symbols, written in a text, stand for the symbols:
"Paris is the [MASK] of France." asks for a word.
"""

import json
import lzma
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

from regard.errors import UserError
from regard.files import open_binary, write_text
from regard.text.vocabulary import refuse_surrogates

PAD, UNK, CLS, SEP, MASK = SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CONTINUATION = "##"
LONGEST_WORD = 100
"""Characters of the longest word that is cut into pieces; longer ones are [UNK]."""


@dataclass(frozen=True)
class Pieces:
    """A text in pieces: their numbers, where each stood in the text (first character, and the one after its last), and
    which word each is of, counted from 0. Words that are nothing but control characters have no pieces."""

    ids: list[int]
    spans: list[tuple[int, int]]
    words: list[int]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, part: slice) -> "Pieces":
        return Pieces(self.ids[part], self.spans[part], self.words[part])


@dataclass(frozen=True)
class BertInput:
    """What BERT reads: numbers, the text each is of (0 or 1), and its place there, None for special symbols."""

    ids: list[int]
    segments: list[int]
    spans: list[tuple[int, int] | None]
    words: list[int | None]
    unread: int = 0
    """Pieces for which there was no room."""


class BertVocabulary:
    """The pieces of a BERT model."""

    def __init__(
        self,
        entries: Sequence[str],
        lowercase: bool = True,
        strip_accents: bool | None = None,
        split_chinese: bool = True,
    ) -> None:
        """Entry n has number n. Accents go where case goes, unless `strip_accents` says otherwise."""
        self.entries = list(entries)
        numbers = {entry: number for number, entry in enumerate(self.entries)}
        if missing := [symbol for symbol in SPECIALS if symbol not in numbers]:
            raise ValueError(f"it has no {' and no '.join(missing)}")
        if len(numbers) < len(self.entries):
            number = next(number for number, entry in enumerate(self.entries) if numbers[entry] != number)
            again = numbers[self.entries[number]]
            raise ValueError(f"entry {self.entries[number]!r} is there twice, in lines {number + 1} and {again + 1}")
        self.pad, self.unk, self.cls, self.sep, self.mask = (numbers[symbol] for symbol in SPECIALS)
        self.lowercase, self.strip_accents, self.split_chinese = lowercase, strip_accents, split_chinese
        self._tokenizer = assemble(numbers, lowercase, strip_accents, split_chinese)

    def __len__(self) -> int:
        """The number of pieces."""
        return len(self.entries)

    def encode(self, text: str) -> list[int]:
        """The numbers of the pieces of `text`, without [CLS] and [SEP]."""
        return self.cut(text).ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` for many texts at once, on all cores."""
        for text in texts:
            refuse_surrogates(text)
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)]

    def cut(self, text: str) -> Pieces:
        """The pieces of `text`, their places in it and their words."""
        return pieces_of(self._tokenizer.encode(refuse_surrogates(text), add_special_tokens=False))

    def cut_words(self, words: Sequence[str]) -> Pieces:
        """The same for a text that is cut into words already: pieces are numbered by these words, and places count
        inside each of them."""
        for word in words:
            refuse_surrogates(word)
        return pieces_of(self._tokenizer.encode(words, is_pretokenized=True, add_special_tokens=False))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Each piece as it is written in the vocabulary."""
        return [self.entries[number] for number in ids]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids` as far as it can be known; special symbols other than [UNK] say nothing."""
        silent = {self.pad, self.cls, self.sep, self.mask}
        text: str = self._tokenizer.decode([i for i in ids if i not in silent], skip_special_tokens=False)
        return text

    def input(
        self,
        first: Pieces,
        second: Pieces | None = None,
        longest: int | None = None,
        shorten: Literal["longer", "first", "second"] = "longer",
    ) -> BertInput:
        """[CLS] first [SEP] second [SEP], of at most `longest` numbers; the text that is shortened loses its end.

        A passage with its question asks to shorten the passage alone; a text that must stay whole but is too long for
        `longest` is a ValueError.
        """
        given = len(first) + len(second or ())
        if longest is not None:
            first, second = shortened(first, second, longest - (2 if second is None else 3), shorten)
        parts = [([self.cls], None, 0), (first.ids, first, 0), ([self.sep], None, 0)]
        parts += [(second.ids, second, 1), ([self.sep], None, 1)] if second is not None else []
        result = BertInput([], [], [], [], given - len(first) - len(second or ()))
        for ids, pieces, segment in parts:
            result.ids.extend(ids)
            result.segments.extend([segment] * len(ids))
            result.spans.extend(pieces.spans if pieces else [None] * len(ids))
            result.words.extend(pieces.words if pieces else [None] * len(ids))
        return result

    def to_json(self) -> str:
        """The content of a `tokenizer.json`, which the library `tokenizers` reads as well."""
        text: str = self._tokenizer.to_str(pretty=True)
        return text

    def save(self, path: Path) -> None:
        """Write `tokenizer.json`, which says everything, case included."""
        write_text(path, self.to_json())

    def save_entries(self, path: Path) -> None:
        """Write `vocab.txt`, which is one entry a line and says nothing of case."""
        write_text(path, "".join(f"{entry}\n" for entry in self.entries))

    @classmethod
    def from_json(cls, text: str) -> "BertVocabulary":
        """The inverse of `to_json`, for files of others too; a ValueError says what is wrong with `text`."""
        content = json.loads(text)
        model, normalizer = (content.get(part) or {} for part in ("model", "normalizer"))
        if model.get("type", "WordPiece") != "WordPiece" or normalizer.get("type") != "BertNormalizer":
            raise ValueError(f"it holds {model.get('type')} and {normalizer.get('type')}, not WordPiece as in BERT")
        numbers: dict[str, int] = model.get("vocab", {})
        if sorted(numbers.values()) != list(range(len(numbers))):
            raise ValueError("the numbers of its entries have gaps")
        entries = sorted(numbers, key=numbers.__getitem__)
        accents, chinese = normalizer.get("strip_accents"), normalizer.get("handle_chinese_chars", True)
        return cls(entries, normalizer.get("lowercase", True), accents, chinese)

    @classmethod
    def load(cls, path: Path) -> "BertVocabulary":
        """Read a `tokenizer.json`."""
        return reading(path, cls.from_json)

    @classmethod
    def load_entries(cls, path: Path, lowercase: bool = True, **kinds: Any) -> "BertVocabulary":
        """Read a `vocab.txt`; whether case and accents are kept must be known from elsewhere."""
        return reading(path, lambda text: cls(lines(text), lowercase, **kinds))


def assemble(numbers: dict[str, int], lowercase: bool, strip_accents: bool | None, split_chinese: bool) -> Any:
    """The steps above, each as the library has it."""
    tokenizer = Tokenizer(
        models.WordPiece(
            numbers, unk_token=UNK, continuing_subword_prefix=CONTINUATION, max_input_chars_per_word=LONGEST_WORD
        )
    )
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=split_chinese, strip_accents=strip_accents, lowercase=lowercase
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix=CONTINUATION)
    tokenizer.add_special_tokens([AddedToken(symbol, normalized=False, special=True) for symbol in SPECIALS])
    return tokenizer


def pieces_of(encoding: Any) -> Pieces:
    return Pieces(encoding.ids, encoding.offsets, encoding.word_ids)


def shortened(first: Pieces, second: Pieces | None, room: int, which: str) -> tuple[Pieces, Pieces | None]:
    """As much of two texts as there is room for.

    "longer" is the authors' way: whichever is longer loses its last piece, the second where both are equal.
    """
    if second is None:
        keep, keep_second = min(len(first), room), 0
    elif which == "first":
        keep, keep_second = min(len(first), room - len(second)), len(second)
    elif which == "second":
        keep, keep_second = len(first), min(len(second), room - len(first))
    else:
        keep_second = min(len(second), max(room // 2, room - len(first)))
        keep = min(len(first), room - keep_second)
    if min(keep, keep_second) < 0:
        raise ValueError(f"there is room for {room} pieces, and what is not to be shortened takes more")
    return first[:keep], None if second is None else second[:keep_second]


def lines(text: str) -> list[str]:
    """The entries of a `vocab.txt`. Only a line feed ends a line: other characters that may do so are entries."""
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def reading(path: Path, make: Callable[[str], BertVocabulary]) -> BertVocabulary:
    """What `make` makes of a file's text; whatever is wrong with it is an error that names the file."""
    try:
        with open_binary(path) as stream:
            return make(stream.read().decode("utf-8"))
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        raise UserError(f"{path} cannot be read: {error}", "fetch it again") from error
    except (ValueError, AttributeError, TypeError) as error:  # a UnicodeDecodeError and bad JSON are ValueErrors too
        raise UserError(
            f"{path} is damaged or is no vocabulary of BERT: {error}",
            "name the vocab.txt or tokenizer.json that came with the model",
        ) from error
