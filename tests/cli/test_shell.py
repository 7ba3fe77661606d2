"""cli/shell.py: commands as they work in the shell of the user, and the language of messages."""

import shlex
import sys
from pathlib import Path

import pytest
from tests.cli.command import fails, regard

from regard.cli import shell
from regard.cli.shell import as_called, program
from regard.messages import is_chinese


def script(folder: Path, name: str) -> str:
    """An empty program."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.touch()
    path.chmod(0o755)
    return str(path)


def test_on_the_path_it_is_called_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path / "bin", "regard")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(sys, "argv", [".venv/bin/regard"])
    assert program() == "regard"


def test_elsewhere_it_is_called_as_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for called in (".venv/bin/regard", "/opt/my tools/regard"):
        monkeypatch.setattr(sys, "argv", [called])
        assert shlex.split(program()) == [called]


def test_as_a_module_it_is_called_with_its_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/src/regard/__main__.py"])
    python = script(tmp_path / "work" / "bin", "python9")
    monkeypatch.setattr(sys, "executable", python)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert program() == "work/bin/python9 -m regard"
    monkeypatch.chdir(tmp_path / "work" / "bin")
    monkeypatch.setenv("PATH", str(tmp_path / "work" / "bin"))
    assert program() == "python9 -m regard"
    monkeypatch.setenv("PATH", "")
    monkeypatch.chdir("/")
    assert program() == f"{python[1:]} -m regard"


def test_commands_in_a_text_are_written_as_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "program", lambda: ".venv/bin/regard")
    text = "next:\n  echo one | regard translate runs/a\n  regard evaluate runs/regard train/regard trained"
    changed = text.replace("| regard", "| .venv/bin/regard").replace("  regard", "  .venv/bin/regard")
    assert as_called(text) == changed
    monkeypatch.setattr(shell, "program", lambda: "regard")
    assert as_called(text) == text


def test_remedies_name_commands_that_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "program", lambda: ".venv/bin/regard")
    assert "`.venv/bin/regard recipes`" in fails("recipes", "x" * 50).err
    assert "`.venv/bin/regard train NAME`" in regard("recipes").out


@pytest.mark.parametrize(
    ("variables", "chinese"),
    [
        ({}, False),
        ({"LANG": "zh_CN.UTF-8"}, True),
        ({"LANG": "de_DE.UTF-8"}, False),
        ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "zh_TW.UTF-8"}, True),
        ({"LANG": "zh_CN.UTF-8", "LC_MESSAGES": "C"}, False),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "en_GB.UTF-8", "LC_MESSAGES": "zh_CN.UTF-8"}, False),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": ""}, True),
    ],
)
def test_the_locale_decides_the_language(
    variables: dict[str, str], chinese: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert is_chinese() == chinese
