"""Running experiments: files after every seed, resume, changed code, failures, processes."""

import inspect
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.lab.made import DOUBLES, MADE, SWITCH, SWITCHED
from tests.pages import ROOT

from regard.errors import UserError
from regard.files import locked
from regard.lab import registry
from regard.lab.experiment import Effort, Experiment, Results
from regard.lab.records import Finished, code_of, find_finished, path_of, read_finished, update_verdict
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
    lines: list[tuple[str, int, int]] = []
    finished = run_experiment(DOUBLES, FULL, tmp_path, lambda *line: lines.append(line))
    assert len(lines) == 3
    assert finished.verdict.kind == "confirmed" and finished.is_current
    assert finished.results.values("bars", "value", "twice") == [2.1, 2.2, 2.3]
    values = stored(tmp_path, "doubles")
    assert values["seeds"] == [1, 2, 3]
    assert values["verdict"] == {
        "kind": "confirmed",
        "numbers": finished.verdict.numbers,
        "en": finished.sentence.en,
        "zh": finished.sentence.zh,
    }
    again = read_finished(tmp_path, DOUBLES)
    assert again is not None and again.results.to_json() == finished.results.to_json()


def test_a_stopped_experiment_continues_with_its_next_seed(tmp_path: Path, switch: Path) -> None:
    switch.write_text("interrupt")
    with pytest.raises(KeyboardInterrupt):
        run_experiment(SWITCHED, FULL, tmp_path)
    assert stored(tmp_path, "switched")["seeds"] == [1] and read_finished(tmp_path, SWITCHED) is None
    switch.write_text("")
    lines: list[tuple[str, int, int]] = []
    finished = run_experiment(SWITCHED, FULL, tmp_path, lambda *line: lines.append(line))
    assert len(lines) == 2
    assert finished.results.to_json() == run_experiment(SWITCHED, FULL, tmp_path / "other").results.to_json()
    lines.clear()
    run_experiment(SWITCHED, FULL, tmp_path, lambda *line: lines.append(line))
    assert lines == []


def test_another_effort_and_changed_code_begin_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[tuple[str, int, int]] = []
    run_experiment(DOUBLES, QUICK, tmp_path)
    run_experiment(DOUBLES, FULL, tmp_path, lambda *line: lines.append(line))
    assert len(lines) == 3
    monkeypatch.setattr("regard.lab.records.code_of", lambda experiment: "changed")
    assert not _finished(tmp_path, DOUBLES).is_current
    run_experiment(DOUBLES, FULL, tmp_path, lambda *line: lines.append(line))
    assert len(lines) == 6 and _finished(tmp_path, DOUBLES).is_current


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


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 1}', "number", "digit", "series", "name"])
def test_a_damaged_file_is_an_error_and_is_written_again(text: str, tmp_path: Path) -> None:
    finished = run_experiment(DOUBLES, FULL, tmp_path)
    values = stored(tmp_path, "doubles")
    if text == "number":
        values["values"]["bars"]["value"][0][1][0] = "one"
    elif text == "digit":  # a plausible number that was not measured
        values["values"]["bars"]["value"][0][1][0] += 1
    elif text == "series":
        del values["values"]["bars"]["value"]
    elif text == "name":
        values["experiment"] = "other"
    finished.path.write_text(text if text[0] in "{[" else json.dumps(values))
    with pytest.raises(UserError) as error:
        read_finished(tmp_path, DOUBLES)
    assert error.value.code == "damaged-file"
    assert find_finished(tmp_path, DOUBLES) is None
    (outcome,) = run_all([DOUBLES], FULL, tmp_path, again=True)
    assert isinstance(outcome, Finished) and outcome.results.to_json() == finished.results.to_json()


def test_the_verdict_follows_the_numbers_of_the_file(tmp_path: Path) -> None:
    path = run_experiment(DOUBLES, FULL, tmp_path).path
    values = stored(tmp_path, "doubles")
    values["values"]["bars"]["value"][1][1] = [0.1, 0.1, 0.1]
    del values["checksum"]  # as in a file of an earlier version
    path.write_text(json.dumps(values))
    assert _finished(tmp_path, DOUBLES).verdict.kind == "refuted"
    update_verdict(tmp_path, DOUBLES)
    verdict = stored(tmp_path, "doubles")["verdict"]
    assert verdict["kind"] == "refuted" and "twice is 0.10" in verdict["en"]


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
    lines: list[tuple[str, int, int]] = []
    outcomes = {
        outcome.experiment.name: outcome
        for outcome in run_all(list(MADE.values()), FULL, tmp_path, jobs=2, report=lambda *line: lines.append(line))
    }
    assert isinstance(outcomes["switched"], Failure) and "-9" in outcomes["switched"].reason
    doubles = outcomes["doubles"]
    assert isinstance(doubles, Finished) and isinstance(outcomes["timed"], Finished)
    assert stored(tmp_path, "switched")["seeds"] == [1], "the seed before the kill is kept"
    assert doubles.results.to_json() == run_experiment(DOUBLES, FULL, tmp_path / "here").results.to_json()
    assert len(lines) == 8


def test_two_commands_in_one_folder(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(UserError) as error:
        list(run_all([DOUBLES], FULL, tmp_path))
    if os.name == "posix":
        assert error.value.code == "in-use"


def test_the_digest_counts_what_changes_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    counted = count(1)

    def digest(text: str) -> str:
        path = tmp_path / f"digested{next(counted)}.py"
        path.write_text(text)
        return code_of(Experiment(path.stem))

    body = (
        '"""Text."""\nimport torch\nfrom regard.lab.english import pages\nN = 3\nTEXTS = "a"\n\n\n'
        'def measure():\n    """Measure."""\n    return pages(N)\n\n\ndef judge():\n    return 1\n'
    )
    same = (
        body.replace("Text.", "Other.").replace("Measure.", "Do.").replace('"a"', '"b"').replace("return 1", "return 2")
    )
    assert digest(body) == digest(same.replace("N = 3", "# comment\nN = 3"))
    assert digest(body) != digest(body.replace("N = 3", "N = 4"))
    assert digest(body) != digest(body.replace("from regard.lab.english import", "from regard.lab.costs import"))


def test_results_of_older_code_that_was_verified_are_current(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = run_experiment(DOUBLES, FULL, tmp_path).path
    values = stored(tmp_path, "doubles") | {"code": "older"}
    path.write_text(json.dumps(values))
    assert not _finished(tmp_path, DOUBLES).is_current
    for verified, current in ((code_of(DOUBLES), True), ("of another time", False)):
        texts = replace(DOUBLES.texts, code={"stored": "older", "verified": verified})
        monkeypatch.setitem(DOUBLES.__dict__, "texts", texts)
        assert _finished(tmp_path, DOUBLES).is_current == current


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize(("jobs", "number"), [(1, signal.SIGTERM), (1, signal.SIGINT), (2, signal.SIGTERM)])
def test_a_training_that_is_interrupted_leaves_nothing(jobs: int, number: int, tmp_path: Path, switch: Path) -> None:
    """The command ends, and the seed that it was measuring is not in the file."""
    switch.write_text("train")
    program = (
        "import sys; from pathlib import Path; from tests.lab.made import *; from regard.lab.running import *\n"
        "if __name__ == '__main__':\n"
        f"    list(run_all([SWITCHED, DOUBLES], Effort(), Path({str(tmp_path)!r}), jobs={jobs}))\n"
    )
    script = tmp_path / "script.py"
    script.write_text(program)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    with subprocess.Popen([sys.executable, script], env=environment, stderr=subprocess.DEVNULL) as process:
        while not switch.with_suffix(".begun").exists():
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(number)
        assert process.wait(timeout=60) != 0
    assert stored(tmp_path, "switched")["seeds"] == [1] and read_finished(tmp_path, SWITCHED) is None


def test_an_experiment_of_a_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file with its texts, named in REGARD_PLUGINS; processes find it too."""
    source = Path(inspect.getfile(import_module(DOUBLES.module))).read_text(encoding="utf-8")
    end = "\n\nfrom regard.lab.registry import register_experiment\n\nregister_experiment(__name__)\n"
    for name in ("trebles", "trebles_too"):
        (tmp_path / f"{name}.py").write_text(source + end, encoding="utf-8")
    monkeypatch.setattr(registry, "_REGISTERED", {})
    monkeypatch.setenv(
        "REGARD_PLUGINS", os.pathsep.join(str(tmp_path / f"{name}.py") for name in ("trebles", "trebles_too"))
    )
    found = [registry.find_experiment(name) for name in ("trebles", "trebles-too")]
    outcomes = list(run_all(found, FULL, tmp_path / "results", jobs=2))
    assert [outcome.verdict.kind for outcome in outcomes if isinstance(outcome, Finished)] == ["confirmed"] * 2
    assert registry.by_topic(registry.all_experiments().values())[-1].name == "zero-init"
    with pytest.raises(UserError) as error:
        registry.find_experiment("treble")
    assert "trebles" in error.value.remedy
    copy = tmp_path / "other" / "trebles.py"
    copy.parent.mkdir()
    copy.write_text(source)
    monkeypatch.syspath_prepend(copy.parent)
    with pytest.raises(UserError) as error:
        registry.register_experiment("trebles")
    assert error.value.code == "duplicate-experiment"


def test_the_experiment_of_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """tests/outside_experiment.py: one file, run by the command with one variable, in both languages."""
    monkeypatch.setattr(registry, "_REGISTERED", {})
    monkeypatch.setenv("REGARD_PLUGINS", str(ROOT / "tests" / "outside_experiment.py"))
    experiment = registry.find_experiment("outside-experiment")
    (outcome,) = run_all([experiment], FULL, tmp_path)
    assert isinstance(outcome, Finished) and outcome.verdict.kind == "confirmed"
    low, high = (outcome.results.mean("keys", "scores", temperature) for temperature in (0.25, 4.0))
    assert 1 < low < 4 < 14 < high < 16
