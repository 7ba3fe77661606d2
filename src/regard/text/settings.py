"""How text is cut into pieces."""

from typing import Literal

from pydantic import model_validator

from regard.config import Field, Settings
from regard.text.symbols import SPECIALS

SMALLEST = {
    "bpe": len(SPECIALS) + 256,
    "wordpiece": len(SPECIALS) + 512,
    "word": len(SPECIALS) + 256,
    "token": len(SPECIALS) + 256,
    "char": len(SPECIALS) + 256,
    "imported": len(SPECIALS),
}


class TextSettings(Settings):
    """The vocabulary: its kind, its size and how it is learnt."""

    kind: Literal["bpe", "wordpiece", "word", "token", "char", "imported"] = Field(
        default="bpe",
        description="what a piece is: bpe and wordpiece learn subwords, word keeps the most frequent words, token the "
        "most frequent of what stands between blanks (text that is cut into words already), char the most frequent "
        "characters; whatever is not in the vocabulary is spelled in bytes; imported are the pieces that a model of "
        "another program came with, which are not learnt here",
    )
    vocab_size: int = Field(
        default=8000,
        description="at most so many pieces, special symbols and bytes included; a small corpus gives fewer",
    )
    joint: bool = Field(default=True, description="one vocabulary for both languages instead of one each")
    min_frequency: int = Field(default=2, ge=1, description="a piece must be seen so often to enter the vocabulary")
    dropout: float = Field(
        default=0.0,
        ge=0.0,
        lt=1.0,
        description="BPE-dropout: the share of merges left out at random in training (0.1 is usual; bpe only)",
    )

    @model_validator(mode="after")
    def _consistent(self) -> "TextSettings":
        if self.dropout and self.kind != "bpe":
            raise ValueError(
                f'dropout leaves out merges, and kind {self.kind!r} has none; write kind = "bpe" or dropout = 0.0'
            )
        if self.vocab_size < SMALLEST[self.kind]:
            raise ValueError(
                f"vocab_size {self.vocab_size} is too small: kind {self.kind!r} needs at least {SMALLEST[self.kind]}, "
                "for the special symbols and the bytes"
            )
        return self
