"""Running experiments: files after every seed, resume, changed code, failures, processes."""

import ast
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.lab.made import MADE, SWITCH, Doubles, Switched

from regard.errors import UserError
from regard.files import locked
from regard.lab import digests
from regard.lab.experiment import Effort, Experiment, Results
from regard.lab.records import Finished, find_finished, path_of, read_finished, update_verdict
from regard.lab.running import Failure, run_all, run_experiment

FULL, QUICK = Effort(), Effort(quick=True)


@pytest.fixture
def switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(SWITCH, str(tmp_path / "switch"))
    return tmp_path / "switch"


def stored(folder: Path, name: str) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(path_of(folder, name).read_text(encoding="utf-8"))
    return values


def test_an_experiment_has_a_file_with_numbers_and_verdict(tmp_path: Path) -> None:
    lines: list[str] = []
    finished = run_experiment(Doubles(), FULL, tmp_path, lines.append)
    assert len(lines) == 3
    assert finished.verdict.kind == "confirmed" and finished.is_current
    assert finished.results.values("bars", "value", "twice") == [2.1, 2.2, 2.3]
    values = stored(tmp_path, "doubles")
    assert values["seeds"] == [1, 2, 3]
    assert values["verdict"] == {
        "kind": "confirmed",
        "numbers": finished.verdict.numbers,
        "en": finished.verdict.sentence.en,
        "zh": finished.verdict.sentence.zh,
    }
    again = read_finished(tmp_path, Doubles())
    assert again is not None and again.results.to_json() == finished.results.to_json()


def test_a_stopped_experiment_continues_with_its_next_seed(tmp_path: Path, switch: Path) -> None:
    switch.write_text("interrupt")
    with pytest.raises(KeyboardInterrupt):
        run_experiment(Switched(), FULL, tmp_path)
    assert stored(tmp_path, "switched")["seeds"] == [1] and read_finished(tmp_path, Switched()) is None
    switch.write_text("")
    lines: list[str] = []
    finished = run_experiment(Switched(), FULL, tmp_path, lines.append)
    assert len(lines) == 2
    assert finished.results.to_json() == run_experiment(Switched(), FULL, tmp_path / "other").results.to_json()
    lines.clear()
    run_experiment(Switched(), FULL, tmp_path, lines.append)
    assert lines == []


def test_another_effort_and_changed_code_begin_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    run_experiment(Doubles(), QUICK, tmp_path)
    run_experiment(Doubles(), FULL, tmp_path, lines.append)
    assert len(lines) == 3
    monkeypatch.setattr("regard.lab.records.code_of", lambda experiment: "changed")
    assert not _finished(tmp_path, Doubles()).is_current
    run_experiment(Doubles(), FULL, tmp_path, lines.append)
    assert len(lines) == 6 and _finished(tmp_path, Doubles()).is_current


def _finished(folder: Path, experiment: Experiment) -> Finished:
    finished = read_finished(folder, experiment)
    assert finished is not None
    return finished


def test_a_seed_may_leave_out_a_point() -> None:
    results = Results((1, 2))
    results.record(1, "p", "s", 1, 0.5)
    results.record(2, "p", "s", 1, 0.25)
    results.record(2, "p", "s", "end", 0.75)
    copy = Results.from_json((1, 2), json.loads(json.dumps(results.to_json())))
    assert copy.values("p", "s", 1) == [0.5, 0.25] and copy.values("p", "s", "end") == [0.75]
    assert json.dumps(copy.to_json()) == json.dumps(results.to_json())


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 1}', "number", "series", "name"])
def test_a_damaged_file_is_an_error_and_is_written_again(text: str, tmp_path: Path) -> None:
    finished = run_experiment(Doubles(), FULL, tmp_path)
    values = stored(tmp_path, "doubles")
    if text == "number":
        values["values"]["bars"]["value"][0][1][0] = "one"
    elif text == "series":
        del values["values"]["bars"]["value"]
    elif text == "name":
        values["experiment"] = "other"
    finished.path.write_text(text if text[0] in "{[" else json.dumps(values))
    with pytest.raises(UserError) as error:
        read_finished(tmp_path, Doubles())
    assert error.value.code == "damaged-file"
    assert find_finished(tmp_path, Doubles()) is None
    (outcome,) = run_all([Doubles()], FULL, tmp_path, again=True)
    assert isinstance(outcome, Finished) and outcome.results.to_json() == finished.results.to_json()


def test_the_verdict_follows_the_numbers_of_the_file(tmp_path: Path) -> None:
    path = run_experiment(Doubles(), FULL, tmp_path).path
    values = stored(tmp_path, "doubles")
    values["values"]["bars"]["value"][1][1] = [0.1, 0.1, 0.1]
    path.write_text(json.dumps(values))
    assert _finished(tmp_path, Doubles()).verdict.kind == "refuted"
    update_verdict(tmp_path, Doubles())
    verdict = stored(tmp_path, "doubles")["verdict"]
    assert verdict["kind"] == "refuted" and verdict["numbers"]["twice"] == pytest.approx(0.1)


def test_a_failing_experiment_does_not_stop_the_others(tmp_path: Path, switch: Path) -> None:
    switch.write_text("fail")
    outcomes = list(run_all(list(MADE.values()), FULL, tmp_path))
    assert [outcome.experiment.name for outcome in outcomes] == ["switched", "doubles", "timed"]
    assert isinstance(outcomes[0], Failure) and "it was to fail" in outcomes[0].reason
    assert [outcome.verdict.kind for outcome in outcomes[1:] if isinstance(outcome, Finished)] == [
        "confirmed",
        "not decided",
    ]


def test_processes_a_killed_one_and_the_rest(tmp_path: Path, switch: Path) -> None:
    switch.write_text("kill")
    lines: list[str] = []
    outcomes = {
        outcome.experiment.name: outcome
        for outcome in run_all(list(MADE.values()), FULL, tmp_path, jobs=2, report=lines.append)
    }
    assert isinstance(outcomes["switched"], Failure) and "-9" in outcomes["switched"].reason
    doubles = outcomes["doubles"]
    assert isinstance(doubles, Finished) and isinstance(outcomes["timed"], Finished)
    assert stored(tmp_path, "switched")["seeds"] == [1], "the seed before the kill is kept"
    assert doubles.results.to_json() == run_experiment(Doubles(), FULL, tmp_path / "here").results.to_json()
    assert len(lines) == 8


def test_two_commands_in_one_folder(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(UserError) as error:
        list(run_all([Doubles()], FULL, tmp_path))
    if os.name == "posix":
        assert error.value.code == "in-use"


def test_the_digest_counts_what_changes_numbers() -> None:
    body = (
        '"""Text."""\nimport torch\nfrom regard.lab.toys import f\nN = 3  # comment\n'
        'class A(Experiment):\n    title = Text("a", "b")\n    seconds = 3\n    def measure(self):\n'
        "        return f(N)\n"
        "    def judge(self):\n        return 1\n"
    )

    def plain(text: str) -> list[str]:
        return [digests._plain(statement) for statement in ast.parse(text).body]

    same = body.replace("Text.", "Other.").replace('"a"', '"c"').replace("seconds = 3", "seconds = 4")
    assert plain(body) == plain(same.replace("return 1", "return 2").replace("# comment", ""))
    assert plain(body) != plain(body.replace("N = 3", "N = 4"))
    toys = ast.parse("def f():\n    return g()\ndef g():\n    return M\nM = 1\ndef h():\n    return 2\n").body
    assert [digests._defined(statement) for statement in digests._used(toys, {"f"})] == [{"f"}, {"g"}, {"M"}]
