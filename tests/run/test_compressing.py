"""A small copy of a run: 8-bit weights within their bound, no paths, the same predictions on every engine."""

import json
from pathlib import Path

import pytest
import torch
from tests.cli.command import fails, regard
from tests.tiny import train_run

from regard.run.compressing import compress
from regard.run.facts import read_facts
from regard.run.model import Model, Translator
from regard.run.run import Run
from regard.run_files import MODEL
from regard.training.checkpoint import read_weights
from regard.training.quantization import dequantize, quantize

TEXTS = ["one two three", "six", "four four one"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_run(tmp_path_factory.mktemp("compressing"), "translation")


def test_weights_are_rounded_to_half_a_step_of_their_row() -> None:
    torch.manual_seed(0)
    weights = {
        "matrix": torch.randn(5, 7) * torch.tensor([1e-6, 1.0, 3.0, 1e4, 0.0])[:, None],
        "cube": torch.randn(3, 2, 4),
        "vector": torch.randn(9),
        "count": torch.arange(6).view(2, 3),
    }
    small = quantize(weights)
    assert small["matrix"].dtype == small["cube"].dtype == torch.int8
    restored = dequantize(small)
    assert restored.keys() == weights.keys()
    for name in ("matrix", "cube"):
        rows, again = (values[name].flatten(1) for values in (weights, restored))
        assert bool(((again - rows).abs() <= rows.abs().amax(1, keepdim=True) / 254 * 1.0001).all())
    for name in ("vector", "count"):
        assert torch.equal(restored[name], weights[name])
    twice = dequantize(quantize(restored))
    torch.testing.assert_close(twice, restored, rtol=1e-5, atol=0)


def test_the_copy_is_a_smaller_run_that_predicts_the_same(run: Path, tmp_path: Path) -> None:
    result = json.loads(regard("compress", run, "--folder", tmp_path / "small", "--json").out)
    small = tmp_path / "small"
    assert result["bytes"] < 0.4 * result["bytes_before"] and 0 < result["error"] < 0.004
    names = sorted(str(path.relative_to(small)) for path in small.rglob("*") if path.is_file())
    step = Run.open(run).checkpoints.resolve("best").name
    assert [name for name in names if "checkpoints" in name] == [
        f"checkpoints/{step}/{MODEL}", f"checkpoints/{step}/state.json"
    ]  # fmt: skip
    assert not any(str(run.parent.parent) in (small / name).read_text("utf-8", "ignore") for name in names)
    assert read_facts(small).weights == read_facts(run).weights
    outputs = [Translator.load(folder, device="cpu").translate(TEXTS) for folder in (run, small)]
    assert outputs[0] == outputs[1]
    readable = Translator.load(small, device="cpu", engine="readable").translate(TEXTS)
    assert readable == outputs[0]
    weights = read_weights(Run.open(small).checkpoints.resolve("best"))
    assert all(tensor.dtype == torch.float32 for tensor in weights.values() if tensor.is_floating_point())
    assert fails("compress", run, "--folder", small).code == "folder-exists"
    again = compress(Run.open(small), tmp_path / "again")
    assert again.error < 1e-4
    assert Model.load(tmp_path / "again", device="cpu").run.recipe.data.root == "."


def test_a_compressed_copy_is_not_trained_and_not_changed(run: Path, tmp_path: Path) -> None:
    small = compress(Run.open(run), tmp_path / "small").folder
    recipe = (small / "recipe.toml").read_bytes()
    result = fails("train", small, "training.max_steps=300")
    assert result.code == "no-training-state" and "start_from" in result.err
    assert (small / "recipe.toml").read_bytes() == recipe
