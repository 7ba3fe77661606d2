"""run/facts.py: what the files of a run say about it."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from tests.conftest import TinyRun

from regard.errors import UserError
from regard.files import JsonObject, Manifest, locked
from regard.run.facts import (
    changed_settings,
    compare_with_defaults,
    count_weights,
    find_runs,
    read_facts,
    require_run,
    source_text,
)
from regard.run.run import Run
from regard.run_files import CHANGES
from regard.tasks.registry import build_recipe


@pytest.fixture
def run(tiny_run: TinyRun, tmp_path: Path) -> Path:
    """A copy of a translation run."""
    return Path(shutil.copytree(tiny_run("translation"), tmp_path / "run"))


def change_progress(run: Path, **values: object) -> None:
    """Change the progress in state.json of the newest checkpoint."""
    path = sorted((run / "checkpoints").glob("step-*"))[-1] / "state.json"
    manifest = Manifest.read(path)
    manifest.facts["progress"].update(values)
    manifest.write(path)


def change_recipe(run: Path, name: str, value: object) -> None:
    """Change a line of recipe.toml."""
    path = run / "recipe.toml"
    text, count = re.subn(rf"^{name} = .*$", f"{name} = {value}", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert count == 1
    path.write_text(text, encoding="utf-8")


def test_facts_are_those_of_the_run(run: Path) -> None:
    opened = Run.open(run)
    facts, recipe = read_facts(run), opened.recipe
    progress = Manifest.read(opened.checkpoints.resolve("last") / "state.json").facts["progress"]
    assert (facts.run, facts.name, facts.task) == (str(run), recipe.name, "translation")
    assert facts.model.split()[0] == recipe.model.kind
    assert facts.weights == sum(weight.numel() for weight in opened.model().parameters())
    assert facts.vocabulary == [len(opened.task.tgt_tokenizer)]  # type: ignore[attr-defined]
    assert (facts.step, facts.best, facts.best_step) == (progress["step"], progress["best"], progress["best_step"])
    assert (facts.monitor, facts.metrics) == (recipe.training.monitor, progress["metrics"])
    assert facts.checkpoints == [path.name for path in opened.checkpoints.all()]
    assert facts.examples["train"] == len(list(opened.task.read("train")))
    assert facts.bytes == sum(path.stat().st_size for path in run.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("progress", "limits", "state"),
    [
        ({"step": 10}, {"max_steps": 10}, "finished"),
        ({"step": 9}, {"max_steps": 10}, "stopped"),
        ({"step": 9, "validated_step": 9, "epoch": 1.0}, {"max_epochs": 2.0}, "finished"),
        ({"step": 9, "validated_step": 8, "epoch": 1.0}, {"max_epochs": 2.0}, "stopped"),
        ({"step": 9, "bad_validations": 3}, {"patience": 3}, "finished"),
        ({"step": 9, "bad_validations": 2}, {"patience": 3}, "stopped"),
        ({"step": 9, "seconds": 121.0}, {"max_minutes": 2.0}, "finished"),
        ({"step": 9, "seconds": 119.0}, {"max_minutes": 2.0}, "stopped"),
    ],
)
def test_the_state_follows_from_the_limits(
    run: Path, progress: JsonObject, limits: dict[str, float], state: str
) -> None:
    for name in ("max_steps", "max_epochs", "patience", "max_minutes"):
        change_recipe(run, name, limits.get(name, 1000 if name == "max_steps" else 0))
    change_progress(run, **progress)
    assert read_facts(run).state == state


def test_held_out_splits(run: Path) -> None:
    assert read_facts(run).held_out == []
    lines = (run / "recipe.toml").read_text(encoding="utf-8").splitlines()
    without = [line for line in lines if not line.startswith(("valid =", "test ="))]
    (run / "recipe.toml").write_text("\n".join(without), encoding="utf-8")
    facts = read_facts(run)
    assert (facts.data["valid"], facts.data["test"], facts.held_out) == ([], [], ["valid"]), "valid was tokenised"
    change_recipe(run, "hold_out_test", 0.1)
    assert read_facts(run).held_out == ["valid", "test"]
    shutil.rmtree(run / "store" / "valid")
    assert read_facts(run).held_out == ["test"]
    change_recipe(run, "hold_out", 0.1)
    assert read_facts(run).held_out == ["valid", "test"]


def test_a_limit_of_epochs_that_is_off_is_none(run: Path) -> None:
    change_recipe(run, "max_epochs", 0.0)
    assert read_facts(run).max_epochs is None
    change_recipe(run, "max_epochs", 2.5)
    assert read_facts(run).max_epochs == 2.5


def test_seconds_that_are_no_number_are_damage(run: Path) -> None:
    change_progress(run, seconds=float("nan"))
    assert read_facts(run).state == "damaged"


def test_other_states(run: Path) -> None:
    with locked(run):
        assert read_facts(run).state == "in use"
    assert read_facts(run).state in ("finished", "stopped")
    (run / "checkpoints" / read_facts(run).checkpoints[-1] / "state.json").write_text("{", encoding="utf-8")
    facts = read_facts(run)
    assert (facts.state, facts.step, facts.best) == ("damaged", 0, None)
    shutil.rmtree(run / "checkpoints")
    facts = read_facts(run)
    assert (facts.state, facts.checkpoints, facts.weights) == ("not trained", [], None)


def test_weights_are_counted_from_the_header(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"a": torch.zeros(2, 3), "b": torch.zeros(())}, path, {"format": "pt"})
    assert count_weights(path) == 7
    path.write_bytes((1 << 40).to_bytes(8, "little") + b"{}")
    assert count_weights(path) == 0
    path.write_bytes(b"\x02\0\0\0\0\0\0\0[]")
    assert count_weights(path) is None
    assert count_weights(tmp_path / "missing") is None


def test_sources_in_words() -> None:
    assert source_text({"src": "a.en", "tgt": "a.de"}) == "a.en, a.de"
    assert source_text({"builtin": "dates", "split": "train"}) == "dates (train)"


def test_runs_are_found_two_levels_deep(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "ladder" / "lstm")
    (tmp_path / "other").mkdir()
    assert list(find_runs(tmp_path)) == [run, tmp_path / "ladder" / "lstm"]
    assert list(find_runs(run)) == [run]


def test_a_folder_that_is_not_a_run(run: Path, tmp_path: Path) -> None:
    require_run(run)
    for folder in (tmp_path, tmp_path / "rnu"):
        with pytest.raises(UserError) as error:
            require_run(folder)
        assert (error.value.code, error.value.where) == ("not-a-run", str(folder))
        assert str(run) in str(error.value.remedy)


# ---- settings -------------------------------------------------------------------------------------------------------

VALUES: JsonObject = {"name": "a", "data": {"train": {"file": "a.tsv"}, "valid": {"file": "b.tsv"}}}


def test_settings_that_differ_from_the_default() -> None:
    assert compare_with_defaults(build_recipe(VALUES, "test")) == {}
    changed = VALUES | {"training": {"max_steps": 7}, "text": {"vocab_size": 300}, "model": {"size": "tiny"}}
    found = compare_with_defaults(build_recipe(changed, "test"))
    assert found == {"text.vocab_size": 300, "training.max_steps": 7}, "what the size decides is not listed"
    recurrent = VALUES | {"model": {"kind": "recurrent", "dropout": 0.0625}}
    assert compare_with_defaults(build_recipe(recurrent, "test")) == {"model.dropout": 0.0625}


def test_settings_of_a_recipe_that_holds_out_examples() -> None:
    data = {"train": {"file": "a.tsv"}, "hold_out": 0.25}
    values = {"name": "a", "task": "classification", "data": data, "training": {"max_epochs": 7.0}}
    found = compare_with_defaults(build_recipe(values, "test"))
    assert found["training.max_epochs"] == 7.0


def test_settings_of_an_imported_model() -> None:
    values = {"name": "a", "data": {}, "text": {"kind": "imported"}, "model": {"size": "custom", "d_model": 96}}
    found = compare_with_defaults(build_recipe(values, "test"))
    assert found == {"model.d_model": 96}


def test_changes_are_computed_again_if_the_recipe_changed(run: Path) -> None:
    written = Manifest.read(run / CHANGES).facts["changed"]
    assert changed_settings(run) == written == compare_with_defaults(Run.open(run).recipe)
    change_recipe(run, "max_steps", 12345)
    assert changed_settings(run) == written | {"training.max_steps": 12345}
    (run / CHANGES).unlink()
    assert changed_settings(run)["training.max_steps"] == 12345


def test_the_written_changes_are_read(run: Path) -> None:
    manifest = Manifest.read(run / CHANGES)
    content = json.loads((run / CHANGES).read_text(encoding="utf-8"))
    assert content["files"].keys() == {"recipe.toml"}
    Manifest(manifest.format, None, manifest.files, {"changed": {"a.b": 1}}).write(run / CHANGES)
    assert changed_settings(run) == {"a.b": 1}
