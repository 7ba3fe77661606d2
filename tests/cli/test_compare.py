"""regard compare: settings that differ, curves in one picture, scores with a test, stored evaluations."""

import json
import re
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from tests.cli.command import fails, regard
from tests.conftest import TinyRun
from tests.tiny import train_run

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two classifiers for the same data; the second one learns less."""
    folder = tmp_path_factory.mktemp("pair")
    settings: dict[str, Any] = {"training.max_epochs": 3.0, "training.monitor": "f1"}
    first = train_run(folder, "classification", settings=settings)
    slow = folder / "slow"
    assert regard("train", folder / "classification.toml", "training.learning_rate=1e-5", "--folder", slow).status == 0
    return first, slow


def compare(*arguments: object) -> Any:
    result = regard("compare", *arguments, "--json")
    assert result.status == 0, result.err
    return json.loads(result.out)


def test_only_settings_that_differ_are_listed(pair: tuple[Path, Path]) -> None:
    values = compare(*pair, "--no-scores")
    assert values["settings"] == {"training.learning_rate": [4e-3, 1e-5]}
    everything = compare(*pair, "--no-scores", "--all")["settings"]
    assert everything["training.max_epochs"] == [3.0, 3.0]
    digests = everything["data sha256"]
    assert digests[0] == digests[1] and re.fullmatch("[0-9a-f]{64}", digests[0])


def test_other_training_data_has_another_digest(pair: tuple[Path, Path], tmp_path: Path) -> None:
    lines = (pair[0].parents[1] / "classification.train.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    other = tmp_path / "run"
    (tmp_path / "less.jsonl").write_text("".join(lines[:-1]), encoding="utf-8")
    recipe, train = pair[0].parents[1] / "classification.toml", f'data.train={{file="{tmp_path / "less.jsonl"}"}}'
    assert regard("train", recipe, train, "training.max_steps=2", "--folder", other).status == 0
    settings = compare(pair[0], other, "--no-scores")["settings"]
    assert len(set(settings["data sha256"])) == 2
    assert {"data.train", "training.max_steps"} <= settings.keys()


def test_curves_are_those_of_the_logs(pair: tuple[Path, Path]) -> None:
    curves = compare(*pair, "--no-scores")["curves"]
    assert list(curves) == ["train loss", "validation loss", "f1"]
    for run in pair:
        records = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        for name in ("loss", "f1"):
            points = [[item["step"], item["metrics"][name]] for item in records if item["kind"] == "validation"]
            assert points and curves["f1" if name == "f1" else "validation loss"][str(run)] == points


def test_scores_and_tests_are_those_of_evaluate(pair: tuple[Path, Path]) -> None:
    values = compare(*pair)
    assert values["problem"] == ""
    for run in pair:
        scores = json.loads(regard("evaluate", run, "--json").out)["scores"]
        assert values["scores"][str(run)]["scores"] == scores
    tested = json.loads(regard("evaluate", pair[1], "--against", pair[0], "--json").out)["comparison"]
    assert values["comparison"] == {str(pair[1]): tested}
    assert [item["metric"] for item in tested] == [score["name"] for score in scores]
    printed = regard("compare", *pair)
    assert "training.learning_rate" in printed.out and "Matthews correlation" in printed.out


@pytest.mark.parametrize("change", ["nothing", "data", "weights", "damage"])
def test_an_evaluation_is_used_again_only_for_the_same_weights_and_data(
    change: str, pair: tuple[Path, Path], tmp_path: Path
) -> None:
    copies = [Path(shutil.copytree(run, tmp_path / run.name)) for run in pair]
    data = tmp_path / "test.jsonl"
    shutil.copy(pair[0].parents[1] / "classification.test.jsonl", data)
    fresh = compare(*copies, "--file", data)
    (stored,) = (copies[0] / "evaluations").glob("test.jsonl-*-best.json")
    values = json.loads(stored.read_text(encoding="utf-8"))
    values["scores"][0]["value"] = 12.5  # so that what is read can be told from what is computed
    stored.write_text(json.dumps(values) if change != "damage" else "{", encoding="utf-8")
    if change == "data":
        data.write_text("".join(data.read_text(encoding="utf-8").splitlines(keepends=True)[1:]), encoding="utf-8")
    if change == "weights":
        shutil.rmtree(copies[0] / "checkpoints")
        shutil.copytree(copies[1] / "checkpoints", copies[0] / "checkpoints")
    again = compare(*copies, "--file", data)
    score = again["scores"][str(copies[0])]["scores"][0]["value"]
    assert (score == 12.5) == (change == "nothing")
    assert (again["comparison"] == fresh["comparison"]) == (change in ("nothing", "damage"))


@pytest.mark.parametrize("task", ["translation", "parsing", "tagging", "dependencies", "answering", "choice"])
def test_stored_predictions_are_enough_for_the_test(task: str, tiny_run: TinyRun, tmp_path: Path) -> None:
    run = tiny_run(task)
    copies = [Path(shutil.copytree(run, tmp_path / name)) for name in ("a", "b")]
    first, again = compare(*copies), compare(*copies)
    assert first["comparison"] == again["comparison"] and first["problem"] == ""
    assert all(item["delta"] == 0 and item["p_value"] == 1 for item in first["comparison"][str(copies[1])])


def test_settings_and_curves_are_compared_without_common_scores(
    pair: tuple[Path, Path], trained: Path, language: Path, tmp_path: Path
) -> None:
    other = compare(pair[0], trained)
    assert other["problem"] and not other["comparison"]
    assert other["settings"]["task"] == ["classification", "translation"]
    assert set(other["curves"]["validation loss"]) == {str(pair[0]), str(trained)}
    copied = shutil.copytree(language, tmp_path / "language")
    values = compare(language, copied)
    assert values["problem"] and [len(item["scores"]) for item in values["scores"].values()] == [3, 3]
    bare = tmp_path / "bare"
    recipe = pair[0].parents[1] / "classification.toml"
    assert regard("train", recipe, "training.max_steps=1", "data.test=[]", "--folder", bare).status == 0
    assert compare(pair[0], bare)["problem"]
    result = regard("compare", pair[0], bare)
    assert result.status == 0 and "not compared" in result.err


def test_a_picture_has_a_line_for_each_run(pair: tuple[Path, Path], trained: Path, tmp_path: Path) -> None:
    picture = tmp_path / "curves.svg"
    assert compare(*pair, trained, "--no-scores", "--figure", picture)["figure"] == str(picture)
    root = ElementTree.parse(picture).getroot()
    strokes = [(path.get("stroke"), path.findtext(f"{SVG}title")) for path in root.iter(f"{SVG}path")]
    named = [(stroke, title) for stroke, title in strokes if title in [str(run) for run in (*pair, trained)]]
    assert len(named) == 12 and len(set(named)) == 3, "a run has the same colour in each of the four plots"
    titles = [text.text for text in root.iter(f"{SVG}text") if text.get("class") == "title"]
    assert titles == ["train loss", "validation loss", "F1", "exact match"]


def test_errors(pair: tuple[Path, Path], tmp_path: Path) -> None:
    assert fails("compare", pair[0]).code == "missing-input"
    assert fails("compare", pair[0], pair[0]).code == "missing-input"
    assert fails("compare", pair[0], tmp_path).code == "not-a-run"
    assert fails("compare", *pair, "--figure", tmp_path / "curves.txt").code == "unsupported-format"
    assert fails("compare", "translator", "languages", "--figure", tmp_path / "curves.svg").code == "no-data"
    error = fails("info", *pair)
    assert error.code == "conflicting-options" and f"regard compare {pair[0]} {pair[1]}" in error.err


def test_a_chinese_terminal_reads_chinese(pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    result = regard("compare", *pair)
    assert result.out.startswith("设置") and "显著" in result.out
