"""The tokenizers of BERT and RoBERTa in folders of `transformers`.

BERT, DistilBERT    vocab.txt and tokenizer_config.json, or tokenizer.json, which has both
RoBERTa             vocab.json and merges.txt, or tokenizer.json, which has both
"""

from pathlib import Path

from regard.errors import UserError
from regard.exchange.folders import (
    DOWNLOAD_AGAIN,
    TOKENIZER,
    TOKENIZER_CONFIG,
    Config,
    find_tokenizer,
    read_config,
    read_value,
)
from regard.reading import read_json, read_text
from regard.text.bert import BertTokenizer
from regard.text.inputs import order_tokens
from regard.text.roberta import RobertaTokenizer, parse_merges

VOCAB_FILE = "vocab.txt"
VOCAB, MERGES = "vocab.json", "merges.txt"


def read_bert_tokenizer(folder: Path) -> BertTokenizer:
    """The tokenizer of the BERT in `folder`. The defaults of tokenizer_config.json are those of the uncased models."""
    if not (folder / VOCAB_FILE).exists() and (folder / TOKENIZER).exists():
        return BertTokenizer.load(folder / TOKENIZER)
    path = folder / TOKENIZER_CONFIG
    config = read_config(path) if path.exists() else {}
    accents = config.get("strip_accents")
    return BertTokenizer.load_vocab_txt(
        folder / VOCAB_FILE,
        lowercase=read_value(config, "do_lower_case", bool, True, path),
        strip_accents=None if accents is None else read_value(config, "strip_accents", bool, False, path),
        split_chinese=read_value(config, "tokenize_chinese_chars", bool, True, path),
    )


def read_roberta_tokenizer(folder: Path) -> RobertaTokenizer:
    """The tokenizer of the RoBERTa in `folder`."""
    path = find_tokenizer(folder, VOCAB, MERGES)
    try:
        if path.name == TOKENIZER:
            return RobertaTokenizer.from_json(read_text(path))
        config = read_config(folder / TOKENIZER_CONFIG) if (folder / TOKENIZER_CONFIG).exists() else {}
        prefix = read_value(config, "add_prefix_space", bool, False, folder / TOKENIZER_CONFIG)
        return RobertaTokenizer(order_tokens(read_json(path, dict[str, int])), read_merges(folder / MERGES), prefix)
    except (ValueError, AttributeError, TypeError) as error:
        raise UserError(
            f"{path} is damaged or is not a tokenizer of RoBERTa: {error}",
            DOWNLOAD_AGAIN,
            code="damaged-file",
            where=path,
        ) from error


def read_merges(path: Path) -> list[tuple[str, str]]:
    """A merges.txt: two tokens a line, after a line with the version."""
    lines = read_text(path).split("\n")
    return parse_merges(line for line in lines if line and not line.startswith("#version"))


def tokenizer_config(tokenizer: BertTokenizer, max_length: int) -> Config:
    """The content of tokenizer_config.json."""
    return {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": tokenizer.lowercase,
        "strip_accents": tokenizer.strip_accents,
        "tokenize_chinese_chars": tokenizer.split_chinese,
        "model_max_length": max_length,
    }
