"""How text is cut into pieces for a BERT."""

from typing import Literal

from regard.config import Field, Settings
from regard.text.bert import SPECIALS


class BertTextSettings(Settings):
    """The vocabulary of a BERT: its size, how it is learnt, and what of a text it keeps."""

    kind: Literal["bert"] = Field(
        default="bert", description="what a piece is: whole frequent words, and parts of the others, which read ##so"
    )
    vocab_size: int = Field(
        default=16000,
        gt=2 * len(SPECIALS),
        description="at most so many pieces, special symbols included (the paper's models have 30,000); a small corpus "
        "gives fewer",
    )
    min_frequency: int = Field(
        default=2,
        ge=1,
        description="a piece must be seen so often to enter the vocabulary; a word with a rarer character is unknown",
    )
    lowercase: bool = Field(default=True, description="read all text in small letters, as the models called uncased do")
    strip_accents: bool | None = Field(
        default=None, description="read letters without their accents; unless it is said, where all letters are small"
    )
    split_chinese: bool = Field(default=True, description="read each Chinese character as a word of its own")
