"""Documents and languages on the command line: HTML, subtitles, messages, Word files, text; glossaries, detection."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import OptionGroup, Options
from regard.cli.screen import report
from regard.cli.streams import STDIO, open_output, open_stdin, work_on
from regard.documents.address import WANTED
from regard.documents.document import FILE_FORMATS, MAX_BYTES, RESULTS, file_format, open_file
from regard.documents.segment import SCRIPT
from regard.errors import UserError
from regard.messages import Message

if TYPE_CHECKING:
    from regard.documents.document import FileDocument
    from regard.run.memory import MemoryInput
    from regard.run.model import Translator
    from regard.run.translating import Direction
    from regard.tasks.base import AnyTask
    from regard.tasks.languages import Languages

FORMATS = {"lines": "", "text": ".txt"} | {ending[1:]: ending for ending in FILE_FORMATS if ending != ".txt"}
"""The values of --format, and the extension of such files."""


@dataclass(frozen=True)
class DocumentOptions(OptionGroup):
    """How an input is read that is not one sentence a line."""

    title = "Documents"

    format: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(FORMATS),
            show_default="from the file extension; without one: lines, split into sentences",
            help="Input format. lines: each line is one sentence. text: plain text; encoding and line ends are kept. "
            "Other formats: the markup is kept.",
        ),
    ] = None
    glossary: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Required translations of terms: one term, tab and translation per line, or a .csv file.",
        ),
    ] = None
    memory: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Translation memory, used for sentences that it contains: .tmx, .xliff, .csv, or .tsv with language "
            "codes in its first row, e.g. en, tab, de. Repeat for several.",
        ),
    ] = None
    bundled_memory: Annotated[
        bool,
        typer.Option(help="Look up sentences in the bundled phrases. Only with the bundled translator."),
    ] = True

    formality: Annotated[
        str,
        typer.Option(
            metavar="|".join(WANTED),
            help="Form of address in German, French, Spanish and Chinese. more: Sie, vous, usted. less: du, tu, tú. "
            "default: as the model says it. prefer_more, prefer_less: ignored for other target languages.",
        ),
    ] = "default"

    def ending(self, input_: str) -> str:
        """The format of the input as the ending of a file; "" if each line is a sentence."""
        from regard.cli.options import one_of
        from regard.data.records import file_ending

        if self.format is not None:
            one_of("--format", self.format, tuple(FORMATS))
        one_of("--formality", self.formality, tuple(WANTED))
        found = "" if input_ == STDIO else file_format(f"file{file_ending(input_)}")
        ending = FORMATS[self.format] if self.format else found if found != ".txt" else ""
        if self.glossary is not None and self.format == "lines":
            problem = "`--glossary` does not work with `--format lines`"
            raise UserError(problem, "set `--format text`", code="conflicting-options", where="glossary")
        return ending

    def check(self, input_: str, output: str, **others: object) -> str:
        """The format of the input; a UserError if there are options that are for lines only, or a wrong output."""
        ending = self.ending(input_)
        result, name = RESULTS.get(ending, ending), file_format(output)
        if ending and output != STDIO and name not in ("", result):
            problem, remedy = f"the translation of {ending} is {result}, but `--output` is {output}", f"use {result}"
            raise UserError(problem, remedy, code="conflicting-options", where="output")
        for name, value in others.items():
            if ending and value:
                problem = f"`{name}` does not work with a document ({ending})"
                remedy = f"leave `{name}` out, or set `--format lines`"
                raise UserError(problem, remedy, code="conflicting-options", where=name.removeprefix("--"))
        return ending

    def translate(
        self,
        translator: "Translator",
        options: Options,
        content: tuple[str, str | None],
        output: str,
        direction: "Direction",
    ) -> None:
        """Translate a document: the text that is given, or the input."""
        from regard.run.translating import translate_segments

        (input_, text), (source, target) = content, direction
        name = f"{'stdin' if input_ == STDIO else Path(input_).stem}{self.ending(input_)}"
        read = text.encode() if text is not None else read_input(input_)
        document = self.open(translator, name, read, (source, target))
        if source is None:
            sentences = " ".join(segment.text for segment in document.segments)
            source = detect_source(translator.task.languages, target, sentences)
            if source is not None:  # sentences end with other marks
                document = self.open(translator, name, read, (source, target))
        segments, given = (
            document.segments,
            [options, source, target, self.format, text, self.bundled_memory, self.formality],
        )
        files = (input_, str(self.glossary or ""), *map(str, self.memory or ()))
        with work_on(Message("translated sentences:"), output, len(segments), translator, given, *files) as work:
            looked_up = (self.memories, self.formality)
            translations = translate_segments(translator, segments, source, target, work, *looked_up, **options)
            for number, item in enumerate(translations, 1):
                if item.problem:
                    report(problem_message(item.problem, number, item.text))
            with open_output(output) as stream:
                stream.flush()
                stream.buffer.write(document.render(translations) + b"\n" * (text is not None and output == STDIO))
                stream.buffer.flush()

    @cached_property
    def memories(self) -> "MemoryInput":
        """What is looked up before the model is asked."""
        from regard.run.memory import TranslationMemory

        if not self.bundled_memory:
            return TranslationMemory.read(*self.memory) if self.memory else False
        return self.memory or None

    @property
    def terms(self) -> dict[str, str]:
        return read_glossary(self.glossary) if self.glossary else {}

    def open(self, translator: "Translator", name: str, content: bytes, direction: "Direction") -> "FileDocument":
        """A document with the glossary, for a model and a direction."""
        source, target = (code or "" for code in direction)
        symbols = translator.task.languages.placeholders
        return open_file(name, content, language=source, target=target, glossary=self.terms, placeholders=symbols)


def problem_message(problem: str, number: int, text: str) -> Message:
    """A warning about the translation of a line or sentence."""
    values = {"number": number, "text": text[:60]}
    if problem == SCRIPT:
        return Message(
            "warning: the model does not know the script of text {number}, which was copied: {text}", **values
        )
    return Message("warning: the translation of text {number} has other numbers than the text: {text}", **values)


def read_input(name: str) -> bytes:
    """The content of a file or of stdin; .gz and .xz are read."""
    from regard.files import open_binary

    if name == STDIO:
        return open_stdin().read(MAX_BYTES + 1)
    with open_binary(Path(name)) as stream:
        return stream.read(MAX_BYTES + 1)


def read_glossary(path: Path) -> dict[str, str]:
    """The terms of a glossary and their translations: two columns, separated by a tab, or by a comma in a .csv file."""
    from regard.data.records import Location, csv_rows, file_ending, read_lines

    terms: dict[str, str] = {}
    for number, row, lines in csv_rows(read_lines(path), path, "," if file_ending(path.name) == ".csv" else "\t"):
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        if len(cells) != 2 or not all(cells) or lines > 1:
            remedy = "write each on one line, with a tab (in a .csv file: a comma) between term and translation"
            raise Location(path, number).error("is not a term and its translation", remedy)
        if terms.setdefault(*cells) != cells[1]:
            raise Location(path, number).error(f"translates {cells[0]!r} differently than before", "keep one of them")
    return terms


def target_option(task: "AnyTask") -> str:
    """The option --to in a command for a run of several languages, as an example; "" for other runs."""
    return f" --to {next(iter(task.languages.tags))}" if task.languages and task.languages.tags else ""


def detect_source(languages: "Languages", target: str | None, text: str) -> str | None:
    """The language of a text, None if it is not known; report if it is unsure, and a translation through a pivot
    language."""
    from regard.run import model
    from regard.run.translating import detect_sources
    from regard.tasks.identification import describe_languages

    ((source, found),) = detect_sources(languages, target, [text], model.identify_languages)
    if found:
        values = {"detected": describe_languages(found), "language": source}
        report(
            Message("note: unsure language ({detected}); translated from {language}; choose it with `--from`", **values)
        )
    if pivot := languages.pivot(source, target):
        codes = {"language": source, "pivot": pivot}
        report(Message("note: the text seems to be in {language}; it is translated to {pivot} first", **codes))
    return source
