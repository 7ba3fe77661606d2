"""One optimizer step, executed in the way that suits the machine.

`Eager` is the step as one reads it: gradients of every micro-batch, clipped together, one update. `Captured` records
the kernels of that step once as a CUDA graph and replays them: a small model's step is a thousand kernels of a few
microseconds each, and to launch them one by one from Python takes longer than to compute them. The batches must have
one shape (packed batches do); another shape gets a graph of its own once it has come often enough, and is eager before.

`compile_layers` fuses what lies between the matrix products of each layer into few kernels. All layers of a stack are
the same program, which is compiled once.
"""

from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic

import torch
from torch import Tensor, nn

from regard.runtime import World, autocast, seed_everything
from regard.training.distributed import no_sync
from regard.training.optimizer import clip_gradients, set_rate
from regard.training.settings import TrainingSettings
from regard.training.state import TrainingState
from regard.training.task import B, Step, Task

# How often a shape is computed eagerly before it is captured: kernels are compiled and libraries warmed up by then.
WARM_UP = 3
# So many shapes get a graph; what is rarer stays eager.
GRAPHS = 8


class Eager(Generic[B]):
    """The step as one reads it."""

    def __init__(
        self, task: Task[B], model: nn.Module, state: TrainingState, settings: TrainingSettings, world: World
    ) -> None:
        self.task, self.model, self.state, self.settings, self.world = task, model, state, settings, world

    def __call__(self, step: Step[B], rate: float) -> tuple[Tensor, Tensor]:
        """Take one step with this learning rate; return the sums of objective and nll, and the gradient's norm."""
        set_rate(self.state.optimizer, rate)
        sums = torch.zeros(2, dtype=torch.float64, device=self.world.device)
        scale = self.world.size / max(1, step.count)
        for index, batch in enumerate(step.micro_batches):
            self.seed(self.world.rank * len(step.micro_batches) + index)
            with no_sync(self.model, last=index == len(step.micro_batches) - 1):
                sums += self.backward(batch.to(self.world.device), scale)
        norm = self.update()
        self.state.optimizer.zero_grad(set_to_none=True)
        return sums, norm

    def seed(self, part: int) -> None:
        """Dropout is seeded by the step and the part's place in the whole step, so neither an interruption nor another
        number of ranks changes it."""
        seed_everything(self.world.seed, "step", self.state.progress.step, part)

    def backward(self, batch: B, scale: float | Tensor) -> Tensor:
        """Add the gradient of one micro-batch; DDP takes the mean over ranks, hence their number in the scale."""
        with autocast(self.world):
            loss = self.task.loss(self.model, batch)
        (loss.sum * scale).backward()
        return torch.stack([loss.sum.detach(), loss.nll.detach()]).double()

    def update(self) -> Tensor:
        norm = clip_gradients(self.state.model.parameters(), self.settings.clip)
        self.state.optimizer.step()
        return norm


class Captured(Eager[B]):
    """The same step recorded as a CUDA graph and replayed; for one process without accumulation."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.stream = torch.cuda.Stream(self.world.device)
        self.seen: Counter[tuple[torch.Size, ...]] = Counter()
        self.graphs: dict[tuple[torch.Size, ...], _Graph[B]] = {}

    def __call__(self, step: Step[B], rate: float) -> tuple[Tensor, Tensor]:
        (batch,) = step.micro_batches
        tensors = batch.tensors
        shape = tuple(tensor.shape for tensor in tensors.values())
        self.seen[shape] += 1
        if shape not in self.graphs:
            if self.seen[shape] <= WARM_UP or len(self.graphs) == GRAPHS:
                return self._beside(step, rate)
            self.graphs[shape] = _Graph(self, batch)
        set_rate(self.state.optimizer, rate)
        self.seed(0)
        return self.graphs[shape].replay(tensors, 1 / max(1, step.count))

    def _beside(self, step: Step[B], rate: float) -> tuple[Tensor, Tensor]:
        """An eager step on the stream that graphs are captured on."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            found = super().__call__(step, rate)
        torch.cuda.current_stream().wait_stream(self.stream)
        return found


class _Graph(Generic[B]):
    """The recorded step, the tensors it reads and the tensors it leaves its results in."""

    def __init__(self, stepping: Captured[B], batch: B) -> None:
        self.batch = batch.to(stepping.world.device)
        self.inputs = self.batch.tensors
        self.scale = torch.zeros((), device=stepping.world.device)
        self.graph = torch.cuda.CUDAGraph()
        stepping.state.optimizer.zero_grad(set_to_none=True)
        # Thread-local: the thread that prepares batches may go on pinning memory meanwhile.
        with torch.cuda.graph(self.graph, stream=stepping.stream, capture_error_mode="thread_local"):
            self.sums = stepping.backward(self.batch, self.scale)
            self.norm = stepping.update()
        stepping.state.optimizer.zero_grad(set_to_none=True)  # the gradients live on in the graph

    def replay(self, tensors: Mapping[str, Tensor], scale: float) -> tuple[Tensor, Tensor]:
        for name, tensor in tensors.items():
            self.inputs[name].copy_(tensor, non_blocking=True)
        self.scale.fill_(scale)
        self.graph.replay()
        return self.sums, self.norm


def choose_stepping(
    task: Task[B], model: nn.Module, state: TrainingState, settings: TrainingSettings, world: World
) -> Eager[B]:
    """What the world asks for."""
    if world.compile:
        compile_layers(state.model)
    captured = world.capture and world.size == 1 and settings.accumulation == 1
    return (Captured if captured else Eager)(task, model, state, settings, world)


def compile_layers(model: nn.Module) -> None:
    """Compile the layers of every stack in place."""
    for stack in model.modules():
        if isinstance(stack, nn.ModuleList):
            for layer in stack:
                layer.compile(dynamic=False)


def as_written(world: World) -> AbstractContextManager[Any]:
    """While open, compiled layers run as they are written: for validation, whose every batch has another shape."""
    return torch.compiler.set_stance("force_eager") if world.compile else nullcontext()
