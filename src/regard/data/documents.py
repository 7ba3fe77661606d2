"""Running text as BERT reads it to learn: documents, and their sentences in order (Devlin et al. 2018, section A.2).

A document is what belongs together: sentences after one another in it follow from each other, those of two documents do
not. A "sentence" is only a stretch of text to put inputs together from; it need not be one in a linguist's sense.
"""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import BeforeValidator

from regard.config import Field, Settings
from regard.data.corpora import read_lines
from regard.data.digests import Digests
from regard.data.settings import SourceSettings, as_list
from regard.files import open_binary


class Documents(Settings):
    """One file of running text, and how its documents and sentences are told apart."""

    file: str = Field(description="a file of plain text, UTF-8 (.gz and .xz are read too)")
    boundary: Literal["blank", "heading", "file"] = Field(
        default="blank",
        description='what parts documents: blank lines; headings like " = Title = " (WikiText; they and those of '
        "sections are left out); or nothing, and the file is one document",
    )
    sentences: Literal["lines", "split"] = Field(
        default="lines", description="each line is a sentence, or lines are split after . ! ? and 。！？"
    )

    def path(self, root: Path) -> Path:
        """The file it is read from; ~ is the home."""
        return root / os.path.expanduser(self.file)  # noqa: PTH111

    def __str__(self) -> str:
        return self.file


DocumentFiles = Annotated[list[Documents], BeforeValidator(as_list)]


class DocumentDataSettings(SourceSettings):
    """The documents to train, validate and test on, how inputs are put together, and what is hidden in them."""

    train: DocumentFiles = Field(
        default=[], description="texts to learn from; one table or a list; a model from elsewhere has none"
    )
    valid: DocumentFiles = Field(default=[], description="texts to choose the best checkpoint by")
    test: DocumentFiles = Field(default=[], description="texts for the final score")
    max_length: int = Field(default=128, ge=8, description="tokens of an input, [CLS] and [SEP] included")
    short: float = Field(
        default=0.1, ge=0, le=1, description="share of inputs that are made shorter on purpose, to any length"
    )
    next_sentence: bool = Field(
        default=True,
        description="inputs are pairs, half of them from two documents, and it is asked which (Devlin et al. 2018, "
        "section 3.1, task 2); else each is one stretch of a document (Liu et al. 2019, section 4.2)",
    )
    masked: float = Field(default=0.15, gt=0, lt=1, description="share of the tokens that are asked for")
    whole_words: bool = Field(
        default=False, description="hide all pieces of a word or none, as the authors' later models do"
    )


class Sentence(NamedTuple):
    """A sentence, and whether a document begins with it."""

    text: str
    first: bool


def read_documents(files: Iterable[Documents], root: Path) -> Iterator[Sentence]:
    """All sentences of all documents, read as they are asked for."""
    for documents in files:
        first = True
        for line in read_lines(documents.path(root)):
            if begins_document(line, documents.boundary):
                first = True
            if not line.strip() or (documents.boundary == "heading" and HEADING.match(line)):
                continue
            for text in split_sentences(line) if documents.sentences == "split" else [line]:
                yield Sentence(text, first)
                first = False


HEADING = re.compile(r"\s*=\s.*\s=\s*$")
TITLE = re.compile(r"\s*=\s+[^=\s].*\s=\s*$")


def begins_document(line: str, boundary: str) -> bool:
    """Whether what comes after this line, or with it, is of another document."""
    return (boundary == "blank" and not line.strip()) or (boundary == "heading" and bool(TITLE.match(line)))


CLOSING = "\"'”’»)\\]"
TOKENISED = re.compile(r"\s\.(\s|$)")
# Text that is cut into words already writes the stop apart: "in the U.S. Army . He".
APART = re.compile(r"(?<=\s[.!?])\s+(?=\S)")
# Otherwise it stands at a word, maybe with a closing quote; what goes on in small letters was an abbreviation.
ATTACHED = re.compile(rf"(?:(?<=[.!?…])|(?<=[.!?…][{CLOSING}])|(?<=[.!?…][{CLOSING}]{{2}}))\s+(?![a-zà-ÿ\s])")
CHINESE = re.compile(r"(?<=[。！？])(?![。！？」』”’）])|(?<=[。！？][」』”’）])")


def split_sentences(line: str) -> list[str]:
    """A paragraph in sentences, by its stops alone: "Dr. Who" is cut in two, and nothing is lost but blanks."""
    latin = APART if TOKENISED.search(line) else ATTACHED
    parts = (part.strip() for some in latin.split(line) for part in CHINESE.split(some))
    return [part for part in parts if part]


def identify(documents: Documents, root: Path, digests: Digests) -> str:
    """What a file holds and how it is read, whatever it is called."""
    path = documents.path(root)
    open_binary(path).close()  # a missing or unreadable file is named
    return f"{digests.of(path)} {''.join(path.suffixes[-1:])} {documents.boundary} {documents.sentences}"
