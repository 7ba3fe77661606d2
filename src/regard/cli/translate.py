"""regard translate: one line of output for one line of input, or a document."""

import os
import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, repeat, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.directions import choose_direction, with_detected_source
from regard.cli.documents import DocumentOptions
from regard.cli.options import (
    AsJson,
    InputFile,
    ModelOptions,
    Options,
    OutputFile,
    SearchOptions,
    SourceLanguage,
    TableOptions,
    TargetLanguage,
)
from regard.cli.screen import ProgressLine, report, to_json
from regard.cli.streams import (
    STDIO,
    check_one_input,
    check_output,
    is_interactive,
    open_output,
    prompt_lines,
    read_lines,
)
from regard.cli.tables import read_rows, table_source
from regard.errors import UserError
from regard.run_files import RECIPE, TRANSLATOR, bundled_runs

if TYPE_CHECKING:
    from regard.run.model import Translator
    from regard.tasks.base import Example, Prediction
    from regard.tasks.translation import Translation

    Form = Callable[[int, Example, Prediction], str]

RunsAndText = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="RUN|TEXT",
        help="The folder of a run, or several as an ensemble [the translator that comes with regard]; and a text, "
        "otherwise the text is read from the input.",
        show_default=False,
    ),
]
Prefix = Annotated[str, typer.Option(metavar="TEXT", help="The beginning of every translation.")]
PrefixFile = Annotated[
    str | None, typer.Option(metavar="FILE", help="The beginning of each translation, one line for each line.")
]
Scores = Annotated[
    bool, typer.Option("--scores", help="Print each line as score, tab, text; --nbest and --json have scores.")
]

BEGINNING = 1000
"""Characters of the input from which its language is detected."""


def translate(
    arguments: RunsAndText = None,
    *,
    search: SearchOptions,
    model: ModelOptions,
    table: TableOptions,
    documents: DocumentOptions,
    input_: InputFile = STDIO,
    output: OutputFile = STDIO,
    source: SourceLanguage = None,
    target: TargetLanguage = None,
    prefix: Prefix = "",
    prefix_file: PrefixFile = None,
    scores: Scores = False,
    as_json: AsJson = False,
) -> None:
    """Translate text of any size, one line of output for each line of input.

    Without RUN, the translator that comes with regard is used: English to and from German, French, Spanish and Chinese.
    A run of several languages needs --to. A direction that a run was not trained on goes through a third language:
    --from de --to fr translates from German to English to French. Without --from, the language is detected.

    Lines keep their order, and blank lines stay blank. An .html, .srt, .po or .docx file is translated as a whole, and
    its markup is kept. --format text splits lines into sentences; so is TEXT, if the run names its languages. Of a
    .csv, .tsv, .json or .jsonl file it translates the column of the source, by the recipe or --columns. Without --input
    it reads stdin; on a terminal it asks for sentences. With --nbest N, each translation is a line "index ||| text |||
    score"; index counts input lines from 0, and score is the log-probability of the text divided by the length penalty.
    With --json, each line of input gives one object: source, translation, score, finished, looped, parts and, with
    --nbest, hypotheses. A line that is too long for the model is translated in parts.

    \b
    Examples:
      regard translate --to de "How are you?"
      regard translate --to en -i briefe.txt -o letters.txt
      regard translate runs/de < input.txt > output.txt
      regard translate runs/de -i manual.docx -o manual.de.docx --glossary terms.tsv
      regard translate runs/de runs/de-2 runs/de-3 -i input.txt       an ensemble
      regard translate runs/de -i input.txt --nbest 5 --json
      regard translate runs/de -i input.txt --engine ctranslate2      8-bit weights on a CPU
    """
    check_output(output, input_, prefix_file)
    check_one_input(**{"--prefix": prefix, "--prefix-file": prefix_file})
    runs, text = split_arguments(arguments or [], bool(source or target))
    check_one_input(TEXT=text is not None, **{"--input": input_ != STDIO})
    lines_only = {"--prefix": prefix, "--prefix-file": prefix_file, "--scores": scores, "--json": as_json}
    lines_only["--nbest"] = (search.changes().get("nbest") or 1) > 1
    is_document = documents.check(input_, **lines_only)
    translator, options = model.load_translator(*runs or [TRANSLATOR]), search.changes()
    options |= choose_direction(translator.task.languages, source, target)
    is_text = text is not None and documents.format is None and not any(lines_only.values())
    if is_document or (is_text and translator.task.languages.directions):
        return documents.translate(translator, options, (input_, text), output, source)
    task, form = translator.task.configure(**options), json_line if as_json else scored_line if scores else plain_line
    check_one_input(**{"--scores": scores, "--json": as_json, "--nbest": task.decoding.nbest > 1 and not as_json})
    prefixes = read_lines(prefix_file) if prefix_file else repeat(prefix) if prefix else None
    if is_interactive(input_ != STDIO, text is not None):
        return answer_lines(translator, options, with_prefixes(prompt_lines(), prefixes), form, source is None)
    lines = input_lines(task, input_, table) if text is None else iter(text.splitlines() or [""])
    options, lines = detect_language(task, options, lines) if source is None else (options, lines)
    return translate_lines(translator, options, with_prefixes(lines, prefixes), form, output)


def input_lines(task: "Translation", input_: str, table: TableOptions) -> Iterator[str]:
    """The lines of the input, or the sources of a table."""
    pairs = table_source(task, input_, table.settings(task))
    return (str(item["src"]) for _, item in read_rows(task, pairs)) if pairs else read_lines(input_)


def detect_language(task: "Translation", options: Options, lines: Iterator[str]) -> tuple[Options, Iterator[str]]:
    """The options with the language of the first lines, if the translation depends on it; and all lines."""
    first: list[str] = []
    for line in lines:
        first.append(line)
        if sum(map(len, first)) >= BEGINNING:
            break
    return with_detected_source(task.languages, options, "\n".join(first)), chain(first, lines)


def answer_lines(
    translator: "Translator", options: Options, examples: "Iterable[str | Example]", form: "Form", detect: bool
) -> None:
    """Print the translation of each line that a person writes; `detect` detects its language."""
    task = translator.task.configure(**options)
    for number, example in enumerate(examples):
        line = example if isinstance(example, str) else str(example["src"])
        chosen = with_detected_source(task.languages, options, line) if detect else options
        for pair in translator.stream_pairs([example], **chosen):
            print(form(number, pair[0], task.output(pair[1])), flush=True)


def translate_lines(
    translator: "Translator", options: Options, examples: "Iterable[str | Example]", form: "Form", output: str
) -> None:
    """Write the translation of each line, and report how many may be wrong."""
    task, counts = translator.task.configure(**options), Counts()
    with open_output(output) as stream, ProgressLine("translated lines:") as progress:
        for pair in translator.stream_pairs(examples, where="line", **options):
            print(form(counts.lines, pair[0], task.output(pair[1])), file=stream, flush=True)
            counts.add(pair[1], progress.clear)
            progress(counts.lines)
    counts.report()


def split_arguments(arguments: list[str], languages_given: bool = False) -> tuple[list[str], str | None]:
    """The runs among the arguments, and the text after them; a UserError if a run does not exist.

    An argument that is not a run is a text if it follows a run, or if languages are given.
    """
    runs = list(takewhile(is_run, arguments))
    others = arguments[len(runs) :]
    if not others:
        return runs, None
    name = others[0]
    is_path = os.sep in name and "<" not in name and not any(map(str.isspace, name))
    if is_path or (name and Path(name).is_dir()):
        from regard.run.facts import require_run

        require_run(Path(name))
    if len(others) > 1:
        hint = "write one text in quotation marks as the last argument; for several, a file with a text on each line"
        raise UserError(f"{name}: no such run", hint, code="not-a-run", where=name)
    if not (runs or languages_given):
        command = shlex.join(["regard", "translate", "--to", "CODE", name])
        hint = f"if it is a text, name the language of its translation: {command}"
        raise UserError(f"{name}: no such run", hint, code="not-a-run", where=name)
    return runs, name


def is_run(name: str) -> bool:
    """True if an argument is the folder of a run, or the name of one that comes with regard."""
    return (Path(name) / RECIPE).is_file() or name in bundled_runs()


def with_prefixes(sources: Iterable[str], prefixes: Iterable[str] | None) -> "Iterator[str | Example]":
    """Each source with the beginning of its translation; a missing line of a prefix file is blank."""
    if prefixes is None:
        yield from sources
        return
    remaining = iter(prefixes)
    yield from ({"src": source, "prefix": next(remaining, "")} for source in sources)


def plain_line(index: int, example: "Example", output: "Prediction") -> str:
    """The best translation, or with --nbest one line for each: index ||| text ||| score."""
    if "hypotheses" not in output:
        return str(output["translation"])
    if output["parts"] != 1:
        return f"{index} ||| {output['translation']} ||| {output['score'] or 0.0:.4f}"
    return "\n".join(f"{index} ||| {item['text']} ||| {item['score']:.4f}" for item in output["hypotheses"])


def scored_line(index: int, example: "Example", output: "Prediction") -> str:
    """score, tab, text."""
    return f"{output['score'] or 0.0:.4f}\t{output['translation']}"


def json_line(index: int, example: "Example", output: "Prediction") -> str:
    """One object."""
    return to_json({"source": example["src"], **output})


@dataclass
class Counts:
    """Numbers of lines, and of translations that may be wrong."""

    lines: int = 0
    unfinished: int = 0
    looped: int = 0

    def add(self, prediction: "Prediction", before_report: Callable[[], None] = lambda: None) -> None:
        """Count a line; warn about a line that is too long for the model."""
        self.lines += 1
        used = prediction["hypotheses"][: prediction["parts"]]
        self.looped += any(item["looped"] for item in used)
        self.unfinished += any(not item["finished"] and not item["looped"] for item in used)
        if prediction["parts"] > 1:
            before_report()
            parts = prediction["parts"]
            report(f"warning: line {self.lines} is too long for the model and was translated in {parts} parts")

    def report(self) -> None:
        """Report how many translations may be wrong."""
        if self.unfinished:
            report(f"note: {self.unfinished} of {self.lines} translations reached the length limit and are unfinished")
        if self.looped:
            report(f"note: {self.looped} of {self.lines} translations repeated themselves and were cut")
