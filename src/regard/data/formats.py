"""Formats of data files: each reads a source as records; the fields of the task make examples of them.

    source -> format -> records -> fields -> examples

`FORMATS` is the one table of formats. An option of a source that neither its format nor the fields of the task use is
refused by `check_source`.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path

from regard.config import SettingError, nearest
from regard.data import builtin, dialogues, texts
from regard.data.accounts import Account, record_account
from regard.data.bitext import read_bitext
from regard.data.columnar import read_arrow, read_parquet, read_xlsx
from regard.data.conllu import read_conllu
from regard.data.digests import Digests
from regard.data.examples import Example, missing_field, read_example, repeat_pair
from regard.data.fields import COLUMNS, PAIRS, Fields
from regard.data.records import TABLES, Location, Opener, Record, SourceFiles, file_ending, follow
from regard.data.sources import LOCATIONS, Source, column_setting
from regard.data.tables import describe_table, read_rows
from regard.errors import UserError
from regard.files import COMPRESSED, open_binary
from regard.messages import Message
from regard.reading import parse_strict_json, refuse_devices
from regard.trees import normalize, numbered, tree_example

FASTTEXT = re.compile(r"__label__(\S+)\s+(.*)")
TREC = re.compile(r"((\w+):\w+)\s+(.*)")
CONLL_DOCUMENT = "-DOCSTART-"
TABLE_OPTIONS = ("delimiter", "header", "quoted", "where")


def read_examples(
    sources: Iterable[Source],
    root: Path,
    fields: Fields,
    require_target: bool = True,
    opener: Opener = open_binary,
    spellings: dict[str, str] | None = None,
) -> Iterator[Example]:
    """The examples of sources in their order, read one at a time and checked; each source has at least one.

    `spellings` has the labels that are known already, by their NFC form; new ones are added.
    """
    spellings = {} if spellings is None else spellings
    for source in sources:
        example = None
        for file in source.files(root):
            refuse_devices(file)
        records = read_records(source, root, fields, opener)
        for example in make_examples(records, source, fields, spellings, require_target):
            yield example
        if example is None:
            raise no_examples(source, root)


def make_examples(
    records: Iterable[tuple[Record, Example]],
    source: Source,
    fields: Fields,
    spellings: dict[str, str],
    require_target: bool = True,
) -> Iterator[Example]:
    """The examples of a source's records: checked, and a pair in all its directions and copies."""
    for record, example in records:
        if require_target and fields.target and fields.target not in example:
            problem = f"there is no {fields.target}, which training and scoring need"
            raise missing_field(record, source, fields.target, problem)
        if "src" not in fields.inputs:  # a label, not a translation
            check_spelling(record, example.get(fields.target), spellings)
        is_plain = not (source.tgt_lang or source.repeat or source.back_translated)
        yield from (example,) if is_plain else repeat_pair(example, source)


def no_examples(source: Source, root: Path) -> UserError:
    """The error for a source without examples."""
    condition = f" where {source.where}" if source.where else ""
    path = next(iter(source.files(root)), source)
    return UserError(f"{path} contains no examples{condition}", "add examples", code="no-data", where=path)


def read_records(
    source: Source,
    root: Path,
    fields: Fields,
    opener: Opener = open_binary,
    record: Callable[[Account], None] = record_account,
) -> Iterator[tuple[Record, Example]]:
    """The records of a source that `where` selects, with the lines of `labels_file`, and the examples they hold. At
    the end, `record` gets the account of the source."""
    files = open_source(source, root, fields, opener)
    records = FORMATS[fields.format_of(source)].read(files)
    if source.labels_file is not None:
        records = _with_labels(records, files)
    read = read_example if source.format == "examples" else fields.read
    for item in _selected(records, files) if source.where else records:
        files.account.kept += 1
        yield item, read(item, source)
    record(files.account)


def check_spelling(record: Record, target: object, spellings: dict[str, str]) -> None:
    """Raise UserError if a label was spelled with other characters before: "é" is one character, or "e" and a mark."""
    for label in target if isinstance(target, list) else [target]:
        if isinstance(label, str) and not label.isascii():
            known = spellings.setdefault(unicodedata.normalize("NFC", label), label)
            if known != label:
                problem = f"the label {label!r} is spelled {label!a}, and {known!a} before"
                remedy = "use one spelling: unicodedata.normalize('NFC', text) in Python, or uconv -x any-nfc"
                raise record.error(problem, remedy, code="two-spellings")


def open_source(source: Source, root: Path, fields: Fields, opener: Opener = open_binary) -> SourceFiles:
    """The files of a source, and what the fields say about its tables."""
    pairs = "src" in fields.columns
    named = any(isinstance(column, str) for _, column in source.given_columns())
    by_first_row = pairs and not named and not fields.headed_tables
    default = None if by_first_row else named or fields.headed_tables
    header = default if source.header is None else source.header
    columns = frozenset(str(column) for name in fields.inputs for column in [source.column(name)])
    return SourceFiles(source, source.files(root), opener, header, Account(str(source)), columns, pairs)


def describe_sources(sources: Sequence[Source], root: Path, fields: Fields) -> list[str]:
    """One line for each table about which something was guessed: what separates columns, a header, the columns."""
    tables = [(source, name) for source in sources if (name := fields.format_of(source)) in ("csv", "tsv")]
    lines = (describe_table(open_source(source, root, fields), name) for source, name in tables)
    files = [source.file for source in sources if source.file and source.format is None and fields.default_format]
    marked = {*PAIRS.endings, ".html", ".htm", ".xml"} - {".txt"}
    plain = [
        Message("{file} is read as plain text, markup included", file=file)
        for file in files
        if file_ending(file) in marked
    ]
    return [*filter(None, lines), *plain]


def read_table(path: Path, fields: Fields, source: Source | None = None) -> Iterator[tuple[Record, Example]]:
    """The records of a file and the examples they hold, for predictions: a target may be missing.

    `source` says how the file is read, whichever file it names itself; `Task.file_sources` makes one from a recipe.
    """
    values = {} if source is None else source.model_dump()
    return read_records(Source(**values | {"file": str(path)}), Path(), fields)


def identify(sources: Iterable[Source], root: Path, fields: Fields, digests: Digests) -> str:
    """A string that changes when the examples of sources do: the content of the files, and how they are read."""
    lines = []
    for source in sources:
        name, contents = fields.format_of(source), []
        if source.builtin is not None and source.split is not None:
            lines.append(f"{builtin.fingerprint(source.builtin, source.split)} {source.side}")
            continue
        for path in source.files(root):
            try:
                content = digests.of(path)
            except OSError:
                open_binary(path).close()  # raises the error that the user sees
                raise
            contents.append(content + (path.suffix if path.suffix in COMPRESSED else ""))
        options = source.model_dump(exclude={*LOCATIONS, "labels_file", "contexts_file"})
        lines.append(json.dumps([name, contents, options], sort_keys=True))
    return "\n".join(lines)


def check_source(source: Source, fields: Fields) -> None:
    """Raise SettingError if the fields cannot be read from a source, or if an option of it has no effect."""
    name = fields.format_of(source)
    columns = fields.columns if FORMATS[name].columns else {}
    used = {*FORMATS[name].options, *fields.options, *map(column_setting, columns)}
    settings = [setting for setting in Source.model_fields if setting not in (*LOCATIONS, "columns")]
    given = [setting for setting in settings if getattr(source, setting) is not None]
    for option in [*given, *map(column_setting, source.columns)]:
        if option not in used and option not in (*settings, *map(column_setting, COLUMNS)):
            close = nearest(option, [*Source.model_fields, *map(column_setting, columns)])
            advice = f"did you mean {close}?" if close else f"this task has the columns {', '.join(columns) or 'none'}"
            raise SettingError(option, f"there is no such setting; {advice}", "unknown-setting")
        if option not in used:
            known = ", ".join(setting for setting in (*settings, *map(column_setting, columns)) if setting in used)
            message = f"has no effect on {name} data; remove it (this task uses: {known or 'no options'})"
            raise SettingError(option, message, "unused-setting")
    for field, value in source.columns.items():
        if isinstance(value, list) and field not in fields.several:
            raise SettingError(column_setting(field), f"must be one column, not {value!r}")
    names = [(setting, column) for setting, column in source.given_columns() if isinstance(column, str)]
    if name in ("csv", "tsv") and source.header is False:
        if names:
            raise SettingError(names[0][0], f"{names[0][1]!r}: without a header, give a number, from 1")
        if fields.headed_tables and not source.columns:
            raise SettingError("header", "without a header, give the columns by number, like text = 1, label = 2")
    src, tgt = (source.columns.get(side) for side in ("src", "tgt"))
    if "src" in columns and (src or 1) == (tgt or 2):
        raise SettingError("tgt_column", f"both sides would be column {src or tgt!r}; write src_column and tgt_column")
    if name == "conll" and names:
        raise SettingError(names[0][0], f"{names[0][1]!r}: the columns of conll have no names; write a number, from 1")
    if name == "qamr" and source.contexts_file is None:
        raise SettingError("contexts_file", "must be given: qamr has its sentences in a second file", "missing-setting")
    if name == "squad-tokens" and ".context" not in Path(source.file or "").name:
        raise SettingError("file", "squad-tokens are three files; give the one with .context in its name")
    if name == "builtin" and "side" in fields.options and source.side is None:
        raise SettingError("side", 'must be given: side = "src" or side = "tgt"', "missing-setting")


def _with_labels(records: Iterator[Record], files: SourceFiles) -> Iterator[Record]:
    path, labels = files.paths[1], (line.strip() for line in files.lines(1) if line.strip())
    record, number = None, 0
    for number, record in enumerate(records, 1):
        label = next(labels, None)
        if label is None:
            raise _unaligned(path, number - 1, f"{record.location} has none")
        yield record._replace(label=label)
    if (more := sum(1 for _ in labels)) and record is not None:
        raise _unaligned(path, number + more, f"the last record is {record.location}")


def _unaligned(path: Path, labels: int, problem: str) -> UserError:
    return Location(path).error(f"has {labels} labels, and {problem}", "write one label per line", "unaligned-files")


def _selected(records: Iterator[Record], files: SourceFiles) -> Iterator[Record]:
    """The records that have the values of `where`."""
    selection = {
        column: {str(value) for value in (values if isinstance(values, list) else [values])}
        for column, values in (files.source.where or {}).items()
    }
    for record in records:
        for column, values in selection.items():
            value = record.get(column)
            if value is None:
                problem = f"`where` names {column!r}, but the record has {record.describe_columns()}"
                raise record.error(problem, "correct `where`", code="missing-field")
            if (value if isinstance(value, str) else json.dumps(value)) not in values:
                files.account.drop("where")
                break
        else:
            yield record


# ---- pairs


def read_aligned(files: SourceFiles) -> Iterator[Record]:
    """Two files: line n of one is the translation of line n of the other."""
    src_path, tgt_path = files.paths
    src_lines, tgt_lines = files.lines(0), files.lines(1)
    for number, (src, tgt) in enumerate(zip_longest(src_lines, tgt_lines), 1):
        if src is None or tgt is None:
            longer = number + sum(1 for _ in (src_lines if tgt is None else tgt_lines))
            src_count, tgt_count = (longer, number - 1) if tgt is None else (number - 1, longer)
            problem = f"{src_path} has {src_count} lines but {tgt_path} has {tgt_count}"
            remedy = "correct the files: line n of the second must translate line n of the first"
            raise UserError(problem, remedy, code="unaligned-files", where=f"{src_path}, {tgt_path}")
        yield files.record(Location(src_path, number), {"src": src, "tgt": tgt})


def read_builtin(files: SourceFiles) -> Iterator[Record]:
    """A corpus that the toolkit generates."""
    source = files.source
    assert source.builtin is not None and source.split is not None
    for number, example in enumerate(builtin.examples(source.builtin, source.split), 1):
        value = example if source.side is None else {"text": example[source.side]}
        yield files.record(Location(source.builtin, number), value)


def read_trees(files: SourceFiles) -> Iterator[Record]:
    """Trees in brackets. A tree of nothing but traces has no words, and is left out."""
    path = files.paths[0]
    for number, tree in numbered(files.lines(), str(path)):
        files.account.read += 1
        if (clean := normalize(tree)) is None:
            files.account.drop("no_words")
        else:
            yield Record(Location(path, number), tree_example(clean, files.source.leaves or "XX"))


def read_dialogues(files: SourceFiles) -> Iterator[Record]:
    """The turns before each reply, and the reply."""
    path, source = files.paths[0], files.source
    for src, tgt, number, selected in dialogues.pairs(files.lines(), path, source.split, source.turns or 1):
        files.account.read += 1
        if not selected:
            files.account.drop("split")
            continue
        yield Record(Location(path, number), {"src": src, "tgt": tgt})


# ---- plain text


def read_text_lines(files: SourceFiles) -> Iterator[Record]:
    """Every line of a text, blank lines too."""
    for number, line in enumerate(files.lines(), 1):
        yield files.record(Location(files.paths[0], number), {"text": line})


def read_documents(files: SourceFiles) -> Iterator[Record]:
    """The sentences of documents."""
    path, source = files.paths[0], files.source
    rows = texts.sentences(files.lines(), source.boundary or "blank", source.sentences or "lines")
    for number, text, first in rows:
        yield files.record(Location(path, number), {"text": text, "first": first})


# ---- tables, JSON and lines with labels


def read_json_lines(files: SourceFiles) -> Iterator[Record]:
    """One JSON value per line."""
    for location, line in files.numbered():
        try:
            yield Record(location, parse_strict_json(line))
        except (ValueError, RecursionError) as error:
            remedy = 'write one object per line; or set format = "json", if the file is one list or object'
            raise location.error(f"is not JSON: {error}", remedy, "bad-json") from error


def read_json_list(files: SourceFiles) -> Iterator[Record]:
    """The records of one JSON document: a list, or a list somewhere in it."""
    path, key, document = files.paths[0], files.source.records, files.json()
    records = follow(document, key) if key else document
    if isinstance(records, dict) and files.columns & records.keys():
        if len({len(values) if isinstance(values, list) else -1 for values in records.values()} | {-1}) != 2:
            problem, remedy = "has columns that are not lists of one length", "write one value per record in each list"
            raise Location(path).error(problem, remedy, "bad-json")
        records = [dict(zip(records, values, strict=True)) for values in zip(*records.values(), strict=True)]
    if not isinstance(records, list):
        values = document.items() if isinstance(document, dict) else ()
        lists = [name for name, value in values if isinstance(value, list)]
        remedy = f"set `records` to one of the lists: {', '.join(lists)}" if lists else "write a list of objects"
        raise Location(path).error(f"has no list under {key!r}" if key else "is not a list", remedy, "bad-json")
    for number, value in enumerate(records, 1):
        yield files.record(Location(path, number, key or "record"), value)


def read_labelled_lines(files: SourceFiles) -> Iterator[Record]:
    """One text per line, after its label if it has one, as fastText writes it: __label__NAME text."""
    for location, line in files.numbered():
        label, text = match.groups() if (match := FASTTEXT.match(line)) else (None, line)
        yield Record(location, {"text": text, "label": label})


def read_trec(files: SourceFiles) -> Iterator[Record]:
    """COARSE:fine question. The label is COARSE by default; label = "fine" is COARSE:fine."""
    for location, line in files.numbered():
        if not (match := TREC.match(line)):
            raise location.error("has no class before its question", "write COARSE:fine question")
        fine, coarse, text = match.groups()
        yield Record(location, {"text": text, "label": coarse, "coarse": coarse, "fine": fine})


def read_conll(files: SourceFiles) -> Iterator[Record]:
    """A word and its tag per line, with other columns between them; a blank line ends a sentence.

    Columns are separated by tabs if a line has any, else by spaces. -DOCSTART- begins a document and is not a word.
    """
    path = files.paths[0]
    for number, rows in _blocks(files.lines()):
        width = len(rows[0])
        for line, row in enumerate(rows, number):
            if len(row) != width or not all(row):
                problem = f"has {sum(map(bool, row))} columns, but the first line of the sentence has {width}"
                remedy = "write a word, a tab and its tag, and a blank line between sentences"
                raise Location(path, line).error(problem, remedy)
        header = ["words", *[""] * (width - 2), "tags"][:width]
        yield files.record(Location(path, number), [list(column) for column in zip(*rows, strict=True)], header)


def _blocks(lines: Iterable[str]) -> Iterator[tuple[int, list[list[str]]]]:
    """Groups of lines that are not blank, split into columns, with the number of the first line."""
    block: list[list[str]] = []
    number = 0
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.startswith(CONLL_DOCUMENT):
            cells: Iterable[str] = line.split("\t") if "\t" in line else filter(None, line.split(" "))
            block.append([cell.strip() for cell in cells])
        elif block:
            yield number - len(block), block
            block = []
    if block:
        yield number - len(block) + 1, block


# ---- questions: SQuAD's JSON, its tokenised form, and QAMR
#
# Where a file counts words, the words are joined by spaces, and an answer reaches from its first to its last word.


TOKENS: dict[str, str] = TABLES["penn_tokens"]
"""The Penn Treebank's tokens for brackets and quotation marks."""


def read_squad(files: SourceFiles) -> Iterator[Record]:
    """SQuAD v1.1 and v2 (Rajpurkar et al. 2016, 2018): articles of paragraphs of questions."""
    path, document = files.paths[0], files.json()
    try:
        for article in document["data"]:  # type: ignore[index]
            for paragraph in article["paragraphs"]:
                for question in paragraph["qas"]:
                    name = question["id"]
                    value = {"id": name, "question": question["question"], "context": paragraph["context"]}
                    if question.get("is_impossible"):
                        value["answers"] = []
                    elif "answers" in question:
                        value["answers"] = question["answers"]
                    yield files.record(Location(path, name, "question"), value)
    except (KeyError, TypeError) as error:
        remedy = "SQuAD is {data: [{paragraphs: [{context, qas: [{id, question, answers: [{text, answer_start}]}]}]}]}"
        problem = f"is not in the format of SQuAD: {error!r} is missing"
        raise Location(path).error(problem, remedy, "bad-record") from error


def read_squad_tokens(files: SourceFiles) -> Iterator[Record]:
    """Line-aligned words: .context, .question, and .span, the numbers of the answer's first and last word from 0."""
    paths = files.paths
    for number, lines in enumerate(zip_longest(*(files.lines(index) for index in range(3))), 1):
        if None in lines:
            short = paths[lines.index(None)]
            problem = f"has {number - 1} lines, and the other files have more"
            raise Location(short).error(problem, "make line n of all three files one example", "unaligned-files")
        context, question, span = lines
        location = Location(paths[2], number)
        answer = word_span(context.split(" "), word_numbers(span, location), location)
        value = {"id": str(number), "question": question, "context": context, "answers": [answer]}
        yield files.record(Location(paths[0], number), value)


def read_qamr(files: SourceFiles) -> Iterator[Record]:
    """QAMR (Michael et al. 2018): questions about sentences; an answer is a set of words, chosen by three people.

    If the words are not side by side, the answer is the shortest span that contains them all.
    """
    path, contexts = files.paths
    sentences: dict[str, list[str]] = {}
    for number, line in enumerate(files.lines(1), 1):
        name, tab, sentence = line.partition("\t")
        if not tab:
            problem, remedy = "there is no tab", "write the sentence's name, a tab and the sentence"
            raise Record(Location(contexts, number), line).error(problem, remedy)
        sentences[name] = [TOKENS.get(word, word) for word in sentence.split(" ")]
    for number, line in enumerate(files.lines(), 1):
        location = Location(path, number)
        cells = line.split("\t")
        if len(cells) < 7:
            problem, remedy = f"{len(cells)} columns", "QAMR has 9: the 6th is the question, the 7th its answer"
            raise Record(location, cells).error(problem, remedy)
        if cells[0] not in sentences:
            problem, remedy = f"no sentence {cells[0]!r} in {contexts}", "check that both files are of the same split"
            raise Record(location, cells).error(problem, remedy)
        words = sentences[cells[0]]
        spans = [cells[6], *(cell.partition(":")[2] for cell in cells[7:])]
        answers = [word_span(words, word_numbers(span, location), location) for span in spans]
        distinct = [answer for i, answer in enumerate(answers) if answer not in answers[:i]]
        value = {"id": str(number), "question": cells[5], "context": " ".join(words), "answers": distinct}
        yield files.record(location, value)


def word_numbers(text: str, location: Location) -> list[int]:
    """Numbers of words, separated by spaces; at least one."""
    words = text.split()
    numbers = [int(word) for word in words] if all(word.isascii() and word.isdecimal() for word in words) else []
    if not numbers:
        problem, remedy = f"{text!r} is not a list of word numbers", "write the numbers of the words, e.g. 17 19"
        raise Record(location, text).error(problem, remedy)
    return numbers


def word_span(words: Sequence[str], numbers: Sequence[int], location: Location) -> dict[str, object]:
    """The answer from the first to the last of the numbered words, and its start among the characters."""
    first, last = min(numbers), max(numbers)
    if first < 0 or last >= len(words):
        problem, remedy = f"an answer of words {first} to {last} in a text of {len(words)}", "number words from 0"
        raise Record(location, words).error(problem, remedy)
    start = sum(len(word) + 1 for word in words[:first])
    return {"text": " ".join(words[first : last + 1]), "start": start}


@dataclass(frozen=True)
class Format:
    """A format of data files."""

    read: Callable[[SourceFiles], Iterator[Record]]
    options: Sequence[str] = ()
    """The settings of a source that the format uses, columns aside."""
    columns: bool = False
    """True if columns of it can be chosen."""


FORMATS: dict[str, Format] = {
    "aligned": Format(read_aligned),
    "builtin": Format(read_builtin, ("split",)),
    "trees": Format(read_trees, ("leaves",)),
    "dialogues": Format(read_dialogues, ("split", "turns")),
    "lines": Format(read_text_lines),
    "documents": Format(read_documents, ("boundary", "sentences")),
    "csv": Format(partial(read_rows, kind="csv"), TABLE_OPTIONS, columns=True),
    "tsv": Format(partial(read_rows, kind="tsv"), TABLE_OPTIONS, columns=True),
    "examples": Format(read_json_lines),
    "jsonl": Format(read_json_lines, ("where",), columns=True),
    "json": Format(read_json_list, ("records", "where"), columns=True),
    "txt": Format(read_labelled_lines, ("where",), columns=True),
    "trec": Format(read_trec, ("where",), columns=True),
    "conll": Format(read_conll, ("where",), columns=True),
    "conllu": Format(read_conllu, columns=True),
    "squad": Format(read_squad, ("where",)),
    "squad-tokens": Format(read_squad_tokens, ("where",)),
    "parquet": Format(read_parquet, ("where",), columns=True),
    "arrow": Format(read_arrow, ("where",), columns=True),
    "datasets": Format(read_arrow, ("where",), columns=True),
    "xlsx": Format(read_xlsx, ("sheet", "header", "where"), columns=True),
    "tmx": Format(read_bitext),
    "xliff": Format(read_bitext),
    "qamr": Format(read_qamr, ("contexts_file", "where")),
}
