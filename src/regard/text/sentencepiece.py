"""SentencePiece tokenizers of imported models (Kudo 2018, "Subword Regularization").

    normalise   characters by the table of the tokenizer (mostly NFKC), one space between words
    spaces      a word includes the space before it, written ▁; the first word has one too
    pieces      the most probable of all segmentations of the text into pieces x_1 .. x_n:
                argmax  sum_i log p(x_i)   (eq. 6)
    unknown     neighbouring characters that are in no piece become one <unk>

Encoding loses what was normalised or unknown.

Source and target of a translator may segment text differently and share their token ids. Tokens of the other side only,
and special tokens, have an id but cannot occur in a text: they begin with U+FDD0, which Unicode reserves for internal
use.

A multilingual model reads the target language from a token before the text: >>fra<< I see.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as HuggingFaceTokenizer

from regard.reading import check_text
from regard.text.symbols import EOS, SPECIALS
from regard.text.tokenizer import Span, Tokenizer

SPACE, HIDDEN, UNKNOWN = "▁", "\ufdd0", "<unk>"


class SentencePieceTokenizer(Tokenizer):
    """The SentencePiece tokenizer of an imported model; 0 is padding, 1 begins and 2 ends a sentence."""

    def __init__(self, tokenizer: HuggingFaceTokenizer) -> None:
        """Wrap a `tokenizers.Tokenizer` that `assemble` made."""
        self._tokenizer = tokenizer
        ids: dict[str, int] = tokenizer.get_vocab(with_added_tokens=False)
        self._entries = sorted(ids, key=ids.__getitem__)
        special = (*(HIDDEN + token for token in SPECIALS), HIDDEN + UNKNOWN)
        if tuple(self._entries[: len(SPECIALS)]) != special[:-1] or special[-1] not in ids:
            raise ValueError(f"its first tokens must be {', '.join(SPECIALS)}, and {UNKNOWN} must be a token")
        self.unknown = ids[special[-1]]
        self._texts = [entry.removeprefix(HIDDEN) for entry in self._entries]
        self._codes = {text: index for index, text in enumerate(self._texts) if is_code(text)}

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def special_tokens(self) -> tuple[str, ...]:
        return tuple(self._entries[: len(SPECIALS)])

    @cached_property
    def max_token_bytes(self) -> int:
        return max(len(text.encode()) for text in self._texts)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode many texts, on all cores; a language code before a text is one token."""
        split = [split_code(check_text(text)) for text in texts]
        encodings = self._tokenizer.encode_batch_fast([text for _, text in split], add_special_tokens=False)
        codes = [[self._codes.get(code, self.unknown)] if code else [] for code, _ in split]
        return [[*code, *encoding.ids] for code, encoding in zip(codes, encodings, strict=True)]

    def encode_spans(self, texts: Sequence[str]) -> list[tuple[list[int], list[Span]]]:
        """Encode many texts with the span of every token; a language code has an empty one."""
        encoded = []
        for text in texts:
            code, rest = split_code(check_text(text))
            encoding = self._tokenizer.encode(rest, add_special_tokens=False)
            before = len(text) - len(rest)
            spans = [(start + before, end + before) for start, end in encoding.offsets]
            codes = [self._codes.get(code, self.unknown)] if code else []
            encoded.append(([*codes, *encoding.ids], [(0, 0)] * len(codes) + spans))
        return encoded

    def decode(self, ids: Iterable[int]) -> str:
        """Return the normalised text of token ids; special tokens and <unk> are left out."""
        texts = (self._texts[token] for token in ids if token > EOS and token != self.unknown)
        return "".join(texts).replace(SPACE, " ").strip(" ")

    def tokens(self, ids: Iterable[int]) -> list[str]:
        return [self._texts[token].replace(SPACE, "␣") if token > EOS else SPECIALS[token] for token in ids]

    def count_unknown_words(self, text: str) -> tuple[int, int]:
        words = [self.encode(word) for word in split_code(text)[1].split()]
        return sum(self.unknown in ids for ids in words), len(words)


def assemble(
    pieces: Sequence[str], scores: Mapping[str, float], characters: bytes = b"", prefix: bool = True, tidy: bool = True
) -> SentencePieceTokenizer:
    """Make the tokenizer with pieces[n] as token n; text is split into the pieces that have a score.

    `characters` is SentencePiece's normalisation table; `prefix` adds a space before every text; `tidy` removes all
    but one space between words.
    """
    least = min(scores.values(), default=0.0)  # as in SentencePiece, <unk> scores ten less than the worst piece
    shown = {*scores} - {*SPECIALS, UNKNOWN}
    entries = [(piece, scores[piece]) if piece in shown else (HIDDEN + piece, least) for piece in pieces]
    tokenizer = HuggingFaceTokenizer(models.Unigram(entries, list(pieces).index(UNKNOWN), False))
    steps: list[normalizers.Normalizer] = [normalizers.Precompiled(characters)] if characters else []
    if tidy:
        steps += [normalizers.Replace(Regex(r"\A +"), ""), normalizers.Replace(Regex(" {2,}"), " ")]
    steps.append(normalizers.Replace(" ", SPACE))
    if tidy:
        steps.append(normalizers.Replace(Regex(rf"{SPACE}+\z"), ""))
    tokenizer.normalizer = normalizers.Sequence([*steps, normalizers.Prepend(SPACE)] if prefix else steps)
    alone = not any(SPACE in piece[1:] for piece in shown)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, "never", split=alone)
    tokenizer.decoder = decoders.Sequence([decoders.Replace(HIDDEN, ""), decoders.Metaspace(SPACE)])
    return SentencePieceTokenizer(tokenizer)


def is_code(piece: str) -> bool:
    """True if a piece is the code of a target language."""
    return piece.startswith(">>") and piece.endswith("<<")


def split_code(text: str) -> tuple[str, str]:
    """Split a language code off a text; the code is "" if there is none."""
    end = text.find("<<") if text.startswith(">>") else -1
    return (text[: end + 2], text[end + 2 :]) if end >= 0 else ("", text)
