"""regard clean: what filters remove from parallel text, and the text without it."""

import re
import shlex
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import AsJson
from regard.cli.pairs import check_files, check_outputs, open_pairs
from regard.cli.screen import ProgressLine, print_json, print_result, report
from regard.cli.streams import interruptible
from regard.cli.tables import make_source
from regard.errors import UserError
from regard.messages import Message, join_messages
from regard.recipe_files import SUFFIX, shipped_recipes
from regard.run_files import RECIPE

if TYPE_CHECKING:
    from regard.data.sources import Source
    from regard.recipe import Recipe
    from regard.run.cleaning import Cleaned, Corpus
    from regard.tasks.base import Example

SETTING = re.compile(r"[a-z_]+(\.[a-z_]+)+=")
SHOWN = 100
"""Characters of a side in a sample."""
Threshold = Annotated[
    float | None,
    typer.Option(
        metavar="X",
        help="Minimum score (see `regard score`); short for `data.clean.min_score=X`. In tables, the score is the "
        "column `score`, unless `--columns` sets a different one.",
    ),
]


def clean(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="RECIPE|CORPUS",
            help="Recipe file, recipe name or run folder; or tables (.tsv, .csv, .jsonl, .parquet, .tmx ...) or two "
            "text files SRC,TGT; then settings NAME=VALUE.",
        ),
    ],
    source: Annotated[
        str, typer.Option("--from", metavar="CODE", help="Only with CORPUS: source language code, e.g. en.")
    ] = "",
    target: Annotated[
        str, typer.Option("--to", metavar="CODE", help="Only with CORPUS: target language code, e.g. de.")
    ] = "",
    columns: Annotated[
        str,
        typer.Option(
            metavar="FIELD=COLUMN,...",
            help="Only with tables: source, target and score column, by name or by number, e.g. src=1,tgt=2,score=3.",
        ),
    ] = "",
    threshold: Threshold = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="File for the kept pairs: .tsv, .jsonl or two text files SRC,TGT."
        ),
    ] = None,
    removed: Annotated[
        str | None, typer.Option(metavar="FILE", help="File for the removed pairs with their reasons: .tsv or .jsonl.")
    ] = None,
    samples: Annotated[int, typer.Option(metavar="N", min=0, help="Number of removed pairs to show per filter.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Show what filters remove from parallel text, and write the clean pairs."""
    from regard.data.accounts import collect_accounts
    from regard.run.cleaning import clean as clean_corpus

    settings = [item for item in inputs if SETTING.match(item) and not Path(item).exists()]
    names = [item for item in inputs if item not in settings]
    if threshold is not None:
        settings.append(f"data.clean.min_score={threshold}")
        columns = add_score(columns, names)
    files = [file for item in (output, removed) if item for file in check_files(item, item == output)]
    check_outputs(files, *(part for name in names for part in name.split(",")))
    with interruptible():
        with collect_accounts(report), ProgressLine(Message("pairs read:")) as progress:
            corpus = open_corpus(names, settings, columns, (source, target), files)
            cleaned = clean_corpus(corpus, progress)
        found = cleaned.samples(samples)
        if not as_json:
            show(cleaned, found)
        if files:
            write(cleaned, output, removed)
    if as_json:
        print_json({**cleaned.counts, "samples": found, "output": output, "removed_file": removed})
    elif output:
        print_result(Message("written to {folder}", folder=shlex.quote(output)))


def add_score(columns: str, names: list[str]) -> str:
    """The columns with one for the score, `score` if none is given; a recipe names it in its [data]."""
    if "score=" in columns or any("," in name or is_recipe(name) for name in names):
        return columns
    return ",".join(filter(None, [columns, "score=score"]))


def open_corpus(
    names: list[str], settings: list[str], columns: str, languages: tuple[str, str], outputs: list[str]
) -> "Corpus":
    """The pairs of a recipe or of files, with the filters that are set, or the default ones; no output is an input."""
    from regard.config import apply_overrides, build
    from regard.data.fields import PAIRS
    from regard.data.formats import describe_sources
    from regard.data.settings import PairDataSettings
    from regard.documents.scripts import LANGUAGES
    from regard.run.cleaning import file_corpus, recipe_corpus, with_cleaning

    if len(names) == 1 and is_recipe(names[0]):
        if columns or any(languages):
            problem, remedy = "`--columns`, `--from` and `--to` are for files", "change the recipe's [data] instead"
            raise UserError(problem, remedy, code="unsupported-option", where="columns")
        recipe = load(names[0], settings)
        sources = [*recipe.data.train, *recipe.data.valid, *recipe.data.test]
        check_outputs(outputs, *(str(path) for source in sources for path in source.files(recipe.data.folder)))
        return recipe_corpus(recipe, report)
    sources = [make_source(name, columns) for name in names]
    if not sources:
        raise UserError("no corpus is given", "name a recipe or files", code="missing-option", where="CORPUS")
    for line in describe_sources(sources, Path(), PAIRS):
        report(line)
    for setting in settings:
        if not setting.startswith("data."):
            problem = f"`{setting}` has no effect on files"
            raise UserError(problem, "set the filters in data, e.g. data.clean.numbers=false", code="unused-setting")
    codes = [given or guess_language(sources, side) for given, side in zip(languages, ("src", "tgt"), strict=True)]
    values = apply_overrides({"data": {"src_lang": codes[0], "tgt_lang": codes[1]}}, settings)["data"]
    data = with_cleaning(build(PairDataSettings, {**values, "train": sources}, "the settings"))
    known = frozenset({""}).union(*LANGUAGES.values())
    unknown = [code for code in (data.src_lang, data.tgt_lang) if code.lower().partition("-")[0] not in known]
    if not (data.src_lang and data.tgt_lang):
        report(Message("script and language are not checked: set `--from` and `--to`, e.g. `--from en --to de`"))
    elif unknown:
        report(Message("script and language are not checked for {codes}: unknown code", codes=", ".join(unknown)))
    return file_corpus(data)


def guess_language(sources: "list[Source]", side: str) -> str:
    """The language code that is the file extension of all files of a side: train.en; else ""."""
    from regard.data.records import file_ending
    from regard.documents.scripts import LANGUAGES

    endings = {file_ending(getattr(source, side) or "").removeprefix(".") for source in sources}
    return endings.pop() if len(endings) == 1 and endings <= frozenset[str]().union(*LANGUAGES.values()) else ""


def is_recipe(name: str) -> bool:
    """True if an argument is a recipe file, the name of a bundled recipe or the folder of a run."""
    path = Path(name)
    shipped = not path.exists() and name in {recipe.stem for recipe in shipped_recipes()}
    return path.suffix == SUFFIX or (path / RECIPE).is_file() or shipped


def load(name: str, settings: list[str]) -> "Recipe":
    """A recipe with the default filters of [data.clean], unless it has filters."""
    from regard.tasks.registry import load_recipe

    name = str(Path(name) / RECIPE) if (Path(name) / RECIPE).is_file() else name
    recipe = load_recipe(name, settings)
    if getattr(recipe.data, "clean", None) is None and "clean" in type(recipe.data).model_fields:
        report(Message("the recipe has no [data.clean]; add `clean = {{}}` to [data] to train on the pairs kept here"))
        recipe = load_recipe(name, [*settings, "data.clean={}"])
    return recipe


def show(cleaned: "Cleaned", samples: "dict[str, list[Example]]") -> None:
    """Print the account, and below it the samples."""
    from regard.data.accounts import REASONS

    print_result(cleaned.account.table())
    for reason, pairs in samples.items():
        print_result(join_messages("", ["\n", REASONS[reason], ":"]))
        for pair in pairs:
            print_result(f"  {shorten(pair['src'])}\n  {shorten(pair['tgt'])}\n")


def shorten(text: str) -> str:
    """A side of a pair on one short line."""
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else f"{line[: SHOWN - 1]}…"


# ---- output


def write(cleaned: "Cleaned", output: str | None, removed: str | None) -> None:
    """Write the kept and the removed pairs, without copies by `repeat`; each file completely or not at all."""
    with ExitStack() as stack:
        keep = stack.enter_context(open_pairs(output)) if output else None
        remove = stack.enter_context(open_pairs(removed, "reason")) if removed else None
        progress = stack.enter_context(ProgressLine(Message("pairs written:")))
        for number, (pair, reason) in enumerate(cleaned.results(), 1):
            write_pair = keep if reason is None else remove
            if write_pair and not pair.get("copy"):
                write_pair({"reason": reason, **pair})
            progress(number, len(cleaned.decisions))
