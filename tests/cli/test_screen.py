"""cli/screen.py: what is printed where, tables, JSON, and the line of progress."""

import io
import json
import sys
from typing import Any

import pytest
from tests.cli.command import Terminal

from regard.cli import screen
from regard.cli.screen import (
    ProgressLine,
    conclusion,
    in_colour,
    print_comparison,
    print_json,
    print_result,
    print_scores,
    print_table,
    report,
    to_json,
)
from regard.metrics.score import Score
from regard.metrics.significance import Comparison


def terminal(monkeypatch: pytest.MonkeyPatch, name: str) -> io.BytesIO:
    """Replace a stream by a terminal; return what is written to it."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, name, Terminal(written, write_through=True))
    monkeypatch.setenv("TERM", "xterm")
    return written


def test_results_are_on_stdout_and_progress_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    print_result("a\x1b")
    report("b\x1b")
    report()
    print_json({"é": 1})
    out, err = capsys.readouterr()
    assert (out, err) == ('a\x1b\n{"é": 1}\n', "b␛\n\n")


def test_control_characters_are_replaced_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    written = terminal(monkeypatch, "stdout")
    print_result("a\x1b\tb\x7f")
    screen.print_drawing("\x1b[1mc")
    assert written.getvalue().decode() == "a␛\tb␡\n\x1b[1mc\n"


def test_other_processes_print_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("RANK", "1")
    print_result("a")
    report("b")
    screen.print_drawing("c")
    print_table(("d",), [["e"]])
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("RANK", "0")
    print_result("a")
    assert capsys.readouterr().out == "a\n"


def test_numbers_that_json_does_not_have_are_null() -> None:
    value = {"a": [1.5, float("nan"), (float("inf"), 2)], "b": {"c": float("-inf")}, "d": "x", "e": None, "f": True}
    assert json.loads(to_json(value)) == {"a": [1.5, None, [None, 2]], "b": {"c": None}, "d": "x", "e": None, "f": True}


def test_columns_of_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "value"), [["a", "1"], ["long name", "[red]\x1b"]], right=("value",))
    names, line, first, second = capsys.readouterr().out.splitlines()
    assert names == "name         value" and set(line) == {"─"}
    assert first == "a                1" and second == "long name   [red]␛"
    print_table(("text",), [["x" * 500]])
    assert max(map(len, capsys.readouterr().out.splitlines())) == screen.TABLE_WIDTH


def test_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert not in_colour()
    terminal(monkeypatch, "stdout")
    assert in_colour() and screen.panel().colour
    monkeypatch.setenv("NO_COLOR", "1")
    assert not in_colour()
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not in_colour()


def test_the_line_of_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    times = iter([10.0, 10.05, 20.0, 20.0, 20.5])
    monkeypatch.setattr("time.monotonic", lambda: next(times))
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", Terminal(written, write_through=True))
    with ProgressLine("read:") as line:
        line(1, 4000)
        line(2, 4000)  # too soon
        line(3001, 4000)  # 3,000 in 10 seconds
        report("a warning")  # clears the line
        line.clear()  # there is nothing to clear
        line(3001)
        line(3002, 0)
    shown = written.getvalue().decode().split("\r")[1:]
    first, second = "read: 1 of 4,000 \x1b[K", "read: 3,001 of 4,000, 300/s, 3 s left \x1b[K"
    assert shown == [
        first,
        second,
        "\x1b[Ka warning\n",
        "read: 3,001, 300/s \x1b[K",
        "read: 3,002, 286/s \x1b[K",
        "\x1b[K",
    ]


def test_progress_in_a_log_is_a_line_every_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([100.0, 109.0, 110.0, 115.0, 131.0])
    monkeypatch.setattr("time.monotonic", lambda: next(times))
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    written = io.StringIO()
    with ProgressLine("read:", written) as line:
        for done in (0, 5, 10, 15, 3720):
            line(done, 7440)
    assert written.getvalue().splitlines() == [
        "read: 10 / 7,440，1.0/秒，还需 2 小时 4 分钟",
        "read: 3,720 / 7,440，120/秒，还需 1 分钟",
    ]


@pytest.mark.parametrize(
    ("rank", "kind", "term"), [("1", Terminal, "x"), ("0", io.TextIOWrapper, "x"), ("0", Terminal, "dumb")]
)
def test_no_line_of_progress(rank: str, kind: Any, term: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("TERM", term)
    written = io.BytesIO()
    with ProgressLine("read:", kind(written, write_through=True)) as line:
        line(1)
    assert written.getvalue() == b""


def comparison(p_value: float) -> Comparison:
    return Comparison("BLEU", 20.0, 21.5, 1.5, p_value=p_value, ci_low=-0.25, ci_high=3.0, signature="s")


def test_scores_and_comparisons(capsys: pytest.CaptureFixture[str]) -> None:
    print_scores([Score("BLEU", 12.345, "sacre")])
    assert capsys.readouterr().out.splitlines()[-1].split() == ["BLEU", "12.35", "sacre"]
    print_comparison([comparison(0.0123)], "runs/old", "runs/new")
    names, _, row, words = capsys.readouterr().out.splitlines()
    assert names.split() == ["metric", "runs/old", "runs/new", "difference", "95%", "interval", "p"]
    assert row.split() == ["BLEU", "20.00", "21.50", "+1.50", "-0.25", "to", "+3.00", "0.012"]
    assert words == conclusion([comparison(0.0123)])


def test_a_difference_is_significant_below_the_level() -> None:
    assert "BLEU: significant" in conclusion([comparison(0.049)])
    assert "not significant" in conclusion([comparison(0.05)])
