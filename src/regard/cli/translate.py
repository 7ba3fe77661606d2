"""regard translate: one line of output for one line of input."""

import os
import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import AsJson, InputFile, ModelOptions, OutputFile, SearchOptions, TableOptions
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

if TYPE_CHECKING:
    from regard.tasks.base import Example, Prediction


def translate(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN", help="The folder of a run; several runs are an ensemble.")
    ],
    search: SearchOptions,
    model: ModelOptions,
    table: TableOptions,
    input_: InputFile = STDIO,
    output: OutputFile = STDIO,
    prefix: Annotated[str, typer.Option(metavar="TEXT", help="The beginning of every translation.")] = "",
    prefix_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="The beginning of each translation, one line for each line.")
    ] = None,
    scores: Annotated[
        bool, typer.Option("--scores", help="Print each line as score, tab, text; --nbest and --json have scores.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Translate text of any size, one line of output for each line of input.

    Lines keep their order, and blank lines stay blank. Of a .csv, .tsv, .json or .jsonl file it translates the column
    of the source, by the recipe or --columns. Without --input it reads stdin; on a terminal it asks for
    sentences. With --nbest N, each translation is a line "index ||| text ||| score"; index counts input lines from 0,
    and score is the log-probability of the text divided by the length penalty. With --json, each line of input gives
    one object: source, translation, score, finished, looped, parts and, with --nbest, hypotheses. A line that is too
    long for the model is translated in parts.

    \b
    Examples:
      regard translate runs/de < input.txt > output.txt
      regard translate runs/de -i input.txt.gz -o output.txt --beam 8
      regard translate runs/de runs/de-2 runs/de-3 -i input.txt       an ensemble
      regard translate runs/de -i input.txt --nbest 5 --json
      regard translate runs/de --search sample --temperature 0.8 --seed 7
      regard translate runs/de -i input.txt --engine ctranslate2      8-bit weights on a CPU
    """
    check_output(output, input_, prefix_file)
    check_one_input(**{"--prefix": prefix, "--prefix-file": prefix_file})
    check_runs(runs)
    translator, options = model.load_translator(*runs), search.changes()
    task, form = translator.task.configure(**options), json_line if as_json else scored_line if scores else plain_line
    check_one_input(**{"--scores": scores, "--json": as_json, "--nbest": task.decoding.nbest > 1 and not as_json})
    prefixes = read_lines(prefix_file) if prefix_file else repeat(prefix) if prefix else None
    pairs = table_source(task, input_, table.settings(task))
    lines = (str(item["src"]) for _, item in read_rows(task, pairs)) if pairs else read_lines(input_)
    counts = Counts()
    if is_interactive(input_ != STDIO):
        for source in with_prefixes(prompt_lines(), prefixes):
            for pair in translator.stream_pairs([source], **options):
                print(form(counts.lines, pair[0], task.output(pair[1])), flush=True)
                counts.add(pair[1])
        return
    with open_output(output) as stream, ProgressLine("translated lines:") as progress:
        sources = with_prefixes(lines, prefixes)
        for pair in translator.stream_pairs(sources, where="line", **options):
            print(form(counts.lines, pair[0], task.output(pair[1])), file=stream, flush=True)
            counts.add(pair[1], progress.clear)
            progress(counts.lines)
    counts.report()


def check_runs(runs: list[str]) -> None:
    """Raise UserError if a sentence is given in place of a run: sentences are read from stdin."""
    for name in runs[1:]:
        if not Path(name).exists() and (os.sep not in name or " " in name):
            raise UserError(
                f"{name}: no such run; sentences are read from stdin",
                f"for a sentence write: echo {shlex.quote(name)} | regard translate {shlex.quote(runs[0])}",
                code="not-a-run",
                where=name,
            )


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
