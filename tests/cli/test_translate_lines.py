"""cli/translate.py without a model: forms of lines, prefixes, counts, and runs that are sentences."""

import json
from pathlib import Path
from typing import Any

import pytest

from regard.cli.translate import Counts, json_line, plain_line, scored_line, split_arguments, with_prefixes
from regard.errors import UserError

ONE = {"translation": "a", "score": -0.5, "parts": 1}
BEST = [{"text": "a", "score": -0.5}, {"text": "b", "score": -1.25}]


def test_forms_of_a_line() -> None:
    assert plain_line(3, {"src": "x"}, ONE) == "a"
    assert plain_line(3, {"src": "x"}, ONE | {"hypotheses": BEST}) == "3 ||| a ||| -0.5000\n3 ||| b ||| -1.2500"
    assert plain_line(3, {"src": "x"}, ONE | {"hypotheses": BEST, "parts": 2}) == "3 ||| a ||| -0.5000"
    assert (
        plain_line(0, {"src": ""}, {"translation": "", "score": None, "parts": 0, "hypotheses": []})
        == "0 |||  ||| 0.0000"
    )
    assert (
        scored_line(3, {"src": "x"}, ONE) == "-0.5000\ta" and scored_line(0, {}, ONE | {"score": None}) == "0.0000\ta"
    )
    assert json.loads(json_line(3, {"src": "x"}, ONE)) == {"source": "x", **ONE}


def test_prefixes() -> None:
    assert list(with_prefixes(["a", "b"], None)) == ["a", "b"]
    assert list(with_prefixes(["a", "b"], ["x"])) == [{"src": "a", "prefix": "x"}, {"src": "b", "prefix": ""}]


def prediction(parts: int, *ends: str) -> dict[str, Any]:
    """A prediction whose hypotheses ended as named: "finished", "looped" or "cut"."""
    return {"parts": parts, "hypotheses": [{"finished": e == "finished", "looped": e == "looped"} for e in ends]}


def test_doubtful_translations_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    counts = Counts()
    counts.report()
    for item in (prediction(1, "finished", "cut"), prediction(1, "looped", "cut"), prediction(0)):
        counts.add(item)
    assert counts == Counts(lines=3, unfinished=0, looped=1) and capsys.readouterr().err == ""
    counts.add(prediction(2, "finished", "cut"))
    assert counts == Counts(lines=4, unfinished=1, looped=1)
    assert "line 4 " in capsys.readouterr().err
    counts.report()
    assert [line.split()[1:4] for line in capsys.readouterr().err.splitlines()] == [["1", "of", "4"]] * 2


def test_runs_come_first_and_then_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "recipe.toml").touch()
    (tmp_path / "folder").mkdir()
    assert split_arguments([]) == ([], None)
    assert split_arguments(["first", "second"]) == (["first", "second"], None)
    assert split_arguments(["first", "hello"]) == (["first"], "hello")
    assert split_arguments(["a sentence/with a slash"], True) == ([], "a sentence/with a slash")
    for names, wrong in (
        (["first", "runs/missing"], "runs/missing"),
        (["hello"], "hello"),
        (["first", "hello", "second"], "hello"),
        (["folder"], "folder"),
    ):
        with pytest.raises(UserError) as error:
            split_arguments(names)
        assert (error.value.code, error.value.where) == ("not-a-run", wrong)
