"""regard info and regard runs: facts about runs, without torch."""

import json
import re
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from tests.cli.command import fails, regard
from tests.cli.test_app import loaded_after

from regard.cli.info import fact_lines, position
from regard.run.facts import changed_settings, read_facts


def test_info_prints_the_facts(trained: Path) -> None:
    facts, changed = read_facts(trained), changed_settings(trained)
    assert json.loads(regard("info", trained, "--json").out) == asdict(facts) | {"changed": changed}
    lines = regard("info", trained).lines
    words = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines[1:] if line.startswith("  ")}
    assert words["task"] == "translation"
    assert f"{facts.weights:,} weights" in words["model"]
    assert f"{facts.monitor} {facts.best:.4g}" in words["best"]
    assert facts.state in words["state"]
    assert [name for name in words if "." in name] == list(changed)


@pytest.mark.parametrize(
    ("step", "epoch", "max_steps", "max_epochs", "numbers"),
    [
        (660, 54.0, 100_000, 55.0, ["660", "55", "55"]),
        (60, 4.0, 60, 55.0, ["60", "60"]),
        (60, 4.0, None, 2.5, ["60", "5", "2.5"]),
        (1500, 4.0, 3000, None, ["1,500", "3,000"]),
        (60, 4.0, None, None, ["60"]),
    ],
)
def test_info_names_the_limit_that_comes_first(
    trained: Path, step: int, epoch: float, max_steps: int | None, max_epochs: float | None, numbers: list[str]
) -> None:
    facts = replace(read_facts(trained), step=step, epoch=epoch, max_steps=max_steps, max_epochs=max_epochs)
    assert re.findall(r"[\d.,]*\d", position(facts)) == numbers


def test_info_names_held_out_data(trained: Path) -> None:
    facts = read_facts(trained)
    rows = dict(fact_lines(replace(facts, data=facts.data | {"valid": []}, held_out=["valid"])))
    assert rows["valid"].startswith(f"{facts.examples['valid']:,} ")
    assert rows["valid"] != dict(fact_lines(facts))["valid"]
    assert "valid" not in dict(fact_lines(replace(facts, data=facts.data | {"valid": []})))


def test_info_needs_a_run(tmp_path: Path) -> None:
    assert fails("info", tmp_path).code == "not-a-run"


def test_runs_lists_every_run(trained: Path, classifier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(trained, tmp_path / "runs" / "a")
    shutil.copytree(classifier, tmp_path / "runs" / "b")
    (tmp_path / "runs" / "c").mkdir()
    (tmp_path / "runs" / "c" / "recipe.toml").write_text("name =", encoding="utf-8")
    result = regard("runs")
    rows = [line.split() for line in result.lines[2:]]
    assert [row[:2] for row in rows] == [["runs/a", "translation"], ["runs/b", "classification"]]
    assert [row[-1] for row in rows] == [read_facts(Path(row[0])).state for row in rows]
    assert str(Path("runs/c/recipe.toml")) in result.err
    assert [row["run"] for row in json.loads(regard("runs", "--json").out)] == ["runs/a", "runs/b"]


def test_a_folder_without_runs(tmp_path: Path) -> None:
    assert regard("runs", tmp_path).out == ""
    assert regard("runs", tmp_path, "--json").out == "[]\n"
    assert fails("runs", tmp_path / "missing").code == "not-a-run"


def test_info_and_runs_load_no_large_library(trained: Path) -> None:
    commands = [["info", str(trained)], ["runs", str(trained.parent)]]
    code = f"from regard.cli import main\nassert [main(command) for command in {commands!r}] == [0, 0]"
    assert loaded_after(code) == set()
