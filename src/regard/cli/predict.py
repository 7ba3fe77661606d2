"""regard predict: predictions of a run of any task."""

from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import InputFile, Interactive, Options, OutputFile, RunFolder, WeightOptions
from regard.cli.screen import ProgressLine, panel, print_error, report, to_json
from regard.cli.streams import (
    STDIO,
    check_one_input,
    check_output,
    is_interactive,
    line_name,
    make_prompt,
    open_output,
    read_lines,
)
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.run.model import Model


def predict(
    run: RunFolder,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="One example; otherwise each line of the input is one.")
    ] = None,
    *,
    input_: InputFile = STDIO,
    output: OutputFile = STDIO,
    nbest: Annotated[
        int | None, typer.Option(metavar="N", help="Print the N best outputs, if the task has several.")
    ] = None,
    top: Annotated[
        int | None, typer.Option(metavar="N", help="Classification: print the N most probable classes only [all].")
    ] = None,
    interactive: Interactive = False,
    weights: WeightOptions,
) -> None:
    """Predict with a run of any task: classes, tags, answers, translations and so on.

    Each line of input gives one JSON object: the example and its prediction, in order. A line is JSON with the keys of
    the task, or plain text: a text for classification and regression, or "text TAB second text" if the run was trained
    with pairs, a sentence for tagging, "question TAB context" for answering, "text TAB choice TAB choice ..." for
    choice, a text with [MASK] for pretraining, a text for translation, language models and parsing. On a terminal it
    asks for examples.

    \b
    Examples:
      regard predict runs/sst-2 "A film to remember."
      regard predict runs/sst-2 -i reviews.txt -o predictions.jsonl
      regard predict runs/squad '{"question": "Who?", "context": "Ada was."}' --nbest 3
      regard predict runs/bert "Paris is the [MASK] of France."
      regard predict runs/wnut17 --interactive
    """
    from regard.tasks.inputs import parse_json_line

    check_output(output, input_)
    check_one_input(TEXT=text is not None, **{"--input": input_ != STDIO, "--interactive": interactive})
    model = weights.load(run)
    options = {name: value for name, value in {"nbest": nbest, "top": top}.items() if value is not None}
    if interactive or is_interactive(text is not None, input_ != STDIO):
        ask_and_predict(model, options)
        return
    task, where = model.task.configure(**options), "example" if text is not None else line_name(input_)
    lines = [text] if text is not None else read_lines(input_)
    values = (parse_json_line(line, f"{where} {number}") for number, line in enumerate(lines, 1))
    number = truncated = 0
    with open_output(output) as stream, ProgressLine("predicted:") as progress:
        for example, prediction in model.stream_pairs(values, where=where, **options):
            print(to_json(example | task.output(prediction)), file=stream, flush=True)
            number, truncated = number + 1, truncated + ("truncated" in prediction)
            progress(number)
    if truncated:
        report(
            f"note: {truncated:,} of {number:,} texts were longer than the model reads and were truncated; "
            '"truncated" counts the tokens that were left out'
        )


def ask_and_predict(model: "Model", options: Options) -> None:
    """Ask for examples and print their predictions until the input ends; an error is printed and asking goes on."""
    from regard.tasks.inputs import parse_json_line

    task, screen = model.task.configure(**options), panel()
    task.check_predict()
    report("Type a line, then Enter; Ctrl-D ends.")
    for value in task.ask(make_prompt()):
        try:
            values = [parse_json_line(value, "example 1") if isinstance(value, str) else value]
            for example, prediction in model.stream_pairs(values, **options):
                print(f"\n{task.render(example, prediction, screen)}\n", flush=True)
        except UserError as error:
            print_error(error)
    report()
