"""The whole path: a recipe without defects passes every check, for every task."""

import json
import re
from pathlib import Path

import pytest
import torch
from tests.cli.command import regard
from tests.doctor.recipes import LABELLED, SIZES, TASKS, run_checks, statuses, write_recipe
from tests.tiny import recipe_values

from regard.doctor.check import Check, guarded, healthy, to_json
from regard.recipe import to_toml

DATA = ["recipe", "device", "files", "examples", "overlap"]
MODEL = ["gradients", "schedule", "memory", "disk", "overfit", "time"]
PAIRS = [*DATA, "plausibility", "filters", "tokenizer", "lengths", "first-loss", "leaks", *MODEL]
CHECKS = {
    "translation": PAIRS,
    "parsing": [name for name in PAIRS if name != "plausibility"],
    "masked": [name for name in PAIRS if name != "leaks"],
    "language": [*DATA, "tokenizer", "first-loss", "leaks", *MODEL],
    "pretraining": [*DATA, "tokenizer", "inputs", "first-loss", *MODEL],
} | {task: [*DATA, "labels", "filters", "tokenizer", "lengths", "first-loss", *MODEL] for task in LABELLED}
NAMES = {"UNK", "train", "valid", "test", "source", "target", "fp", "MiB", "GiB"}
for name in ("classification", "regression"):
    CHECKS[name].insert(len(DATA) + 1, "plausibility")


@pytest.mark.parametrize("task", TASKS)
def test_a_good_recipe_passes_every_check_and_nothing_is_written(task: str, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, task)
    before = sorted(tmp_path.rglob("*"))
    results = run_checks(recipe, quick=False)
    assert statuses(results) == dict.fromkeys(CHECKS[task], "pass"), results
    assert list(results) == CHECKS[task]
    assert not any(check.remedy for check in results.values())
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("task", ["translation", "language", "tagging"])
def test_quick_skips_what_takes_long(task: str, tmp_path: Path) -> None:
    results = statuses(run_checks(write_recipe(tmp_path, task)))
    assert {name for name, status in results.items() if status != "pass"} == {"overfit", "time"}
    assert results["overfit"] == results["time"] == "skip"


@pytest.mark.parametrize("kind", ["recurrent", "convolutional"])
def test_other_translation_models_pass(kind: str, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    model = {"recurrent": '{kind="recurrent", d_model=32}', "convolutional": '{kind="convolutional", d_model=32}'}[kind]
    assert set(statuses(run_checks(recipe, f"model={model}")).values()) == {"pass", "skip"}


@pytest.mark.parametrize("kind", ["rnn", "gru", "markov", "transformer"])
def test_other_language_models_pass(kind: str, tmp_path: Path) -> None:
    sizes = ", num_heads=2, d_ff=64, layers=1" if kind == "transformer" else ""
    recipe = write_recipe(tmp_path, "language")
    results = run_checks(recipe, f'model={{kind="{kind}", d_model=32{sizes}}}')
    assert set(statuses(results).values()) == {"pass", "skip"}, results


def test_a_recurrent_text_encoder_passes(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "classification")
    assert set(statuses(run_checks(recipe, 'model={kind="recurrent", d_model=32}')).values()) == {"pass", "skip"}


def test_an_n_gram_model_has_checks_of_data_and_disk_only(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "language")
    data = {f"data.{split}": {"file": f"{split}.txt"} for split in SIZES}
    recipe.write_text(to_toml(recipe_values("language", "ngram", tmp_path, data)), encoding="utf-8")
    results = statuses(run_checks(recipe, quick=False))
    assert results == dict.fromkeys([*DATA, "tokenizer", "disk"], "pass")


def test_pretraining_without_next_sentences_passes(tmp_path: Path) -> None:
    results = run_checks(write_recipe(tmp_path, "pretraining"), "data.next_sentence=false")
    assert results["gradients"].status == "pass"


def test_an_unknown_setting_ends_the_examination(tmp_path: Path) -> None:
    results = run_checks(write_recipe(tmp_path), "training.max_step=5")
    assert statuses(results) == {"recipe": "fail", "remaining": "skip"}
    assert "max_steps" in results["recipe"].remedy
    assert not healthy(results.values())


def test_a_missing_start_ends_the_examination(tmp_path: Path) -> None:
    for task in ("classification", "translation", "language"):
        results = run_checks(write_recipe(tmp_path, task), f"start_from={tmp_path / 'nowhere'}")
        assert (results["start"].status, results["remaining"].status) == ("fail", "skip")


def test_a_full_gpu_is_a_failed_check() -> None:
    def full() -> Check:
        raise torch.OutOfMemoryError("CUDA out of memory")

    check = guarded("gradients", full)
    assert check.status == "fail" and "model.size" in check.remedy


def test_json_has_all_results() -> None:
    checks = [Check("files", "pass", "good"), Check("disk", "fail", "full", "free some space")]
    first = {"name": "files", "status": "pass", "finding": "good", "remedy": ""}
    assert to_json(checks) == {
        "healthy": False,
        "checks": [first, {"name": "disk", "status": "fail", "finding": "full", "remedy": "free some space"}],
    }
    assert to_json(checks[:1])["healthy"] is True


def test_the_command_prints_every_result_and_a_summary(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    good = regard("doctor", recipe, "--quick")
    assert good.status == 0 and "pass  first-loss: " in good.out and good.out.endswith("2 skipped\n")
    bad = regard("doctor", recipe, "training.warmup=5000", "--quick")
    assert bad.status == 1 and "fail  schedule: " in bad.out and "training.warmup=" in bad.out


@pytest.mark.parametrize("task", ["translation", "classification", "pretraining"])
def test_a_chinese_terminal_shows_only_names_in_english(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    monkeypatch.chdir(tmp_path)
    settings = ["data.test=[]", "training.max_steps=1", "training.warmup=0"]
    output = regard("doctor", write_recipe(tmp_path, task), *settings)
    assert "警告  训练计划：1 步" in output.out and "\n      -> 设 training." in output.out
    shown = "\n".join(line for line in output.lines if not line.startswith(("      train: ", "      valid: ")))
    shown = re.sub(r"(data|training)\.\w+", "", shown.replace(str(Path.cwd()), ""))
    words = set(re.findall(r"\b[A-Za-z][A-Za-z_.]+", shown))
    assert words <= NAMES | {task, "CPU", "GPU", "epoch", "logit", "logits", "nat", "ln"}, words - NAMES


def test_the_command_prints_json_in_english(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    output = regard("doctor", write_recipe(tmp_path), "training.nonsense=1", "--json")
    result = json.loads(output.out)
    assert output.status == 1 and result["healthy"] is False
    assert [check["status"] for check in result["checks"]] == ["fail", "skip"]
    assert result["checks"][1]["finding"] == "the other checks need what failed"
