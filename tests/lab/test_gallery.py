"""The gallery page: every experiment, both languages, nothing that runs."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from tests.lab.made import DOUBLES, MADE
from tests.viz.test_viz_report import HOSTILE, Page

from regard.lab.experiment import Effort
from regard.lab.gallery import render_gallery, write_gallery
from regard.lab.presenting import plots_of, tables_of
from regard.lab.running import run_experiment
from regard.lab.texts import Bilingual

EXPERIMENTS = list(MADE.values())
EVIL = Bilingual(HOSTILE, HOSTILE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run_experiment(DOUBLES, Effort(), tmp_path)
    return tmp_path


def test_the_page_has_everything_of_a_finished_experiment(folder: Path) -> None:
    data = Page(render_gallery(EXPERIMENTS, folder)).block("data")
    shown = {experiment["name"]: experiment for experiment in data["experiments"]}
    assert shown.keys() == MADE.keys() and shown["timed"]["result"] is None
    result = shown["doubles"]["result"]
    assert result["kind"] == "confirmed" and result["seeds"] == 3 and result["current"] and not result["quick"]
    assert result["sentence"]["en"].startswith("It is more. Once is 1.20") and "1.20" in result["sentence"]["zh"]
    assert len(result["plots"]["en"]) == len(result["plots"]["zh"]) == 2
    for picture in result["plots"]["en"] + result["plots"]["zh"]:
        assert ET.fromstring(picture).get("class") == "chart" and "<style" not in picture
    assert result["tables"]["en"][1]["rows"] == [
        ["once", ["1.2 ± 0.1", "1.1, 1.2, 1.3"]],
        ["twice", ["2.2 ± 0.1", "2.1, 2.2, 2.3"]],
    ]
    assert result["tables"]["zh"][1]["rows"][0][0] == "一倍"
    assert "def measure(seed: int" in shown["doubles"]["code"]


def test_the_page_loads_nothing_and_runs_one_script(folder: Path) -> None:
    text = render_gallery(EXPERIMENTS, folder)
    code = re.sub(r'xmlns=\\\\"[^"]*"|xmlns=\\"[^"]*"', "", text)
    assert not re.search(r"\bsrc\s*=|@import|url\(|<link|<iframe|fetch\(|XMLHttpRequest|import\(", code)
    policy = next(a["content"] for _, a in Page(text).elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None and "default-src 'none'" in policy and "unsafe" not in policy


def test_hostile_text_is_shown_as_text(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = [tag for tag, _ in Page(render_gallery([DOUBLES], folder)).elements]
    evil = replace(
        DOUBLES.texts, title=EVIL, hypothesis=EVIL, varied=EVIL, measured=EVIL, refuted_if=EVIL, papers=(HOSTILE,),
    )  # fmt: skip
    monkeypatch.setitem(DOUBLES.__dict__, "texts", evil)
    page = Page(render_gallery([DOUBLES], folder))
    assert [tag for tag, _ in page.elements] == before
    assert page.block("data")["experiments"][0]["title"] == {"en": HOSTILE, "zh": HOSTILE}


def test_both_languages_have_every_text_that_the_script_uses(folder: Path) -> None:
    drawn = Page(render_gallery(EXPERIMENTS, folder))
    words = drawn.block("words")
    english, chinese = words["en"], words["zh"]
    assert english.keys() == chinese.keys() and all(value.strip() for value in (*english.values(), *chinese.values()))
    slots = [{key: set(re.findall(r"\{\w+\}", text)) for key, text in each.items()} for each in (english, chinese)]
    assert slots[0] == slots[1]
    program = "".join(text for tag, attributes, text in drawn.raw if tag == "script" and not attributes)
    asked = set(re.findall(r'say\("(\w+)"[,)]', program))
    assert asked <= english.keys()
    unused = [key for key in english.keys() - asked if not re.search(rf'"{key}"', program)]
    assert all(key.startswith(("name_", "kind_")) for key in unused), unused


def test_the_same_results_give_the_same_bytes(folder: Path) -> None:
    path = write_gallery(folder, EXPERIMENTS)
    assert path.read_bytes() == render_gallery(EXPERIMENTS, folder).encode()


def test_plots_and_tables_in_both_languages(folder: Path) -> None:
    finished = run_experiment(DOUBLES, Effort(), folder)
    english, chinese = (plots_of(finished, language) for language in ("en", "zh"))
    assert [plot.title for plot in chinese] == ["增长", "最后"]
    assert list(english[0].series) == ["once", "twice"] and list(chinese[0].series) == ["一倍", "二倍"]
    assert list(english[1].series) == ["y"], "the only series without a name is called as the axis"
    assert english[0].series["twice"][3].mean == pytest.approx(16.04)
    assert english[0].series["twice"][3].spread == pytest.approx(0.02)
    assert [table.columns for table in tables_of(finished, "en")] == [["x", "once", "twice"], ["kind", "y"]]
