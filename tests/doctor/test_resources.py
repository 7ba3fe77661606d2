"""Checks of device, schedule, memory, disk and time fail when there is too little of them."""

from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.doctor.recipes import TASKS, dry_run, run_checks, write_recipe

from regard.doctor import resources, sample
from regard.doctor.sample import DryRun


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    return write_recipe(tmp_path)


@pytest.fixture
def dry(recipe: Path, tmp_path: Path) -> DryRun:
    return dry_run(recipe, tmp_path)


# ---- device ---------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_fails(recipe: Path) -> None:
    result = run_checks(recipe, "runtime.device=cuda")["device"]
    assert result.status == "fail" and "runtime.device=cpu" in result.remedy


def test_an_unused_gpu_and_too_many_threads_are_warnings(dry: DryRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "count_workers", lambda workers: 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    check = resources.check_device(dry.world)
    assert check.status == "warn" and "runtime.threads=1" in check.remedy
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    check = resources.check_device(dry.world)
    assert check.status == "warn" and "runtime.device=auto" in check.remedy


# ---- schedule -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("warmup", "status"), [(10, "pass"), (60, "warn"), (100, "fail")])
@pytest.mark.parametrize("task", ["translation", "language"])
def test_a_warm_up_that_never_ends_fails(task: str, warmup: int, status: str, tmp_path: Path) -> None:
    dry = dry_run(write_recipe(tmp_path, task), tmp_path, f"training.warmup={warmup}", "training.schedule=constant",
                  "training.learning_rate=1e-3")  # fmt: skip
    check = resources.check_schedule(dry)
    assert check.status == status and ("training.warmup=10" in check.remedy) == (status != "pass")


@pytest.mark.parametrize(("steps", "status"), [(5, "warn"), (100, "pass"), (100_000, "warn")])
def test_too_few_and_too_many_epochs_are_warnings(steps: int, status: str, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "language")
    dry = dry_run(recipe, tmp_path, f"training.max_steps={steps}")
    check = resources.check_schedule(dry)
    assert check.status == status
    setting = {5: f"training.max_steps={dry.batches.steps_in_epoch(0)}", 100_000: "training.max_epochs=50"}.get(steps)
    assert (setting is None) == (status == "pass") and (setting or "") in check.remedy


@pytest.mark.parametrize(("rate", "status"), [(1.0, "pass"), (50.0, "warn")])
def test_an_absurd_factor_of_the_schedule_of_the_paper_is_a_warning(rate: float, status: str, tmp_path: Path) -> None:
    changed = ["training.max_steps=200", "training.warmup=100", f"training.learning_rate={rate}"]
    dry = dry_run(write_recipe(tmp_path), tmp_path, "training.schedule=paper", *changed)
    assert resources.check_schedule(dry).status == status


def test_training_ends_after_its_epochs(recipe: Path, tmp_path: Path) -> None:
    dry = dry_run(recipe, tmp_path, "training.max_steps=100000", "training.max_epochs=3.0")
    settings, epoch = resources.planned_steps(dry)
    assert settings.max_steps == 3 * dry.batches.steps_in_epoch(0) and epoch == dry.batches.steps_in_epoch(0)


def test_a_share_of_the_steps_is_warm_up(tmp_path: Path) -> None:
    dry = dry_run(write_recipe(tmp_path, "classification"), tmp_path)
    settings, epoch = resources.planned_steps(dry)
    assert (settings.max_steps, settings.warmup, epoch) == (50, 5, 25)


@pytest.mark.parametrize("task", ["pretraining", "classification"])
def test_epochs_are_of_all_examples_and_not_of_the_sample(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = write_recipe(tmp_path, task)
    _, whole = resources.planned_steps(dry_run(recipe, tmp_path / "whole"))
    monkeypatch.setattr(sample, "SAMPLE", 50)
    dry = dry_run(recipe, tmp_path / "part")
    assert len(dry.survey.samples["train"]) == 50 and dry.batches.steps_in_epoch(0) < whole / 3
    assert resources.planned_steps(dry)[1] == pytest.approx(whole, rel=0.15)


def test_quick_knows_the_epochs_of_labelled_data_and_a_bound_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample, "QUICK_SAMPLE", 50)
    for task, counted in (("classification", True), ("translation", False)):
        recipe = write_recipe(tmp_path / task, task)
        dry = dry_run(recipe, tmp_path / f"dry-{task}", "training.max_steps=30000", quick=True)
        assert dry.survey.counted is counted and not dry.survey.complete
        settings, epoch = resources.planned_steps(dry)
        assert settings.max_steps == (2 * epoch if counted else 30_000) and (24 < epoch < 29) == counted
        assert resources.check_schedule(dry).status == "pass"  # a bound of the epochs is no reason to warn


# ---- memory ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_too_little_memory_fails(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dry = dry_run(write_recipe(tmp_path, task), tmp_path)
    fixed, activations = resources.needed_memory(dry)
    need = fixed + activations
    numbers = sum(weight.numel() for weight in dry.new_model().parameters())
    assert fixed == (16 + 12) * numbers and activations > 0, "12 bytes are a checkpoint that is being written"
    for free, status in ((need - 1, "fail"), (need + 1, "warn"), (2 * need, "pass")):
        monkeypatch.setattr(resources, "free_memory", lambda world, free=free: free)
        check = resources.check_memory(dry)
        assert check.status == status and bool(check.remedy) == (status != "pass")
    monkeypatch.setattr(resources, "free_memory", lambda world: 1000)
    check = resources.check_memory(dry)
    assert check.status == "fail" and "model.size" in check.remedy, "the model alone is too large"


@pytest.mark.parametrize("task", ["translation", "language", "pretraining", "classification", "choice"])
def test_memory_of_a_slice_gives_that_of_the_whole_batch(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dry = dry_run(write_recipe(tmp_path, task), tmp_path, "training.batch_tokens=2000")
    monkeypatch.setattr(resources, "SLICE_ELEMENTS", 128)
    _, from_slice = resources.needed_memory(dry)
    step = max(range(len(dry.planned)), key=lambda number: dry.planned[number][1])
    (batch,) = dry.batches.batch(step).micro_batches
    sizes = np.array(resources.saved_sizes(dry, dry.new_model().train(), batch))
    assert from_slice == pytest.approx(resources.activation_bytes(sizes), rel=0.1)


def test_accumulation_saves_memory(recipe: Path, tmp_path: Path) -> None:
    one = dry_run(recipe, tmp_path / "one", "training.batch_tokens=2000")
    four = dry_run(recipe, tmp_path / "four", "training.batch_tokens=2000", "training.accumulation=4")
    assert resources.needed_memory(four)[1] == pytest.approx(resources.needed_memory(one)[1] / 4, rel=0.15)


def test_free_memory_is_measured(dry: DryRun) -> None:
    assert 1 << 20 < resources.free_memory(dry.world) < 1 << 50


def test_bpe_dropout_makes_sequences_longer(recipe: Path, tmp_path: Path) -> None:
    plain = dry_run(recipe, tmp_path / "plain", "training.batch_tokens=2000")
    dropout = dry_run(recipe, tmp_path / "dropout", "training.batch_tokens=2000", "text.dropout=0.3")
    tokens = [sum(step for step, _ in dry.planned) for dry in (plain, dropout)]
    assert tokens[0] < tokens[1]
    assert resources.check_memory(dropout).status == resources.check_time(dropout).status == "pass"


# ---- disk and time --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["translation", "language", "pretraining", "tagging"])
def test_a_full_disk_fails(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dry = dry_run(write_recipe(tmp_path, task), tmp_path)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage(1, 1, 1 << 10))
    check = resources.check_disk(dry, dry.task.new_model(), tmp_path / "not" / "yet")
    assert check.status == "fail" and "training.keep" in check.remedy and str(tmp_path) in check.finding


@pytest.mark.parametrize(("seconds", "status"), [(1e-3, "pass"), (9000.0, "warn"), (1e6, "fail")])
@pytest.mark.parametrize("task", ["translation", "language"])
def test_a_training_of_months_fails(
    task: str, seconds: float, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "train_step", lambda *_: seconds)
    check = resources.check_time(dry_run(write_recipe(tmp_path, task), tmp_path))
    assert check.status == status and bool(check.remedy) == (status != "pass")


def test_max_minutes_that_end_training_early_are_a_warning(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dry = dry_run(recipe, tmp_path, "training.max_minutes=1")
    monkeypatch.setattr(resources, "train_step", lambda *_: 6.0)
    check = resources.check_time(dry)
    assert check.status == "warn" and "training.max_minutes" in check.remedy


def test_timing_reports_progress(dry: DryRun) -> None:
    reports: list[int] = []
    resources.check_time(dry, lambda title, done, total: reports.append(done))
    assert reports == list(range(1, resources.TIMED_STEPS + 2))
