"""Settings of tokenizers."""

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import Tag, model_validator

from regard.config import Field, SettingError, Settings, Unused, by_kind, unless
from regard.text.bert import SPECIALS as BERT_SPECIALS
from regard.text.symbols import SPECIALS

MIN_VOCAB_SIZE = dict.fromkeys(("bpe", "word", "token", "char"), len(SPECIALS) + 256)
MIN_VOCAB_SIZE |= {"wordpiece": len(SPECIALS) + 512, "imported": len(SPECIALS)}
"""Special tokens and bytes, which are in every vocabulary."""
MergeBy = Literal["frequency", "likelihood"]
MERGE_BY = "pair to merge next: the most frequent (frequency), or the one with the largest "
MERGE_BY += "count(ab) / (count(a) count(b)) (likelihood)"


class TextSettings(Settings):
    """A tokenizer for text that is also generated: its kind, vocabulary size and training."""

    kind: Literal["bpe", "wordpiece", "word", "token", "char", "imported"] = Field(
        "bpe",
        description="tokenizer: bpe and wordpiece learn subwords. word, token and char keep the most frequent words, "
        "strings between spaces (for tokenized text) or characters. Other text is encoded as bytes. imported: the "
        "tokenizer of an imported model, which is not trained",
    )
    vocab_size: int = Field(
        8000, description="maximum number of tokens in the vocabulary, special tokens and bytes included"
    )
    joint: bool = Field(True, description="use one vocabulary for source and target; false: one each")
    min_frequency: int = Field(2, ge=1, description="minimum frequency of a token in the training text")
    merge_by: MergeBy = Field("frequency", description=f'only with `kind = "wordpiece"`: {MERGE_BY}')
    dropout: float = Field(
        0.0, ge=0.0, lt=1.0, description='only with `kind = "bpe"`: probability to skip a merge (BPE-dropout)'
    )

    def no_effect(self) -> Iterator[Unused]:
        yield from unless(self.kind == "wordpiece", 'kind = "wordpiece"', "merge_by")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.dropout and self.kind != "bpe":
            message = f'BPE-dropout needs merges, which kind {self.kind!r} does not have; write kind = "bpe"'
            raise SettingError("dropout", message)
        if self.vocab_size < MIN_VOCAB_SIZE[self.kind]:
            problem = f"{self.vocab_size} is too small: kind {self.kind!r} needs at least {MIN_VOCAB_SIZE[self.kind]}"
            raise SettingError("vocab_size", f"{problem}, for special tokens and bytes")
        return self


class PairTextSettings(TextSettings):
    """The tokenizers of a translation model."""

    tokenizer_from: str = Field(
        "",
        description="run whose tokenizers to use instead of training new ones (for a distilled student "
        "and for ensemble members)",
    )
    source_end: bool = Field(
        True,
        description="append the end symbol to each source; imported models from OpenNMT-py and Argos Translate read "
        "sources without it",
    )


class BertTextSettings(Settings):
    """A tokenizer of BERT: its vocabulary size, training and normalisation."""

    kind: Literal["bert"] = Field(
        "bert", description="tokenizer: BERT's WordPiece; tokens that continue a word begin with ##"
    )
    vocab_size: int = Field(
        16000,
        gt=2 * len(BERT_SPECIALS),
        description="maximum vocabulary size, special tokens included (30,000 in the paper); small corpora give fewer",
    )
    min_frequency: int = Field(
        2,
        ge=1,
        description="minimum frequency of tokens and characters in training; words with rarer characters become [UNK]",
    )
    merge_by: MergeBy = Field("frequency", description=MERGE_BY)
    lowercase: bool = Field(True, description="lowercase the text, like the uncased models")
    strip_accents: bool | None = Field(None, description="strip accents; default: the value of `lowercase`")
    split_chinese: bool = Field(True, description="treat every Chinese character as a word")


EncoderTextSettings = Annotated[
    Annotated[BertTextSettings, Tag("bert")]
    | Annotated[TextSettings, Tag("bpe")]
    | Annotated[TextSettings, Tag("wordpiece")]
    | Annotated[TextSettings, Tag("word")]
    | Annotated[TextSettings, Tag("token")]
    | Annotated[TextSettings, Tag("char")]
    | Annotated[TextSettings, Tag("imported")],
    by_kind("bert"),
]
"""The tokenizer of a text encoder: that of BERT, or one of a language model."""
MaskedTextSettings = Annotated[
    Annotated[BertTextSettings, Tag("bert")] | Annotated[TextSettings, Tag("imported")], by_kind("bert")
]
"""The tokenizer of a masked language model: that of BERT, or that of an imported model."""
