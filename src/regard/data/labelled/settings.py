"""Which labelled text a model learns from, where its columns are, and which of it is held out."""

import os
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, model_validator

from regard.config import Field, Settings
from regard.data.corpora import ending
from regard.data.settings import SourceSettings, as_list

Column = int | str
Columns = Column | list[Column]

ENDINGS = {
    ".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".json": "json", ".conll": "conll", ".bio": "conll",
    ".txt": "txt",
}  # fmt: skip
TABLES = ("csv", "tsv")
QUESTIONS = ("squad", "squad-tokens", "qamr")


class Labelled(Settings):
    """One file of labelled examples: where it is, how it is written, and which of its columns say what.

    A column is a name in the header or a number from 1; in JSON a key, or several with dots between them. Columns that
    are not named are those called as the settings below: text, label and so on.
    """

    file: str = Field(description="the file, UTF-8 (.gz and .xz are read too)")
    format: Literal["", "csv", "tsv", "jsonl", "json", "conll", "txt", "trec", "squad", "squad-tokens", "qamr"] = Field(
        default="", description="how it is written; where not said, what its name ends in"
    )
    header: bool = Field(default=True, description="whether the first row of a csv or tsv names the columns")
    quoted: bool | None = Field(
        default=None,
        description='whether "..." encloses a cell; where not said, in csv it does, and in tsv quotes are text',
    )
    part: str = Field(default="", description="where in a json file the list of records is; nowhere: it is the list")
    where: dict[str, str | int | list[str | int]] = Field(
        default={}, description='read those rows only: { source = "imdb" }, or one of several: { year = [2012, 2013] }'
    )
    text: Columns | None = Field(default=None, description="the text; several columns are joined by a blank")
    pair: Columns | None = Field(default=None, description="a second text, read together with the first")
    label: Column | None = Field(
        default=None, description="the class, the number, or which choice is right (from 0, or its own label)"
    )
    labels_file: str | None = Field(default=None, description="a file with the label of each record, one a line")
    names: dict[str, str] = Field(default={}, description='other names for labels: { "1" = "World", "2" = "Sports" }')
    words: Column | None = Field(default=None, description="for tagging: the words; in conll the first column")
    tags: Column | None = Field(default=None, description="for tagging: a tag for each word; in conll the last column")
    question: Column | None = Field(default=None, description="for answering: the question")
    context: Column | None = Field(default=None, description="for answering: the text that holds the answer")
    answers: Column | None = Field(default=None, description="for answering: the answers, and where they begin")
    contexts_file: str | None = Field(default=None, description="for qamr: the file of the sentences asked about")
    choices: Columns | None = Field(default=None, description="for choice: a column each, or one that holds them all")

    @model_validator(mode="after")
    def _is_readable(self) -> Self:
        if not self.written:
            known = ", ".join(dict.fromkeys(ENDINGS.values()))
            raise ValueError(f"{Path(self.file).name!r} does not say how it is written; write format = one of {known}")
        numbers = [column for column in self._named() if isinstance(column, int)]
        if any(number < 1 for number in numbers):
            raise ValueError("columns are counted from 1")
        if self.written in TABLES and not self.header:
            if names := [column for column in self._named() if isinstance(column, str)]:
                raise ValueError(f"header = false, so that no column is called {names[0]!r}; write its number, from 1")
            if not numbers:
                raise ValueError("header = false: say which column is which by number, like text = 1, label = 2")
        if self.written not in TABLES and (not self.header or self.quoted is not None):
            raise ValueError(f"header and quoted are for csv and tsv, and this file is {self.written}")
        if self.part and self.written != "json":
            raise ValueError(f"part is for json files, and this one is {self.written}")
        if self.written in QUESTIONS and (named := [*self._named(), *filter(None, [self.labels_file])]):
            raise ValueError(f"{self.written} says itself where everything is; leave {named[0]!r} out")
        if self.written == "conll" and any(isinstance(column, str) for column in self._named()):
            raise ValueError("the columns of conll have no names; write words = 1 and tags = their number, or neither")
        if (self.written == "qamr") != (self.contexts_file is not None):
            raise ValueError("qamr is two files: the questions in file, the sentences in contexts_file")
        if self.written == "squad-tokens" and ".context" not in Path(self.file).name:
            raise ValueError("squad-tokens are four files side by side; name the one with .context in its name")
        return self

    def _named(self) -> list[Column]:
        fields = (self.text, self.pair, self.label, self.words, self.tags, self.question, self.context, self.answers)
        chosen = [field for field in (*fields, self.choices) if field is not None]
        return [column for field in chosen for column in (field if isinstance(field, list) else [field])]

    @property
    def written(self) -> str:
        """How the file is written; "" where neither format nor name says."""
        return self.format or ENDINGS.get(ending(self.file).lower(), "")

    def beside(self, name: str) -> str:
        """Of files side by side, the one with `.name` where `file` has `.context`."""
        folder, _, own = self.file.rpartition("/")
        return "/".join([*filter(None, [folder]), own.replace(".context", f".{name}", 1)])

    def files(self, root: Path) -> list[Path]:
        """All files it is read from, `file` first; ~ is the home."""
        more = [self.beside("question"), self.beside("span")] if self.written == "squad-tokens" else []
        names = [self.file, *more, *filter(None, (self.labels_file, self.contexts_file))]
        return [root / os.path.expanduser(name) for name in names]  # noqa: PTH111

    def __str__(self) -> str:
        chosen = [f"{key} = {value}" for key, value in self.where.items()]
        return f"{self.file} ({', '.join([*filter(None, [self.part]), *chosen])})" if self.part or chosen else self.file


Sources = Annotated[list[Labelled], BeforeValidator(as_list)]


class LabelledDataSettings(SourceSettings):
    """The examples to train, validate and test on, and which of the training examples are used for it."""

    train: Sources = Field(default=[], description="examples to learn from; one table or a list of them")
    valid: Sources = Field(default=[], description="examples to choose the best checkpoint by; nothing is left out")
    test: Sources = Field(default=[], description="examples for the final score; nothing is left out")
    hold_out: float = Field(
        default=0.0, ge=0, lt=1, description="where no valid is named: the share of training texts kept for it"
    )
    hold_out_test: float = Field(
        default=0.0, ge=0, lt=1, description="where no test is named: the share of training texts kept for it"
    )
    drop_duplicates: bool = Field(default=True, description="keep the first of equal training examples only")
    same_ending: bool = Field(
        default=False,
        description="count two examples as equal also where one ends with all that the other says: an article with "
        "its headline and without it",
    )
    keep_apart: bool = Field(
        default=False, description="leave out of training what is also in valid or test; they are counted in any case"
    )
    limit: int = Field(default=0, ge=0, description="train on so many examples only, drawn by lot; 0 means on all")
    limit_seed: int = Field(default=1, ge=0, lt=1 << 64, description="another seed draws other examples")
    max_length: int = Field(
        default=128,
        ge=8,
        description="pieces of an input, special symbols included; what is longer is cut, or for tagging read in parts",
    )

    @model_validator(mode="after")
    def _parts_are_made(self) -> Self:
        for name, share, sources in (
            ("hold_out", self.hold_out, self.valid),
            ("hold_out_test", self.hold_out_test, self.test),
        ):
            if share and sources:
                raise ValueError(f"{name} makes a part that is named already; leave one of the two out")
        if self.train and not self.valid and not self.hold_out:
            raise ValueError("there is nothing to choose the best checkpoint by; write valid, or hold_out = 0.1")
        if self.hold_out + self.hold_out_test >= 1:
            raise ValueError("hold_out and hold_out_test together leave nothing to train on")
        return self


class AnsweringDataSettings(LabelledDataSettings):
    """Texts that hold answers are long: they are read in windows that overlap."""

    max_length: int = Field(default=384, ge=16, description="pieces of a window: question, text and special symbols")
    max_question: int = Field(default=64, ge=1, description="pieces of a question; the rest is cut")
    stride: int = Field(default=128, ge=1, description="how many pieces of text further the next window begins")
    max_answer: int = Field(default=30, ge=1, description="pieces of the longest answer that is looked for")

    @model_validator(mode="after")
    def _windows_overlap(self) -> Self:
        room = self.max_length - self.max_question - 3  # [CLS], and a [SEP] after each
        if room < 1:
            raise ValueError(
                f"a question of max_question = {self.max_question} pieces leaves no room for a text in a window of "
                f"max_length = {self.max_length}; make max_question smaller"
            )
        if self.stride > room:
            raise ValueError(
                f"a window of max_length = {self.max_length} has room for {room} pieces of text beside a question of "
                f"max_question = {self.max_question}, and stride = {self.stride} would skip some; make stride smaller"
            )
        return self
