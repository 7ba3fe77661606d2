"""The ways to execute a step do the same arithmetic."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.data.pairs import pack_pairs
from regard.data.planning import Capacity
from regard.data.steps import Step
from regard.models.transformer import Transformer, TransformerSettings
from regard.runtime import World
from regard.tasks.translation import Objective, Translation
from regard.text.symbols import EOS
from regard.training.settings import TrainingSettings
from regard.training.state import TrainingState
from regard.training.stepping import GraphStep, build_train_step, without_compilation

GPU = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
EXECUTIONS = [
    pytest.param("cuda", False, True, marks=GPU, id="captured"),
    pytest.param("cuda", True, False, marks=GPU, id="compiled"),
    pytest.param("cuda", True, True, marks=GPU, id="compiled and captured"),
]


def steps(count: int) -> Iterator[Step]:
    rng = np.random.default_rng(3)
    for number in range(count):
        sides = []
        for _ in range(2):
            lengths = rng.integers(2, 12, 10 + number % 3)
            values = rng.integers(3, 50, lengths.sum())
            values[np.cumsum(lengths) - 1] = EOS
            sides.append((values, lengths))
        batch = pack_pairs(sides[0], sides[1], Capacity((200, 200), 50))
        yield Step([batch], int(sides[1][1].sum()), batch.tokens, 0)


def trained(
    device: str, compiled: bool, captured: bool, dropout: float, r_drop: float
) -> tuple[list[float], list[Tensor]]:
    torch.manual_seed(0)
    world = World(0, 1, 0, torch.device(device), "fp32", 1, compiled, captured)
    settings = TrainingSettings(clip=1.0)
    shape = TransformerSettings(
        size="tiny", d_model=32, num_heads=2, d_ff=64, dropout=dropout, attention_dropout=dropout
    )
    model = Transformer(shape, 50, 50).to(device).train()
    task = Translation(None, None, Objective(0.1, r_drop))  # type: ignore[arg-type]
    state = TrainingState(model, settings, world)
    take = build_train_step(task, model, state, settings, world)
    losses = []
    for step in steps(9):
        sums, _ = take(step, 1e-3)
        losses.append(float(sums[0]) / step.count)
        state.progress.step += 1
    if captured:
        assert isinstance(take, GraphStep) and len(take.graphs) == 1
    with without_compilation(world), torch.no_grad():
        model.eval()
        batch = next(steps(1)).micro_batches[0].to(device)
        losses.append(float(task.loss(model, batch).sum))
    return losses, [parameter.detach().cpu() for parameter in model.parameters()]


@pytest.mark.parametrize("r_drop", [0.0, 1.0])
@pytest.mark.parametrize(("device", "compiled", "captured"), EXECUTIONS)
def test_without_dropout_every_execution_is_the_eager_one(
    device: str, compiled: bool, captured: bool, r_drop: float
) -> None:
    losses, _ = trained(device, compiled, captured, 0.0, r_drop)
    expected, _ = trained(device, False, False, 0.0, r_drop)
    assert losses == pytest.approx(expected, rel=1e-4)
    assert losses[8] < losses[0]


@pytest.mark.parametrize(("device", "compiled", "captured"), EXECUTIONS)
def test_with_dropout_a_seed_repeats_itself_to_the_bit(device: str, compiled: bool, captured: bool) -> None:
    first, weights = trained(device, compiled, captured, 0.2, 0.0)
    second, again = trained(device, compiled, captured, 0.2, 0.0)
    assert first == second
    assert all(torch.equal(one, other) for one, other in zip(weights, again, strict=True))


def test_on_a_cpu_nothing_is_compiled_or_captured_unless_asked() -> None:
    losses, _ = trained("cpu", False, False, 0.1, 0.0)
    assert losses[8] < losses[0]
