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
from regard.data.records import Location, Record, file_ending
from regard.data.sources import Source

CONVERSIONS = {
    **dict.fromkeys((".xls", ".xlsm", ".xlsb", ".ods", ".numbers"), "save the sheet as .xlsx or .csv"),
    **dict.fromkeys((".doc", ".docx", ".odt", ".rtf", ".epub"), "save it as text, one text per line"),
    **dict.fromkeys((".parquet", ".arrow", ".feather", ".ipc", ".xlsx"), "write the column of texts to a .txt file"),
    **dict.fromkeys((".tar", ".tgz", ".rar", ".7z"), "extract the archive"),
    **dict.fromkeys((".rds", ".rdata"), "in R: write.csv(data, 'data.csv', row.names = FALSE)"),
    **dict.fromkeys((".db", ".sqlite"), "export a table: sqlite3 -csv -header FILE 'SELECT ...' > data.csv"),
    **dict.fromkeys((".pkl", ".pickle", ".h5", ".npz", ".npy", ".mat"), "in Python: write a list of objects as JSON"),
    ".zip": "name a file in it: FILE.zip/MEMBER",
    ".pdf": "extract its text: pdftotext FILE.pdf",
    ".sav": "in Python: pandas.read_spss(FILE).to_parquet('data.parquet')",
    ".dta": "in Python: pandas.read_stata(FILE).to_parquet('data.parquet')",
    ".zst": "decompress it: unzstd FILE",
}
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
    line_form: str = ""
    """An input as one line of text with tabs, for help texts and errors."""
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
            known = f"({', '.join(self.endings)}); write format = one of {', '.join(choices)}"
            advice = CONVERSIONS.get(ending, known)
            file = Path(source.file or "").name
            raise SettingError("file", f"the format of {file!r} is not known by its ending; {advice}")
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


# ---- the fields of the tasks of this toolkit

TREE_ENDINGS = dict.fromkeys((".ptb", ".mrg", ".tree", ".trees"), "trees")
TEXT_COLUMN = "column of the text; several columns are joined by spaces"
TYPED_ENDINGS = {".parquet": "parquet", ".xlsx": "xlsx", **dict.fromkeys((".arrow", ".feather", ".ipc"), "arrow")}
TABLE_ENDINGS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".json": "json", **TYPED_ENDINGS}
BITEXT_ENDINGS = {".tmx": "tmx", ".xlf": "xliff", ".xliff": "xliff"}

PAIRS = Fields(
    inputs=("src",),
    target="tgt",
    read=examples.read_pair,
    required=("src",),
    json_form='{"src": "..."}',
    line_form="the source sentence",
    endings={**TABLE_ENDINGS, ".txt": "tsv", **BITEXT_ENDINGS, **TREE_ENDINGS},
    formats=("datasets", "dialogues", "aligned"),
    builtins=("dates", "numbers", "trees"),
    columns={
        "src": "translation: column of the source; default: the one named src or source, else 1",
        "tgt": "translation: column of the target; default: the one named tgt or target, else 2",
    },
    options=("src_lang", "tgt_lang", "directions", "repeat"),
    headed_tables=False,
)
TREES = replace(
    PAIRS,
    target="tree",
    required=("words",),
    read=examples.read_tree,
    json_form='{"words": ["...", "..."]}',
    line_form="the sentence",
    endings=TREE_ENDINGS,
    formats=(),
    builtins=("trees",),
    columns={},
    options=(),
)
LINES = Fields(
    inputs=("text",),
    target="",
    read=examples.read_line,
    required=("text",),
    json_form='{"text": "..."}',
    line_form="the text",
    builtins=("dates", "numbers", "trees"),
    default_format="lines",
    options=("side",),
    held_out="lines",
)
SENTENCES = Fields(
    inputs=("text", "pair"),
    target="",
    read=examples.read_sentence,
    required=("text",),
    json_form='{"text": "Paris is the [MASK] of France."}, or with a second text {"text": "...", "pair": "..."}',
    line_form="text, or text TAB second text",
    default_format="documents",
    held_out="documents",
)
LABELLED_TEXT = Fields(
    inputs=("text", "pair"),
    target="label",
    read=examples.read_labelled_text,
    required=("text",),
    json_form='{"text": "..."}, or with a second text {"text": "...", "pair": "..."}',
    line_form="text, or text TAB second text",
    endings={**TABLE_ENDINGS, ".txt": "txt"},
    formats=("datasets", "trec"),
    columns={
        "text": TEXT_COLUMN,
        "pair": "column of the second text of a pair",
        "label": "column of the class or the number",
    },
    several=("text", "pair"),
    options=("names", "labels_file"),
)
SCORED_TEXT = replace(LABELLED_TEXT, read=examples.read_scored_text, formats=("datasets",))
TAGGED_WORDS = Fields(
    inputs=("words",),
    target="tags",
    read=examples.read_tagged_words,
    required=("words",),
    json_form='{"words": ["...", "..."]}',
    line_form="the text",
    endings={**TABLE_ENDINGS, ".conll": "conll", ".bio": "conll", ".conllu": "conllu"},
    formats=("datasets",),
    builtins=("trees",),
    columns={
        "words": "tagging: column of the words; in conll the first",
        "tags": 'tagging: column of the tags; in conll the last, in conllu the universal ones, or "xpos"',
    },
    options=("names",),
)
DEPENDENCIES = Fields(
    inputs=("words",),
    target="heads",
    read=examples.read_dependencies,
    required=("words",),
    json_form='{"words": ["...", "..."]}',
    line_form="the text",
    endings={".conllu": "conllu", ".jsonl": "jsonl", ".json": "json", **TYPED_ENDINGS},
    formats=("datasets",),
    builtins=("dependencies",),
    columns={
        "words": "dependencies: column of the words",
        "heads": "dependencies: column of the numbers of the heads, 0 for the root",
        "relations": "dependencies: column of the relations to the heads",
    },
    options=("names",),
)
QUESTIONS = Fields(
    inputs=("context", "question"),
    target="answers",
    read=examples.read_question,
    required=("question", "context"),
    json_form='{"question": "...", "context": "..."}',
    line_form="question TAB context",
    endings=TABLE_ENDINGS,
    formats=("datasets", "squad", "squad-tokens", "qamr"),
    columns={
        "question": "answering: column of the question",
        "context": "answering: column of the text that contains the answer",
        "answers": "answering: column of the answers and their positions",
    },
)
CHOICES = Fields(
    inputs=("text", "choices"),
    target="label",
    read=examples.read_choice,
    required=("text", "choices"),
    json_form='{"text": "...", "choices": ["...", "..."]}',
    line_form="text TAB choice TAB choice, with two choices or more",
    endings={**TABLE_ENDINGS, ".txt": "txt"},
    columns={
        "text": TEXT_COLUMN,
        "choices": "choice: one column for each choice, or one column with all of them",
        "label": "column of the right choice: its number from 0, or its label",
    },
    several=("text", "choices"),
    options=("names", "labels_file"),
)

_ALL = (PAIRS, LABELLED_TEXT, TAGGED_WORDS, DEPENDENCIES, QUESTIONS, CHOICES)
COLUMNS = frozenset(name for fields in _ALL for name in fields.columns)
"""The fields of the tasks of this toolkit that have columns."""
