"""regard score: how well each pair of parallel text translates, for `regard clean --threshold`."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from regard.cli import streams
from regard.cli.options import AsJson, SourceLanguage, TargetLanguage, WeightOptions
from regard.cli.pairs import check_files, open_pairs
from regard.cli.screen import print_json, print_result, report
from regard.cli.streams import check_output
from regard.cli.tables import make_source
from regard.messages import Message


def score(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Run folder of a translation model, source to target.")],
    files: Annotated[
        list[str],
        typer.Argument(metavar="CORPUS", help="Tables (.tsv, .csv, .jsonl, .tmx ...) or two text files SRC,TGT."),
    ],
    model: WeightOptions,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="File for pairs and scores: .tsv or .jsonl.")
    ],
    backward: Annotated[
        str,
        typer.Option(
            metavar="RUN",
            help="Run folder of a model that translates from target to source; RUN itself if it has both directions. "
            "Without one, the score is the forward model's alone.",
        ),
    ] = "",
    columns: Annotated[
        str, typer.Option(metavar="FIELD=COLUMN,...", help="Only with tables: source and target, e.g. src=1,tgt=2.")
    ] = "",
    source: SourceLanguage = None,
    target: TargetLanguage = None,
    as_json: AsJson = False,
) -> None:
    """Score parallel text with translation models, to leave out bad pairs."""
    from regard.data.fields import PAIRS
    from regard.data.formats import describe_sources, read_examples
    from regard.run.scoring import score_pairs

    check_files(output, is_pair=False)
    inputs = [part for name in files for part in name.split(",")]
    check_output(output, *inputs)
    sources = [make_source(name, columns) for name in files]
    for line in describe_sources(sources, Path(), PAIRS):
        report(line)
    forward = model.load_translator(run)
    other = model.load_translator(backward) if backward else None
    options = [columns, source, target, other.made_from() if other else None]
    title, zeros = Message("scored pairs:"), 0
    with streams.work_on(title, output, None, forward, options, *inputs) as work, open_pairs(output) as write:
        pairs = work.feed(read_examples(sources, Path(), PAIRS))
        for pair, value in work.count(score_pairs(pairs, forward, other, (source, target))):
            write({**pair, "score": value})
            zeros += not value
    if zeros:
        report(Message("{zeros:,} pairs with an empty or very long side have the score 0", zeros=zeros))
    if as_json:
        print_json({"pairs": work.done, "zeros": zeros, "output": output})
    else:
        print_result(Message("written to {folder}", folder=shlex.quote(output)))
