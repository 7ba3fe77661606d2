"""Vocabularies of SentencePiece, which models of other programs bring along (Kudo 2018, "Subword Regularization").

    clean      characters as the vocabulary's own table has them (most often NFKC), one blank between words
    blanks     a word carries the blank before it, written ▁, and the first word has one too
    pieces     of all ways to write the text in pieces x_1 .. x_n the likeliest:  argmax  sum_i log p(x_i)   (eq. 6)
    unknown    characters that are in no piece are read as <unk>, as many as stand together as one

Unlike the vocabularies one can learn here this one forgets: what was cleaned or unknown does not come back.

Source and target of a translator may cut text differently and yet number their pieces alike. Pieces that are only the
other side's, and symbols, have a number here and cannot be read from a text: a sign stands before them that is no
character and in no text (U+FDD0, which Unicode leaves for the inside of programs).

A multilingual model is told the language to write by a symbol before the text: >>fra<< I see.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from regard.text.symbols import EOS, SPECIALS
from regard.text.vocabulary import Vocabulary, refuse_surrogates

BLANK, HIDDEN, UNKNOWN = "▁", "\ufdd0", "<unk>"


class SentencePieceVocabulary(Vocabulary, model="Unigram"):
    """The pieces of a model of another program; 0 is padding, 1 begins and 2 ends a sentence, as everywhere here."""

    def __init__(self, tokenizer: Any) -> None:
        """Wrap a `tokenizers.Tokenizer` that `assemble` made."""
        self._tokenizer = tokenizer
        self._implied = ""
        numbers: dict[str, int] = tokenizer.get_vocab(with_added_tokens=False)
        self._pieces = sorted(numbers, key=numbers.__getitem__)
        symbols = (*(HIDDEN + symbol for symbol in SPECIALS), HIDDEN + UNKNOWN)
        if tuple(self._pieces[: len(SPECIALS)]) != symbols[:-1] or symbols[-1] not in numbers:
            raise ValueError(f"its first entries must be {', '.join(SPECIALS)}, and {UNKNOWN} one of them")
        self.unknown = numbers[symbols[-1]]
        self._texts = [piece.removeprefix(HIDDEN) for piece in self._pieces]
        self._codes = {text: number for number, text in enumerate(self._texts) if is_code(text)}

    def encode(self, text: str) -> list[int]:
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        cut = [split_code(refuse_surrogates(text)) for text in texts]
        found = self._tokenizer.encode_batch_fast([rest for _, rest in cut], add_special_tokens=False)
        codes = [[self._codes.get(code, self.unknown)] if code else [] for code, _ in cut]
        return [[*code, *encoding.ids] for code, encoding in zip(codes, found, strict=True)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`, as far as it can be known; symbols and <unk> say nothing."""
        written = (self._texts[number] for number in ids if number > EOS and number != self.unknown)
        return "".join(written).replace(BLANK, " ").strip(" ")

    def _readable(self, number: int) -> str:
        return self._texts[number].replace(BLANK, "␣") if number > EOS else SPECIALS[number]

    def spelled_out(self, text: str) -> tuple[int, int]:
        """How many words of `text` have a part that no piece is like, and of how many."""
        words = [self.encode(word) for word in split_code(text)[1].split()]
        return sum(self.unknown in ids for ids in words), len(words)

    @cached_property
    def longest(self) -> int:
        return max(len(text.encode()) for text in self._texts)


def assemble(
    pieces: Sequence[str], scores: Mapping[str, float], characters: bytes = b"", prefix: bool = True, tidy: bool = True
) -> SentencePieceVocabulary:
    """The vocabulary whose entry n is pieces[n]; text is cut into those that have a score.

    `characters` is SentencePiece's table; `prefix` puts a blank before every text, `tidy` leaves one between words.
    """
    least = min(scores.values(), default=0.0)  # <unk> is ten worse than the least likely piece, as it is there
    shown = {*scores} - {*SPECIALS, UNKNOWN}
    entries = [(piece, scores[piece]) if piece in shown else (HIDDEN + piece, least) for piece in pieces]
    tokenizer = Tokenizer(models.Unigram(entries, list(pieces).index(UNKNOWN), False))
    tokenizer.normalizer = normalizers.Sequence(cleaning(characters, prefix, tidy))
    alone = not any(BLANK in piece[1:] for piece in shown)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(BLANK, "never", split=alone)
    tokenizer.decoder = decoders.Sequence([decoders.Replace(HIDDEN, ""), decoders.Metaspace(BLANK)])
    return SentencePieceVocabulary(tokenizer)


def cleaning(characters: bytes, prefix: bool, tidy: bool) -> list[Any]:
    """What becomes of a text before it is cut, step by step."""
    steps: list[Any] = [normalizers.Precompiled(characters)] if characters else []
    if tidy:
        steps += [normalizers.Replace(Regex(r"\A +"), ""), normalizers.Replace(Regex(" {2,}"), " ")]
    steps.append(normalizers.Replace(" ", BLANK))
    if tidy:
        steps.append(normalizers.Replace(Regex(rf"{BLANK}+\z"), ""))
    return [*steps, normalizers.Prepend(BLANK)] if prefix else steps


def is_code(piece: str) -> bool:
    """Whether a piece names a language to translate into."""
    return piece.startswith(">>") and piece.endswith("<<")


def split_code(text: str) -> tuple[str, str]:
    """The code of a language before a text, if there is one, and the rest."""
    end = text.find("<<") if text.startswith(">>") else -1
    return (text[: end + 2], text[end + 2 :]) if end >= 0 else ("", text)
