"""cli/streams.py: lines of input, files of output, and prompts."""

import io
import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from regard.cli.streams import (
    check_one_input,
    check_output,
    input_lines,
    line_name,
    make_prompt,
    open_output,
    read_lines,
)
from regard.errors import UserError


def test_an_output_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "new" / "out.txt"
    with open_output(str(path)) as stream:
        print("text", file=stream)
        assert not path.exists()
    assert path.read_text(encoding="utf-8") == "text\n"


def test_an_error_leaves_the_old_output(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old\n", encoding="utf-8")
    with pytest.raises(ZeroDivisionError), open_output(str(path)) as stream:
        print("new", file=stream)
        raise ZeroDivisionError
    assert path.read_text(encoding="utf-8") == "old\n"
    assert [item.name for item in tmp_path.iterdir()] == ["out.txt"]


def test_the_output_is_not_the_input(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("text\n", encoding="utf-8")
    with pytest.raises(UserError) as error:
        check_output(str(tmp_path / "." / "text.txt"), None, str(path))
    assert error.value.code == "overwrites-input"
    check_output("-", "-")
    check_output(str(path), "-", None)
    check_output(str(tmp_path / "other.txt"), str(path))


def test_lines_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes("a\r\nü\u2028b\n\nlast".encode())
    assert list(read_lines(str(path))) == ["a", "ü\u2028b", "", "last"]
    assert line_name(str(path)) == f"{path}, line" and line_name("-") == "stdin, line"
    assert [list(lines) for lines in input_lines([], str(path))] == [["a", "ü\u2028b", "", "last"]]
    assert [list(lines) for lines in input_lines(["x", "y"], "-")] == [["x", "y"]]


def test_one_kind_of_input() -> None:
    check_one_input(TEXT="a", **{"--input": None})
    with pytest.raises(UserError) as error:
        check_one_input(TEXT="a", **{"--input": "b"})
    assert error.value.code == "conflicting-options"


def type_into_a_terminal(code: str, answers: list[str]) -> str:
    """The output of a Python process whose three streams are a terminal; each prompt gets the next answer."""
    import pty

    process, terminal = pty.fork()
    if process == 0:
        os.execv(sys.executable, [sys.executable, "-c", code])
    shown, remaining = b"", [answer.encode() for answer in answers]
    with suppress(OSError):  # the end of the process
        while part := os.read(terminal, 1000):
            shown += part
            if shown.endswith(b"> ") and remaining:
                os.write(terminal, remaining.pop(0))
    os.waitpid(process, 0)
    os.close(terminal)
    return shown.decode(errors="replace")


@pytest.mark.skipif(sys.platform == "win32", reason="this system has no pseudo-terminals")
def test_a_prompt_has_line_editing_and_a_history() -> None:
    pytest.importorskip("readline")
    code = "from regard.cli.streams import prompt_lines\nprint(['read', *prompt_lines()])"
    shown = type_into_a_terminal(code, ["élan\n", "\x1b[A!\n", "ab\x7fc\n", "\n", "\x04"])
    assert "['read', 'élan', 'élan!', 'ac', '']" in shown


def test_a_prompt_without_a_terminal_reads_stdin(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\n\xff\n")))
    ask = make_prompt()
    assert ask("title") == "one"
    assert capsys.readouterr() == ("", "title> ")
    with pytest.raises(UserError) as error:
        ask("title")
    assert error.value.where == "stdin:2"
