"""Settings of one source of examples: a file, two line-aligned files, or a built-in corpus.

    { src = "train.en", tgt = "train.de" }                                 two files, line n translates line n
    { file = "news.csv", columns = { text = "body", label = 3 } }          a table, with the columns of the fields
    { file = "news.csv", text = "body", label = 3 }                        the same, shorter
    { file = "talk.txt", format = "dialogues", split = "train", turns = 2 }
    { builtin = "dates", split = "train" }

Every task reads its sources with this class. Which options have a meaning depends on the fields of the task and on the
format of the file (`data/formats.py`); the others are refused.
"""

from pathlib import Path
from typing import Literal, Self

from pydantic import SerializerFunctionWrapHandler, model_serializer, model_validator

from regard.config import Field, SettingError, Settings
from regard.data.frames import is_frame, save_frame
from regard.data.remote import data_path
from regard.errors import UserError
from regard.files import COMPRESSED, JsonObject, find_file
from regard.reading import check_type, read_json
from regard.trees import Leaves

Column = int | str
"""A name in the header of a table, or a number from 1; in JSON a key, or several keys joined by dots."""
Columns = Column | list[Column]
Split = Literal["train", "valid", "test"]
Format = Literal[
    "tsv", "csv", "jsonl", "json", "txt", "lines", "trec", "conll", "conllu", "squad", "squad-tokens", "qamr",
    "dialogues", "trees", "documents", "examples", "parquet", "arrow", "datasets", "xlsx", "tmx", "xliff",
]  # fmt: skip

LANGUAGE = r"^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$"
"""Language codes: en, zh, zh-Hant, pt-BR."""
LOCATIONS = ("file", "src", "tgt", "builtin", "format")
"""Settings that name the data; all others are options, which a task or a format may not have."""
DEFAULTS: dict[str, object] = {"directions": "forward", "repeat": 1, "back_translated": False, "turns": 1}
DEFAULTS |= {"leaves": "XX", "boundary": "blank", "sentences": "lines"}
"""Values that mean the same as no value."""


class Source(Settings):
    """One source of examples.

    The fields of the task own the names of columns (`data/fields.py`). The column of a field can be given without
    `columns`, under its own name, or as NAME_column if that is a setting: `text = 2`, `src_column = 1`.
    """

    file: str | None = Field(
        None, description="one UTF-8 file: plain, .gz, .xz or .bz2; also a URL that fsspec reads: s3://bucket/pairs.tsv"
    )
    src: str | None = Field(None, description="a file with one source sentence per line")
    tgt: str | None = Field(None, description="a file with one translation per line of `src`")
    builtin: Literal["dates", "numbers", "trees", "dependencies", "tones"] | None = Field(
        None, description="name of a corpus that regard generates"
    )
    format: Format | None = Field(None, description="file format; default: from the file extension")
    split: Split | None = Field(
        None, description="only with built-in corpora and dialogues: train, valid or test; default for dialogues: all"
    )
    side: Literal["src", "tgt"] | None = Field(None, description="only with `builtin`: read this side as plain text")
    delimiter: str | None = Field(
        None,
        pattern=r'^[^"\n\r]$',
        description="only with csv and tsv: delimiter; default: tab for tsv; for csv from the first rows: , ; tab or |",
    )
    header: bool | None = Field(
        None,
        description="only with csv and tsv: true if the first row names the columns; default: true; for pairs, true if "
        "a column is set by name or if the first row has words like src, target, en or English",
    )
    quoted: bool | None = Field(
        None, description='only with csv and tsv: true if "..." encloses a cell; default: true only for csv'
    )
    sheet: str | None = Field(None, description="only with xlsx: name of the sheet; default: the only sheet")
    records: str | None = Field(
        None, description="only with json: key of the record list, e.g. data.items; default: the whole file"
    )
    where: dict[str, str | int | list[str | int]] | None = Field(
        None, description='read only rows with these values, e.g. { source = "imdb" } or { year = [2012, 2013] }'
    )
    columns: dict[str, Columns] = Field(
        {},
        description='column for each field, by header name or by number from 1, e.g. columns = { text = "body", '
        'label = 3 }; you may also write text = "body" and label = 3 beside `file`; default: the column with the '
        "field's name",
    )
    labels_file: str | None = Field(None, description="a file with the label of each record, one per line")
    names: dict[str, str] | None = Field(
        None, description='new names for labels or tags, e.g. { "1" = "World", "2" = "Sports" }'
    )
    contexts_file: str | None = Field(None, description="only with qamr: the file with the sentences")
    src_lang: str | None = Field(None, pattern=LANGUAGE, description="only with translation: source language, e.g. en")
    tgt_lang: str | None = Field(
        None,
        pattern=LANGUAGE,
        description="only with translation: target language, e.g. de; if train has several, each source sentence "
        "begins with a tag for its target language",
    )
    directions: Literal["forward", "backward", "both"] | None = Field(
        None,
        description="only with translation: forward (default): source to target; backward: target to source; or both",
    )
    repeat: int | None = Field(
        None,
        ge=1,
        le=1000,
        description="only with translation: number of times each training pair is read per epoch, so that a small "
        "source has more weight; default: 1",
    )
    back_translated: bool | None = Field(
        None,
        description="only with translation: true if a model wrote the source side (regard backtranslate); each of "
        "these sources then begins with a tag, so that the model can tell them from other text",
    )
    turns: int | None = Field(
        None, ge=1, description="only with dialogues: number of earlier turns that the model reads; default: 1"
    )
    leaves: Leaves | None = Field(
        None, description="only with trees: token for a word: XX (default; Vinyals et al. 2015), tag (its tag) or word"
    )
    boundary: Literal["blank", "heading", "file"] | None = Field(
        None,
        description='what separates documents: blank (default): blank lines; heading: lines like " = Title = ", which '
        "are left out (WikiText); file: each file is one document",
    )
    sentences: Literal["lines", "split"] | None = Field(
        None,
        description="only with documents: lines (default): a line is a sentence; split: also split after . ! ? 。！？",
    )

    @model_validator(mode="before")
    @classmethod
    def _collect_columns(cls, values: object) -> object:
        """Put columns in their short form into `columns`; a typing error in a setting is found by `check_source`."""
        if not isinstance(values, dict) or values.keys().isdisjoint(LOCATIONS):
            return values
        columns = {key: value for key, value in values.items() if key not in cls.model_fields and _is_column(value)}
        settings = {key: value for key, value in values.items() if key not in columns}
        named = {
            name if (name := key.removesuffix("_column")) in cls.model_fields else key: value
            for key, value in columns.items()
        }
        return settings | {"columns": {**settings.get("columns", {}), **named}} if columns else settings

    @model_validator(mode="after")
    def _check(self) -> Self:
        aligned = self.src is not None or self.tgt is not None
        if aligned + (self.file is not None) + (self.builtin is not None) != 1:
            raise ValueError("give one of: src and tgt (two files), file (one file), builtin (with split)")
        if (self.src is None) != (self.tgt is None):
            raise SettingError("src" if self.src is None else "tgt", "is missing: src and tgt are two aligned files")
        if self.builtin is not None and self.split is None:
            raise SettingError("split", f'must be given: builtin = "{self.builtin}", split = "train"')
        if self.format is not None and self.file is None:
            raise SettingError("format", "has no effect without `file`; set `file`, or remove `format`")
        if self.directions not in (None, "forward") and not (self.src_lang and self.tgt_lang):
            raise SettingError("directions", "needs src_lang and tgt_lang, so that the languages are known")
        for setting, column in self.given_columns():
            if isinstance(column, int) and column < 1:
                raise SettingError(setting, f"{column}: columns are numbered from 1")
        return self

    @model_serializer(mode="wrap")
    def _without_defaults(self, serialize: SerializerFunctionWrapHandler) -> JsonObject:
        """The settings that have an effect, so that equal sources are written alike."""
        values: JsonObject = serialize(self)
        columns = {column_setting(name): value for name, value in values.pop("columns", {}).items()}
        return columns | {
            name: value for name, value in values.items() if value not in (None, {}) and DEFAULTS.get(name) != value
        }

    def language_pairs(self) -> list[tuple[str, str]]:
        """The directions of the pairs, as (source language, target language); [] if the languages are not given."""
        if not self.src_lang or not self.tgt_lang:
            return []
        pairs = {"forward": [(self.src_lang, self.tgt_lang)], "backward": [(self.tgt_lang, self.src_lang)]}
        return pairs.get(self.directions or "forward") or [*pairs["forward"], *pairs["backward"]]

    def given_columns(self) -> list[tuple[str, Column]]:
        """Every column that is given, with the short name of its setting."""
        return [(column_setting(name), column) for name, value in self.columns.items()
                for column in (value if isinstance(value, list) else [value])]  # fmt: skip

    def column(self, field: str) -> Columns:
        """The column of a field: as given, else the one with the name of the field."""
        return self.columns.get(field, field)

    def files(self, root: Path) -> list[Path]:
        """All files that are read, as `data_path` finds them. Each may be compressed."""
        names = [self.src, self.tgt, self.file]
        if self.format == "squad-tokens" and self.file is not None:
            names += [sibling(self.file, "question"), sibling(self.file, "span")]
        names += [self.labels_file, self.contexts_file]
        if self.format == "datasets" and self.file is not None:
            return dataset_files(data_path(self.file, root))
        return [find_file(data_path(name, root)) for name in names if name is not None]

    def uncompressed(self) -> Self:
        """The source with the names of its files without .gz, .xz and .bz2, which do not matter."""
        names = ("file", "src", "tgt", "labels_file", "contexts_file")
        given = {name: value for name in names if (value := getattr(self, name)) is not None}
        plain = {name: value.rpartition(".")[0] for name, value in given.items() if value.endswith(COMPRESSED)}
        return self.model_copy(update=plain)

    def __str__(self) -> str:
        name = self.file or (f"{self.src} + {self.tgt}" if self.src else f"{self.builtin}")
        details = [detail for detail in (self.split, self.side, self.records) if detail]
        details += [f"{key} = {value}" for key, value in (self.where or {}).items()]
        return f"{name} ({', '.join(details)})" if details else name


def column_setting(field: str) -> str:
    """The short form of the setting for a field's column: its name, or NAME_column beside a setting of this name."""
    return f"{field}_column" if field in Source.model_fields else field


def _is_column(value: object) -> bool:
    items = value if isinstance(value, list) else [value]
    return all(isinstance(item, (int, str)) and not isinstance(item, bool) for item in items)


def sibling(file: str, name: str) -> str:
    """The file beside `file` that has `.name` where `file` has `.context`."""
    folder, slash, last = file.rpartition("/")
    return folder + slash + last.replace(".context", f".{name}", 1)


def dataset_files(folder: Path) -> list[Path]:
    """The files of a folder that `save_to_disk` of the library `datasets` wrote: state.json, and those it names."""
    if (folder / "dataset_dict.json").is_file():
        names = [str(path.parent) for path in sorted(folder.glob("*/state.json"))]
        problem, remedy = f"{folder} has several splits", f"set `file` to one of {', '.join(names)}"
        raise UserError(problem, remedy, code="ambiguous-split", where=folder)
    state = read_json(folder / "state.json", JsonObject)
    entries = check_type(state.get("_data_files"), list[dict[str, str]], folder / "state.json")
    names = [entry.get("filename", "") for entry in entries]
    if state.get("_indices_data_files") or not names or any(name != Path(name).name for name in names):
        problem = f"{folder} selects rows from other files"
        remedy = "save it again: flatten_indices().save_to_disk(...)"
        raise UserError(problem, remedy, code="damaged-file", where=folder / "state.json")
    return [folder / "state.json", *(folder / name for name in names)]


def as_list(value: object) -> object:
    """A list of one for one table or file; the name of a file is a table with this `file`. A frame becomes a file."""
    values = value if isinstance(value, list) else [value]
    values = [{"file": save_frame(item), "format": "jsonl"} if is_frame(item) else item for item in values]
    if not all(isinstance(item, (str, dict, Settings)) for item in values):
        raise ValueError('write a table like { file = "train.tsv" }, the name of a file, or a list of them')
    return [{"file": item} if isinstance(item, str) else item for item in values]
