"""regard evaluate: how good a run is, and whether it is better than another."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.evaluate_examples import evaluate_examples
from regard.cli.evaluate_text import evaluate_text
from regard.cli.evaluate_trees import evaluate_trees
from regard.cli.options import AsJson, ModelOptions, RunFolder, SearchOptions, one_of
from regard.cli.screen import Ticker, result, result_json, say, table
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.data.sources import Source
    from regard.metrics.score import Score
    from regard.metrics.significance import Comparison
    from regard.run import Evaluation, Run, Translator


SIGNIFICANT = 0.05


@dataclass(frozen=True)
class TextOptions:
    """What to evaluate on."""

    on: Annotated[str, typer.Option(metavar="test|valid", help="Which data of the run's recipe.")] = "test"
    src: Annotated[str | None, typer.Option(metavar="FILE", help="Other sources, one a line (with --tgt).")] = None
    tgt: Annotated[str | None, typer.Option(metavar="FILE", help="Their reference translations.")] = None
    file: Annotated[str | None, typer.Option(metavar="FILE", help="Or one table of both: .tsv, .csv or .jsonl.")] = None

    def corpora(self, run: "Run") -> "tuple[str, list[Source], Path]":
        """A name for the data, the data, and the folder their names are relative to."""
        from regard.data.settings import build_source

        given = {key: value for key in ("src", "tgt", "file") if (value := getattr(self, key)) is not None}
        if given:
            corpus = build_source(given, run.recipe.fields, "--src, --tgt, --file")
            return Path(self.file or self.src or "").name, [corpus], Path()
        part = one_of("--on", self.on, ("test", "valid"))
        corpora: list[Source] = getattr(run.recipe.data, part)
        if not corpora:
            raise UserError(
                f"the recipe of {run.folder} names no {part} data", "write --on valid, or give --src FILE --tgt FILE"
            )
        return part, corpora, run.recipe.data.folder


def evaluate(
    run: RunFolder,
    text: TextOptions,
    search: SearchOptions,
    model: ModelOptions,
    against: Annotated[str | None, typer.Option(metavar="RUN", help="Compare with this run on the same text.")] = None,
    tokenize: Annotated[str, typer.Option(metavar="NAME", help="BLEU's tokenizer: 13a, zh, char, intl, ...")] = "13a",
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write scores and outputs [RUN/evaluations/NAME.json].")
    ] = None,
    report: Annotated[bool, typer.Option("--report", help="Also write a page of examples and attention.")] = False,
    as_json: AsJson = False,
) -> None:
    """Score a model on a test set.

    A translator's scores are BLEU, chrF, TER (sacreBLEU's), exact match and perplexity, each with its signature;
    nothing is left out of the test set. With --against, paired bootstrap resampling says whether the difference to
    another run is more than luck. Scores, sources, references and outputs are kept as JSON in the run's folder. A
    language model's are perplexity per token and per word, and bits per character, with what they count. A parser's
    are labelled brackets as EVALB counts them, complete matches, and how many outputs had to be repaired.
    What is right is counted for models of understanding as their task is judged elsewhere: accuracy and F1, Matthews
    and other correlations, entities, SQuAD's measures; for classes also each by itself, and what is taken for what.

    \b
    Examples:
      regard evaluate runs/de
      regard evaluate runs/de --on valid --checkpoint averaged --beam 8
      regard evaluate runs/zh --src news.en --tgt news.zh --tokenize zh
      regard evaluate runs/de --against runs/de-old --report
      regard evaluate runs/wikitext-2-lstm --file other.txt
      regard evaluate runs/gum --file other.ptb
      regard evaluate runs/sst-2 --against runs/sst-2-small
    """
    from regard.run import LanguageRun, ParsingRun, PretrainingRun, Run, UnderstandingRun

    if isinstance(opened := Run.open(run), LanguageRun):
        refuse_translators_options(against=against, src=text.src, tgt=text.tgt, report=report, **search.changes())
        refuse_translators_options(engine=model.engine != "torch", quantization=model.quantization)
        evaluate_text(opened, text.on, text.file, asdict(model), output, as_json)
        return
    if isinstance(opened, ParsingRun):
        refuse_translators_options(against=against, src=text.src, tgt=text.tgt, report=report)
        evaluate_trees(opened, text.corpora(opened), search.changes(), model, output, as_json)
        return
    if isinstance(opened, UnderstandingRun | PretrainingRun):
        refuse_translators_options(src=text.src, tgt=text.tgt, report=report, **search.changes())
        refuse_translators_options(engine=model.engine != "torch", quantization=model.quantization)
        evaluate_examples(opened, text.on, text.file, against, asdict(model), output, as_json)
        return
    evaluate_translation(run, text, search, model, against, tokenize, output, report, as_json)


def evaluate_translation(
    run: str,
    text: TextOptions,
    search: SearchOptions,
    model: ModelOptions,
    against: str | None,
    tokenize: str,
    output: Path | None,
    report: bool,
    as_json: bool,
) -> None:
    """Translate, score, and compare or draw if that is asked for."""
    from regard.files import require_writable
    from regard.run.translation import open_translation
    from regard.viz import write_report

    if against is not None:
        open_translation(against)  # what cannot be compared with is said before the work, not after it
    translator = model.load(run)
    name, corpora, root = text.corpora(translator.run)
    changes = search.changes()
    # Named after all that was chosen here, so that one search does not overwrite what another found.
    title = "-".join([name, model.checkpoint, *(f"{key}={value}" for key, value in changes.items())])
    path = output or translator.run.folder / "evaluations" / f"{title}.json"
    require_writable(path)
    found = measure(translator, corpora, root, model.checkpoint, tokenize, changes)
    found.save(path)
    values = {"file": str(path), **brief(found)}
    if not as_json:
        show_scores(found.scores)
    if against is not None:
        comparisons = compare_with(against, found, model, corpora, root, tokenize, changes)
        values["against"], values["comparison"] = against, [asdict(item) for item in comparisons]
        if not as_json:
            show_comparison(comparisons, against, run)
    if report:
        from regard.run.report import evaluation_report

        page = path.with_suffix(".html")
        write_report(page, evaluation_report(translator, found, **changes))
        values["report"] = str(page)
    if as_json:
        result_json(values)
        return
    result(f"{len(found.sources):,} sentences in {found.seconds:.1f} seconds; outputs and scores: {path}")
    if report:
        result(f"the page to open in a browser: {values['report']}")


def refuse_translators_options(**given: Any) -> None:
    """A language model is read to, and writes nothing: what concerns translations has no meaning."""
    for name, value in given.items():
        if value:
            raise UserError(f"--{name.replace('_', '-')} is for translators", "give --on test|valid or --file FILE")


def measure(
    translator: "Translator",
    corpora: "list[Source]",
    root: Path,
    checkpoint: str,
    tokenize: str,
    changes: dict[str, Any],
) -> "Evaluation":
    """Evaluate with a moving count."""
    from regard.metrics.translation import bleu_metric
    from regard.run import evaluate as evaluate_run

    bleu_metric(tokenize)  # a tokenizer that is not there is said before the work, not after it
    say(f"translating {', '.join(map(str, corpora))} with {translator.run.folder} ({checkpoint})")
    with Ticker("translated:") as ticker:
        return evaluate_run(
            translator, corpora, root, checkpoint=checkpoint, tokenize=tokenize, progress=ticker, **changes
        )


def compare_with(
    against: str,
    found: "Evaluation",
    model: ModelOptions,
    corpora: "list[Source]",
    root: Path,
    tokenize: str,
    changes: dict[str, Any],
) -> "list[Comparison]":
    """The other run on the same text, as the base that this one is compared with."""
    from regard.run.evaluation import compare_runs

    base = measure(model.load(against), corpora, root, model.checkpoint, tokenize, changes)
    return compare_runs(base, found, tokenize)


def brief(found: "Evaluation") -> dict[str, Any]:
    """An evaluation without its texts."""
    values = found.to_json()
    sentences = len(found.sources)
    for texts in ("sources", "references", "outputs"):
        del values[texts]
    return {**values, "sentences": sentences}


def show_scores(scores: "list[Score]") -> None:
    """A line a metric."""
    rows = [[score.name, f"{score.value:.2f}", score.signature] for score in scores]
    table(("metric", "value", "computed as"), rows, right=("value",))


def show_comparison(comparisons: "list[Comparison]", base: str, run: str) -> None:
    """A line a metric: both scores, their difference and whether luck explains it."""
    rows = [
        [
            item.metric,
            f"{item.base:.2f}",
            f"{item.other:.2f}",
            f"{item.delta:+.2f}",
            f"{item.ci_low:+.2f} to {item.ci_high:+.2f}",
            f"{item.p_value:.3f}",
        ]
        for item in comparisons
    ]
    columns = ("metric", base, run, "difference", "95% interval", "p")
    table(columns, rows, right=columns[1:])
    result(verdict(comparisons))


def verdict(comparisons: "list[Comparison]") -> str:
    """The table in words: which differences are more than luck."""
    said = (f"{item.metric}: {'more than' if item.p_value < SIGNIFICANT else 'may be'} luck" for item in comparisons)
    return (
        f"{'; '.join(said)} (p, by paired bootstrap, is how often luck alone does as much; the line is {SIGNIFICANT})"
    )
