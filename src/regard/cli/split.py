"""regard split: train, valid and test out of parallel text, with no sentence in two of them."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.cli.options import AsJson, one_of
from regard.cli.screen import Ticker, result, result_json, table
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.data.corpus_split import SplitReport
    from regard.data.sources import Source

WORDS = {
    "empty": "with a blank side",
    "duplicate": "equal to a pair before",
    "excluded": "with a sentence of an excluded file",
    "shared": "whose other side is held out",
    "further": "further translations of held-out sentences",
}


def split(
    corpora: Annotated[
        list[str],
        typer.Argument(metavar="CORPUS", help="A .tsv, .csv or .jsonl, or two files SRC,TGT; .gz and .xz too."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="A new folder for the parts.")],
    valid: Annotated[
        str, typer.Option(metavar="N", help="Sentences to validate on: a number, or a share like 0.01.")
    ] = "0",
    test: Annotated[str, typer.Option(metavar="N", help="Sentences to test on: a number, or a share.")] = "0",
    by: Annotated[
        str, typer.Option(metavar="src|tgt|both", help="The side of which no sentence is in two parts.")
    ] = "src",
    exclude: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Its sentences, on either side, stay out of train and valid; repeatable."),
    ] = None,
    columns: Annotated[
        str, typer.Option(metavar="SRC,TGT", help="Columns of a .tsv, .csv or .jsonl: numbers from 1, or names.")
    ] = "",
    endings: Annotated[
        str, typer.Option(metavar="SRC,TGT", help="Endings of the files written: en,de or en.xz,de.xz.")
    ] = "src,tgt",
    seed: Annotated[int, typer.Option(metavar="N", help="Another seed, another draw.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Cut text into train, valid and test that share no sentence.

    Sentences that differ in case, spaces or punctuation alone are one, and go to one part with all their translations;
    valid and test keep the first of them. A share draws the same sentences however the text grows; a number is turned
    into the share that gives it, which is printed. FOLDER gets train.SRC, train.TGT and so on, and report.json.

    \b
    Examples:
      regard split pairs.tsv --valid 2000 --test 2000 -o data
      regard split news.en,news.de web.en.gz,web.de.gz --endings en,de --valid 0.001 --test 0.001 -o data
      regard split pairs.tsv --by both --exclude newstest.en --exclude newstest.de --test 5000 -o data
    """
    from regard.data.corpus_split import SplitPlan, split_corpora

    side: Literal["src", "tgt", "both"] = one_of("--by", by, ("src", "tgt", "both"))  # type: ignore[assignment]
    plan = SplitPlan(size("--valid", valid), size("--test", test), side, seed)
    chosen = [corpus(name, columns) for name in corpora]
    with Ticker("pairs read:") as ticker:
        report = split_corpora(chosen, Path(), output, plan, exclude or [], two("--endings", endings), ticker)
    if as_json:
        from dataclasses import asdict

        result_json(asdict(report) | {"folder": str(output)})
    else:
        show(report, output)


def size(option: str, text: str) -> int | float:
    """A number of sentences, or a share of them."""
    try:
        return int(text) if text.strip().lstrip("+-").isdecimal() else float(text)
    except ValueError as error:
        remedy = "write a number of sentences, like 2000, or a share of them, like 0.01"
        raise UserError(f"{option} is {text!r}", remedy) from error


def two(option: str, text: str) -> tuple[str, str]:
    """The two words of A,B."""
    first, comma, second = text.partition(",")
    if not comma or not first or not second or "," in second or first == second:
        raise UserError(f"{option} is {text!r}", f"write one for each side, with a comma between: {option} en,de")
    return first, second


def corpus(name: str, columns: str) -> "Source":
    """One file with both sides, or two with a comma between."""
    from regard.data.fields import PAIRS
    from regard.data.settings import build_source

    src, comma, tgt = name.partition(",")
    if comma and not Path(name).exists():
        return build_source({"src": src, "tgt": tgt}, PAIRS, name)
    chosen: dict[str, int | str] = {}
    if columns:
        sides = ("src_column", "tgt_column")
        chosen = {
            side: int(column) if column.isdecimal() else column
            for side, column in zip(sides, two("--columns", columns), strict=True)
        }
    return build_source({"file": name} | chosen, PAIRS, name)


def show(report: "SplitReport", folder: Path) -> None:
    """The parts as a table, what was left out and why, and how to draw the same sentences again."""
    counts = ("pairs", "distinct sources", "distinct targets")
    rows = [[name, f"{part.pairs:,}", f"{part.sources:,}", f"{part.targets:,}"] for name, part in report.splits.items()]
    table(("part", *counts), rows, right=counts)
    left_out = [f"{count:,} {WORDS[reason]}" for reason, count in report.left_out.items() if count]
    result(f"left out of {report.read:,} pairs: {', '.join(left_out) or 'none'}")
    held = [f"--{name} {share!r}" for name, share in report.shares.items() if share]
    if held:
        result(f"the same sentences again, however the text grows: {' '.join(held)} --seed {report.seed}")
    result(f"written to {shlex.quote(str(folder))}")
