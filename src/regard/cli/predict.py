"""regard predict: predictions of a run of any task."""

import sys
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from regard.cli import options as opt
from regard.cli import streams
from regard.cli.options import Options
from regard.cli.screen import panel, print_error, print_json, report, truncation_note
from regard.cli.streams import STDIO, check_one_input, check_output
from regard.cli.tables import Row, check_lines, count_rows, open_results, output_ending, read_rows, table_source
from regard.errors import UserError
from regard.messages import Message, join_messages, localize
from regard.viz.figures import check_figure, write_figure

if TYPE_CHECKING:
    from regard.data.sources import Source
    from regard.run.model import Input, Model
    from regard.tasks.base import AnyTask, Example, Prediction
    from regard.work import Work

    Result = tuple[Example, Prediction]

Top = Annotated[
    int | None,
    Option(metavar="N", show_default="all", help="Only with task classification: number of classes to print."),
]
Split = Annotated[
    bool, Option("--split", help="Only with task parsing: separate punctuation from words, as in treebanks.")
]
Picture = Annotated[
    Path | None,
    Option(
        "--figure", "--svg", metavar="FILE",
        help="Only with tasks dependencies and parsing: figure of the last tree, a .svg, .pdf or .png file.",
    ),
]  # fmt: skip


def predict(
    run: opt.RunFolder,
    text: Annotated[
        str | None, Argument(metavar="TEXT", help="One example; without TEXT, each input line is an example.")
    ] = None,
    *,
    input_: opt.InputFile = STDIO,
    output: opt.OutputFile = STDIO,
    table: opt.TableOptions,
    search: opt.SearchOptions,
    top: Top = None,
    split: Split = False,
    figure: Picture = None,
    interactive: opt.Interactive = False,
    as_json: opt.AsJson = False,
    model: opt.ModelOptions,
) -> None:
    """Predict with a run of any task: classes, tags, answers, trees, translations and so on."""
    check_output(output, input_)
    check_one_input(TEXT=text is not None, **{"--input": input_ != STDIO, "--interactive": interactive})
    loaded = model.load(run)
    options = search.changes() | ({} if top is None else {"top": top}) | ({"split_punctuation": True} if split else {})
    task = loaded.task.configure(**options)
    output_ending(output, task, as_json)
    if figure is not None and not task.has_picture:
        problem = f"`--figure` needs a run of task dependencies or parsing, not {task.name}"
        raise UserError(problem, "leave `--figure` out", code="unsupported-option", where="figure")
    if figure is not None:
        check_figure(figure)
    source = table_source(task, input_, table.settings(task))
    if source is None:
        check_lines(task, input_)
    if interactive or streams.is_interactive(text is not None, input_ != STDIO):
        return ask_and_predict(loaded, options, as_json)
    last = predict_inputs(loaded, text, input_, source, output, options, as_json)
    return write_figure(figure, task.describe(*last).svg) if figure is not None and last is not None else None


def predict_inputs(
    model: "Model", text: str | None, input_: str, source: "Source | None", output: str, options: Options, as_json: bool
) -> "Result | None":
    """Predict TEXT, or the examples of a table or of the lines of a file; return the last example and prediction."""
    if text is not None and output == STDIO and sys.stdout.isatty() and not as_json:
        last = predict_one(model, text, options)
        draw(model.task.configure(**options), *last)
        return last
    rows: Iterator[tuple[Row | None, Input]]
    if source is not None:
        task = model.task.configure(**options)
        rows, total, where = read_rows(task, source), count_rows(task, source), f"{input_}, record"
    else:
        where = streams.line_name(input_) if text is None else "example"
        rows = plain_rows(streams.read_lines(input_) if text is None else [text], where)
        total = streams.count_lines(input_) if text is None else None
    given = [options, as_json, text, source and source.model_dump(mode="json")]
    with streams.work_on(Message("predicted:"), output, total, model, given, input_) as work:
        return predict_all(model, rows, where, output, options, as_json, work)


def plain_rows(lines: Iterable[str], where: str) -> "Iterator[tuple[Row | None, Input]]":
    """The example of each line: plain text, or JSON, whose keys are kept."""
    from regard.tasks.inputs import parse_json_line

    values = (parse_json_line(line, f"{where} {number}") for number, line in enumerate(lines, 1))
    return ((None if isinstance(item, str) else Row([*item], [*item.values()]), item) for item in values)


def predict_all(
    model: "Model",
    rows: "Iterable[tuple[Row | None, Input]]",
    where: str,
    output: str,
    options: Options,
    as_json: bool,
    work: "Work",
) -> "Result | None":
    """Write a prediction for each example; return the last one that has a text."""
    from regard.data.accounts import collect_accounts

    waiting: deque[Row | None] = deque()
    truncated = repaired = 0
    last = None

    def inputs() -> "Iterator[Input]":
        for row, value in work.feed(rows):
            waiting.append(row)
            yield value

    task = model.task.configure(**options)
    with collect_accounts(report), open_results(output, task, as_json) as write:
        for example, prediction in work.count(model.stream_pairs(inputs(), where=where, **options)):
            write(waiting.popleft(), example, prediction)
            last = (example, prediction) if any(map(str.strip, task.recipe.fields.texts(example))) else last
            truncated, repaired = truncated + ("truncated" in prediction), repaired + prediction.get("repaired", False)
    if truncated:
        note = Message('"truncated" counts the tokens that were left out')
        report(join_messages("; ", [truncation_note(truncated, work.done), note]))
    if repaired:
        counts = {"repaired": repaired, "all": work.done}
        report(Message("note: {repaired} of {all} outputs were not a tree of the sentence and were repaired", **counts))
    return last


def predict_one(model: "Model", value: "Input", options: Options) -> "Result":
    """The example that an input means, and its prediction."""
    inputs = [item for _, item in plain_rows([value], "example")] if isinstance(value, str) else [value]
    return next(model.stream_pairs(inputs, **options))


def ask_and_predict(model: "Model", options: Options, as_json: bool) -> None:
    """Ask for examples and print their predictions until the input ends; an error is printed and asking goes on."""
    from regard.tasks.operations import ask_examples, check_outputs

    task = model.task.configure(**options)
    check_outputs(task)
    report(localize(streams.INVITATION))
    for value in ask_examples(task, streams.make_prompt()):
        try:
            example, prediction = predict_one(model, value, options)
        except UserError as error:
            print_error(error)
            continue
        if as_json:
            print_json(example | task.output(prediction))
        else:
            print()
            draw(task, example, prediction)
            print(flush=True)
    report()


def draw(task: "AnyTask", example: "Example", prediction: "Prediction") -> None:
    """Print a prediction for a person."""
    from regard.tasks.operations import empty_prediction
    from regard.viz import terminal

    is_empty = empty_prediction(task, example) is not None
    drawing = "" if is_empty else terminal.draw(task.describe(example, prediction), panel())
    print(localize(Message("the text is empty: no prediction")) if is_empty else drawing, flush=True)
