"""Making tokenizers: training them on text, and loading them from files."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import overload

from tokenizers import Tokenizer as HuggingFaceTokenizer

from regard.errors import UserError
from regard.messages import Message
from regard.reading import check_text, parse_json
from regard.text import trainers
from regard.text.bert import BertTokenizer
from regard.text.inputs import InputTokenizer, MaskedTokenizer, SubwordInputTokenizer
from regard.text.roberta import PROCESSING, RobertaTokenizer
from regard.text.sentencepiece import SentencePieceTokenizer
from regard.text.settings import BertTextSettings, TextSettings
from regard.text.subword import SubwordTokenizer
from regard.text.tokenizer import Tokenizer, build_tokenizer, read_tokenizer

TRAINERS: dict[str, Callable[..., HuggingFaceTokenizer]] = {
    "bpe": trainers.train_bpe,
    "wordpiece": trainers.train_wordpiece,
    "word": trainers.train_words,
    "token": trainers.train_tokens,
    "char": partial(trainers.train_words, expressions=[trainers.CHARACTER]),
}


@overload
def train_tokenizer(lines: Iterable[str], settings: TextSettings, symbols: Sequence[str] = ()) -> SubwordTokenizer: ...


@overload
def train_tokenizer(lines: Iterable[str], settings: BertTextSettings, symbols: Sequence[str] = ()) -> BertTokenizer: ...


def train_tokenizer(
    lines: Iterable[str], settings: TextSettings | BertTextSettings, symbols: Sequence[str] = ()
) -> SubwordTokenizer | BertTokenizer:
    """Train the tokenizer of `settings`, the same for equal lines; `symbols` are tokens of their own (bpe only)."""
    if isinstance(settings, BertTextSettings):
        return trainers.train_bert_tokenizer(lines, settings)
    if settings.kind not in TRAINERS:
        problem = f'a tokenizer of kind "{settings.kind}" comes with a model and cannot be trained'
        remedy = f'set `start_from` to the run of that model, or text.kind = "{next(iter(TRAINERS))}"'
        raise UserError(problem, remedy, code="unsupported", where="text.kind")
    checked = (check_text(line) for line in lines)
    if symbols:
        if settings.kind != "bpe":
            problem = f'tags and placeholders need text.kind = "bpe", not "{settings.kind}"'
            raise UserError(problem, 'set `text.kind = "bpe"`', code="unsupported", where="text.kind")
        return SubwordTokenizer(trainers.train_bpe(checked, settings.vocab_size, settings.min_frequency, symbols))
    by_likelihood = settings.kind == "wordpiece" and settings.merge_by == "likelihood"
    train = trainers.train_wordpiece_by_likelihood if by_likelihood else TRAINERS[settings.kind]
    return SubwordTokenizer(train(checked, settings.vocab_size, settings.min_frequency))


def load_tokenizer(path: Path) -> Tokenizer:
    """Read a `tokenizer.json` of any of the tokenizers."""
    return read_tokenizer(path, tokenizer_from_json, "a tokenizer", "train the tokenizer again")


def load_input_tokenizer(path: Path) -> InputTokenizer:
    """Read the `tokenizer.json` of a text encoder."""
    tokenizer = load_tokenizer(path)
    if isinstance(tokenizer, InputTokenizer):
        return tokenizer
    if isinstance(tokenizer, SubwordTokenizer):
        return SubwordInputTokenizer.from_json(tokenizer.to_json())
    problem, remedy = f"{path}: text encoders do not support SentencePiece tokenizers", "change `start_from`"
    raise UserError(problem, remedy, code="unsupported", where=path)


def load_masked_tokenizer(path: Path) -> MaskedTokenizer:
    """Read the `tokenizer.json` of a masked language model."""
    tokenizer = load_tokenizer(path)
    if not isinstance(tokenizer, MaskedTokenizer):
        problem = f"{path} is not a tokenizer of BERT or RoBERTa: it has no token for masked words"
        raise UserError(problem, "use the model's own vocab.txt or tokenizer.json", code="damaged-file", where=path)
    return tokenizer


def tokenizer_from_json(text: str) -> Tokenizer:
    """Read the content of a `tokenizer.json`; a ValueError says what is wrong with it."""
    content = parse_json(text)
    normalizer = content.get("normalizer") if isinstance(content, dict) else None
    if isinstance(normalizer, dict) and normalizer.get("type") == "BertNormalizer":
        return BertTokenizer.from_json(text)
    processor = content.get("post_processor") if isinstance(content, dict) else None
    if isinstance(processor, dict) and processor.get("type") == PROCESSING:
        return RobertaTokenizer.from_json(text)
    tokenizer = build_tokenizer(text)
    is_unigram = type(tokenizer.model).__name__ == "Unigram"
    return SentencePieceTokenizer(tokenizer) if is_unigram else SubwordTokenizer(tokenizer)


def learning_message(kind: str, size: int) -> Message:
    return Message("learning the vocabulary ({kind}, at most {size:,} tokens)", kind=kind, size=size)
