"""regard predict: what a model says of texts, whatever its task."""

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.generate import generation_values
from regard.cli.options import RunFolder, WeightOptions
from regard.cli.screen import Ticker, complain, in_colour, say, to_json
from regard.cli.translate import STANDARD, line_values, lines_of, opened, refuse_overwriting
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.run import Run
    from regard.run.given import Given

Said = dict[str, Any]
Saying = Callable[[Iterable["Given"]], Iterator[Said]]
Ask = Callable[[str], str | None]

Input = Annotated[str, typer.Option("--input", metavar="FILE", help="What to read, - for stdin; .gz and .xz are read.")]
Output = Annotated[
    str, typer.Option("--output", "-o", metavar="FILE", help="Where to write, - for stdout; whole or not at all.")
]


def predict(
    run: RunFolder,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="One example; without it each line of the input is one.")
    ] = None,
    *,
    input_: Input = STANDARD,
    output: Output = STANDARD,
    nbest: Annotated[
        int | None, typer.Option(metavar="N", help="For answers: tell the N likeliest, not only the best.")
    ] = None,
    interactive: Annotated[
        bool, typer.Option("--interactive", "-i", help="Ask for one example after another, and show what is said.")
    ] = False,
    weights: WeightOptions,
) -> None:
    """Let a model say something about texts.

    It says a class, a number, tags, an answer, a choice, missing words, or whatever it has learnt to say.
    Each line in gives one object of JSON out, in order: what was given, and what is said of it. A line is JSON with the
    keys of the task, or plain text: for classes and numbers "text" or "text TAB second text", for tags a sentence, for
    answers "question TAB context", for choices "text TAB choice TAB choice ...", for a pretrained model a text with
    [MASK] in it. Translators, language models and parsers take texts. On a terminal, or with -i, it asks.

    \b
    Examples:
      regard predict runs/sst-2 "A film to remember."
      regard predict runs/sst-2 --input reviews.txt --output said.jsonl
      regard predict runs/squad '{"question": "Who?", "context": "Ada was."}' --nbest 3
      regard predict runs/bert "Paris is the [MASK] of France."
      regard predict runs/wnut17 -i
    """
    from regard.run import Run
    from regard.run.given import from_json

    refuse_overwriting(output, (input_,))
    chosen: Run = Run.open(run)
    asking = interactive or (text is None and input_ == STANDARD and sys.stdin.isatty())
    place = "example" if asking or text is not None else f"{'stdin' if input_ == STANDARD else input_}, line"
    saying = speaker(chosen, asdict(weights), nbest, place)
    if asking:
        converse(chosen, saying)
        return
    lines = lines_of(input_) if text is None else [text]
    given = (from_json(line, f"{place} {number}") for number, line in enumerate(lines, 1))
    cut = 0
    with opened(output) as stream, Ticker("predicted lines:") as ticker:
        for number, said in enumerate(saying(given), 1):
            print(to_json(said), file=stream, flush=True)
            cut += "unread" in said
            ticker(number)
    if cut:
        say(f'note: {cut:,} of {number:,} were longer than the model reads at once; "unread" counts what was left out')


def speaker(run: "Run", weights: dict[str, Any], nbest: int | None, place: str) -> Saying:
    """What the run's model says of examples, as plain values; each task by its own class."""
    from regard.run import LanguageRun, Parser, ParsingRun, Predictor, TranslationRun, Translator, Writer

    if not isinstance(run, LanguageRun | TranslationRun):
        predictor = Predictor(run, **weights)  # type: ignore[arg-type]
        predictor.asking(nbest)
        return lambda given: predictor.predict(given, nbest, place)
    if nbest is not None:
        raise UserError(f"--nbest is for answers, and the task of {run.folder} is {run.recipe.task}", "leave it out")
    if isinstance(run, ParsingRun):
        parser = Parser([run], **weights)
        return lambda given: map(parse_values, parser.stream(texts_of(given, place)))
    if isinstance(run, TranslationRun):
        translator = Translator([run], **weights)
        return lambda given: map(line_values, translator.predict(texts_of(given, place)))
    writer = Writer(run, **weights)
    return lambda given: map(generation_values, writer.generate(texts_of(given, place)))


def texts_of(given: "Iterable[Given]", place: str) -> Iterator[str]:
    """The texts alone."""
    for number, each in enumerate(given, 1):
        text = each if isinstance(each, str) else each.get("text")
        if not isinstance(text, str):
            raise UserError(f"{place} {number} has no 'text'", 'write {"text": "..."}, or the text as it is')
        yield text


def parse_values(parse: Any) -> Said:
    """What there is to say about the tree of a sentence."""
    return {"words": parse.words, "tree": parse.brackets, "repaired": parse.repaired, "score": parse.score}


def converse(run: "Run", saying: Saying) -> None:
    """Ask, answer, and ask again, until there is no more; what cannot be used is said and asked for anew."""
    from regard.cli.predict_screen import Drawing
    from regard.run.given import from_json

    drawing, lines = Drawing(in_colour()), lines_of(STANDARD)

    def ask(what: str) -> str | None:
        print(f"{what}> ", end="", file=sys.stderr, flush=True)
        return next(lines, None)

    say("Write, then Enter; Ctrl-D ends.")
    for given in asked_for(run, ask):
        try:
            for said in saying([from_json(given, "example 1") if isinstance(given, str) else given]):
                print(f"\n{drawing.show(run.recipe.task, said)}\n", flush=True)
        except UserError as error:
            complain(error)
    say()


def asked_for(run: "Run", ask: Ask) -> "Iterator[Given]":
    """Examples, field by field, as the task has them."""
    task = run.recipe.task
    if task == "answering":
        return questions(ask)
    if task == "choice":
        return choices(ask)
    return pairs(ask) if task in ("classification", "regression") and reads_pairs(run) else texts(ask)


def reads_pairs(run: "Run") -> bool:
    """Whether the first example it learnt from has a second text; where that is gone, whether the recipe names one."""
    from regard.data.formats import read_examples

    data = run.recipe.data
    try:
        return "pair" in next(read_examples(data.train, data.folder, run.recipe.fields), ())
    except UserError:
        return any(source.pair is not None for source in data.train)


def texts(ask: Ask) -> "Iterator[Given]":
    """One after another."""
    while (text := ask("text")) is not None:
        if text.strip():
            yield text


def pairs(ask: Ask) -> "Iterator[Given]":
    """Two at a time, or both in a line: with a tab between them, or as JSON."""
    while (text := ask("text")) is not None:
        if "\t" in text or text.lstrip().startswith("{"):
            yield text
        elif (pair := ask("second text")) is not None:
            yield {"text": text, "pair": pair}


def questions(ask: Ask) -> "Iterator[Given]":
    """A context once, then questions about it; a blank one asks for another context."""
    while (context := ask("context")) is not None:
        while context.strip():
            question = ask("question (blank: another context)")
            if question is None:
                return
            if not question.strip():
                break
            yield {"question": question, "context": context}


def choices(ask: Ask) -> "Iterator[Given]":
    """A text, and then choices up to a blank one."""
    while (text := ask("text")) is not None:
        found: list[str] = []
        while (choice := ask(f"choice {len(found) + 1} (blank: that is all)")) is not None and choice.strip():
            found.append(choice)
        if found or choice is not None:
            yield {"text": text, "choices": found}
