"""Sharded training (FSDP2) and hybrid: the weights of one process, and checkpoints for any number of ranks."""

import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors import safe_open
from tests.training.ranks import run_ranks
from tests.training.toy import D, ToyModel, cpu_world, toy_run, toy_settings, written_metrics
from torch import Tensor, nn

from regard.errors import UserError
from regard.runtime import RuntimeSettings, World, open_world
from regard.training.checkpoint import Checkpoints, read_training, read_weights
from regard.training.costs import activation_memory, training_memory
from regard.training.distributed import mesh_shape
from regard.training.sharding import checkpoint_activations, empty_copy

pytestmark = pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="needs gloo")


class Stack(nn.ModuleList):
    """Layers that FSDP2 shards one by one."""

    def forward(self, x: Tensor) -> Tensor:
        for layer in self:
            x = x + F.relu(layer(x))
        return x


class DeepToy(ToyModel):
    """The toy model with two layers; no dropout, whose masks depend on the number of micro-batches."""

    def __init__(self) -> None:
        super().__init__(dropout=0.0)
        self.layers = Stack(nn.Linear(D, D) for _ in range(2))

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.output(self.layers(self.norm(self.embedding(tokens))))
        return logits


def deep_toy() -> DeepToy:
    torch.manual_seed(8)
    return DeepToy()


def train_until(folder: str, steps: int, parallel: str = "replicate", recomputed: bool = False) -> None:
    """Train, or resume, until `steps`; in one process, or as a rank."""
    runtime = RuntimeSettings.model_validate(
        {"device": "cpu", "seed": 3, "parallel": parallel, "activation_checkpointing": recomputed}
    )
    torch.set_num_threads(1)
    settings = toy_settings(
        max_steps=steps, validate_every=5, log_every=5, samples=0, ema=0.9, clip=1.0, accumulation=2
    )
    toy_run(Path(folder), settings, open_world(runtime), model=deep_toy())


def last_weights(folder: Path) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    path = Checkpoints(folder / "checkpoints").resolve("last")
    return read_weights(path), read_training(path)


def assert_same_run(one: Path, other: Path) -> None:
    """Weights, their moving average, moments, losses and gradient norms are equal to rounding."""
    for expected, found in zip(last_weights(one), last_weights(other), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    for expected, found in zip(written_metrics(one), written_metrics(other), strict=True):
        assert (expected["kind"], expected["step"]) == (found["kind"], found["step"])
        if expected["kind"] == "train":
            for name in ("loss", "gradient_norm", "tokens"):
                assert found[name] == pytest.approx(expected[name], rel=1e-4)


def test_a_run_moves_from_4_to_2_to_1_to_3_ranks(tmp_path: Path) -> None:
    one, moved = tmp_path / "one", tmp_path / "moved"
    train_until(str(one), 20)
    run_ranks(4, train_until, str(moved), 5, "hybrid", local_size=2)
    assert len(list((moved / "checkpoints" / "step-00000005").glob("training-*-of-00002.safetensors"))) == 2
    run_ranks(2, train_until, str(moved), 10, "shard")
    train_until(str(moved), 15, recomputed=True)
    run_ranks(3, train_until, str(moved), 20, "shard", True)
    assert_same_run(one, moved)
    assert len(list((moved / "checkpoints" / "step-00000020").glob("training-*-of-00003.safetensors"))) == 3
    open_all(moved)


def open_all(folder: Path) -> None:
    """Open every file of a run with a reader that executes nothing; no file is a pickle or of an unknown kind."""
    for path in (path for path in folder.rglob("*") if path.is_file()):
        if path.suffix == ".safetensors":
            with safe_open(path, "pt") as file:
                assert file.keys()
        elif path.suffix in (".json", ".jsonl"):
            lines = path.read_text(encoding="utf-8").splitlines() if path.suffix == ".jsonl" else [path.read_text()]
            assert all(json.loads(line) is not None for line in lines)
        else:
            assert path.name == ".lock" and not path.read_bytes(), path


def test_a_lost_shard_is_damage_and_an_older_checkpoint_is_used(tmp_path: Path) -> None:
    run_ranks(2, train_until, str(tmp_path), 10, "shard")
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    newest, shard = checkpoints.resolve("last"), "training-00002-of-00002.safetensors"
    (newest / shard).unlink()
    found, problems = checkpoints.newest_undamaged()
    assert found is not None and found.name == "step-00000005" and shard in problems[0]
    (found / "model.safetensors").unlink()
    run_ranks(2, find_only_damage, str(tmp_path))


def find_only_damage(folder: str) -> None:
    """Every rank has the error of rank 0, not one of a lost process."""
    with pytest.raises(UserError) as error:
        train_until(folder, 15, "shard")
    assert error.value.code == "damaged-file"


def test_parallel_is_chosen_by_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.training.distributed.all_reduce_max", lambda value, world: value)
    model = nn.Linear(10, 10, bias=False)
    world = World(0, 8, 0, torch.device("cpu"), "fp32", local_size=4)
    shapes = []
    for shards in (1, 4, 8):
        memory = training_memory(100, 7, shards)
        monkeypatch.setattr("regard.training.distributed.device_memory", lambda world, memory=memory: memory)
        shapes.append(mesh_shape(model, world, 7))
    assert shapes == [None, (2, 4), (1, 8)]
    assert mesh_shape(model, cpu_world(), 7) is None


@pytest.mark.parametrize(("parallel", "shape"), [("replicate", None), ("shard", (1, 8)), ("hybrid", (2, 4))])
def test_parallel_is_as_it_is_set(
    monkeypatch: pytest.MonkeyPatch, parallel: str, shape: tuple[int, int] | None
) -> None:
    monkeypatch.setattr("regard.training.distributed.all_reduce_max", lambda value, world: value)
    world = World(0, 8, 0, torch.device("cpu"), "fp32", local_size=4, parallel=parallel)  # type: ignore[arg-type]
    assert mesh_shape(nn.Linear(2, 2), world, 0) == shape


@pytest.mark.parametrize("sizes", [(4, 3), (1, 1, 2), (4, 2, 2)])
def test_hybrid_needs_equally_many_processes_per_node(monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, ...]) -> None:
    """Every rank sees it, also one whose node has a divisor of all processes."""
    values = {sign: [sign * size for size in sizes] for sign in (1, -1)}
    largest = lambda value, world: max(values[1 if value > 0 else -1])  # noqa: E731
    monkeypatch.setattr("regard.training.distributed.all_reduce_max", largest)
    for size in sizes:
        world = World(0, sum(sizes), 0, torch.device("cpu"), "fp32", local_size=size, parallel="hybrid")
        with pytest.raises(UserError) as error:
            mesh_shape(nn.Linear(2, 2), world, 0)
        assert error.value.where == "runtime.parallel"


def test_recomputed_layers_have_the_same_gradients_and_need_less_memory() -> None:
    tokens, gradients = torch.arange(8), []
    for recomputed in (False, True):
        model = deep_toy()
        if recomputed:
            checkpoint_activations(model)
        model(tokens).square().sum().backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))
    plain, less = cpu_world(), World(0, 1, 0, torch.device("cpu"), "fp32", activation_checkpointing=True)
    assert activation_memory(100, 6, 512, less) < activation_memory(100, 6, 512, plain) / 4
    with pytest.raises(UserError):
        checkpoint_activations(nn.Linear(2, 2))


def test_an_empty_copy_keeps_ties_and_buffers() -> None:
    model = deep_toy()
    model.register_buffer("positions", torch.arange(3.0))
    copy = empty_copy(model)
    assert copy.output.weight is copy.embedding.weight and copy.embedding.weight.is_meta  # type: ignore[union-attr]
    assert torch.equal(copy.get_buffer("positions"), model.get_buffer("positions"))
