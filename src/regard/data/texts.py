"""Text in one language, line by line, as a language model reads it.

A line is a sentence, a paragraph or a heading, whatever the file holds; blank lines are lines too. What the published
forms of a corpus have done to their text is done here, while it is read: blanks made single, and rare words replaced.
"""

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, model_validator

from regard.config import Field, Settings
from regard.data import builtin
from regard.data.corpora import read_lines
from regard.data.digests import Digests
from regard.data.settings import SourceSettings, as_list
from regard.files import open_binary

UNKNOWN = "<unk>"


class Text(Settings):
    """One text: a file, or a side of a corpus that comes with the toolkit."""

    file: str | None = Field(default=None, description="a file of plain text, UTF-8 (.gz and .xz are read too)")
    builtin: Literal["dates", "numbers"] | None = Field(default=None, description="a corpus made by the toolkit")
    part: Literal["train", "valid", "test"] | None = Field(default=None, description="which part of a builtin corpus")
    side: Literal["src", "tgt"] | None = Field(default=None, description="which side of a builtin corpus")

    @model_validator(mode="after")
    def _one_form(self) -> "Text":
        if (self.file is None) == (self.builtin is None):
            raise ValueError('a text is either file = "train.txt" or builtin = "numbers" with part and side')
        if len({self.builtin is None, self.part is None, self.side is None}) != 1:
            raise ValueError('builtin, part and side go together: builtin = "numbers", part = "train", side = "tgt"')
        return self

    def path(self, root: Path) -> Path:
        """The file it is read from; ~ is the home."""
        return root / os.path.expanduser(self.file or "")  # noqa: PTH111

    def __str__(self) -> str:
        return self.file or f"{self.builtin} ({self.part}, {self.side})"


HypothesisBatch = Annotated[list[Text], BeforeValidator(as_list)]


class TextDataSettings(SourceSettings):
    """The texts to train, validate and test on, how they are read and how far a gradient looks back."""

    train: HypothesisBatch = Field(min_length=1, description="texts to learn from; one table or a list of them")
    valid: HypothesisBatch = Field(min_length=1, description="texts to choose the best checkpoint by")
    test: HypothesisBatch = Field(default=[], description="texts for the final score")
    bptt: int = Field(
        default=70, ge=1, description="tokens a column of the text is read at a time: how far back gradients reach"
    )
    single_blanks: bool = Field(
        default=False, description="make one blank of every run of them, and take those at either end of a line away"
    )
    unknown_below: int = Field(
        default=0,
        ge=0,
        description=f"words (what stands between blanks) seen fewer times than this in the training text become the "
        f"word {UNKNOWN} everywhere; 0 keeps them",
    )


@dataclass(frozen=True)
class Reading:
    """What is done to every line before a model meets it, in training, in evaluation and in a prompt."""

    single_blanks: bool = False
    known: frozenset[str] | None = None
    """The words that stay as they are; without it all of them do."""

    def __call__(self, line: str) -> str:
        if self.single_blanks:
            line = " ".join(line.split())
        return line if self.known is None else re.sub(r"\S+", self._word, line)

    def _word(self, found: re.Match[str]) -> str:
        assert self.known is not None
        return found[0] if found[0] in self.known else UNKNOWN


def read_texts(texts: Iterable[Text], root: Path, reading: Reading) -> Iterator[str]:
    """Every line of every text, blank ones too, read as they are asked for; a text has at least one."""
    for text in texts:
        yield from map(reading, _lines(text, root))


def _lines(text: Text, root: Path) -> Iterator[str]:
    if text.builtin is None or text.part is None:
        return read_lines(text.path(root))
    side = 0 if text.side == "src" else 1
    return (pair[side] for pair in builtin.pairs(text.builtin, text.part))


def count_known(texts: Iterable[Text], root: Path, unknown_below: int) -> frozenset[str]:
    """The words that occur at least `unknown_below` times."""
    counts: Counter[str] = Counter()
    for text in texts:
        for line in _lines(text, root):
            counts.update(line.split())
    return frozenset(word for word, count in counts.items() if count >= unknown_below) | {UNKNOWN}


def identify(text: Text, root: Path, digests: Digests) -> str:
    """What a text holds, whatever it is called."""
    if text.builtin is not None and text.part is not None:
        return f"{builtin.fingerprint(text.builtin, text.part)} {text.side}"
    path = text.path(root)
    open_binary(path).close()  # a missing or unreadable file is named
    return f"{digests.of(path)} {''.join(path.suffixes[-1:])}"
