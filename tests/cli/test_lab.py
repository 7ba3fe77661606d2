"""regard lab: list, run, show, all of them, failures, interruption, JSON, pages."""

import json
from pathlib import Path

import pytest
from tests.cli.command import fails, regard
from tests.lab.made import DOUBLES, MADE, SWITCH, SWITCHED

from regard.cli.lab import ExperimentProgress
from regard.lab.experiment import Effort
from regard.lab.running import Failure, run_experiment


@pytest.fixture(autouse=True)
def switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three experiments in place of all; the folder of results is in an empty folder."""
    monkeypatch.setenv(SWITCH, str(tmp_path / "switch"))
    monkeypatch.chdir(tmp_path)
    for place in ("regard.lab.registry", "regard.lab.pages"):
        monkeypatch.setattr(f"{place}.all_experiments", lambda: MADE)
    return tmp_path / "switch"


def test_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = regard("lab")
    assert result.status == 0
    assert [line.split()[0] for line in result.lines if line.startswith("  ")] == ["timed", "doubles", "switched"]
    run_experiment(DOUBLES, Effort(), Path("runs/lab"))
    assert [line.split()[-1] for line in regard("lab").lines if line.startswith("  doubles")] == ["confirmed"]
    listed = json.loads(regard("lab", "--json").out)
    assert [each["verdict"] and each["verdict"]["kind"] for each in listed] == [None, "confirmed", None]
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert DOUBLES.texts.title.zh in regard("lab").out
    Path("runs/lab/doubles.json").write_text("{")
    assert regard("lab").status == 0, "a damaged file is no result"


def test_run_and_show_one(tmp_path: Path) -> None:
    result = regard("lab", "doubles", "--jobs", 1)
    assert result.status == 0, result.err
    assert "Once is 1.20, twice is 2.20" in result.out and "2.2 ± 0.1" in result.out and "●" in result.out
    folder = Path("runs/lab")
    assert {path.name for path in folder.iterdir() if path.suffix} >= {
        "doubles.json", "doubles.svg", "doubles.zh.svg", "lab.html",
    }  # fmt: skip
    again = regard("lab", "doubles", "--show")
    assert again.status == 0 and again.out == result.out
    values = json.loads(regard("lab", "doubles", "--show", "--json").out)
    assert values[0]["verdict"]["kind"] == "confirmed" and values[0]["values"]["bars"]["value"][1][1] == [2.1, 2.2, 2.3]
    assert regard("lab", "doubles", "--quick").status == 0
    assert json.loads(Path("runs/lab/doubles.json").read_text())["effort"] == "full", "quick results have their folder"


def test_all_with_a_failure_and_again(switch: Path) -> None:
    switch.write_text("fail")
    result = regard("lab", "--all", "--jobs", 1)
    assert result.status == 1 and "it was to fail" in result.err
    assert sorted(line.split()[0] for line in result.lines) == ["doubles", "switched", "timed"]
    switch.write_text("")
    result = regard("lab", "--all", "--jobs", 1)
    assert result.status == 0 and "1 of 3" in result.err.splitlines()[0], "finished ones are not repeated"
    assert "3 of 3" in regard("lab", "--all", "--jobs", 1, "--again").err.splitlines()[0]


def test_an_interrupted_command_continues(switch: Path) -> None:
    switch.write_text("interrupt")
    assert regard("lab", "switched", "--jobs", 1).status == 130
    switch.write_text("")
    result = regard("lab", "switched", "--jobs", 1)
    assert result.status == 0 and result.err.count("switched: seed") == 2


def test_pages_are_written(tmp_path: Path) -> None:
    assert fails("lab", "--write", tmp_path / "docs" / "lab").code == "not-finished"
    assert regard("lab", "doubles", "--jobs", 1, "--write", tmp_path / "docs" / "lab").status == 0
    assert (tmp_path / "docs" / "lab" / "doubles.zh.md").is_file()


def test_errors() -> None:
    assert fails("lab", "nothing").code == "unknown-experiment"
    assert fails("lab", "doubles", "--all").code == "conflicting-options"
    assert fails("lab", "--show").code == "missing-input"
    assert fails("lab", "doubles", "--show").code == "not-finished"
    Path("runs/lab").mkdir(parents=True)
    Path("runs/lab/doubles.json").write_text("{}")
    assert fails("lab", "doubles", "--show").code == "damaged-file"
    assert regard("lab", "doubles", "--jobs", 1).status == 0, "a damaged file is written again"


def test_progress_counts_what_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    progress = ExperimentProgress([DOUBLES, SWITCHED], quick=False)
    progress(Failure(MADE["timed"], "finished before"))
    assert capsys.readouterr().err == ""
    progress(Failure(DOUBLES, "lost"))
    assert capsys.readouterr().err.startswith("[1/2] doubles: failed: lost; about ")
