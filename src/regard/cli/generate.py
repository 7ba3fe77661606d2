"""regard generate: the continuation of a text by a language model."""

from typing import Annotated

from typer import Argument

from regard.cli.options import AsJson, InputFile, OutputFile, RunFolder, SearchOptions, WeightOptions
from regard.cli.screen import to_json
from regard.cli.streams import STDIO, check_one_input, check_output, input_lines, open_output


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
    """Continue a text with a language model.

    A text ends with its line. The prompt may be empty. Texts are sampled, unless the recipe or an option
    sets a different search; the same `--seed` gives the same texts. With `--json`, each prompt gives one object: prompt
    and texts, each with log-probability, finished (true if the line ended) and looped (true if the text repeated itself
    and was cut).

    \b
    Examples:
      regard generate runs/wikitext-2-lstm "The capital of"
      regard generate runs/wikitext-2-lstm "" --nbest 5 --temperature 0.8 --seed 7
      regard generate runs/wikitext-2-lstm "The capital of" --search greedy --max-length 200
      regard generate runs/wikitext-2-lstm --json < prompts.txt
    """
    check_output(output, input_)
    check_one_input(PROMPT=prompt is not None, **{"--input": input_ != STDIO})
    model, options = weights.load(run, task="language"), search.changes()
    with open_output(output) as stream:
        for prompts in input_lines([] if prompt is None else [prompt], input_):
            for example, prediction in model.stream_pairs(prompts, where="prompt", **options):
                texts = model.task.output(prediction)["continuations"]
                if as_json:
                    print(to_json({"prompt": example["text"], "texts": texts}), file=stream, flush=True)
                else:
                    print("\n".join(item["text"] for item in texts), file=stream, flush=True)
