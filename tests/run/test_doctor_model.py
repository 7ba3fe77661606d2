"""Each check of the model and of the means must fail when the defect it is there for is injected."""

import math
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.run.doctor_ward import admit, infect, write_recipe
from torch import Tensor, nn

from regard.attention.layouts import PaddedPattern
from regard.models.transformer import Transformer
from regard.run.doctor import costs, learning
from regard.run.doctor.check import guarded
from regard.run.doctor.patient import Patient


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_recipe(tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def patient(recipe: Path, tmp_path: Path) -> Patient:
    return admit(recipe, tmp_path)


@pytest.mark.parametrize("size", [32, 256])
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("tie", ["all", "none"])
def test_the_first_loss_of_every_kind_of_model_is_as_expected(
    recipe: Path, tmp_path: Path, size: int, norm: str, tie: str
) -> None:
    patient = admit(recipe, tmp_path, f"model.d_model={size}", f"model.norm={norm}", f"model.tie={tie}")
    assert learning.check_first_loss(patient).status == "pass"


def test_tied_embeddings_that_favour_the_word_just_read_are_explained(recipe: Path, tmp_path: Path) -> None:
    patient = admit(recipe, tmp_path, "model.d_model=256", "model.norm=pre")
    assert "tied embeddings favour" in learning.check_first_loss(patient).finding


def scale(model: Transformer, factor: float) -> None:
    model.tgt_embedding.weight.data *= factor


@pytest.mark.parametrize("factor", [2.0, 20.0])
def test_embeddings_of_the_wrong_scale_fail(patient: Patient, monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    infect(monkeypatch, lambda model: scale(model, factor))
    check = learning.check_first_loss(patient)
    assert check.status == "fail" and "scaled" in check.remedy


def test_labels_that_are_not_one_word_ahead_fail(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = patient.few()
    shifted = batch.replaced(target=batch.labels)
    monkeypatch.setattr(Patient, "few", lambda self: shifted)
    check = learning.check_first_loss(patient)
    assert check.status == "fail" and "one word ahead" in check.finding


def attend_without(what: str) -> Any:
    """The attention of a padded batch with one mask forgotten."""

    def attend(pattern: PaddedPattern, q: Tensor, k: Tensor, v: Tensor, dropout: float, weigh: Any = None) -> Tensor:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        causal = pattern.causal and what != "later words"
        mask = None if pattern.causal or what == "padding" else pattern.mask
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal).transpose(1, 2)

    return attend


@pytest.mark.parametrize("what", ["later words", "padding"])
def test_a_forgotten_mask_is_a_leak(patient: Patient, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.setattr(PaddedPattern, "attend", attend_without(what))
    check = learning.check_leaks(patient)
    assert check.status == "fail" and what in check.finding and "mask" in check.remedy


def test_the_same_attention_with_its_masks_is_none(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PaddedPattern, "attend", attend_without("nothing"))
    assert learning.check_leaks(patient).status == "pass"


class Mixing(nn.Module):
    """Lets every sentence see the mean of the batch."""

    def forward(self, x: Tensor) -> Tensor:
        return x + x.mean(dim=0, keepdim=True)


def test_sentences_that_see_each_other_are_a_leak(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    infect(monkeypatch, lambda model: setattr(model, "encoder_norm", Mixing()))
    check = learning.check_leaks(patient)
    assert check.status == "fail" and "other sentences" in check.finding


def blind(model: Transformer) -> None:
    """The decoder takes no notice of the source."""
    for layer in model.decoder:
        layer.cross_attention.output.requires_grad_(False)
        layer.cross_attention.output.weight.zero_()


def test_a_source_nobody_looks_at_fails(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    infect(monkeypatch, blind)
    check = learning.check_leaks(patient)
    assert check.status == "fail" and "changing the source changes no score" in check.finding


def test_scores_that_are_no_numbers_fail(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    infect(monkeypatch, lambda model: scale(model, math.nan))
    assert learning.check_leaks(patient).status == "fail"
    assert learning.check_first_loss(patient).status == "fail"
    check = learning.check_gradients(patient)
    assert check.status == "fail" and "fp32" in check.remedy


def test_a_parameter_no_gradient_reaches_fails(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    infect(monkeypatch, lambda model: model.register_parameter("forgotten", nn.Parameter(torch.ones(3))))
    check = learning.check_gradients(patient)
    assert check.status == "fail" and "forgotten" in check.finding


def test_dropout_is_off_and_weights_are_equal_when_learning_by_heart(recipe: Path, tmp_path: Path) -> None:
    patient = admit(
        recipe, tmp_path, "model.dropout=0.5", "model.attention_dropout=0.5", "model.activation_dropout=0.5"
    )
    loud, quiet = patient.new_model(), patient.new_model(dropout=False).train()
    assert all(torch.equal(a, b) for a, b in zip(loud.parameters(), quiet.parameters(), strict=True))
    batch = patient.few()
    assert torch.equal(patient.logits(quiet, batch), patient.logits(quiet, batch))
    assert not torch.equal(patient.logits(loud.train(), batch), patient.logits(loud, batch))


def test_a_model_blind_to_its_source_cannot_learn_by_heart(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    infect(monkeypatch, blind)
    check = learning.check_overfit(patient)
    assert check.status == "fail" and f"in {learning.OVERFIT_STEPS} steps" in check.finding and check.remedy


def test_learning_by_heart_that_takes_too_long_is_a_warning(patient: Patient) -> None:
    check = learning.check_overfit(patient, seconds=0.0)
    assert check.status == "warn" and "--quick" in check.remedy


def test_memory_that_is_not_there_fails(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, working = costs.needed_memory(patient)
    assert kept == 16 * sum(p.numel() for p in patient.new_model().parameters())
    for free, status in ((kept + working - 1, "fail"), (kept + working + 1, "warn"), (2 * (kept + working), "pass")):
        monkeypatch.setattr(costs, "free_memory", lambda world, free=free: free)
        check = costs.check_memory(patient)
        assert check.status == status
        assert ("training.batch_tokens" in check.remedy) == (status != "pass")


def test_a_model_too_large_by_itself_is_not_blamed_on_the_batch(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "free_memory", lambda world: 1000)
    check = costs.check_memory(patient)
    assert check.status == "fail" and "model.size" in check.remedy


def test_memory_from_a_slice_equals_that_of_the_whole_batch(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient = admit(recipe, tmp_path, "training.batch_tokens=2000")
    _, from_slice = costs.needed_memory(patient)
    monkeypatch.setattr(costs, "SLICE_TOKENS", 1 << 30)
    _, whole = costs.needed_memory(patient)
    assert from_slice == pytest.approx(whole, rel=0.05)


def test_accumulation_saves_memory(recipe: Path, tmp_path: Path) -> None:
    one = admit(recipe, tmp_path / "one", "training.batch_tokens=2000")
    four = admit(recipe, tmp_path / "four", "training.batch_tokens=2000", "training.accumulation=4")
    assert costs.needed_memory(four)[1] == pytest.approx(costs.needed_memory(one)[1] / 4, rel=0.1)


def test_there_is_some_memory_but_not_without_end(patient: Patient) -> None:
    assert 1 << 20 < costs.free_memory(patient.world) < 1 << 50


def test_a_full_gpu_is_a_failed_check() -> None:
    def full() -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    check = guarded("gradients", full)
    assert check.status == "fail" and "model.size" in check.remedy


def test_a_full_disk_fails(patient: Patient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("regard.run.doctor.costs.shutil.disk_usage", lambda place: usage(1, 1, 1 << 10))
    check = costs.check_disk(patient, tmp_path / "not" / "yet")
    assert check.status == "fail" and "training.keep" in check.remedy and str(tmp_path) in check.finding


@pytest.mark.parametrize(("warmup", "status"), [(10, "pass"), (60, "warn"), (100, "fail")])
def test_a_warm_up_that_never_ends_fails(recipe: Path, tmp_path: Path, warmup: int, status: str) -> None:
    check = costs.check_schedule(admit(recipe, tmp_path, f"training.warmup={warmup}"))
    assert check.status == status and ("training.warmup=10" in check.remedy) == (status != "pass")


def test_epochs_end_training_before_steps_do(recipe: Path, tmp_path: Path) -> None:
    patient = admit(recipe, tmp_path, "training.max_steps=100000", "training.max_epochs=3.0")
    steps, epoch = costs.planned_steps(patient)
    assert steps == 3 * epoch == 3 * patient.batches.steps_in_epoch(0)


@pytest.mark.parametrize(("seconds", "status"), [(1e-3, "pass"), (9000.0, "warn"), (1e6, "fail")])
def test_training_without_end_fails(
    patient: Patient, monkeypatch: pytest.MonkeyPatch, seconds: float, status: str
) -> None:
    monkeypatch.setattr(costs, "train_step", lambda *_: seconds)
    check = costs.check_time(patient)
    assert check.status == status and bool(check.remedy) == (status != "pass")


def test_a_bound_in_minutes_that_ends_training_early_is_a_warning(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient = admit(recipe, tmp_path, "training.max_minutes=1")
    monkeypatch.setattr(costs, "train_step", lambda *_: 6.0)
    check = costs.check_time(patient)
    assert check.status == "warn" and "training.max_minutes" in check.remedy


def test_with_bpe_dropout_memory_and_time_are_those_of_the_longer_text(recipe: Path, tmp_path: Path) -> None:
    plain = admit(recipe, tmp_path / "plain", "training.batch_tokens=2000")
    dropped = admit(recipe, tmp_path / "dropped", "training.batch_tokens=2000", "text.dropout=0.3")
    assert dropped.examples.src_lengths.sum() > plain.examples.src_lengths.sum()
    assert costs.planned_steps(dropped)[1] > costs.planned_steps(plain)[1]
    assert costs.check_memory(dropped).status == costs.check_time(dropped).status == "pass"
