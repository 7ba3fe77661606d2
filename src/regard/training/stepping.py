"""One optimizer step, eager or as a CUDA graph.

`EagerStep` computes the gradients of every micro-batch, clips them together and updates the weights. `GraphStep`
records the kernels of this step once as a CUDA graph and replays them: the step of a small model is a thousand kernels
of a few microseconds each, and launching them one by one from Python takes longer than computing them. A graph needs
batches of one shape, which packed batches have. Another shape gets its own graph after `WARM_UP` eager steps.

`compile_layers` fuses the operations between the matrix products of each layer. All layers of a stack have the same
code, which is compiled once.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Generic

import torch
from torch import Tensor, nn

from regard.runtime import World, autocast, seed_everything
from regard.training.distributed import no_sync
from regard.training.optimizer import clip_gradients, layer_groups, set_rate
from regard.training.settings import TrainingSettings
from regard.training.sharding import is_sharded
from regard.training.state import TrainingState
from regard.training.task import B, Trainable, TrainingStep

WARM_UP = 3  # eager steps of a shape before it is captured, so that kernels are compiled and libraries initialised
MAX_GRAPHS = 8  # number of shapes with a graph; other shapes stay eager


class EagerStep(Generic[B]):
    """An optimizer step, executed operation by operation."""

    def __init__(
        self, task: Trainable[B], model: nn.Module, state: TrainingState, settings: TrainingSettings, world: World
    ) -> None:
        self.task, self.model, self.state, self.settings, self.world = task, model, state, settings, world
        self.layers = layer_groups(state.model) if settings.unfreeze_epochs else []

    def __call__(self, step: TrainingStep[B], rate: float) -> tuple[Tensor, Tensor]:
        """Train one step with this learning rate; return the sums of objective and nll, and the gradient norm."""
        set_rate(self.state.optimizer, rate)
        sums = torch.zeros(2, dtype=torch.float64, device=self.world.device)
        scale = self.world.size / max(1, step.count)
        for index, batch in enumerate(step.micro_batches):
            self.seed(self.world.rank * len(step.micro_batches) + index)
            with no_sync(self.model, last=index == len(step.micro_batches) - 1):
                sums += self.backward(batch.to(self.world.device), scale)
        for parameter in self.frozen(step.epoch):
            parameter.grad = None  # it is not updated, has no moments, and does not count for the gradient norm
        norm = self.update()
        self.state.optimizer.zero_grad(set_to_none=True)
        return sums, norm

    def frozen(self, epoch: float) -> Iterator[nn.Parameter]:
        """The parameters that gradual unfreezing does not train yet (Howard & Ruder 2018, section 3.3)."""
        if every := self.settings.unfreeze_epochs:
            for layer in self.layers[1 + int(epoch / every) :]:
                yield from layer

    def seed(self, micro_batch: int) -> None:
        """Seed dropout by the step and the number of the micro-batch in the whole step.

        So neither an interruption nor another number of ranks changes it.
        """
        seed_everything(self.world.seed, "step", self.state.progress.step, micro_batch)

    def backward(self, batch: B, scale: float | Tensor) -> Tensor:
        """Add the gradient of one micro-batch, times `scale`; return (2,): the sums of loss and NLL, unscaled.

        DDP averages over ranks, so `scale` contains their number.
        """
        with autocast(self.world):
            loss = self.task.loss(self.model, batch)
        (loss.sum * scale).backward()
        return torch.stack([loss.sum.detach(), loss.nll.detach()]).double()

    def update(self) -> Tensor:
        """Clip the gradients, update the weights and return the gradient norm."""
        norm = clip_gradients(self.state.model.parameters(), self.settings.clip)
        self.state.optimizer.step()
        return norm


class GraphStep(EagerStep[B]):
    """An optimizer step, recorded as a CUDA graph and replayed; for one process without accumulation."""

    def __init__(
        self, task: Trainable[B], model: nn.Module, state: TrainingState, settings: TrainingSettings, world: World
    ) -> None:
        super().__init__(task, model, state, settings, world)
        self.stream = torch.cuda.Stream(self.world.device)
        self.seen: Counter[tuple[torch.Size, ...]] = Counter()
        self.graphs: dict[tuple[torch.Size, ...], _Graph[B]] = {}

    def __call__(self, step: TrainingStep[B], rate: float) -> tuple[Tensor, Tensor]:
        (batch,) = step.micro_batches
        tensors = batch.tensors
        shape = tuple(tensor.shape for tensor in tensors.values())
        self.seen[shape] += 1
        if shape not in self.graphs:
            if self.seen[shape] <= WARM_UP or len(self.graphs) == MAX_GRAPHS:
                return self._eager(step, rate)
            self.graphs[shape] = _Graph(self, batch)
        set_rate(self.state.optimizer, rate)
        self.seed(0)
        return self.graphs[shape].replay(tensors, 1 / max(1, step.count))

    def _eager(self, step: TrainingStep[B], rate: float) -> tuple[Tensor, Tensor]:
        """Train an eager step on the CUDA stream that graphs are captured on."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            result = super().__call__(step, rate)
        torch.cuda.current_stream().wait_stream(self.stream)
        return result


class _Graph(Generic[B]):
    """The CUDA graph of a step, with its input and output tensors."""

    def __init__(self, stepping: GraphStep[B], batch: B) -> None:
        self.batch = batch.to(stepping.world.device)
        self.inputs = self.batch.tensors
        self.scale = torch.zeros((), device=stepping.world.device)
        self.graph = torch.cuda.CUDAGraph()
        stepping.state.optimizer.zero_grad(set_to_none=True)
        # Thread-local: the thread that prepares batches may pin memory at the same time.
        with torch.cuda.graph(self.graph, stream=stepping.stream, capture_error_mode="thread_local"):
            self.sums = stepping.backward(self.batch, self.scale)
            self.norm = stepping.update()
        stepping.state.optimizer.zero_grad(set_to_none=True)  # the gradients stay allocated in the graph

    def replay(self, tensors: Mapping[str, Tensor], scale: float) -> tuple[Tensor, Tensor]:
        """Copy the batch into the graph's inputs and run the graph."""
        for name, tensor in tensors.items():
            self.inputs[name].copy_(tensor, non_blocking=True)
        self.scale.fill_(scale)
        self.graph.replay()
        return self.sums, self.norm


def build_train_step(
    task: Trainable[B], model: nn.Module, state: TrainingState, settings: TrainingSettings, world: World
) -> EagerStep[B]:
    """Make the training step for `world`: compiled, captured or eager."""
    if world.compile:
        compile_layers(state.model)
    captured = world.capture and world.size == 1 and settings.accumulation == 1 and not settings.unfreeze_epochs
    return (GraphStep if captured else EagerStep)(task, model, state, settings, world)


def compile_layers(model: nn.Module) -> None:
    """Compile the layers of every stack (`nn.ModuleList`) in place."""
    for stack in model.modules():
        if isinstance(stack, nn.ModuleList):
            for layer in stack:
                if any(map(is_sharded, layer.parameters())):  # the hooks of FSDP2 stay outside the compiled code
                    layer.forward = torch.compile(layer.forward, dynamic=False)
                else:
                    layer.compile(dynamic=False)


def without_compilation(world: World) -> AbstractContextManager[object]:
    """Run compiled layers eagerly in this context: for validation, where every batch has another shape."""
    return torch.compiler.set_stance("force_eager") if world.compile else nullcontext()
