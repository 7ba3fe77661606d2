"""The gallery: one HTML page with every experiment with its plot, numbers, verdict and code."""

import json
from collections.abc import Sequence
from pathlib import Path

import regard
from regard.files import JsonObject, write_text
from regard.lab.claim import all_claims
from regard.lab.experiment import Experiment
from regard.lab.presenting import plots_of, tables_of
from regard.lab.records import Finished, find_finished
from regard.lab.registry import by_topic
from regard.lab.texts import LANGUAGES, Language, words
from regard.reading import read_text
from regard.viz.document import asset, document
from regard.viz.plots import inline_svg

PAGE = "lab.html"
TITLE = "regard lab"
SECTIONS = ("contents", "experiments")
PROGRAM = ("elements.js", "lab.js", "page.js")
SHARED_WORDS = ("no_number", "footer")


def write_gallery(folder: Path, experiments: Sequence[Experiment]) -> Path:
    """Write the page of all experiments with the results in a folder."""
    path = folder / PAGE
    write_text(path, render_gallery(experiments, folder))
    return path


def render_gallery(experiments: Sequence[Experiment], folder: Path) -> str:
    """The page as HTML in English and Chinese; the same results give the same bytes."""
    experiments = by_topic(experiments)
    found = {experiment.name: find_finished(folder, experiment) for experiment in experiments}
    shared, texts = json.loads(asset("words.json")), json.loads(asset("lab_words.json"))
    spoken = {language: {key: shared[language][key] for key in SHARED_WORDS} | texts[language] for language in texts}
    return document(TITLE, SECTIONS, PROGRAM, spoken, gallery_data(experiments, found))


def gallery_data(experiments: Sequence[Experiment], found: dict[str, Finished | None]) -> JsonObject:
    """The content of the page as plain JSON values, for its JavaScript."""
    finished = [each for each in found.values() if each]
    return {
        "facts": [
            ["experiments", f"{len(finished)} / {len(experiments)}"],
            ["cpu", f"{sum(each.seconds for each in finished) / 60:.0f} min"],
            ["version", regard.__version__],
        ],
        "topics": [
            {"key": key, "en": name, "zh": words("zh")["topics"][key]} for key, name in words("en")["topics"].items()
        ],
        "experiments": [experiment_data(experiment, found[experiment.name]) for experiment in experiments],
    }


def experiment_data(experiment: Experiment, finished: Finished | None) -> JsonObject:
    """One experiment: its texts, and its results in both languages if it is finished."""
    texts = experiment.texts
    result = finished and {
        "kind": finished.verdict.kind,
        "sentence": finished.sentence._asdict(),
        "findings": [
            {"claim": finding.claim._asdict(), "numbers": finding.numbers._asdict(), "kind": kind}
            for finding, kind in finished.findings
        ],
        "quick": finished.effort.quick,
        "current": finished.is_current,
        "seeds": len(finished.results.seeds),
        "seconds": round(finished.seconds),
        "plots": {language: [inline_svg(plot) for plot in plots_of(finished, language)] for language in LANGUAGES},
        "tables": {language: tables_data(finished, language) for language in LANGUAGES},
    }
    return {
        "name": experiment.name,
        "topic": texts.topic,
        **{key: getattr(texts, key)._asdict() for key in ("title", "hypothesis", "varied", "measured", "refuted_if")},
        "claims": [
            {"claim": claim.claim._asdict(), "reason": claim.reason._asdict(), "verdict": claim.verdict}
            for claim in all_claims()
            if claim.experiment == experiment.name
        ],
        "papers": list(texts.papers),
        "expected": texts.seconds,
        "file": experiment.path.name,
        "code": read_text(experiment.path),
        "result": result,
    }


def tables_data(finished: Finished, language: Language) -> list[JsonObject]:
    """The tables of an experiment: a cell is [mean ± spread, the value of every seed], or null."""
    return [
        {
            "title": table.title,
            "columns": table.columns,
            "rows": [[x, *([cell.mean, cell.seeds] if cell else None for cell in cells)] for x, cells in table.rows],
        }
        for table in tables_of(finished, language)
    ]
