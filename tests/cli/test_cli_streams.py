"""What the three streams of a process can do to it: be closed, or lead to a full disk."""

import sys
from pathlib import Path

import pytest
from tests.cli.command import ERROR

from regard.cli import main


def test_a_process_without_streams_works_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    assert main(["recipes"]) == 0
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        stream.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no disk that is always full")
@pytest.mark.parametrize("command", [["recipes"], ["recipes", "--json"]])
def test_a_full_disk_behind_stdout_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(command) == 1
    said = capsys.readouterr().err
    assert ERROR.search(said) and "free some space" in said and "Traceback" not in said
