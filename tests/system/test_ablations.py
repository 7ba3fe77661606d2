"""Models with one part exchanged or removed: trained, resumed to the bit and used by every engine that can."""

from pathlib import Path

import pytest
from tests.cli.command import fails, regard
from tests.system.helpers import assert_same_checkpoint
from tests.tiny import Settings, write_recipe

RUNS: list[tuple[str, str, Settings]] = [
    ("translation", "transformer", {"model.norm_kind": "batch", "training.ema": 0.9}),
    ("translation", "transformer", {"model.share_qk": True, "model.scale_embeddings": False}),
    ("classification", "transformer", {"model.norm_kind": "batch", "model.share_qk": True}),
    ("translation", "transformer", {"model.d_ff": 0}),
    ("translation", "transformer", {"model.self_attention": False}),
    ("translation", "transformer", {"training.optimizer": "sgd", "training.weight_decay": 0.01}),
    ("language", "transformer", {"model.positions": "learned", "model.relative_positions": "relative"}),
    ("language", "gru", {"model.kind": "gru-cho", "model.output_bias": True}),
    ("translation", "recurrent", {"model.cell": "gru-cho"}),
    (
        "translation",
        "recurrent",
        {"model.decoder": "luong", "model.query": "previous", "model.attention": "global", "model.cell": "gru"},
    ),
    ("classification", "recurrent", {"model.cell": "rnn-sigmoid"}),
    ("language", "transformer", {"model.norm_kind": "none", "model.residual": False}),
]

STEPS: Settings = {
    "training.max_steps": 6, "training.max_epochs": 0.0, "training.validate_every": 3,
    "training.schedule": "constant", "training.learning_rate": 1e-3, "training.warmup": 2,
}  # fmt: skip


@pytest.mark.parametrize(("task", "kind", "ablation"), RUNS, ids=str)
def test_a_resumed_run_equals_an_uninterrupted_one(task: str, kind: str, ablation: Settings, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, task, kind, {**STEPS, **ablation})
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert regard("train", recipe, "--folder", whole).status == 0
    assert regard("train", recipe, "training.max_steps=3", "--folder", parts).status == 0
    assert regard("train", parts, "training.max_steps=6").status == 0
    assert_same_checkpoint(whole, parts)
    assert regard("evaluate", whole).status == 0


def test_an_engine_without_the_part_is_refused_or_not_used(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    steps = {"training.max_steps": 2, "training.validate_every": 2, "model.norm_kind": "batch"}
    run = tmp_path / "run"
    assert regard("train", write_recipe(tmp_path, "translation", settings=steps), "--folder", run).status == 0
    fast, readable = (regard("translate", run, "--engine", engine, stdin="one\n") for engine in ("torch", "readable"))
    assert fast.lines == readable.lines and fast.status == 0
    assert fails("translate", run, "--engine", "ctranslate2", stdin="one\n").code == "unsupported-model"
