"""Recognition with both models: training resumes exactly, and every command works on WAV files."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.cli.command import regard
from tests.conftest import TinyRun
from tests.tiny import recipe_values, train_run, write_recipe

from regard import load_recipe
from regard.errors import UserError
from regard.run.model import Model
from regard.run.run import Run
from regard.run.train import train
from regard.tasks.registry import build_recipe

KINDS = ("attention", "ctc")


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_training_equals_an_uninterrupted_one(kind: str, tmp_path: Path) -> None:
    settings = {"training.max_steps": 4, "training.schedule": "inverse_sqrt", "training.warmup": 2}
    recipe = load_recipe(write_recipe(tmp_path, "recognition", kind, settings))
    short = {"max_steps": 4, "validate_every": 2, "checkpoint_every": 2}
    whole = recipe.model_copy(update={"training": recipe.training.model_copy(update=short)})
    half = recipe.model_copy(update={"training": whole.training.model_copy(update={"max_steps": 2})})
    train(whole, tmp_path / "whole", report=lambda _: None)
    train(half, tmp_path / "parts", report=lambda _: None)
    train(whole, tmp_path / "parts", resume=True, report=lambda _: None)
    models = [Model.load(tmp_path / name, checkpoint="last").model.state_dict() for name in ("whole", "parts")]
    for name, weight in models[0].items():
        assert torch.equal(weight, models[1][name]), name


@pytest.mark.parametrize("kind", KINDS)
def test_the_commands(kind: str, tiny_run: TinyRun, tmp_path: Path) -> None:
    run = tiny_run("recognition", kind)
    folder = Path(Run.open(run).recipe.data.root)
    wav = folder / "wav" / "200.wav"
    predicted = json.loads(regard("predict", run, wav).out)
    assert predicted["audio"] == str(wav) and isinstance(predicted["text"], str)
    table = regard("predict", run, "--input", folder / "recordings.test.tsv", "--output", tmp_path / "out.tsv")
    assert table.status == 0, table.err
    header, *rows = (tmp_path / "out.tsv").read_text(encoding="utf-8").splitlines()
    assert header.split("\t")[:3] == ["audio", "text", "predicted_text"] and len(rows) == 8
    evaluated = regard("evaluate", run, "--json")
    assert evaluated.status == 0, evaluated.err
    assert {score["name"] for score in json.loads(evaluated.out)["scores"]} == {"WER", "CER"}
    inspected = regard("inspect", run, wav, "--target", "one zero", "--json", "--output", tmp_path / "page.html")
    assert inspected.status == 0, inspected.err
    maps = {item["name"]: item for item in json.loads(inspected.out)["maps"]}
    assert {*maps} == ({"encoder", "decoder", "cross"} if kind == "attention" else {"encoder", "alignment"})
    last = maps["cross" if kind == "attention" else "alignment"]
    assert "0.04" in (last["columns"] if kind == "attention" else last["rows"])


def test_a_beam_and_other_options(tiny_run: TinyRun) -> None:
    for kind in KINDS:
        run = tiny_run("recognition", kind)
        wav = Path(Run.open(run).recipe.data.root) / "wav" / "201.wav"
        found = json.loads(regard("predict", run, wav, "--beam", "3", "--nbest", "2").out)
        assert len(found["hypotheses"]) == 2 and found["hypotheses"][0]["text"] == found["text"]
    task = Run.open(tiny_run("recognition", "ctc")).task
    for options in ({"alpha": 0.1}, {"search": "sample"}, {"top": 3}):
        with pytest.raises(UserError) as error:
            task.configure(**options)
        assert error.value.code == "unsupported-option"


def test_commands_that_make_no_sense_say_so(tiny_run: TinyRun) -> None:
    run = tiny_run("recognition", "ctc")
    for command in (("translate", run, "x"), ("embed", run, "x"), ("serve", run), ("export", run, "--to", "onnx")):
        result = regard(*command)
        assert result.status != 0 and "error [" in result.err and "Traceback" not in result.err, command


@pytest.mark.parametrize("kind", KINDS)
def test_the_doctor_finds_no_defect(kind: str, tmp_path: Path) -> None:
    result = regard("doctor", write_recipe(tmp_path, "recognition", kind), "--quick", "--json")
    checks = json.loads(result.out)
    failed = [check for check in checks["checks"] if check["status"] == "fail"]
    assert result.status == 0 and not failed, failed


def test_a_changed_recording_is_read_again(tmp_path: Path) -> None:
    run = Run.open(train_run(tmp_path, "recognition", "ctc", {"training.max_steps": 1, "training.warmup": 0}))
    from regard.data.digests import Digests

    before = run.task.content("train", None, Digests(tmp_path / "digests.json"))
    wav = tmp_path / "wav" / "0.wav"
    wav.write_bytes(wav.read_bytes()[:-2] + b"\1\1")
    assert run.task.content("train", None, Digests(tmp_path / "other.json")) != before


def test_settings_without_effect_are_refused(tmp_path: Path) -> None:
    values: dict[str, Any] = recipe_values("recognition", "ctc", tmp_path, {"decoding.alpha": 0.3})
    with pytest.raises(UserError) as error:
        build_recipe(values, "test")
    assert error.value.where == "decoding.alpha"
    values = recipe_values("recognition", "ctc", tmp_path, {"model.subsampling": 3})
    with pytest.raises(UserError) as error:
        build_recipe(values, "test")
    assert error.value.where == "model.subsampling"
