"""Every check of the model fails if the model has the defect it looks for; good models pass (test_examine)."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.doctor.recipes import TASKS, dry_run, write_recipe
from torch import Tensor, nn

from regard.attention.layouts import Layout, PaddedPattern
from regard.doctor import model
from regard.doctor.sample import DryRun
from regard.run.run import Run
from regard.tasks.registry import task_of


@pytest.fixture
def dry(tmp_path: Path) -> DryRun:
    return dry_run(write_recipe(tmp_path), tmp_path)


def damage(monkeypatch: pytest.MonkeyPatch, dry: DryRun, change: Callable[[Any], None]) -> None:
    """Every new model has a defect from now on."""
    task = task_of(dry.recipe)
    build = task.new_model

    def new_model(self: Any) -> nn.Module:
        module = build(self)
        change(module)
        return module

    monkeypatch.setattr(task, "new_model", new_model)


def scale_embedding(factor: float) -> Callable[[Any], None]:
    def change(module: Any) -> None:
        embedding = module.tgt_embedding if hasattr(module, "tgt_embedding") else module.embedding
        embedding.weight.data *= factor

    return change


# ---- first loss -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [32, 256])
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("tie", ["all", "none"])
def test_the_first_loss_of_good_models_is_as_expected(size: int, norm: str, tie: str, tmp_path: Path) -> None:
    overrides = f"model.d_model={size}", f"model.norm={norm}", f"model.tie={tie}"
    dry = dry_run(write_recipe(tmp_path), tmp_path, *overrides)
    assert model.check_first_loss(dry).status == "pass"


def test_without_layer_norm_a_large_first_loss_is_no_defect(tmp_path: Path) -> None:
    dry = dry_run(write_recipe(tmp_path, "translation"), tmp_path, "model.norm_kind=none")
    assert model.check_first_loss(dry).status in ("pass", "warn")
    assert model.check_leaks(dry).status == "pass"


def test_tied_embeddings_are_explained(tmp_path: Path) -> None:
    dry = dry_run(write_recipe(tmp_path), tmp_path, "model.d_model=256", "model.norm=pre")
    assert "tied embeddings" in model.check_first_loss(dry).finding


@pytest.mark.parametrize(("task", "factor"), [("translation", 2.0), ("translation", 20.0), ("language", 20.0)])
def test_embeddings_of_the_wrong_scale_fail(
    task: str, factor: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dry = dry_run(write_recipe(tmp_path, task), tmp_path)
    damage(monkeypatch, dry, scale_embedding(factor))
    assert model.check_first_loss(dry).status == "fail"


@pytest.mark.parametrize(("task", "weight"), [
    ("pretraining", "bert.words"), ("classification", "head"), ("regression", "head"), ("tagging", "head"),
    ("dependencies", "head"),
    ("answering", "head"), ("choice", "head"), ("masked", "transformer.tgt_embedding"),
])  # fmt: skip
def test_outputs_of_the_wrong_scale_fail(
    task: str, weight: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dry = dry_run(write_recipe(tmp_path, task), tmp_path)

    def change(module: nn.Module) -> None:
        for name, parameter in module.named_parameters():
            if name.startswith(weight):
                parameter.data.normal_(std=100.0)

    damage(monkeypatch, dry, change)
    assert model.check_first_loss(dry).status == "fail"


@pytest.mark.parametrize("task", ["translation", "language"])
def test_labels_that_are_the_input_fail(task: str, tmp_path: Path) -> None:
    dry = dry_run(write_recipe(tmp_path, task), tmp_path)
    batch = dry.small_batch
    dry.__dict__["small_batch"] = batch.replaced(**{dry.causal_sequence: batch.labels})
    check = model.check_first_loss(dry)
    assert check.status == "fail" and "labels" in check.finding


@pytest.mark.parametrize("task", ["pretraining", "translation"])
def test_a_loss_below_that_of_a_guess_is_right_only_for_a_trained_start(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dry = dry_run(write_recipe(tmp_path, task), tmp_path)
    recipe = dry.recipe.model_copy(update={"start_from": "elsewhere"})
    started = replace(dry, run=Run(dry.run.folder, recipe))
    started.run.__dict__["task"] = dry.task
    new_model = dry.new_model()
    monkeypatch.setattr(DryRun, "new_model", lambda self, plain=False: new_model)
    monkeypatch.setattr(model, "_mean_loss", lambda *_: 0.01)
    assert model.check_first_loss(started).status == "pass"
    if task == "pretraining":
        assert model.check_first_loss(dry).status == "fail"
        monkeypatch.setattr(model, "_mean_loss", lambda *_: 99.0)
        assert model.check_first_loss(started).status == "fail"


def test_logits_are_compared_in_single_precision(dry: DryRun, monkeypatch: pytest.MonkeyPatch) -> None:
    half = torch.ones(3, 5, dtype=torch.bfloat16)
    monkeypatch.setattr(type(dry.task.checks), "decoder_logits", lambda *_: half)
    assert model.decoder_logits(dry, dry.new_model(), dry.small_batch).dtype == torch.float32


# ---- leaks ----------------------------------------------------------------------------------------------------------


def attend_without(mask: str) -> Any:
    """The attention of a padded batch with one mask left out."""

    def attend(pattern: PaddedPattern, q: Tensor, k: Tensor, v: Tensor, dropout: float, function: Any = None) -> Tensor:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        causal = pattern.causal and mask != "later tokens"
        padding = None if pattern.causal or mask == "padding" else pattern.mask
        return F.scaled_dot_product_attention(q, k, v, padding, is_causal=causal).transpose(1, 2)

    return attend


@pytest.mark.parametrize("mask", ["later tokens", "padding"])
def test_a_missing_mask_is_a_leak(mask: str, dry: DryRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PaddedPattern, "attend", attend_without(mask))
    check = model.check_leaks(dry)
    assert check.status == "fail" and mask in check.finding


def test_the_same_attention_with_all_masks_passes(dry: DryRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PaddedPattern, "attend", attend_without("nothing"))
    assert model.check_leaks(dry).status == "pass"


def test_a_language_model_that_reads_ahead_is_a_leak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = 'model={kind="transformer", d_model=32, layers=1, num_heads=2, d_ff=64}'
    dry = dry_run(write_recipe(tmp_path, "language"), tmp_path, kind)
    assert model.check_leaks(dry).status == "pass"
    monkeypatch.setattr(PaddedPattern, "attend", attend_without("later tokens"))
    check = model.check_leaks(dry)
    assert check.status == "fail" and "later tokens" in check.finding


class MixSequences(nn.Module):
    """Adds the mean of the batch to every sequence."""

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        return x + x.mean(dim=0, keepdim=True)


def test_sequences_that_depend_on_each_other_are_a_leak(dry: DryRun, monkeypatch: pytest.MonkeyPatch) -> None:
    damage(monkeypatch, dry, lambda module: setattr(module, "encoder_norm", MixSequences()))
    check = model.check_leaks(dry)
    assert check.status == "fail" and "other sequences" in check.finding


def test_a_decoder_that_ignores_the_source_fails(dry: DryRun, monkeypatch: pytest.MonkeyPatch) -> None:
    damage(monkeypatch, dry, ignore_source)
    check = model.check_leaks(dry)
    assert check.status == "fail" and "the source" in check.finding


def ignore_source(module: Any) -> None:
    for layer in module.decoder:
        layer.cross_attention.output.requires_grad_(False)
        layer.cross_attention.output.weight.zero_()


@pytest.mark.parametrize("task", ["translation", "language"])
def test_logits_that_are_not_finite_fail(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dry = dry_run(write_recipe(tmp_path, task), tmp_path)
    damage(monkeypatch, dry, scale_embedding(math.nan))
    assert model.check_leaks(dry).status == "fail"
    assert model.check_first_loss(dry).status == "fail"
    check = model.check_gradients(dry)
    assert check.status == "fail" and "runtime.precision=fp32" in check.remedy


# ---- gradients and learning -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_a_weight_without_gradient_fails(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dry = dry_run(write_recipe(tmp_path, task), tmp_path)
    assert model.check_gradients(dry).status == "pass"
    damage(monkeypatch, dry, lambda module: module.register_parameter("unused", nn.Parameter(torch.ones(3))))
    check = model.check_gradients(dry)
    assert check.status == "fail" and "unused" in check.finding


@pytest.mark.parametrize("task", ["translation", "classification"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_gradient_that_is_not_finite_fails(
    task: str, value: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dry = dry_run(write_recipe(tmp_path, task), tmp_path)
    names: list[str] = []

    def change(module: nn.Module) -> None:
        name, weight = next(iter(module.named_parameters()))
        weight.register_hook(lambda gradient: gradient * value)
        names.append(name)

    damage(monkeypatch, dry, change)
    check = model.check_gradients(dry)
    assert check.status == "fail" and names[0] in check.finding and "runtime.precision=fp32" in check.remedy


@pytest.mark.parametrize("task", ["language", "pretraining", "classification", "regression", "tagging", "dependencies"])
def test_a_model_that_does_not_learn_fails(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dry = dry_run(write_recipe(tmp_path, task), tmp_path)
    monkeypatch.setattr(model, "OVERFIT_STEPS", 2)
    check = model.check_overfit(dry)
    assert check.status == "fail" and check.remedy


def test_a_decoder_that_ignores_the_source_does_not_overfit(dry: DryRun, monkeypatch: pytest.MonkeyPatch) -> None:
    damage(monkeypatch, dry, ignore_source)
    monkeypatch.setattr(model, "OVERFIT_STEPS", 150)
    assert model.check_overfit(dry).status == "fail"


def test_overfitting_that_takes_too_long_is_a_warning(dry: DryRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "OVERFIT_SECONDS", -1.0)
    check = model.check_overfit(dry)
    assert check.status == "warn" and "--quick" in check.remedy


def test_overfitting_reports_progress(dry: DryRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "OVERFIT_STEPS", 3)
    reports: list[tuple[int, int | None]] = []
    model.check_overfit(dry, lambda title, done, total: reports.append((done, total)))
    assert reports == [(1, 3), (2, 3), (3, 3)]
