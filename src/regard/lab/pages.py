"""Markdown pages of the lab, written from the files of the experiments, so that no number in them can be stale.

    DOCS/README.md, README.zh.md     the questions in the order of the notes, and all experiments by topic
    DOCS/NAME.md, NAME.zh.md         one experiment: question, verdict, plot, numbers; NAME.svg, NAME.zh.svg
    DOCS/results/NAME.json           the numbers of every seed

A page beside DOCS (docs/ideas/multi-head.md) quotes a result with the block <!-- lab NAME --><!-- /lab -->, which is
filled with the sentence of the verdict and a link, or with <!-- lab NAME table --><!-- /lab -->, which is filled with
all tables of the experiment.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from regard.errors import UserError
from regard.files import write_text
from regard.lab.experiment import TOPICS, Experiment
from regard.lab.page_texts import PAGE_TEXTS
from regard.lab.presenting import (
    KINDS,
    LANGUAGES,
    NOT_RUN,
    Language,
    in_language,
    picture_of,
    picture_paths,
    questions_in_order,
    tables_of,
)
from regard.lab.records import Finished, path_of, read_finished
from regard.lab.registry import all_experiments
from regard.reading import read_text

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
        raise UserError(
            f"{folder} has no results of full runs", "regard lab --all makes them", code="not-finished", where=folder
        )
    pages = make_pages(docs, list(all_experiments().values()), found)
    pages |= {page: fill_blocks(read_text(page), page, docs, found) for page in pages_beside(docs)}
    for path, text in pages.items():
        changed += _replace(path, text)
    return changed


def read_results(docs: Path, experiments: Sequence[Experiment]) -> dict[str, Finished]:
    """The results in DOCS/results."""
    found = {experiment.name: read_finished(docs / RESULTS, experiment) for experiment in experiments}
    return {name: finished for name, finished in found.items() if finished}


def make_pages(docs: Path, experiments: Sequence[Experiment], found: Found) -> dict[Path, str]:
    """The text of every file in DOCS but the results."""
    pages = {}
    for language in LANGUAGES:
        pages[docs / f"README{ENDINGS[language]}"] = index_page(experiments, found, language)
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
            raise UserError(problem, "regard lab lists them", code="unknown-experiment", where=f"{page}:{line}")
        if name not in found:
            return f"{match[1]}{in_language(NOT_RUN, language)}{match[5]}"
        if match[3]:
            return "\n".join([match[1], "", *table_lines(found[name], language), match[5]])
        sentence = plain(in_language(found[name].verdict.sentence, language))
        return f"{match[1]}{sentence} ([{name}]({to_docs}/{name}{ENDINGS[language]})){match[5]}"

    return BLOCK.sub(fill, text)


def index_page(experiments: Sequence[Experiment], found: Found, language: Language) -> str:
    """All questions, and all experiments."""
    texts, other = PAGE_TEXTS[language], "README.md" if language == "zh" else "README.zh.md"
    lines = [
        f"# {texts['title']}",
        "",
        f"[{texts['other']}]({other}) · [regard]({texts['home']})",
        "",
        texts["about"],
        "",
    ]
    lines += ["```sh", f"regard lab                 # {texts['list']}", f"regard lab heads           # {texts['one']}"]
    lines += [f"regard lab --all           # {texts['all']}", "```", ""]
    lines += [f"## {texts['questions']}", "", texts["questions_about"], ""]
    lines += [_row(texts[key] for key in ("notes", "question", "answer", "verdict", "sentence")), _row(["---"] * 5)]
    for question, experiment in questions_in_order(list(experiments)):
        finished = found.get(experiment.name)
        kind, sentence = _verdict(finished, language)
        if finished:
            kind = in_language(KINDS[finished.verdict.on(question)], language)
        link = _link(experiment, found, language, in_language(question.text, language))
        notes, answer = question.notes, plain(in_language(question.answer, language))
        lines.append(_row([notes, link, answer, kind, sentence]))
    lines += ["", f"## {texts['experiments']}", ""]
    for topic, title in TOPICS.items():
        of_topic = [experiment for experiment in experiments if experiment.topic == topic]
        lines += [f"### {in_language(title, language)}", ""] if of_topic else []
        for experiment in of_topic:
            link = _link(experiment, found, language, in_language(experiment.title, language))
            lines.append(f"- {link}: {_verdict(found.get(experiment.name), language)[0]}")
        lines += [""] if of_topic else []
    return "\n".join(lines).rstrip() + "\n"


def experiment_page(finished: Finished, language: Language) -> str:
    """One experiment with its plot and numbers."""
    experiment, texts = finished.experiment, PAGE_TEXTS[language]
    name, topic = experiment.name, in_language(TOPICS[experiment.topic], language)
    other = f"{name}{ENDINGS['en' if language == 'zh' else 'zh']}"
    title, (kind, sentence) = plain(in_language(experiment.title, language)), _verdict(finished, language)
    lines = [
        f"# {title}",
        "",
        f"[{texts['other']}]({other}) · [{texts['title']}](README{ENDINGS[language]}) · {topic}",
        "",
    ]
    for question in experiment.questions:
        asked, answer = (plain(in_language(text, language)) for text in (question.text, question.answer))
        lines += [f"**{asked}** ({question.notes})", "", texts["notes_say"].format(answer=answer), ""]
    lines += [texts["verdict_is"].format(kind=kind, sentence=sentence), ""]
    lines += [f"![{title}]({picture_paths(Path(), name)[language]})", ""]
    lines += [_row(["", ""]), _row(["---", "---"])]
    for key in ("hypothesis", "varied", "measured", "refuted_if"):
        lines.append(_row([texts[key], plain(in_language(getattr(experiment, key), language))]))
    lines += [_row([texts["papers"], plain("; ".join(experiment.papers))])] if experiment.papers else []
    measured = texts["seeds"].format(seeds=len(finished.results.seeds), seconds=f"{finished.seconds:.0f}")
    file = f"{type(experiment).__module__.rpartition('.')[2]}.py"
    lines.append(_row([texts["runs"], measured]))
    lines.append(_row([texts["code"], f"[{file}](../../src/regard/lab/experiments/{file})"]))
    lines += ["", "```sh", f"regard lab {name}", "```", "", f"## {texts['numbers']}", ""]
    lines += table_lines(finished, language)
    lines.append(texts["every_seed"].format(link=f"[{name}.json]({RESULTS}/{name}.json)"))
    return "\n".join(lines) + "\n"


def table_lines(finished: Finished, language: Language) -> list[str]:
    """The numbers of an experiment: a table for every panel, with mean and spread over the seeds."""
    lines = []
    for table in tables_of(finished, language):
        lines += [plain(table.title), "", _row(plain(column) for column in table.columns)]
        lines.append(_row(["---", *["---:"] * (len(table.columns) - 1)]))
        for x, cells in table.rows:
            lines.append(_row([plain(x), *(cell.mean if cell else "–" for cell in cells)]))
        lines.append("")
    return lines


def plain(text: str) -> str:
    """Text on one line that is no markup."""
    return re.sub(r"([\\`*_|<\[\]$~])", r"\\\1", " ".join(text.split()))


def _verdict(finished: Finished | None, language: Language) -> tuple[str, str]:
    if finished is None:
        return in_language(NOT_RUN, language), ""
    return in_language(KINDS[finished.verdict.kind], language), plain(in_language(finished.verdict.sentence, language))


def _link(experiment: Experiment, found: Found, language: Language, text: str) -> str:
    return f"[{plain(text)}]({experiment.name}{ENDINGS[language]})" if experiment.name in found else plain(text)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _replace(path: Path, text: str) -> list[Path]:
    """Write a file if its content is another one."""
    if path.is_file() and read_text(path) == text:
        return []
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
    return [path]
