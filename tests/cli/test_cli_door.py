"""The public door is light and complete, and every start ends with the status it should."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import regard

import regard as package

VERBS = (
    "demo",
    "train",
    "translate",
    "evaluate",
    "inspect",
    "align",
    "ladder",
    "average",
    "doctor",
    "split",
    "recipes",
)
HEAVY = ("torch", "tokenizers", "sacrebleu", "numpy", "matplotlib", "babel")


def loaded_after(code: str) -> set[str]:
    """Which large libraries a fresh Python has loaded after running `code`."""
    code = f"import sys\n{code}\nprint(*[name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_importing_the_package_loads_no_large_library() -> None:
    assert loaded_after("import regard") == set()


def test_asking_for_help_loads_no_large_library() -> None:
    assert loaded_after("from regard.cli import main\nmain(['--help'])\nmain(['translate', '--help'])") == set()


def test_every_public_name_can_be_had() -> None:
    for name in package.__all__:
        assert getattr(package, name) is not None
    assert set(package.__all__) == {"__version__", *(name for names in package.HOMES.values() for name in names)}
    assert dir(package) == sorted(package.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Transformers'"):
        package.Transformers  # noqa: B018


def test_the_version_is_the_projects() -> None:
    project = Path(__file__).parents[2] / "pyproject.toml"
    assert f'version = "{package.__version__}"' in project.read_text(encoding="utf-8")
    assert regard("--version").out == f"regard {package.__version__}\n"


def test_help_lists_every_verb_with_a_whole_sentence() -> None:
    listed = regard("--help").out
    assert all(f"\n  {verb} " in listed for verb in VERBS)
    assert "..." not in listed.partition("Commands:")[2], "a sentence too long for its line is cut"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself_with_examples(verb: str) -> None:
    result = regard(verb, "--help")
    assert result.status == 0
    assert "Examples:\n" in result.out
    assert f"    regard {verb}" in result.out
    assert "--json" in result.out
    assert not re.search(r"[{}<>]\S*\b(str|RUN|RECIPE|SENTENCE)\b", result.out), (
        "the words of Python are not the user's"
    )
    assert "[[" not in result.out


@pytest.mark.parametrize(
    "arguments", [["tranlsate"], ["translate"], ["recipes", "--sttings"], ["average", "run", "--last", "one"]]
)
def test_a_command_that_cannot_be_understood_ends_with_two(arguments: list[str]) -> None:
    result = regard(*arguments)
    assert result.status == 2
    assert "Usage: regard" in result.err
    assert "Traceback" not in result.err


def raising(error: BaseException) -> Any:
    def raise_it(*_: object, **__: object) -> None:
        raise error

    return raise_it


def test_ctrl_c_ends_with_130_and_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.run.Translator.load", raising(KeyboardInterrupt()))
    result = regard("translate", "any")
    assert result.status == 130
    assert "Traceback" not in result.err


def test_a_defect_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.run.Translator.load", raising(ZeroDivisionError("ours")))
    with pytest.raises(ZeroDivisionError, match="ours"):
        regard("translate", "any")


@pytest.mark.parametrize("verb", ["translate", "recipes"])
def test_a_reader_that_goes_away_is_no_error_worth_words(verb: str, trained: Path) -> None:
    command = [sys.executable, "-m", "regard", *([verb, str(trained)] if verb == "translate" else [verb])]
    with subprocess.Popen(command, stdin=-1, stdout=-1, stderr=-1) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdout.close()
        process.stdin.write(b"one two three\n" * 10)
        process.stdin.close()
        said = process.stderr.read().decode()
    assert process.returncode == 1
    assert said == ""


def test_only_the_first_of_several_processes_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    assert regard("recipes").out == ""
    silent = regard("recipes", "dtaes")
    assert (silent.status, silent.out, silent.err) == (1, "", "")


def test_errors_are_red_on_a_terminal_alone() -> None:
    assert "\x1b[1;31merror:" in regard("recipes", "dtaes", terminal=True).err
    assert "\x1b" not in regard("recipes", "dtaes").err


def test_text_of_users_is_never_markup_nor_a_command_to_the_terminal() -> None:
    said = regard("recipes", "[red]x[/red]\x1b[2J", terminal=True).err
    assert "[red]x[/red]␛[2J" in said
