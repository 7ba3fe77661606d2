"""regard split: split parallel text into train, valid and test, with no sentence in two of them."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.cli.options import AsJson, one_of
from regard.cli.screen import ProgressLine, print_json, print_result, print_table
from regard.cli.screen import report as report_line
from regard.cli.tables import make_source
from regard.errors import UserError
from regard.messages import Message, join_messages

if TYPE_CHECKING:
    from regard.data.hold_out import SplitReport


def split(
    corpora: Annotated[
        list[str],
        typer.Argument(
            metavar="CORPUS",
            help="A table (.tsv, .csv, .jsonl, .parquet, .xlsx, .tmx ...), or two text files SRC,TGT.",
        ),
    ],
    folder: Annotated[Path, typer.Option("--folder", metavar="FOLDER", help="New folder for the splits.")],
    valid: Annotated[
        str, typer.Option(metavar="SENTENCES", help="Validation size: sentences, or a share, e.g. 0.01.")
    ] = "0",
    test: Annotated[str, typer.Option(metavar="SENTENCES", help="Test size: sentences, or a share, e.g. 0.01.")] = "0",
    by: Annotated[
        str,
        typer.Option(
            metavar="src|tgt|both", help="Keep pairs with an equal source, target, or either of them in one split."
        ),
    ] = "src",
    exclude: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Leave out train and valid pairs with a sentence in FILE; repeatable."),
    ] = None,
    columns: Annotated[
        str, typer.Option(metavar="SRC,TGT", help="Only with tables: source and target column, by name or by number.")
    ] = "",
    endings: Annotated[
        str, typer.Option(metavar="SRC,TGT", help="File extensions for source and target, e.g. en,de or en.xz,de.xz.")
    ] = "src,tgt",
    seed: Annotated[int, typer.Option(metavar="N", help="Random seed.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Split parallel text into train, valid and test without common sentences."""
    from regard.data.accounts import collect_accounts
    from regard.data.fields import PAIRS
    from regard.data.formats import describe_sources
    from regard.data.hold_out import split_corpora
    from regard.data.split import SplitPlan

    side: Literal["src", "tgt", "both"] = one_of("--by", by, ("src", "tgt", "both"))  # type: ignore[assignment]
    plan = SplitPlan(parse_size("valid", valid), parse_size("test", test), side, seed)
    sources = [make_source(name, columns) for name in corpora]
    for line in describe_sources(sources, Path(), PAIRS):
        report_line(line)
    with collect_accounts(report_line), ProgressLine(Message("pairs read:")) as progress:
        report = split_corpora(sources, Path(), folder, plan, exclude or [], parse_two("endings", endings), progress)
    if as_json:
        from dataclasses import asdict

        print_json(asdict(report) | {"folder": str(folder)})
    else:
        print_report(report, folder)


def parse_size(option: str, text: str) -> int | float:
    """A number of sentences, or a share of them."""
    try:
        return int(text) if text.strip().lstrip("+-").isdecimal() else float(text)
    except ValueError as error:
        remedy = "set a number of sentences, e.g. 2000, or a share, e.g. 0.01"
        raise UserError(f"`--{option} {text}` is not a number", remedy, code="invalid-option", where=option) from error


def parse_two(option: str, text: str) -> tuple[str, str]:
    """The two words of A,B."""
    first, comma, second = text.partition(",")
    if not comma or not first or not second or "," in second or first == second:
        remedy = f"separate source and target with a comma: `--{option} en,de`"
        raise UserError(f"`--{option} {text}` is not two different values", remedy, code="invalid-option", where=option)
    return first, second


def print_report(report: "SplitReport", folder: Path) -> None:
    """Print the sizes of the splits, what was left out and why, and the options that select the same sentences."""
    counts = (Message("pairs"), Message("distinct sources"), Message("distinct targets"))
    rows = [[name, f"{size.pairs:,}", f"{size.sources:,}", f"{size.targets:,}"] for name, size in report.splits.items()]
    print_table((Message("data"), *counts), rows, right=counts)
    from regard.data.accounts import REASONS

    left_out = [join_messages(" ", [f"{n:,}", REASONS[reason]]) for reason, n in report.left_out.items() if n]
    listed = join_messages(", ", left_out or [Message("none")])
    print_result(Message("left out of {read:,} pairs: {listed}", read=report.read, listed=listed))
    shares = [f"--{name} {share!r}" for name, share in report.shares.items() if share]
    if shares:
        options = f"{' '.join(shares)} --seed {report.seed}"
        print_result(Message("the same sentences again, also if the text grows: {options}", options=options))
    print_result(Message("written to {folder}", folder=shlex.quote(str(folder))))
