"""Which texts a model learns from, and which of their pairs are left out."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator

from regard.config import Field, Settings
from regard.data.corpora import Corpus


def as_list(value: Any) -> Any:
    """One table stands for a list of one."""
    return [value] if isinstance(value, (dict, Settings)) else value


Corpora = Annotated[list[Corpus], BeforeValidator(as_list)]


class SourceSettings(Settings):
    """What the data of every task has: a place, and processes that tokenise it."""

    root: str = Field(default=".", description="relative paths below are relative to this folder")
    workers: int = Field(default=0, ge=0, le=1024, description="processes that tokenise; 0 means one for each core")

    @property
    def folder(self) -> Path:
        """`root` as a path."""
        return Path(self.root).expanduser()


class DataSettings(SourceSettings):
    """The corpora to train, validate and test on, and the filters for training pairs."""

    train: Corpora = Field(
        default=[], description="corpora to learn from; one table or a list of them; only an imported model has none"
    )
    valid: Corpora = Field(default=[], description="corpora to choose the best checkpoint by; nothing is left out")
    test: Corpora = Field(default=[], description="corpora for the final score; nothing is left out")
    max_length: int = Field(
        default=256,
        ge=2,
        description="training pairs with more tokens on a side, the end symbol included, are left out",
    )
    max_ratio: float = Field(
        default=4.0,
        ge=0.0,
        description="training pairs with one side so many times as long as the other are left out, short pairs "
        "excepted: they are most often misaligned; 0 keeps them",
    )
    drop_duplicates: bool = Field(default=True, description="keep the first of equal training pairs only")
    drop_identical: bool = Field(
        default=False,
        description="leave out training pairs whose sides are equal; off, since names and numbers are rightly copied, "
        "but crawled text is full of untranslated sentences that teach a model to copy",
    )
    src_lang: str = Field(default="", description="the source language's name, for display only")
    tgt_lang: str = Field(default="", description="the target language's name, for display only")
