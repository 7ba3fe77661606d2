"""Options and printed reports of split, ladder, align, doctor and average, without a model."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.cli.command import regard

from regard.cli import align, doctor, ladder, split, tables
from regard.cli.average import named_checkpoints
from regard.data.hold_out import SplitCounts, SplitReport
from regard.doctor.check import Check
from regard.errors import UserError
from regard.ladder.alignment import AlignmentReport, HeadReport
from regard.metrics.alignment import AlignmentScore
from regard.run.alignment import AlignmentHead
from regard.viz.ladder import LadderPage, LadderRow


def refused(call: Any, *arguments: object) -> tuple[str, str]:
    """The code and the place of the error of a call."""
    with pytest.raises(UserError) as error:
        call(*arguments)
    return error.value.code, error.value.where


# ---- split -----------------------------------------------------------------------------------------------------------


def test_sizes_and_pairs_of_names() -> None:
    assert [split.parse_size("valid", text) for text in ("2000", "0.25", "+3", " 4 ", "1e-2")] == [
        2000,
        0.25,
        3,
        4,
        0.01,
    ]
    assert isinstance(split.parse_size("valid", "1"), int) and isinstance(split.parse_size("valid", "1.0"), float)
    assert refused(split.parse_size, "valid", "many") == ("invalid-option", "valid")
    assert split.parse_two("endings", "en.xz,de") == ("en.xz", "de")
    for text in ("en", "en,", ",de", "a,b,c", "en,en"):
        assert refused(split.parse_two, "endings", text) == ("invalid-option", "endings")


def test_one_file_or_two(tmp_path: Path) -> None:
    source = tables.make_source("a.en,a.de", "")
    assert (source.src, source.tgt) == ("a.en", "a.de")
    path = tmp_path / "a,b.tsv"
    path.touch()
    assert tables.make_source(str(path), "").file == str(path)


def test_the_report_of_a_split(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = {"train": SplitCounts(1200, 1100, 1000), "valid": SplitCounts(4, 4, 4)}
    report = SplitReport(
        ["a.tsv"], [], "src", 7, {"valid": 0.25, "test": 0.0}, 1300, sizes, {"empty": 2000, "duplicate": 0}
    )
    split.print_report(report, Path("a b"))
    out = capsys.readouterr().out
    rows = [line.split() for line in out.splitlines()]
    assert ["train", "1,200", "1,100", "1,000"] in rows and ["valid", "4", "4", "4"] in rows
    assert "1,300 pairs" in out and "2,000" in out and "duplicates" not in out
    assert "--valid 0.25 --seed 7" in out and "--test" not in out and "'a b'" in out


# ---- ladder ----------------------------------------------------------------------------------------------------------


def test_seeds_and_summary_of_a_ladder() -> None:
    assert ladder.parse_seeds("3,1, 2") == [3, 1, 2]
    assert refused(ladder.parse_seeds, "1,x") == ("invalid-option", "seeds")
    page = LadderPage("t", [LadderRow("A", "P", {"bleu": [1.0]}, "s")], facts={"f": "1"}, failures=[("v", "why")])
    assert ladder.summary(page, [{"steps": 3, "pictures": [1]}]) == {
        "facts": {"f": "1"},
        "rows": [{"title": "A", "paper": "P", "settings": "s", "bleu": [1.0]}],
        "failures": [{"variant": "v", "reason": "why"}],
        "runs": [{"steps": 3}],
    }


# ---- align -----------------------------------------------------------------------------------------------------------


def measured(scored: bool) -> AlignmentReport:
    heads = [AlignmentHead(0, 0), AlignmentHead(1, 0), AlignmentHead(1, 1), AlignmentHead(2, 0), AlignmentHead(2, 2)]
    links = [AlignmentScore(4, 4, n, n) for n in range(len(heads))]
    reports = [
        HeadReport(head, links[number] if scored else None, 1.0, 0.5, 0.25 * number, 0.125 * (5 - number))
        for number, head in enumerate(heads)
    ]
    return AlignmentReport(1200, reports, [0.75, 0.5], 0.25, links[3] if scored else None)


def test_the_head_whose_links_are_written() -> None:
    report = measured(scored=False)
    assert align.select_head(report, None, None) == report.best.head == AlignmentHead(2, 2)
    assert align.select_head(report, 1, None) == AlignmentHead(1, 0)
    assert align.select_head(report, 1, 1) == AlignmentHead(1, 1)
    assert align.select_head(report, None, 2) == AlignmentHead(2, 2)
    assert refused(align.select_head, report, 3, None) == ("invalid-option", "layer")
    assert refused(align.select_head, report, 1, 2) == ("invalid-option", "head")


@pytest.mark.parametrize("scored", [False, True])
def test_the_table_of_heads(scored: bool, capsys: pytest.CaptureFixture[str]) -> None:
    align.print_report(measured(scored))
    out = capsys.readouterr().out
    rows = [line.split() for line in out.splitlines()]
    assert ("AER" in rows[0]) == scored and ("AER of 0.250" in out) == scored
    assert rows[2][:4] == ["mean", "mean", "1.000", "0.500"] and rows[3][:2] == ["1", "mean"]
    assert [row[:2] for row in rows if row[2:3] == ["*"]] == [["2", "2"]]
    assert "0.75, 0.50" in out and "layers: 0.25" in out and "1,200" in out


# ---- doctor ----------------------------------------------------------------------------------------------------------

CHECKS = [Check("a", "pass", "fine"), Check("b", "warn", "two\nlines", "do it"), Check("c", "pass", "x\x1b")]


def test_the_doctor_prints_each_check_and_counts_them(capsys: pytest.CaptureFixture[str]) -> None:
    for check in CHECKS:
        doctor.show(check)
    assert capsys.readouterr().out.splitlines() == [
        "pass  a: fine", "warn  b: two", "      lines", "      -> do it", "pass  c: x␛",
    ]  # fmt: skip
    assert doctor.summary(CHECKS).split(", ")[0] == "2 passed" and len(doctor.summary(CHECKS).split(", ")) == 2
    assert doctor.summary([Check("a", "fail", "x"), Check("r", "skip", "x")]) == "1 failed, 1 skipped"
    one, two = (doctor.summary([Check("a", "warn", "x")] * count) for count in (1, 2))
    assert (one, two) == ("1 warning", "2 warnings")


@pytest.mark.parametrize(("status", "exit_status"), [("pass", 0), ("warn", 0), ("fail", 1)])
def test_the_exit_status_of_the_doctor(
    status: Any, exit_status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[tuple[object, ...]] = []

    def examine(recipe: str, settings: list[str], folder: Path | None, quick: bool, progress: Any) -> list[Check]:
        called.append((recipe, settings, folder, quick))
        progress("reading:", 1, None)
        return [Check("a", status, "x")]

    monkeypatch.setattr("regard.doctor.examine.examine", examine)
    assert regard("doctor", "my.toml", "a=1", "--quick").status == exit_status
    run = tmp_path / "run"
    run.mkdir()
    (run / "recipe.toml").touch()
    result = regard("doctor", run, "--json")
    assert result.status == exit_status
    assert json.loads(result.out) == {
        "healthy": exit_status == 0,
        "checks": [{"name": "a", "status": status, "finding": "x", "remedy": ""}],
    }
    assert regard("doctor", run, "--folder", tmp_path).status == exit_status
    assert called == [
        ("my.toml", ["a=1"], None, True),
        (str(run / "recipe.toml"), [], run, False),
        (str(run / "recipe.toml"), [], tmp_path, False),
    ]


# ---- average ---------------------------------------------------------------------------------------------------------


def test_names_of_checkpoints_may_have_blanks_and_repeat() -> None:
    checkpoints = SimpleNamespace(resolve=Path, all=lambda: [Path("a"), Path("b")])
    run: Any = SimpleNamespace(checkpoints=checkpoints)
    assert named_checkpoints(run, " b, a ,,b") == [Path("b"), Path("a")]
    assert refused(named_checkpoints, run, "a, a") == ("too-few-checkpoints", "checkpoints")
