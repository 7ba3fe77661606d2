"""regard generate: the continuation of a text by a language model."""

from typing import Annotated

from typer import Argument

from regard.cli.options import AsJson, InputFile, OutputFile, RunFolder, SearchOptions, WeightOptions
from regard.cli.screen import to_json
from regard.cli.streams import STDIO, check_one_input, check_output, input_lines, open_output
from regard.cli.tables import check_lines


def generate(
    run: RunFolder,
    prompt: Annotated[
        str | None, Argument(metavar="PROMPT", help="Text to continue; without PROMPT, each input line is a prompt.")
    ] = None,
    *,
    search: SearchOptions,
    weights: WeightOptions,
    input_: InputFile = STDIO,
    output: OutputFile = STDIO,
    as_json: AsJson = False,
) -> None:
    """Continue a text with a language model."""
    check_output(output, input_)
    check_one_input(PROMPT=prompt is not None, **{"--input": input_ != STDIO})
    model, options = weights.load(run, task="language"), search.changes()
    check_lines(model.task, input_)
    with open_output(output) as stream:
        for prompts in input_lines([] if prompt is None else [prompt], input_):
            for example, prediction in model.stream_pairs(prompts, where="prompt", **options):
                texts = model.task.output(prediction)["continuations"]
                if as_json:
                    print(to_json({"prompt": example["text"], "texts": texts}), file=stream, flush=True)
                else:
                    print("\n".join(item["text"] for item in texts), file=stream, flush=True)
