"""Making tokenizers: training them on text, and loading them from files."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import overload

from tokenizers import Tokenizer as HuggingFaceTokenizer

from regard.errors import UserError
from regard.files import nearest_file
from regard.text.bert import BertTokenizer
from regard.text.bert_training import train_bert_tokenizer
from regard.text.sentencepiece import SentencePieceTokenizer
from regard.text.settings import BertTextSettings, TextSettings
from regard.text.subword import SubwordTokenizer
from regard.text.tokenizer import Tokenizer, require_unicode
from regard.text.trainers import train_bpe, train_characters, train_tokens, train_wordpiece, train_words

TRAINERS = {
    "bpe": train_bpe,
    "wordpiece": train_wordpiece,
    "word": train_words,
    "token": train_tokens,
    "char": train_characters,
}


@overload
def train_tokenizer(lines: Iterable[str], settings: TextSettings) -> SubwordTokenizer: ...


@overload
def train_tokenizer(lines: Iterable[str], settings: BertTextSettings) -> BertTokenizer: ...


def train_tokenizer(
    lines: Iterable[str], settings: TextSettings | BertTextSettings
) -> SubwordTokenizer | BertTokenizer:
    """Train the tokenizer of `settings`; equal lines give equal files, byte by byte."""
    if isinstance(settings, BertTextSettings):
        return train_bert_tokenizer(lines, settings)
    if settings.kind not in TRAINERS:
        raise UserError(
            f'a tokenizer of kind "{settings.kind}" comes with a model and cannot be trained',
            f'write start_from = the run of that model, or text.kind = "{next(iter(TRAINERS))}"',
            code="unsupported",
            where="text.kind",
        )
    checked = (require_unicode(line) for line in lines)
    return SubwordTokenizer(TRAINERS[settings.kind](checked, settings.vocab_size, settings.min_frequency))


def load_tokenizer(path: Path) -> Tokenizer:
    """Read a `tokenizer.json` of any of the tokenizers."""
    try:
        return tokenizer_from_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such vocabulary", nearest_file(path), code="missing-file", where=path) from error
    except OSError as error:
        raise UserError(
            f"{path} cannot be read: {error.strerror}", "give a tokenizer.json", code="unreadable-file", where=path
        ) from error
    except ValueError as error:  # a UnicodeDecodeError is one too
        raise UserError(
            f"{path} is damaged or is not a tokenizer: {error}",
            "train the tokenizer again",
            code="damaged-file",
            where=path,
        ) from error


def tokenizer_from_json(text: str) -> Tokenizer:
    """Read the content of a `tokenizer.json`; a ValueError says what is wrong with it."""
    content = json.loads(text)
    normalizer = content.get("normalizer") if isinstance(content, dict) else None
    if isinstance(normalizer, dict) and normalizer.get("type") == "BertNormalizer":
        return BertTokenizer.from_json(text)
    try:
        tokenizer = HuggingFaceTokenizer.from_str(text)
    except Exception as error:  # the library raises nothing more specific
        raise ValueError(str(error)) from error
    is_unigram = type(tokenizer.model).__name__ == "Unigram"
    return SentencePieceTokenizer(tokenizer) if is_unigram else SubwordTokenizer(tokenizer)
