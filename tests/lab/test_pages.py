"""The Markdown pages of the lab: written from the JSON files, and those of the repository show nothing else."""

import json
import re
from pathlib import Path

import pytest
from tests.lab.made import DOUBLES, MADE
from tests.pages import ROOT, broken_links, check_command, commands

from regard.errors import UserError
from regard.lab.experiment import Effort
from regard.lab.pages import BLOCK, RESULTS, fill_blocks, make_pages, pages_beside, plain, read_results, write_pages
from regard.lab.records import path_of
from regard.lab.registry import all_experiments
from regard.lab.running import run_experiment

DOCS = ROOT / "docs" / "lab"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.lab.pages.all_experiments", lambda: MADE)


def test_pages_are_written_from_the_results(made: None, tmp_path: Path) -> None:
    run_experiment(DOUBLES, Effort(), tmp_path / "runs")
    docs = tmp_path / "docs" / "lab"
    (tmp_path / "docs" / "ideas").mkdir(parents=True)
    quoting, chinese = (tmp_path / "docs" / "ideas" / name for name in ("a.md", "a.zh.md"))
    for page in (quoting, chinese):
        page.write_text(
            "See <!-- lab doubles --><!-- /lab --> and <!-- lab timed -->old<!-- /lab -->.\n\n"
            "<!-- lab doubles table -->old<!-- /lab -->\n"
        )
    changed = write_pages(tmp_path / "runs", docs)
    names = {path.relative_to(docs).as_posix() for path in docs.rglob("*") if path.is_file()}
    assert names == {
        "README.md", "README.zh.md", "notes.md", "notes.zh.md", "doubles.md", "doubles.zh.md", "doubles.svg",
        "doubles.zh.svg", f"{RESULTS}/doubles.json",
    }  # fmt: skip
    answers = [docs.parent / name for name in ("answers.md", "answers.zh.md")]
    assert {*changed} == {*(docs / name for name in names), *answers, quoting, chinese}
    text = (docs / "doubles.md").read_text(encoding="utf-8")
    assert "| once | 1.2 ± 0.1 |" in text and "Once is 1.20, twice is 2.20, 1.8 times as much." in text
    assert commands(docs / "doubles.md") == ["regard lab doubles"] and check_command("regard lab doubles")
    pages = [*docs.glob("*.md"), *answers, quoting, chinese]
    outside = re.compile(r": \.\./\.\./|^answers.*: (\.\./tests|ideas|groundwork)/")
    links = [link for link in broken_links(pages) if not outside.search(link)]
    assert links == []
    sentence = "It is more. Once is 1.20, twice is 2.20, 1.8 times as much."
    assert f"{sentence} ([doubles](../lab/doubles.md))<!-- /lab -->" in quoting.read_text()
    assert "| once | 1.2 ± 0.1 |" in quoting.read_text(encoding="utf-8")
    filled = chinese.read_text(encoding="utf-8")
    assert "([doubles](../lab/doubles.zh.md))" in filled and "old" not in filled
    index = (docs / "README.md").read_text(encoding="utf-8")
    assert "| [Is two x more than x?](doubles.md) | Two x is more than x. | confirmed |" in index
    assert index.index("## Attention") < index.index("## Foundations") and "000:" not in index + text
    assert write_pages(tmp_path / "runs", docs) == [], "nothing has changed"


def test_quick_results_are_not_written(made: None, tmp_path: Path) -> None:
    run_experiment(DOUBLES, Effort(quick=True), tmp_path / "runs")
    with pytest.raises(UserError) as error:
        write_pages(tmp_path / "runs", tmp_path / "docs" / "lab")
    assert error.value.code == "not-finished"


def test_an_unknown_experiment_in_a_block_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        fill_blocks("a\n<!-- lab nothing --><!-- /lab -->", tmp_path / "a.md", tmp_path / "lab", {})
    assert error.value.code == "unknown-experiment" and error.value.where == f"{tmp_path / 'a.md'}:2"


def test_text_is_no_markup() -> None:
    assert plain("a|b\n<i> *x* `y` [z](u) $w_t$") == r"a\|b \<i> \*x\* \`y\` \[z\](u) \$w\_t\$"


@pytest.mark.skipif(not (DOCS / RESULTS).is_dir(), reason="the repository has no results yet")
def test_every_experiment_has_its_result_in_the_repository() -> None:
    names = {path.stem for path in (DOCS / RESULTS).glob("*.json")}
    assert names == all_experiments().keys()


def test_results_in_the_repository_are_judged_as_they_say() -> None:
    for name, finished in read_results(DOCS, list(all_experiments().values())).items():
        stored = json.loads(path_of(DOCS / RESULTS, name).read_text(encoding="utf-8"))
        assert stored["effort"] == "full" and stored["verdict"]["kind"] == finished.verdict.kind, name
        assert finished.is_current, f"{name}: run it again, or show that its numbers are the same"
        assert finished.verdict.kind in finished.experiment.texts.answer, name


def test_pages_of_the_repository_show_what_the_results_hold() -> None:
    """Each page, picture and quotation is what `regard lab --write docs/lab` writes from the JSON files."""
    found = read_results(DOCS, list(all_experiments().values()))
    if found:
        pages = make_pages(DOCS, list(all_experiments().values()), found)
        wrong = [path.name for path, text in pages.items() if not path.is_file() or path.read_text("utf-8") != text]
        assert wrong == []
        assert {path for path in DOCS.iterdir() if path.is_file()} == {path for path in pages if path.parent == DOCS}
    for page in pages_beside(DOCS):
        text = page.read_text(encoding="utf-8")
        begun = re.findall(r"<!-- lab [a-z0-9-]+(?: table)? -->", text)
        assert len(begun) == len(BLOCK.findall(text)), f"{page.name}: a block has no end"
        assert fill_blocks(text, page, DOCS, found) == text, page.name
    outside = (ROOT / "README.md").read_text(encoding="utf-8") + (ROOT / "README.zh.md").read_text(encoding="utf-8")
    assert not re.search(r"<!-- lab [\w-]+( table)? -->", outside), "only pages in docs are filled"
