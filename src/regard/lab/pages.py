"""Markdown pages of the lab, written from the files of the experiments, so that no number in them can be stale.

    DOCS/README.md, README.zh.md     all experiments by topic
    DOCS/notes.md, notes.zh.md       all claims in the order of the study notes
    DOCS/../answers.md, .zh.md       all claims by topic: verdict, reason, proof
    DOCS/NAME.md, NAME.zh.md         one experiment: verdict, claims, plot, numbers; NAME.svg, NAME.zh.svg
    DOCS/results/NAME.json           the numbers of every seed

The pages are the templates in `templates/`, with the words of words.toml. A page beside DOCS (docs/ideas/multi-head.md)
quotes a result with the block <!-- lab NAME --><!-- /lab -->, which is filled with the sentence of the verdict and a
link, or with <!-- lab NAME table --><!-- /lab -->, which is filled with all tables of the experiment.
"""

import os
import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from regard.errors import UserError
from regard.files import write_text
from regard.lab.claim import all_claims, claim_counts, place_order
from regard.lab.experiment import Experiment
from regard.lab.presenting import picture_of, picture_paths, tables_of
from regard.lab.records import Finished, path_of, read_finished
from regard.lab.registry import all_experiments, by_topic
from regard.lab.texts import LANGUAGES, Language, words
from regard.reading import read_text

if TYPE_CHECKING:
    from jinja2 import Environment

RESULTS = "results"
BLOCK = re.compile(r"(<!-- lab ([a-z0-9-]+)( table)? -->)(.*?)(<!-- /lab -->)", re.DOTALL)
ENDINGS: dict[Language, str] = {"en": ".md", "zh": ".zh.md"}
Found = Mapping[str, Finished]


def write_pages(folder: Path, docs: Path) -> list[Path]:
    """Copy the results of full runs from a folder to DOCS/results, and write all pages; return what has changed."""
    changed = []
    for experiment in all_experiments().values():
        finished = read_finished(folder, experiment)
        if finished and not finished.effort.quick:
            changed += _replace(path_of(docs / RESULTS, experiment.name), read_text(finished.path))
    found = read_results(docs, list(all_experiments().values()))
    if not found:
        problem = f"{folder} has no results, or only those of quick runs"
        raise UserError(problem, "run all experiments: `regard lab --all`", code="not-finished", where=folder)
    pages = make_pages(docs, list(all_experiments().values()), found)
    beside = [page for page in pages_beside(docs) if page not in pages]
    pages |= {page: fill_blocks(read_text(page), page, docs, found) for page in beside}
    for path, text in pages.items():
        changed += _replace(path, text)
    return changed


def read_results(docs: Path, experiments: Sequence[Experiment]) -> dict[str, Finished]:
    found = {experiment.name: read_finished(docs / RESULTS, experiment) for experiment in experiments}
    return {name: finished for name, finished in found.items() if finished}


def make_pages(docs: Path, experiments: Sequence[Experiment], found: Found) -> dict[Path, str]:
    """The text of every file in DOCS but the results, and of the answers beside DOCS."""
    pages = {}
    for language in LANGUAGES:
        pages[docs / f"README{ENDINGS[language]}"] = index_page(experiments, found, language)
        pages[docs / f"notes{ENDINGS[language]}"] = notes_page(language)
        pages[docs.parent / f"answers{ENDINGS[language]}"] = answers_page(docs, found, language)
        for name, finished in found.items():
            pages[docs / f"{name}{ENDINGS[language]}"] = experiment_page(finished, language)
            pages[picture_paths(docs, name)[language]] = picture_of(finished, language)
    return pages


def pages_beside(docs: Path) -> list[Path]:
    """The Markdown pages that may quote results: those of the folder that DOCS is in."""
    return [page for page in sorted(docs.parent.rglob("*.md")) if not page.is_relative_to(docs)]


def fill_blocks(text: str, page: Path, docs: Path, found: Found) -> str:
    """A page whose blocks quote the results."""
    language: Language = "zh" if page.name.endswith(".zh.md") else "en"
    to_docs = Path(os.path.relpath(docs, page.parent)).as_posix()

    def fill(match: re.Match[str]) -> str:
        name = match[2]
        if name not in all_experiments():
            line = text[: match.start()].count("\n") + 1
            problem = f"{page}:{line}: there is no experiment {name!r}"
            raise UserError(problem, "for a list: `regard lab`", code="unknown-experiment", where=f"{page}:{line}")
        if name not in found:
            return f"{match[1]}{words(language)['kinds']['not run']}{match[5]}"
        if match[3]:
            tables = _fill("tables.md", name, language, tables=tables_of(found[name], language))
            return f"{match[1]}\n\n{tables}{match[5]}"
        sentence = plain(found[name].sentence.to(language))
        before = text[: match.start()].rpartition("\n")[2]
        if not before.strip("- "):  # a line that begins with a comment is HTML, in which no link is read
            sentence = f"\n{' ' * len(before)}{sentence}"
        return f"{match[1]}{sentence} ([{name}]({to_docs}/{name}{ENDINGS[language]})){match[5]}"

    return BLOCK.sub(fill, text)


def index_page(experiments: Sequence[Experiment], found: Found, language: Language) -> str:
    """All experiments by topic: question, claim, verdict."""
    rows = [
        {
            "topic": each.texts.topic,
            "title": each.texts.title.to(language),
            "hypothesis": each.texts.hypothesis.to(language),
            "page": _page_of(each, found, language),
            "kind": found[each.name].verdict.kind if each.name in found else "not run",
            "findings": found[each.name].findings if each.name in found else [],
        }
        for each in by_topic(experiments)
    ]
    topics = [(topic, list(group)) for topic, group in groupby(rows, lambda row: row["topic"])]
    return _fill("README.md", "README", language, topics=topics)


def notes_page(language: Language) -> str:
    """Every place of every claim, in the order of the study notes."""
    rows = sorted(
        ((place, claim) for claim in all_claims() for place in claim.places), key=lambda row: place_order(row[0])
    )
    notes = [(note, list(group)) for note, group in groupby(rows, lambda row: place_order(row[0])[0])]
    return _fill("notes.md", "notes", language, notes=notes)


def answers_page(docs: Path, found: Found, language: Language) -> str:
    """All claims by topic; experiments without results have no page to link to."""
    topics = [(topic, list(group)) for topic, group in groupby(all_claims(), lambda claim: claim.topic)]
    counts = claim_counts(all_claims(), language)
    return _fill("answers.md", "answers", language, topics=topics, counts=counts, lab=docs.name, pages=found.keys())


def experiment_page(finished: Finished, language: Language) -> str:
    experiment, name = finished.experiment, finished.experiment.name
    content = {"picture": picture_paths(Path(), name)[language], "tables": tables_of(finished, language)}
    about = {"finished": finished, "texts": experiment.texts, "file": experiment.path.name}
    about["claims"] = [claim for claim in all_claims() if claim.experiment == name]
    return _fill("experiment.md", name, language, **content, **about)


@cache
def _templates(language: Language) -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folder = FileSystemLoader(Path(__file__).with_name("templates"))
    made = Environment(loader=folder, undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
    made.filters["to"] = lambda text: text.to(language)
    made.filters["plain"] = plain
    made.filters["link"] = lambda text, page: f"[{plain(text)}]({page})" if page else plain(text)
    return made


def _fill(template: str, name: str, language: Language, **values: object) -> str:
    text, other = _templates(language).get_template(template), ENDINGS["en" if language == "zh" else "zh"]
    return text.render(words=words(language), ending=ENDINGS[language], name=name, other=f"{name}{other}", **values)


def _page_of(experiment: Experiment, found: Found, language: Language) -> str:
    return f"{experiment.name}{ENDINGS[language]}" if experiment.name in found else ""


def plain(text: str) -> str:
    """Text on one line that is no markup."""
    return re.sub(r"([\\`*_|<\[\]$~])", r"\\\1", " ".join(text.split()))


def _replace(path: Path, text: str) -> list[Path]:
    """Write a file if its content is another one."""
    if path.is_file() and read_text(path) == text:
        return []
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
    return [path]
