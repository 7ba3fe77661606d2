"""Eager, compiled and captured steps of training compute the same."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from tests.tasks.make import make_task, validation
from torch import Tensor

from regard.data.batch import Step
from regard.data.pairs import pack_pairs
from regard.data.planning import Capacity
from regard.models.transformer import Transformer, TransformerSettings
from regard.run.train import Objective
from regard.runtime import World
from regard.tasks.translation import Translation
from regard.text.factory import train_tokenizer
from regard.text.settings import TextSettings
from regard.text.symbols import EOS
from regard.training.settings import TrainingSettings
from regard.training.state import TrainingState
from regard.training.stepping import GraphStep, build_train_step, without_compilation

GPU = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
COMPILED = [
    *GPU,
    # Warnings of torch.compile about itself.
    pytest.mark.filterwarnings("ignore:.*torch.jit.script_method:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:TensorFloat32:UserWarning"),
]
EXECUTIONS = [
    pytest.param("cuda", False, True, marks=GPU, id="captured"),
    pytest.param("cuda", True, False, marks=COMPILED, id="compiled"),
    pytest.param("cuda", True, True, marks=COMPILED, id="compiled and captured"),
]


def steps(count: int) -> Iterator[Step]:
    rng = np.random.default_rng(3)
    for number in range(count):
        sequences = []
        for _ in range(2):
            lengths = rng.integers(2, 12, 10 + number % 3)
            values = rng.integers(3, 50, lengths.sum())
            values[np.cumsum(lengths) - 1] = EOS
            sequences.append((values, lengths))
        batch = pack_pairs(sequences[0], sequences[1], Capacity((200, 200), 50))
        yield Step([batch], int(sequences[1][1].sum()), batch.tokens, 0)


def train_steps(
    device: str, compiled: bool, captured: bool, dropout: float, r_drop: float
) -> tuple[list[float], list[Tensor]]:
    torch.manual_seed(0)
    world = World(0, 1, 0, torch.device(device), "fp32", 1, compiled, captured)
    settings = TrainingSettings(clip=1.0)
    model_settings = TransformerSettings(
        size="tiny", d_model=32, num_heads=2, d_ff=64, dropout=dropout, attention_dropout=dropout
    )
    model = Transformer(model_settings, 50, 50).to(device).train()
    tokenizer = train_tokenizer(["a"], TextSettings(vocab_size=300))
    task = make_task(
        Translation, tokenizer, tokenizer,
        settings={"training.label_smoothing": 0.1, "training.r_drop": r_drop},
    )  # fmt: skip
    state = TrainingState(model, settings, world)
    train_step = build_train_step(Objective(task, validation()), model, state, settings, world)
    losses = []
    for step in steps(9):
        sums, _ = train_step(step, 1e-3)
        losses.append(float(sums[0]) / step.count)
        state.progress.step += 1
    if captured:
        assert isinstance(train_step, GraphStep) and len(train_step.graphs) == 1
    with without_compilation(world), torch.no_grad():
        model.eval()
        batch = next(steps(1)).micro_batches[0].to(device)
        losses.append(float(task.loss(model, batch).sum))
    return losses, [parameter.detach().cpu() for parameter in model.parameters()]


@pytest.mark.parametrize("r_drop", [0.0, 1.0])
@pytest.mark.parametrize(("device", "compiled", "captured"), EXECUTIONS)
def test_losses_without_dropout_equal_those_of_eager_steps(
    device: str, compiled: bool, captured: bool, r_drop: float
) -> None:
    losses, _ = train_steps(device, compiled, captured, 0.0, r_drop)
    expected, _ = train_steps(device, False, False, 0.0, r_drop)
    assert losses == pytest.approx(expected, rel=1e-4)
    assert losses[8] < losses[0]


@pytest.mark.parametrize(("device", "compiled", "captured"), EXECUTIONS)
def test_steps_with_dropout_are_deterministic(device: str, compiled: bool, captured: bool) -> None:
    first, weights = train_steps(device, compiled, captured, 0.2, 0.0)
    second, again = train_steps(device, compiled, captured, 0.2, 0.0)
    assert first == second
    assert all(torch.equal(one, other) for one, other in zip(weights, again, strict=True))


def test_eager_steps_on_a_cpu_learn() -> None:
    losses, _ = train_steps("cpu", False, False, 0.1, 0.0)
    assert losses[8] < losses[0]
