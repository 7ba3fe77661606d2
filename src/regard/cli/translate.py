"""regard translate: one line out for one line in."""

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from regard.cli.options import AsJson, ModelOptions, SearchOptions
from regard.cli.screen import Ticker, say, to_json
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.tasks import Prediction

STANDARD = "-"
Form = Callable[["Prediction", int], str]


def translate(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN", help="A run's folder; several vote together as an ensemble.")
    ],
    search: SearchOptions,
    model: ModelOptions,
    input_: Annotated[
        str, typer.Option("--input", "-i", metavar="FILE", help="Text to translate, - for stdin; .gz and .xz are read.")
    ] = STANDARD,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Where to write, - for stdout; whole or not at all.")
    ] = STANDARD,
    prefix: Annotated[str, typer.Option(metavar="TEXT", help="How every translation must begin.")] = "",
    prefix_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="How each must begin, a line for each line of input.")
    ] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Write each line as score, tab, text.")] = False,
    as_json: AsJson = False,
) -> None:
    """Translate text of any size, one line out for every line in.

    Lines keep their order and blank lines stay blank. Without --input it reads stdin, and on a terminal it asks for
    sentences. With --nbest N each translation is a line "index ||| text ||| score", where index counts lines of
    input from 0; the score is the log-probability of the text, normalised by its length. With --json each line of
    input gives one object: source, translation, score, finished, looped, parts and, with --nbest, hypotheses. A
    line too long for the model is translated in parts.

    \b
    Examples:
      regard translate runs/de < input.txt > output.txt
      regard translate runs/de -i input.txt.gz -o output.txt --beam 8
      regard translate runs/de runs/de-2 runs/de-3 -i input.txt       an ensemble
      regard translate runs/de -i input.txt --nbest 5 --json
      regard translate runs/de --search sample --temperature 0.8 --seed 7
      regard translate runs/de -i input.txt --engine ctranslate2      8 bits, on a CPU
    """
    refuse_overwriting(output, (input_, prefix_file))
    if prefix and prefix_file:
        raise UserError("--prefix and --prefix-file are both given", "give one of them")
    refuse_sentences(runs)
    translator, changes = model.load(*runs), search.changes()
    several = translator.decoding(**changes).nbest > 1
    form: Form = (
        (json_nbest if several else json_line) if as_json else nbest if several else scored if scores else plain
    )
    prefixes = lines_of(prefix_file) if prefix_file else repeat(prefix) if prefix else None
    account = Account()
    if input_ == STANDARD and sys.stdin.isatty():
        for source in asked():
            for prediction in translator.predict([source], prefixes, **changes):
                print(form(prediction, account.lines), flush=True)
                account.add(prediction)
        return
    with opened(output) as stream, Ticker("translated lines:") as ticker:
        for prediction in translator.predict(lines_of(input_), prefixes, **changes):
            print(form(prediction, account.lines), file=stream, flush=True)
            account.add(prediction, ticker.clear)
            ticker(account.lines)
    account.close()


def lines_of(name: str) -> Iterator[str]:
    """The lines of a file or of stdin, read as they are asked for; one that is not UTF-8 is named."""
    from regard.data.lines import decode_lines
    from regard.files import open_binary

    if name == STANDARD:
        yield from decode_lines(sys.stdin.buffer, "stdin")
        return
    with open_binary(Path(name)) as stream:
        yield from decode_lines(stream, name)


def asked(invitation: str = "Type a sentence, then Enter; Ctrl-D ends.") -> Iterator[str]:
    """Sentences a person types."""
    say(invitation)
    lines = lines_of(STANDARD)
    while True:
        print("> ", end="", file=sys.stderr, flush=True)
        line = next(lines, None)
        if line is None:
            say()
            return
        yield line


@contextmanager
def opened(output: str) -> Iterator[TextIO]:
    """Where translations go: stdout, a device or pipe as it is, or a file that appears when it is whole."""
    from regard.files import io_errors, replacing

    path = Path(output)
    if output == STANDARD:
        yield sys.stdout
    elif path.exists() and not path.is_file():
        with io_errors(path), path.open("w", encoding="utf-8", newline="\n") as stream:
            yield stream
    else:
        with replacing(path) as place, place.open("w", encoding="utf-8", newline="\n") as stream:
            yield stream


def refuse_overwriting(output: str, inputs: tuple[str | None, ...]) -> None:
    """What is being read is not written to."""
    path = Path(output)
    for name in inputs:
        if name not in (None, STANDARD) and output != STANDARD and path.exists() and path.samefile(str(name)):
            raise UserError(f"--output {output} is the file that is read", "write to another file")


def refuse_sentences(runs: list[str]) -> None:
    """What follows the first run is another run; whoever writes a sentence there is told where sentences go."""
    for name in runs[1:]:
        if not Path(name).exists() and (os.sep not in name or " " in name):
            raise UserError(
                f"{name}: there is no such run, and a sentence is read from stdin",
                f"for a sentence write: echo {shlex.quote(name)} | regard translate {shlex.quote(runs[0])}",
            )


def plain(prediction: "Prediction", index: int) -> str:
    """The best translation."""
    return prediction.text


def scored(prediction: "Prediction", index: int) -> str:
    """score, tab, text."""
    return f"{score_of(prediction):.4f}\t{prediction.text}"


def nbest(prediction: "Prediction", index: int) -> str:
    """A line for each translation: index ||| text ||| score."""
    if prediction.parts != 1:
        return f"{index} ||| {prediction.text} ||| {score_of(prediction):.4f}"
    pairs = zip(prediction.texts, prediction.hypotheses, strict=True)
    return "\n".join(f"{index} ||| {text} ||| {hypothesis.score:.4f}" for text, hypothesis in pairs)


def json_line(prediction: "Prediction", index: int) -> str:
    """One object for each line of input."""
    return to_json(line_values(prediction))


def json_nbest(prediction: "Prediction", index: int) -> str:
    """The same with every translation of it."""
    values = line_values(prediction)
    pairs = zip(prediction.texts, prediction.hypotheses, strict=False) if prediction.parts == 1 else ()
    values["hypotheses"] = [
        {"text": text, "score": found.score, "finished": found.finished, "looped": found.looped}
        for text, found in pairs
    ]
    return to_json(values)


def line_values(prediction: "Prediction") -> dict[str, Any]:
    """What there is to say about the translation of a line."""
    return {
        "source": prediction.source,
        "translation": prediction.text,
        "score": score_of(prediction) if prediction.hypotheses else None,
        "finished": all(found.finished for found in used(prediction)),
        "looped": any(found.looped for found in used(prediction)),
        "parts": prediction.parts,
    }


def used(prediction: "Prediction") -> list[Any]:
    """The hypotheses that the best translation is made of: one, or one for each part."""
    return prediction.hypotheses[: prediction.parts]


def score_of(prediction: "Prediction") -> float:
    """The score of the best translation; of several parts their mean, of a blank line 0."""
    scores = [found.score for found in used(prediction)]
    return sum(scores) / max(1, len(scores))


@dataclass
class Account:
    """What happened on the way that a user should know."""

    lines: int = 0
    cut: int = 0
    looped: int = 0

    def add(self, prediction: "Prediction", before_speaking: Callable[[], None] = lambda: None) -> None:
        """Count a line; one too long for the model is worth a warning at once."""
        self.lines += 1
        self.looped += any(found.looped for found in used(prediction))
        self.cut += any(not found.finished and not found.looped for found in used(prediction))
        if prediction.parts > 1:
            before_speaking()
            say(f"warning: line {self.lines} is too long for the model and was translated in {prediction.parts} parts")

    def close(self) -> None:
        """Say what is suspicious about the output, if anything."""
        if self.cut:
            say(f"note: {self.cut} of {self.lines} translations were cut at their length limit, unfinished")
        if self.looped:
            say(f"note: {self.looped} of {self.lines} translations were cut because they repeated themselves")
