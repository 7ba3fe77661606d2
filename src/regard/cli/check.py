"""regard check: what a translation model keeps and loses, per direction and set of sentences."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import AsJson, ModelOptions, SearchOptions, SourceLanguage, TargetLanguage
from regard.cli.screen import ProgressLine, print_json, print_result, print_table, report
from regard.cli.tables import make_source
from regard.messages import Message
from regard.run_files import TRANSLATOR

if TYPE_CHECKING:
    from regard.run.checking import CheckedPairs, CheckedSet

TITLES = {
    "numbers": Message("numbers"),
    "names": Message("names"),
    "negation": Message("negation"),
    "copy": Message("not copied"),
    "loop": Message("no loops"),
    "script": Message("script"),
    "language": Message("language"),
    "phrase": Message("phrases"),
}
SETS = {"sentences": Message("sentences"), "phrases": Message("phrases")}
KINDS = {"gender": Message("gender"), "negation": Message("negation"), "number": Message("numbers")}


def check(
    search: SearchOptions,
    model: ModelOptions,
    run: Annotated[str, typer.Argument(metavar="RUN", help="Run folder of a translation model, or a bundled run.")] = (
        TRANSLATOR
    ),
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="CORPUS", help="Tables (.tsv, .csv, .jsonl, .tmx ...) or two text files SRC,TGT."),
    ] = None,
    source: SourceLanguage = None,
    target: TargetLanguage = None,
    columns: Annotated[
        str, typer.Option(metavar="FIELD=COLUMN,...", help="Only with tables: source and target, e.g. src=1,tgt=2.")
    ] = "",
    show: Annotated[int, typer.Option(metavar="N", min=0, help="Number of failures to show per check.")] = 0,
    heads: Annotated[bool, typer.Option(help="Find the attention head that decides minimal pairs; this is slow.")] = (
        True
    ),
    as_json: AsJson = False,
) -> None:
    """Check what a translation model keeps: numbers, names, negations, language."""
    from regard.data.fields import PAIRS
    from regard.data.formats import describe_sources, read_examples

    paths = [Path(name.partition(",")[0]) for name in files or ()]
    bases = [path.name for path in paths]
    names = [base if bases.count(base) == 1 else str(path) for base, path in zip(bases, paths, strict=True)]
    sources = [(name, make_source(file, columns)) for name, file in zip(names, files or (), strict=True)]
    for line in describe_sources([item for _, item in sources], Path(), PAIRS):
        report(line)
    translator = model.load_translator(run)
    examples = (
        (name, example)
        for name, item in sources
        for example in read_examples([item], Path(), PAIRS, require_target=False)
    )
    options = search.changes()
    with ProgressLine(Message("checked:")) as progress:
        results = translator.check(examples, source=source, target=target, heads=heads, progress=progress, **options)
    if as_json:
        print_json(results.to_json())
        return
    show_sets(results.sets)
    show_pairs(results.pairs)
    for item in results.sets:
        show_failures(item, show)
    for group in results.pairs:
        show_wrong(group, show)


def show_sets(sets: "list[CheckedSet]") -> None:
    """Print the table of checks: for each, the percentage of judged translations that passed."""
    used = [name for name in TITLES if any(item.counts[name][1] for item in sets)]
    scores = [name for name in ("bleu", "chrf") if any(name in item.scores for item in sets)]
    numeric = [Message("sentences"), *({"bleu": "BLEU", "chrf": "chrF"}[name] for name in scores)]
    numeric += [TITLES[name] for name in used]
    rows = [
        [
            "-".join(item.direction),
            SETS.get(item.name, item.name),
            f"{item.sentences:,}",
            *(f"{item.scores[name]:.1f}" if name in item.scores else "-" for name in scores),
            *("-" if (share := item.share(name)) is None else f"{100 * share:.1f}%" for name in used),
        ]
        for item in sets
    ]
    print_table([Message("direction"), Message("set"), *numeric], rows, right=numeric)


def show_pairs(groups: "list[CheckedPairs]") -> None:
    """Print the table of minimal pairs."""
    numeric = (Message("right"), Message("margin"), Message("without it"))
    rows = [
        [
            "-".join(item.direction),
            KINDS[item.kind],
            f"{item.right}/{len(item.pairs)}",
            f"{item.margin:+.2f}",
            f"{item.head[0]}[{item.head[1]}]" if item.head else "-",
            "-" if item.margin_without is None else f"{item.margin_without:+.2f}",
        ]
        for item in groups
    ]
    if rows:
        columns = [Message("direction"), Message("minimal pairs"), *numeric[:2], Message("deciding head"), numeric[2]]
        print_table(columns, rows, right=numeric)


def show_failures(item: "CheckedSet", count: int) -> None:
    """Print some failures of each check."""
    for name in item.counts if count else ():
        found = [case for check, case in item.failures if check == name][:count]
        for number, case in enumerate(found):
            if not number:
                print_result(f"\n{'-'.join(item.direction)}, {item.name}, {name}:")
            print_result(f"  {case.source}\n  {case.output}")
            if case.references:
                print_result(f"  ({case.references[0]})")


def show_wrong(group: "CheckedPairs", count: int) -> None:
    """Print some minimal pairs whose wrong translation is the more probable."""
    for pair in [pair for pair in group.pairs if pair.margin <= 0][:count]:
        print_result(f"\n{'-'.join(group.direction)}, {group.kind}: {pair.margin:+.2f}\n  {pair.source}")
        print_result(f"  {pair.right}\n  {pair.wrong}")
