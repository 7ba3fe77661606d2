"""regard translate: one line of output for one line of input, or a document."""

import os
import re
import shlex
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, repeat, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli import options as opt
from regard.cli import streams
from regard.cli.documents import DocumentOptions, detect_source, problem_message
from regard.cli.options import Options
from regard.cli.screen import report, to_json
from regard.cli.streams import STDIO, check_one_input, check_output
from regard.cli.tables import Row, check_lines, count_rows, open_results, read_rows, table_source
from regard.documents.document import FILE_FORMATS
from regard.errors import UserError
from regard.messages import Message
from regard.run_files import RECIPE, TRANSLATOR, bundled_runs

if TYPE_CHECKING:
    from regard.run.model import Translator
    from regard.tasks.base import Example, Prediction
    from regard.tasks.translation import Translation

    Form = Callable[[int, Example, Prediction], str]
    Line = tuple[str, Row | None]

RunsAndText = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="RUN|TEXT",
        help="First the run folders: none for the bundled translator, several for an ensemble. Then the text to "
        "translate; without it, `--input` is read.",
        show_default=False,
    ),
]
Prefix = Annotated[str, typer.Option(metavar="TEXT", help="Text that every translation must begin with.")]
PrefixFile = Annotated[
    str | None, typer.Option(metavar="FILE", help="File with one prefix per input line, as in `--prefix`.")
]
Scores = Annotated[
    bool,
    typer.Option("--scores", help="Print score, tab and text per line. `--nbest` and `--json` always print scores."),
]

LINE_END = re.compile(r"\r\n|\r|\n")
WRITTEN = {".txt", ".jsonl", ".csv", ".tsv"}
"""File extensions with a meaning that translations of lines can be written to."""
BEGINNING = 1000
"""Characters of the input from which its language is detected."""


def translate(
    arguments: RunsAndText = None,
    *,
    search: opt.SearchOptions,
    model: opt.ModelOptions,
    table: opt.TableOptions,
    documents: DocumentOptions,
    input_: opt.InputFile = STDIO,
    output: opt.OutputFile = STDIO,
    source: opt.SourceLanguage = None,
    target: opt.TargetLanguage = None,
    prefix: Prefix = "",
    prefix_file: PrefixFile = None,
    scores: Scores = False,
    as_json: opt.AsJson = False,
) -> None:
    """Translate text of any size, one line of output for each line of input."""
    check_output(output, input_, prefix_file, *map(str, filter(None, [documents.glossary, *(documents.memory or ())])))
    check_one_input(**{"--prefix": prefix, "--prefix-file": prefix_file})
    runs, text = split_arguments(arguments or [], bool(source or target))
    check_one_input(TEXT=text is not None, **{"--input": input_ != STDIO})
    nbest = (search.changes().get("nbest") or 1) > 1
    lines_only = {"--prefix": prefix, "--prefix-file": prefix_file, "--scores": scores, "--json": as_json}
    is_document = documents.check(input_, output, **lines_only, **{"--nbest": nbest})
    translator, options = model.load_translator(*runs or [TRANSLATOR]), search.changes()
    source, target = translator.task.languages.choose(source, target)
    if is_document:
        return documents.translate(translator, options, (input_, text), output, (source, target))
    task, form = translator.task.configure(**options), json_line if as_json else scored_line if scores else plain_line
    check_one_input(**{"--scores": scores, "--json": as_json, "--nbest": task.decoding.nbest > 1 and not as_json})
    prefixes = streams.read_lines(prefix_file) if prefix_file else repeat(prefix) if prefix else None
    job = LineTranslation(translator, target, prefixes, form, documents, options)
    if streams.is_interactive(input_ != STDIO, text is not None):
        return job.prompt(source)
    lines = input_lines(task, input_, text, table.settings(task), documents)
    return job.write(*lines, source, output, [prefix, scores, as_json, vars(table), text], input_, prefix_file)


def input_lines(
    task: "Translation", input_: str, text: str | None, columns: Options, documents: DocumentOptions
) -> "tuple[Iterator[Line], int | None]":
    """The lines of the text or the input, or the sources of a table and their rows, and how many there are if that is
    known."""
    if text is not None:
        return ((line, None) for line in LINE_END.split(text)), None
    pairs = table_source(task, input_, columns)
    if pairs:
        return ((str(item["src"]), row) for row, item in read_rows(task, pairs)), count_rows(task, pairs)
    if documents.format is None:
        check_lines(task, input_, f"use one of {', '.join(FILE_FORMATS)}, or set `--format`, e.g. `--format text`")
    return ((line, None) for line in streams.read_lines(input_)), streams.count_lines(input_)


@dataclass(frozen=True)
class LineTranslation:
    """Translates lines, each with the beginning of its translation if prefixes are given."""

    translator: "Translator"
    target: str | None
    prefixes: Iterable[str] | None
    form: "Form"
    documents: DocumentOptions
    options: Options

    def prompt(self, source: str | None) -> None:
        """Print the translation of each line that a person types; its language is detected if it is not given."""
        for number, line in enumerate(streams.prompt_lines()):
            for example, prediction in self.predict([line], source or self.detect(line)):
                print(self.form(number, example, self.task.output(prediction)), flush=True)

    def write(
        self,
        lines: "Iterator[Line]",
        total: int | None,
        source: str | None,
        output: str,
        given: object,
        *files: str | None,
    ) -> None:
        """Write the translation of each line, and report how many may be wrong; `given` are all other options."""
        if source is None:
            first: list[Line] = []
            for line in lines:
                first.append(line)
                if sum(len(text) for text, _ in first) >= BEGINNING:
                    break
            source, lines = self.detect("\n".join(text for text, _ in first)), chain(first, lines)
        title, counts, documents = Message("translated lines:"), Counts(), self.documents
        options = [
            self.options,
            source,
            self.target,
            documents.format,
            documents.bundled_memory,
            documents.formality,
            given,
        ]
        files = (str(documents.glossary or ""), *map(str, documents.memory or ()), *files)
        work_on = streams.work_on(title, output, total, self.translator, options, *files)
        rows: deque[Row | None] = deque()
        texts = (rows.append(row) or text for text, row in lines)  # type: ignore[func-returns-value]
        with work_on as work, self.open(output) as write:
            for example, prediction in work.count(self.predict(work.feed(texts), source)):
                write(counts.lines, rows.popleft(), example, prediction)
                counts.add(prediction)
        counts.report()

    @contextmanager
    def open(self, output: str) -> "Iterator[Callable[[int, Row | None, Example, Prediction], None]]":
        """Write translations in the format of the output: a table, JSON lines, or text."""
        from regard.data.fields import TABLE_ENDINGS
        from regard.data.records import file_ending

        ending = file_ending(output) if output != STDIO else ""
        is_table = ending in (".csv", ".tsv")
        if (is_table and self.form is not plain_line) or ending in {*FILE_FORMATS, *TABLE_ENDINGS} - WRITTEN:
            problem = f"translations of lines, or with these options, cannot be written to {output}"
            remedy = "use .txt or .jsonl; without `--json` and `--scores`, also .csv or .tsv"
            raise UserError(problem, remedy, code="unsupported-file", where=output)
        if is_table:
            with open_results(output, self.task) as write:
                yield lambda _, *result: write(*result)
        else:
            form = json_line if ending == ".jsonl" else self.form
            with streams.open_output(output) as stream:
                yield lambda number, _, example, prediction: print(
                    form(number, example, self.task.output(prediction)), file=stream, flush=True
                )

    @property
    def task(self) -> "Translation":
        return self.translator.task.configure(**self.options)

    def detect(self, text: str) -> str | None:
        return detect_source(self.translator.task.languages, self.target, text)

    def predict(self, lines: Iterable[str], source: str | None) -> "Iterator[tuple[Example, Prediction]]":
        from regard.run.translating import predict_texts

        examples, documents = with_prefixes(lines, self.prefixes), self.documents
        split = documents.format != "lines"
        reading: Options = {
            "glossary": documents.terms,
            "memory": documents.memories,
            "formality": documents.formality,
            "split": split,
            "detect": False,
            "where": "line",
        }
        return predict_texts(self.translator, examples, source, self.target, **reading, **self.options)


def split_arguments(arguments: list[str], languages_given: bool = False) -> tuple[list[str], str | None]:
    """The runs among the arguments, and the text after them; a UserError if a run does not exist. An argument that is
    not a run is a text if it follows a run, or if languages are given."""
    runs = list(takewhile(is_run, arguments))
    others = arguments[len(runs) :]
    if not others:
        return runs, None
    name = others[0]
    is_path = os.sep in name and "<" not in name and not any(map(str.isspace, name))
    if is_path or (name and Path(name).is_dir()):
        from regard.run.facts import require_run

        require_run(Path(name))
    if len(others) == 1 and (runs or languages_given):
        return runs, name
    command = shlex.join(["regard", "translate", "--to", "CODE", name])
    hint = f"to translate {name!r}, set the target language: `{command}`"
    if len(others) > 1:
        hint = "put the text in quotation marks, last; to translate several texts, use `--input FILE`"
    raise UserError(f"{name}: no such run", hint, code="not-a-run", where=name)


def is_run(name: str) -> bool:
    """True if an argument is the folder of a run, or the name of one that comes with regard."""
    return (Path(name) / RECIPE).is_file() or name in bundled_runs()


def with_prefixes(sources: Iterable[str], prefixes: Iterable[str] | None) -> "Iterator[str | Example]":
    """Each source with the beginning of its translation; a missing line of a prefix file is blank."""
    remaining = None if prefixes is None else iter(prefixes)
    for source in sources:
        yield source if remaining is None else {"src": source, "prefix": next(remaining, "")}


def one_line(text: object) -> str:
    """A text on one line: a line of input, and a row of a table, gives one line of output."""
    return LINE_END.sub(" ", str(text))


def plain_line(index: int, example: "Example", output: "Prediction") -> str:
    """The best translation, or with --nbest one line for each: index ||| text ||| score."""
    text = one_line(output["translation"])
    if "hypotheses" not in output:
        return text
    if output["parts"] != 1:
        return f"{index} ||| {text} ||| {output['score'] or 0.0:.4f}"
    return "\n".join(f"{index} ||| {one_line(item['text'])} ||| {item['score']:.4f}" for item in output["hypotheses"])


def scored_line(index: int, example: "Example", output: "Prediction") -> str:
    return f"{output['score'] or 0.0:.4f}\t{one_line(output['translation'])}"


def json_line(index: int, example: "Example", output: "Prediction") -> str:
    return to_json({"source": example["src"], **output})


@dataclass
class Counts:
    """Numbers of lines, and of translations that may be wrong."""

    lines: int = 0
    unfinished: int = 0
    looped: int = 0

    def add(self, prediction: "Prediction") -> None:
        """Count a line; warn about a line that is too long for the model."""
        self.lines += 1
        used = prediction["hypotheses"][: prediction["parts"]]
        self.looped += any(item["looped"] for item in used)
        self.unfinished += any(not item["finished"] and not item["looped"] for item in used)
        for problem in prediction.get("problems", ()):
            report(problem_message(problem, self.lines, prediction["translation"]))
        if prediction["parts"] > max(1, prediction.get("sentences", 1)):
            line = {"line": self.lines, "parts": prediction["parts"]}
            report(
                Message("warning: line {line} is too long for the model and was translated in {parts} parts", **line)
            )

    def report(self) -> None:
        """Report how many translations may be wrong."""
        if self.unfinished:
            report(Message("note: {unfinished} of {lines} translations reached the length limit", **vars(self)))
        if self.looped:
            report(Message("note: {looped} of {lines} translations repeated themselves and were cut", **vars(self)))
