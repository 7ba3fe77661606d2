"""The command `regard`: help, version, exit status, and the streams of the process."""

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.cli.command import regard
from typer.models import OptionInfo

import regard as package
from regard import cli
from regard.cli import main
from regard.cli.app import build_command, find_function
from regard.cli.options import OptionGroup, expand_groups
from regard.cli.shell import COMMANDS, GROUPS
from regard.errors import UserError

LARGE_LIBRARIES = ("torch", "tokenizers", "sacrebleu", "numpy", "matplotlib", "babel")
WITHOUT_JSON = {"predict", "embed", "serve"}
"""Commands that always print JSON, have --format, or print no result."""


def loaded_after(code: str, names: tuple[str, ...] = LARGE_LIBRARIES) -> set[str]:
    """Those of `names` that a new Python process has imported after running `code`."""
    code = f"import sys\n{code}\nprint(*[name for name in {names!r} if name in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.splitlines()[-1].split())


def test_help_loads_no_large_library() -> None:
    assert loaded_after("from regard.cli import main\nmain(['--help'])\nmain(['translate', '--help'])") == set()


def test_recipes_load_no_large_library() -> None:
    assert loaded_after("from regard.cli import main\nmain(['recipes'])\nmain(['recipes', 'dates'])") == set()


def test_prediction_does_not_load_the_compiler_of_torch(trained: Path, recurrent: Path, pretrained: Path) -> None:
    """These imports take as long as torch itself."""
    commands = [["predict", str(run), "one [MASK]"] for run in (trained, recurrent, pretrained)]
    code = f"from regard.cli import main\nassert [main(command) for command in {commands!r}] == [0, 0, 0]"
    assert loaded_after(code, ("torch", "torch._dynamo", "sympy")) == {"torch"}


def test_version_is_that_of_the_project() -> None:
    project = Path(__file__).parents[2] / "pyproject.toml"
    assert f'version = "{package.__version__}"' in project.read_text(encoding="utf-8")
    assert regard("--version").out == f"regard {package.__version__}\n"


def sections(help_text: str) -> dict[str, list[str]]:
    """The words at the beginning of the lines of each section of a help."""
    found: dict[str, list[str]] = {}
    for line in help_text.splitlines():
        if re.match(r"\S.*:$", line):
            found[line[:-1]] = []
        elif found and (match := re.match(r"  (\S+)", line)):
            found[[*found][-1]].append(match[1])
    return found


def test_help_lists_every_command_by_purpose() -> None:
    listed = sections(regard("--help").out)
    assert {title: tuple(listed[title][: len(names)]) for title, names in GROUPS.items()} == GROUPS
    assert len(set(COMMANDS)) == len(COMMANDS)


def test_help_command_is_the_help_of_the_command() -> None:
    assert regard("help", "average") == regard("average", "--help")
    assert regard("help") == regard("--help")
    assert regard("help", "trian").status == 2


@pytest.mark.parametrize("name", COMMANDS)
def test_options_of_a_group_have_a_heading(name: str) -> None:
    shown = sections(regard(name, "--help").out)
    groups = [kind for kind in find_function(name).__annotations__.values() if isinstance(kind, type)]
    titles = [kind.title for kind in groups if issubclass(kind, OptionGroup)]
    assert [title for title in shown if title != "Arguments"] == ["Options", *titles]
    assert "-h," in shown["Options"] and len(shown["Options"]) <= 10


@pytest.mark.parametrize("name", COMMANDS)
def test_options_have_the_names_of_their_parameters(name: str) -> None:
    """typer 0.27 names an option by its metavar, if both are the same word: --FILE."""
    for parameter in inspect.signature(expand_groups(find_function(name))).parameters.values():
        _, option = get_args(parameter.annotation)
        if isinstance(option, OptionInfo) and (option.metavar or "").lower() == parameter.name:
            assert option.default == f"--{parameter.name}"
    options = [option for parameter in build_command(name).params for option in parameter.opts]
    assert options == [option.lower() for option in options if option != "RUN"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_has_examples(command: str) -> None:
    result = regard(command, "--help")
    assert result.status == 0
    assert "Examples:\n" in result.out
    assert f"    regard {command}" in result.out
    assert "--json" in result.out or command in WITHOUT_JSON
    assert not re.search(r"[{}<>]\S*\b(str|RUN|RECIPE|TEXT)\b", result.out), "types of Python are not shown"
    assert "[[" not in result.out


def test_options_have_the_same_letter_in_every_command() -> None:
    letters: dict[str, set[str]] = {}
    for command in COMMANDS:
        for letter, name in re.findall(r"^  (-\w), (--[\w-]+)", regard(command, "--help").out, re.MULTILINE):
            letters.setdefault(letter, set()).add(name)
    assert all(len(names) == 1 for names in letters.values()), letters
    assert letters["-i"] == {"--input"} and letters["-o"] == {"--output"}


def test_an_unknown_command_suggests_similar_ones() -> None:
    errors = regard("tran").err
    assert "`regard train`" in errors and "`regard translate`" in errors
    assert "`regard train`" in regard("help", "trian").err
    assert "Did you mean" not in regard("zzz").err


@pytest.mark.parametrize(
    "arguments", [["tranlsate"], ["evaluate"], ["recipes", "--sttings"], ["average", "run", "--last", "one"]]
)
def test_an_unknown_command_ends_with_status_2(arguments: list[str]) -> None:
    result = regard(*arguments)
    assert result.status == 2
    assert "Usage: regard" in result.err
    assert "Traceback" not in result.err


def raising(error: BaseException) -> Any:
    def raise_it(*_: object, **__: object) -> None:
        raise error

    return raise_it


def test_ctrl_c_ends_with_status_130(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.run.run.Run.open", raising(KeyboardInterrupt()))
    result = regard("evaluate", "any")
    assert result.status == 130
    assert "Traceback" not in result.err


def test_a_bug_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.run.run.Run.open", raising(ZeroDivisionError("bug")))
    with pytest.raises(ZeroDivisionError, match="bug"):
        regard("evaluate", "any")


@pytest.mark.parametrize("command", ["translate", "recipes"])
def test_a_closed_pipe_is_not_reported(command: str, trained: Path) -> None:
    words = [command, str(trained)] if command == "translate" else [command]
    with subprocess.Popen([sys.executable, "-m", "regard", *words], stdin=-1, stdout=-1, stderr=-1) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdout.close()
        process.stdin.write(b"one two three\n" * 10)
        process.stdin.close()
        errors = process.stderr.read().decode()
    assert process.returncode == 1
    assert errors == ""


def test_every_process_reports_a_lost_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    assert cli._failed(UserError("the same everywhere", code="missing-file")) == 1
    assert capsys.readouterr().err == ""
    assert cli._failed(UserError("rank 0 is gone", code="lost-process")) == 1
    assert "rank 0 is gone" in capsys.readouterr().err


def test_only_the_first_process_of_a_training_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    silent = regard("train", "dtaes")
    assert (silent.status, silent.out, silent.err) == (1, "", "")
    monkeypatch.setenv("RANK", "0")
    assert regard("train", "dtaes").code == "unknown-recipe"
    monkeypatch.setenv("RANK", "1")
    assert regard("recipes").out, "a command that has one process"


def test_errors_are_red_on_a_terminal_only() -> None:
    assert "\x1b[1;31merror [unknown-recipe]:" in regard("recipes", "dtaes", terminal=True).err
    assert "\x1b" not in regard("recipes", "dtaes").err


def test_text_of_users_is_printed_literally() -> None:
    errors = regard("recipes", "[red]x[/red]\x1b[2J", terminal=True).err
    assert "[red]x[/red]␛[2J" in errors


def test_a_process_without_streams_works(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    assert main(["recipes"]) == 0
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        stream.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("command", [["recipes"], ["recipes", "--json"]])
def test_a_full_disk_behind_stdout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(command) == 1
    errors = capsys.readouterr().err
    assert "error [disk-full]: " in errors and "Traceback" not in errors
