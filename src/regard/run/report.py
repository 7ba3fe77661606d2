"""What a run learnt, as one page: its curves from metrics.jsonl, its scores, examples, and where every head looked."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.run.evaluation import Evaluation
from regard.run.folder import Run
from regard.run.translator import Translator
from regard.tasks import Prediction
from regard.training.console import format_duration
from regard.training.log import METRICS
from regard.viz import Example, Map, Report

EXAMPLES, EXPLAINED = 20, 10
MOST_PIECES = 96  # a side; a picture of more is a grey square, and heavy

Points = list[tuple[float, float]]


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl; a line that a killed process left unfinished is passed over."""
    path = folder / METRICS
    records = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []:
        try:
            records.append(json.loads(line))
        except ValueError:
            continue
    return records


def loss_curves(records: Sequence[dict[str, Any]]) -> dict[str, Points]:
    """Loss in training and validation over the steps: of both the mean negative log-likelihood, so they compare."""
    return {
        "train loss": [(r["step"], r["nll"]) for r in records if r["kind"] == "train"],
        "validation loss": [(r["step"], r["metrics"]["loss"]) for r in records if r["kind"] == "validation"],
    }


def learning_rate(records: Sequence[dict[str, Any]]) -> Points:
    """The learning rate over the steps."""
    return [(r["step"], r["learning_rate"]) for r in records if r["kind"] == "train"]


def run_facts(translator: Translator, records: Sequence[dict[str, Any]]) -> dict[str, str]:
    """What a reader wants to know first about a run."""
    run, model = translator.run, translator.run.recipe.model
    data = run.recipe.data
    src, tgt = run.vocabularies
    trained = [r for r in records if r["kind"] == "train"]
    facts = {
        "task": run.recipe.about or run.recipe.task,
        "data": ", ".join(map(str, data.train)),
        "languages": " → ".join(filter(None, (data.src_lang, data.tgt_lang))),
        "model": model.summary,
        "parameters": f"{sum(weight.numel() for weight in translator.models[0].parameters()):,}",
        "vocabulary": f"{len(src):,} pieces" if src is tgt else f"{len(src):,} and {len(tgt):,} pieces",
        "steps": f"{trained[-1]['step']:,}" if trained else "",
        "time": format_duration(trained[-1]["seconds"]) if trained else "",
        "seed": str(run.recipe.runtime.seed),
    }
    return {name: fact for name, fact in facts.items() if fact}


def is_right_or_wrong(run: Run) -> bool:
    """Whether an output other than the reference is wrong: so for dates, not for sentences."""
    return run.recipe.training.monitor == "exact_match"


def choose_examples(evaluation: Evaluation, count: int = EXAMPLES) -> list[int]:
    """Which outputs to show: in their own order, at most half of them other than the reference."""
    same = [out == ref for out, ref in zip(evaluation.outputs, evaluation.references, strict=True)]
    right = [i for i, equal in enumerate(same) if equal]
    wrong = [i for i, equal in enumerate(same) if not equal]
    wrong = wrong[: max(count // 2, count - len(right))]
    return sorted([*wrong, *right[: count - len(wrong)]])


def evaluation_report(
    translator: Translator, evaluation: Evaluation, examples: int = EXAMPLES, explained: int = EXPLAINED, **changes: Any
) -> Report:
    """The page about an evaluation; the first `explained` of its `examples` come with all their attention."""
    run, records = translator.run, read_metrics(translator.run.folder)
    judged = is_right_or_wrong(run)
    shown: list[Example] = []
    left = explained
    for index in choose_examples(evaluation, examples):
        source, reference, output = (
            texts[index] for texts in (evaluation.sources, evaluation.references, evaluation.outputs)
        )
        maps = drawable(translator.explain(source, **changes)) if left and source.strip() else None
        left -= maps is not None
        shown.append(Example(source, reference, output, output == reference if judged else None, maps))
    return Report(
        title=run.recipe.name,
        facts=run_facts(translator, records),
        curves=loss_curves(records),
        learning_rate=learning_rate(records),
        scores=[(score.name, score.value, score.signature) for score in evaluation.scores],
        examples=shown,
    )


def sentence_report(translator: Translator, source: str, output: str, maps: Sequence[Map]) -> Report:
    """The page about one sentence."""
    records = read_metrics(translator.run.folder)
    return Report(
        title=f"{translator.run.recipe.name}: {source}",
        facts=run_facts(translator, records),
        examples=[Example(source, "", output, None, maps)],
    )


def drawable(explained: tuple[Prediction, list[Map]]) -> list[Map] | None:
    """The maps of a translation, unless they are too large to look at or of one part of it alone."""
    prediction, maps = explained
    small = all(max(len(found.rows), len(found.columns)) <= MOST_PIECES for found in maps)
    return maps if small and prediction.parts == 1 else None
