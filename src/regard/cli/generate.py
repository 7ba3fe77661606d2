"""regard generate: a language model goes on with what it is given."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import AsJson, RunFolder, WeightOptions
from regard.cli.screen import result, to_json
from regard.cli.translate import STANDARD, asked, lines_of

if TYPE_CHECKING:
    from regard.run import Writer
    from regard.tasks import Generation


@dataclass(frozen=True)
class WriterOptions(WeightOptions):
    """The same for a language model."""

    def load(self, run: str) -> "Writer":
        """Open the run."""
        from regard.run import Writer

        return Writer.load(run, **asdict(self))


@dataclass(frozen=True)
class DrawingOptions:
    """How to go on; what is not given is as the run's recipe says."""

    search: Annotated[
        str | None, typer.Option(metavar="greedy|beam|sample", help="Which search; the options below imply theirs.")
    ] = None
    nbest: Annotated[int | None, typer.Option("--samples", "-n", metavar="N", help="Texts for each prompt.")] = None
    max_length: Annotated[
        int | None, typer.Option("--length", metavar="N", help="At most so many tokens after the prompt.")
    ] = None
    temperature: Annotated[float | None, typer.Option(metavar="T", help="Below 1 sharpens, above 1 flattens.")] = None
    top_k: Annotated[int | None, typer.Option(metavar="K", help="Draw from the K likeliest tokens.")] = None
    top_p: Annotated[float | None, typer.Option(metavar="P", help="Draw from the likeliest mass P.")] = None
    beam: Annotated[int | None, typer.Option(metavar="N", help="Texts kept in view (implies --search beam).")] = None
    no_repeat_ngram: Annotated[
        int | None, typer.Option(metavar="N", help="Never write the same N tokens twice in a line.")
    ] = None
    seed: Annotated[int | None, typer.Option(metavar="N", help="What the draws follow from.")] = None

    def changes(self) -> dict[str, Any]:
        """What was given."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        if self.max_length is not None:  # as far as it was asked for, and not only as far as the recipe says
            given["extra_length"] = self.max_length
        return {name: value for name, value in given.items() if value is not None}


def generate(
    run: RunFolder,
    prompt: Annotated[
        str | None, typer.Argument(metavar="PROMPT", help="How the text begins; without it each line of stdin is one.")
    ] = None,
    *,
    drawing: DrawingOptions,
    writer: WriterOptions,
    as_json: AsJson = False,
) -> None:
    """Let a language model go on with a prompt.

    It goes on to the end of the line. A prompt may be empty: then the model begins by itself. Without one every line of
    stdin is one, and on a terminal it asks for them. Texts are drawn at random unless the run's recipe or an option
    says otherwise; a --seed always draws the same. With --json each prompt gives one object: prompt, and texts with
    their log-probability, whether the line ended (finished), and whether it was cut for repeating itself (looped).

    \b
    Examples:
      regard generate runs/wikitext-2-lstm "The capital of"
      regard generate runs/wikitext-2-lstm "" --samples 5 --temperature 0.8 --seed 7
      regard generate runs/wikitext-2-lstm "The capital of" --search greedy --length 200
      regard generate runs/wikitext-2-lstm --json < prompts.txt
    """
    opened, changes = writer.load(run), drawing.changes()
    show: Callable[[Generation], None] = show_json if as_json else show_texts
    for prompts in [[prompt]] if prompt is not None else given():
        for found in opened.generate(prompts, **changes):
            show(found)


def given() -> Iterator[Iterator[str] | list[str]]:
    """The prompts of stdin: all of them, or one after another where a person types them."""
    if not sys.stdin.isatty():
        yield lines_of(STANDARD)
        return
    yield from ([line] for line in asked())


def show_texts(found: "Generation") -> None:
    """A line for each text."""
    for text in found.texts:
        result(text)


def show_json(found: "Generation") -> None:
    """One object for each prompt."""
    result(to_json(generation_values(found)))


def generation_values(found: "Generation") -> dict[str, Any]:
    """What there is to say about how a prompt went on."""
    texts = [
        {"text": text, "log_prob": each.log_prob, "finished": each.finished, "looped": each.looped}
        for text, each in zip(found.texts, found.hypotheses, strict=True)
    ]
    return {"prompt": found.prompt, "texts": texts}
