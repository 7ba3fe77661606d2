"""regard backtranslate: sources for text of the target language, written by a model of the other direction."""

import shlex
from itertools import chain, tee
from typing import Annotated

import typer

from regard.cli import streams
from regard.cli.options import AsJson, ModelOptions, SearchOptions, SourceLanguage, TargetLanguage
from regard.cli.pairs import check_files, check_outputs, open_pairs
from regard.cli.screen import print_json, print_result, report
from regard.messages import Message


class OneTranslation(SearchOptions):
    """The search for one translation per line."""

    left_out = ("nbest",)


def backtranslate(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="Run folder of a model that translates from the language of TEXT.")
    ],
    files: Annotated[
        list[str], typer.Argument(metavar="TEXT", help="Text files in your target language, one sentence per line.")
    ],
    search: OneTranslation,
    model: ModelOptions,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="File for pairs: .tsv, .jsonl or two files SRC,TGT.")
    ],
    source: SourceLanguage = None,
    target: TargetLanguage = None,
    as_json: AsJson = False,
) -> None:
    """Translate text of your target language back, for more training pairs."""
    from regard.run.distill import translate_lines

    outputs = check_files(output, is_pair=True)
    check_outputs(outputs, *files)
    translator, options = model.load_translator(run), search.changes()
    codes = zip(("from", "to"), translator.task.languages.choose(source, target), strict=True)
    options |= {name: code for name, code in codes if code}
    text = (line for line in chain.from_iterable(map(streams.read_lines, files)) if line.strip())
    lines, sources = tee(text)  # they are at most a chunk apart
    title, dropped = Message("back-translated lines:"), 0
    with (
        streams.work_on(title, outputs[-1], None, translator, options, *files) as work,
        open_pairs(output) as write,
    ):
        predictions = work.count(translate_lines(translator, work.feed(sources), options))
        for line, prediction in zip(lines, predictions, strict=True):
            if prediction["translation"].strip() and not prediction["looped"]:
                write({"src": prediction["translation"], "tgt": line})
            else:
                dropped += 1
    if dropped:
        report(Message("{dropped:,} lines without a usable translation are left out", dropped=dropped))
    if as_json:
        print_json({"pairs": work.done - dropped, "dropped": dropped, "output": output})
    else:
        facts = {"pairs": work.done - dropped, "folder": shlex.quote(output)}
        print_result(Message("{pairs:,} pairs written to {folder}", **facts))
