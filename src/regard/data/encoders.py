"""Encoders of examples for a store, and filters of training pairs.

Encoders import no PyTorch: the processes that tokenise start faster without it. Evaluation sets use `KEEP_ALL`: a pair
that is left out of a test set would be missing in its score.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import DTypeLike

from regard.data.arrays import flatten, smallest_unsigned
from regard.data.cleaning import CleanSettings, Identify, clean_reasons
from regard.data.duplicates import HASHES, Marks, sign
from regard.data.examples import Example
from regard.data.settings import PairDataSettings
from regard.data.split import Hashes, hash_text
from regard.data.store import Encoded
from regard.documents.sentences import word_spans
from regard.errors import UserError
from regard.text.symbols import EOS, PLACEHOLDERS
from regard.text.tokenizer import Tokenizer

RATIO_FROM = 16  # tokens; in shorter texts a few words change the ratio too much


@dataclass(frozen=True)
class Filters:
    """Limits of a pair; the defaults keep every pair."""

    max_length: int | None = None
    max_ratio: float = 0.0
    drop_empty: bool = False
    drop_identical: bool = False
    drop_duplicates: bool = False
    clean: CleanSettings | None = field(default=None, repr=False)
    """Further filters; not in the representation, which identifies the stores of recipes without them."""
    languages: tuple[str, str] = field(default=("", ""), repr=False)
    """Source and target language of pairs that name none; "" if they are not known."""

    @classmethod
    def of(cls, settings: PairDataSettings) -> "Filters":
        """The filters for training pairs."""
        names = ("max_length", "max_ratio", "drop_identical", "drop_duplicates", "clean")
        languages = (settings.src_lang, settings.tgt_lang) if settings.clean else ("", "")
        return cls(drop_empty=True, languages=languages, **{name: getattr(settings, name) for name in names})

    @property
    def identity(self) -> str:
        """Everything that the filters depend on."""
        return repr(self) if self.clean is None else repr((self, self.clean, self.languages))

    def check_texts(
        self, examples: Sequence[Example], src_token_bytes: int, tgt_token_bytes: int, identify: Identify | None
    ) -> list[str | None]:
        """The reason to leave out each pair before it is tokenised; None to keep it."""
        limits = (src_token_bytes, tgt_token_bytes)
        reasons = [self.check_text(example["src"], example["tgt"], *limits) for example in examples]
        if self.clean is not None:
            left = [index for index, reason in enumerate(reasons) if reason is None]
            judged = clean_reasons([examples[index] for index in left], self.clean, self.languages, identify)
            for index, reason in zip(left, judged, strict=True):
                reasons[index] = reason
        return reasons

    def mark(self, examples: Sequence[Example]) -> Marks | None:
        """What decides about duplicates among the pairs that are kept so far; None if only equal pairs are."""
        clean = self.clean
        if clean is None or not (clean.target_duplicates or clean.near_duplicates):
            return None
        groups = [f"{example.get('to') or ''}{example.get('copy') or ''}" for example in examples]
        rows = [(example["src"], example["tgt"], group) for example, group in zip(examples, groups, strict=True)]
        scores = np.array([example.get("score", -np.inf) for example in examples], np.float32)
        targets = np.array([hash_text(f"{len(group)} {group}{tgt}") for _, tgt, group in rows], np.uint64)
        return Marks(
            scores,
            targets if clean.target_duplicates else None,
            sign(rows) if clean.near_duplicates else None,
            int(HASHES * (1 - clean.near_duplicates) + 1e-9),
        )

    def check_text(self, src: str, tgt: str, src_token_bytes: int, tgt_token_bytes: int) -> str | None:
        """The reason to leave out a pair before it is tokenised; None to keep it.

        A text of n characters has at least n bytes, and a token at most `token_bytes`. So a line of a megabyte is too
        long without tokenising it.
        """
        if self.max_length is not None and (
            len(src) > self.max_length * src_token_bytes or len(tgt) > self.max_length * tgt_token_bytes
        ):
            return "too_long"
        if self.drop_empty and (not src.strip() or not tgt.strip()):
            return "empty"
        if self.drop_identical and src == tgt:
            return "identical"
        return None

    def check_lengths(self, src: int, tgt: int) -> str | None:
        """The reason to leave out a pair with these numbers of tokens, end symbols included; None to keep it."""
        longer, shorter = max(src, tgt), min(src, tgt)
        if self.max_length is not None and longer > self.max_length:
            return "too_long"
        if self.max_ratio and longer > RATIO_FROM and longer > self.max_ratio * shorter:
            return "ratio"
        return None


KEEP_ALL = Filters()
REASONS = (
    "empty", "identical", "score", "script", "long_word", "markup", "placeholders", "urls", "numbers", "language",
    "too_long", "too_short", "ratio", "duplicate", "target_duplicate", "near_duplicate",
)  # fmt: skip
"""Why a pair is left out; see `Pairs.account`."""


@dataclass(frozen=True)
class PairEncoder:
    """Filters and tokenises {"src", "tgt", "to"?}: columns `src` and `tgt`, each row with its end symbol.

    If the tokenizer has language tags, a source begins with the tag of its target language; before it comes the tag of
    back-translations if a model wrote the source. Counts the pairs that the
    filters drop, by reason (`REASONS`).
    """

    src_tokenizer: Tokenizer
    tgt_tokenizer: Tokenizer
    filters: Filters
    placeholders: float = 0.0
    """The share of pairs with placeholders (see `insert_placeholders`)."""
    typing_noise: float = 0.0
    """The share of pairs that are changed to what people type."""
    identify: Identify | None = None
    """Identifies languages for the filter `clean.language`."""
    target: str = ""
    """The target language of pairs that name none."""
    source_end: bool = True
    """False if sources have no end symbol."""

    @cached_property
    def identity(self) -> str:
        filters = self.filters if self.filters.clean is None else self.filters.identity
        own = ((self.target,) if self.target else ()) + (() if self.source_end else (False,))
        parts = ("pairs", self.src_tokenizer.to_json(), self.tgt_tokenizer.to_json(), filters, *own)
        shares = (self.placeholders, self.typing_noise) if self.typing_noise else (self.placeholders,)
        return repr((*parts, *shares) if any(shares) else parts)

    @property
    def dtypes(self) -> Mapping[str, DTypeLike]:
        return {"src": smallest_unsigned(len(self.src_tokenizer)), "tgt": smallest_unsigned(len(self.tgt_tokenizer))}

    def __call__(self, examples: list[Example]) -> Encoded:
        limits = (self.src_tokenizer.max_token_bytes, self.tgt_tokenizer.max_token_bytes)
        reasons = self.filters.check_texts(examples, *limits, self.identify)
        places = [place for place, reason in enumerate(reasons) if reason is None]
        texts = []
        for example in (examples[place] for place in places):
            copy = example.get("copy", 0)
            src, tgt = insert_placeholders(example["src"], example["tgt"], self.placeholders, copy)
            texts.append((*add_typing_noise(src, tgt, self.typing_noise, copy), example.get("to"), copy))
        tags = [source_tags(self.src_tokenizer, {"to": self.target, **examples[place]}) for place in places]
        src_rows = [
            tag + row for tag, row in zip(tags, self.src_tokenizer.encode_batch([t[0] for t in texts]), strict=True)
        ]
        tgt_rows = self.tgt_tokenizer.encode_batch([t[1] for t in texts])
        indices = []
        for index, (src_row, tgt_row) in enumerate(zip(src_rows, tgt_rows, strict=True)):
            src_rows[index] = src_row = source_row(src_row, self.source_end)
            tgt_row.append(EOS)
            reasons[places[index]] = reason = self.filters.check_lengths(len(src_row), len(tgt_row))
            if reason is None:
                indices.append(index)
        columns = {
            name: flatten([rows[index] for index in indices], self.dtypes[name])
            for name, rows in (("src", src_rows), ("tgt", tgt_rows))
        }
        keys = pair_keys([texts[index] for index in indices]) if self.filters.drop_duplicates else None
        marks = self.filters.mark([examples[places[index]] for index in indices])
        return Encoded(columns, len(examples), count_reasons(reasons), keys, marks=marks, reasons=reasons)


@dataclass(frozen=True)
class PairJudge:
    """Filters {"src", "tgt", "to"?} without a tokenizer: lengths count words and punctuation marks; no columns."""

    filters: Filters
    identify: Identify | None = None

    def __call__(self, examples: list[Example]) -> Encoded:
        reasons = self.filters.check_texts(examples, 1 << 20, 1 << 20, self.identify)
        for place, example in enumerate(examples):
            if reasons[place] is None:
                lengths = (len(word_spans(example[side])) + 1 for side in ("src", "tgt"))  # and an end symbol
                reasons[place] = self.filters.check_lengths(*lengths)
        kept = [example for example, reason in zip(examples, reasons, strict=True) if reason is None]
        texts = [(pair["src"], pair["tgt"], pair.get("to"), pair.get("copy", 0)) for pair in kept]
        keys = pair_keys(texts) if self.filters.drop_duplicates else None
        marks = self.filters.mark(kept)
        return Encoded({}, len(examples), count_reasons(reasons), keys, marks=marks, reasons=reasons)


def source_row(ids: list[int], source_end: bool) -> list[int]:
    """The tokens of a source with its end symbol, or without it; an empty source has one in any case."""
    return [*ids, EOS] if source_end or not ids else ids


def pair_keys(pairs: Sequence[tuple[str, str, str | None, int]]) -> Hashes:
    """Hashes of (src, tgt, target language, copy), to find equal pairs."""
    return np.array(
        [hash_text(f"{len(src)} {src}{tgt}{language or ''}{copy or ''}") for src, tgt, language, copy in pairs],
        np.uint64,
    )


def count_reasons(reasons: Sequence[str | None]) -> Counter[str]:
    """How often each reason leaves out a pair."""
    return Counter(reason for reason in reasons if reason is not None)


def source_tags(tokenizer: Tokenizer, pair: Example) -> list[int]:
    """The tokens before the source of a training pair."""
    tags = language_tags(tokenizer, pair.get("to"))
    if not pair.get("back_translated"):
        return tags
    if tokenizer.back_translation_tag is None:
        problem = "the tokenizer has no tag for back-translations"
        remedy = 'train a new tokenizer with `text.kind = "bpe"`, or leave out `back_translated`'
        raise UserError(problem, remedy, code="unsupported", where="back_translated")
    return [tokenizer.back_translation_tag, *tags]


def language_tags(tokenizer: Tokenizer, language: str | None) -> list[int]:
    """The tag of a target language as a list of one token; [] if a tokenizer has no tags."""
    tags = tokenizer.language_tags
    if not tags:
        return []
    if language not in tags:
        raise UserError(
            "the target language is missing" if not language else f"the model has no target language {language!r}",
            f"choose one of {', '.join(tags)}; command line: `--to`; Python: target=...; "
            'JSON input: "to"; recipe: tgt_lang in [data]',
            code="unknown-language",
            where="to",
        )
    return [tags[language]]


@dataclass(frozen=True)
class LineEncoder:
    """Tokenises lines, {"text"}: column `tokens` with end symbols; counts words and characters, line ends included."""

    tokenizer: Tokenizer
    kind: ClassVar[str] = "lines"

    @cached_property
    def identity(self) -> str:
        return repr((self.kind, self.tokenizer.to_json()))

    @property
    def dtypes(self) -> Mapping[str, DTypeLike]:
        return {"tokens": smallest_unsigned(len(self.tokenizer))}

    def __call__(self, examples: list[Example]) -> Encoded:
        lines = [example["text"] for example in examples]
        rows = [[*row, EOS] for row in self.tokenizer.encode_batch(lines)]
        words = sum(len(line.split()) + 1 for line in lines)
        counts = Counter(words=words, characters=sum(len(line) + 1 for line in lines))
        return Encoded({"tokens": flatten(rows, self.dtypes["tokens"])}, len(lines), counts)


@dataclass(frozen=True)
class SentenceEncoder(LineEncoder):
    """Tokenises sentences of documents, {"text", "first"}: column `tokens`, and documents as groups of rows.

    Sentences without a token and documents without a sentence disappear.
    """

    kind = "sentences"

    def __call__(self, examples: list[Example]) -> Encoded:
        rows = self.tokenizer.encode_batch([example["text"] for example in examples])
        has_tokens = np.array([len(row) > 0 for row in rows], bool)
        next_row = np.cumsum(has_tokens) - has_tokens  # the row that each sentence is, or that comes after it
        is_first = np.array([example["first"] for example in examples], bool)
        columns = {"tokens": flatten([row for row in rows if row], self.dtypes["tokens"])}
        return Encoded(columns, len(examples), groups=next_row[is_first])


# ---- placeholders and typing noise
#
#     Delete row 17 of Orders.    Löschen Sie Zeile 17 von Orders.
#     Delete row ⦅0⦆ of ⦅1⦆.      Löschen Sie Zeile ⦅0⦆ von ⦅1⦆.        a model learns to copy ⦅0⦆, ⦅1⦆ ...
#     delete row 17 of orders     Löschen Sie Zeile 17 von Orders       lower: lowercase source, no final punctuation
#     Delete row 17 of Orders     Löschen Sie Zeile 17 von Orders       bare: no final punctuation
#     DELETE ROW 17 OF ORDERS.    LÖSCHEN SIE ZEILE 17 VON ORDERS.      upper: both sides in uppercase
#
# Later a placeholder stands for anything that must not change: a variable of a message (%s, {name}), code, or the
# term of a glossary. Only words that occur once on each side are replaced. A model that has seen edited sentences
# only does not know the words of what people type: their subwords are different.
#
# Which pairs change, and how, is a function of their text, and of the number of the copy if a source repeats its
# pairs.

WORD = re.compile(r"[A-Za-z0-9_]+(?:[.:/@-][A-Za-z0-9_]+)*")
"""A word of ASCII letters and digits, or several joined by signs. Chinese text has no spaces around it."""
MAX_REPLACED = 3
KINDS = ("lower", "lower", "bare", "upper")
"""A pair with typing noise has one of these, each as often as it is listed."""
FINAL = re.compile(r"(?<=[^\s.!?…。！？])\s*[.!?…。！？]+$")


def insert_placeholders(src: str, tgt: str, share: float, copy: int = 0) -> tuple[str, str]:
    """The pair; in a `share` of all pairs, chosen again for each `copy`, some common words are replaced."""
    number = hash_text(f"{src}\n{tgt}" + (f"\n{copy}" if copy else ""))
    if number / 2**64 >= share:
        return src, tgt
    src_spans, tgt_spans = unique_words(src), unique_words(tgt)
    common = [word for word in src_spans if word in tgt_spans]
    count = 1 + number % MAX_REPLACED
    first = number % max(1, len(common) - count + 1)
    chosen = common[first : first + count]
    symbols = dict(zip(chosen, PLACEHOLDERS, strict=False))
    return replace_spans(src, src_spans, symbols), replace_spans(tgt, tgt_spans, symbols)


def unique_words(text: str) -> dict[str, tuple[int, int]]:
    """The words that occur once in a text, in their order, with their spans."""
    matches = list(WORD.finditer(text))
    counts = Counter(match[0] for match in matches)
    return {match[0]: match.span() for match in matches if counts[match[0]] == 1}


def replace_spans(text: str, spans: dict[str, tuple[int, int]], symbols: dict[str, str]) -> str:
    """A text with some of its words replaced by their symbols."""
    for start, end, symbol in sorted(((*spans[word], symbol) for word, symbol in symbols.items()), reverse=True):
        text = text[:start] + symbol + text[end:]
    return text


def add_typing_noise(src: str, tgt: str, share: float, copy: int = 0) -> tuple[str, str]:
    """The pair; a `share` of all pairs, chosen again for each `copy`, is changed to what people type."""
    number = hash_text(f"{src}\n{tgt}\nvariation" + (f" {copy}" if copy else ""))
    if number / 2**64 >= share:
        return src, tgt
    kind = KINDS[number % len(KINDS)]
    if kind == "upper":
        return src.upper(), tgt.upper()
    src, tgt = without_final_punctuation(src), without_final_punctuation(tgt)
    return (src.lower() if kind == "lower" else src), tgt


def without_final_punctuation(text: str) -> str:
    """A sentence without its last marks, and without the Spanish marks that open it."""
    bare = FINAL.sub("", text)
    return bare.lstrip("¿¡") if bare != text else text
