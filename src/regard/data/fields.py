"""Fields: which keys the examples of a task have, and from which formats and columns they are read.

A task owns or imports one `Fields` value. Nothing else in this package depends on the task.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from regard.config import SettingError
from regard.data import examples
from regard.data.examples import Example
from regard.data.records import TABLES, Location, Record, file_ending
from regard.data.sources import Source

CONVERSIONS = {ending: advice for advice, endings in TABLES["conversions"].items() for ending in endings}
"""How to convert a file that a task does not read, by its ending."""


@dataclass(frozen=True)
class Fields:
    """The fields of a task's examples, and how to read them."""

    inputs: tuple[str, ...]
    """The fields that the model reads. Examples with the same first input are held out together."""
    target: str
    """The field that the model learns to predict; "" if there is none."""
    read: Callable[[Record, Source], Example]
    """Makes an example of a record, and checks it."""
    required: tuple[str, ...]
    """The inputs that every example has."""
    json_form: str = ""
    """An input as JSON, for help texts and errors."""
    endings: Mapping[str, str] = field(default_factory=dict)
    """The format of a file by the end of its name."""
    formats: tuple[str, ...] = ()
    """Further formats, which `format` can name."""
    builtins: tuple[str, ...] = ()
    """The built-in corpora that have these fields."""
    default_format: str = ""
    """The format of files with any other ending; "" if there is none."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """The fields whose column a source can choose, each with a help text."""
    several: tuple[str, ...] = ()
    """The fields that may have several columns."""
    options: tuple[str, ...] = ()
    """The settings of a source that belong to these fields in every format."""
    held_out: Literal["texts", "lines", "documents"] = "texts"
    """What is held out of the training data: texts with all their examples, blocks of lines, or whole documents."""
    headed_tables: bool = True
    """True if tables have a header by default and rows of equal length; False: only columns given by name need one."""

    def format_of(self, source: Source) -> str:
        """The name of the format of a source; a SettingError if these fields cannot be read from it."""
        if source.builtin is not None:
            if source.builtin not in self.builtins:
                known = f"builtin = {' or '.join(map(repr, self.builtins))}, or " if self.builtins else ""
                raise SettingError("builtin", f"this task does not read {source.builtin!r}; write {known}file = ...")
            return "builtin"
        if source.src is not None:
            if "aligned" not in self.formats:
                raise SettingError("src", "src and tgt are for translation; write file = ...")
            return "aligned"
        if source.format == "examples":
            return "examples"
        ending = file_ending(source.file or "")
        name = source.format or self.endings.get(ending, "" if ending in CONVERSIONS else self.default_format)
        names = list(dict.fromkeys([*self.endings.values(), *self.formats, *filter(None, [self.default_format])]))
        choices = [choice for choice in names if choice != "aligned"]
        if not name:
            known = f"use {', '.join(self.endings)}, or set `format` to one of {', '.join(choices)}"
            advice = CONVERSIONS.get(ending, known)
            file = Path(source.file or "").name
            raise SettingError("file", f"{file!r} has an unknown file extension; {advice}")
        if name not in choices:
            raise SettingError("format", f"{name!r} is for other tasks; this task reads {', '.join(choices)}")
        return name

    def parse(self, value: Mapping[str, object], location: Location | None = None) -> Example:
        """The example that a dictionary means, checked."""
        return self.read(Record(location or Location("the input"), dict(value)), PLAIN)

    def texts(self, example: Example) -> list[str]:
        """All texts of the inputs: what a tokenizer is trained on. Words are one text, several choices are several."""
        texts: list[str] = []
        for name in dict.fromkeys((*self.required, *self.inputs)):
            if value := example.get(name):
                parts = value if name in self.several else [" ".join(value)]
                texts += [value] if isinstance(value, str) else parts
        return texts

    def dedup_text(self, example: Example) -> str:
        """All that a model reads of an example, with single spaces: equal for duplicates."""
        texts = (example.get(name, "") for name in self.inputs)
        return "\n".join(
            " ".join((text if isinstance(text, str) else " ".join(text)).split()) for text in texts
        ).strip()

    def group_text(self, example: Example) -> str:
        """The first input: examples with the same one are held out together, in both directions of a pair."""
        text = example[self.target if example.get("reversed") else self.inputs[0]]
        return text if isinstance(text, str) else " ".join(text)


PLAIN = Source(file="-", format="jsonl")
"""The source of examples that are not read from a file: every field has its own name."""


# ---- the fields of the tasks of this toolkit, written in formats.toml


def _join_endings(*groups: str) -> dict[str, str]:
    return {ending: name for group in groups for ending, name in TABLES["endings"][group].items()}


def _load(name: str) -> Fields:
    table = TABLES["fields"][name]
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    endings = _join_endings(*table.get("endings", ()))
    return Fields(**values | {"read": vars(examples)[table["read"]], "endings": endings})


TABLE_ENDINGS = _join_endings("table", "typed")
PAIRS, TREES, LINES, SENTENCES = map(_load, ("pairs", "trees", "lines", "sentences"))
LABELLED_TEXT, TAGGED_WORDS, DEPENDENCIES = map(_load, ("labelled_text", "tagged_words", "dependencies"))
QUESTIONS, CHOICES, RECORDINGS = map(_load, ("questions", "choices", "recordings"))
SCORED_TEXT = replace(LABELLED_TEXT, read=examples.read_scored_text, formats=("datasets",))

_ALL = (PAIRS, LABELLED_TEXT, TAGGED_WORDS, DEPENDENCIES, QUESTIONS, CHOICES, RECORDINGS)
COLUMNS = frozenset(name for fields in _ALL for name in fields.columns)
"""The fields of the tasks of this toolkit that have columns."""
