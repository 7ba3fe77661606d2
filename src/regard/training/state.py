"""All that changes in training: weights, moments, their moving average, what is carried from batch to batch, progress;
saved and resumed as one."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from torch import Tensor, nn

from regard.errors import UserError
from regard.runtime import World
from regard.training.checkpoint import Checkpoints, read_progress, read_training, read_weights, step_of
from regard.training.distributed import from_main, gathered
from regard.training.ema import Ema
from regard.training.optimizer import build_optimizer
from regard.training.progress import Progress, Window
from regard.training.settings import TrainingSettings
from regard.training.weights import Tensors, all_finite, load_moments, load_weights, moments_of, weights_of

# Marks, among what only training needs, the weights as they are behind their moving average.
BEHIND = "weights:"
# Marks what the task carries from batch to batch.
CARRIED = "carried:"


class TrainingState:
    """One model in training. `resume` and `save` are exact: going on from a checkpoint repeats the run to the bit.

    No state of a random generator is kept, because every step seeds its own from its number.
    """

    def __init__(
        self,
        model: nn.Module,
        settings: TrainingSettings,
        world: World,
        carried: dict[str, Tensor] | None = None,
    ) -> None:
        """`carried` is the task's own dictionary (see `Carrying`)."""
        self.model = model
        self.carried = {} if carried is None else carried
        self.accumulation = settings.accumulation
        self.world = world
        self.optimizer = build_optimizer(model, settings)
        self.ema = Ema(model, settings.ema) if settings.ema else None
        self.progress = Progress(monitor=settings.monitor)
        self.window = Window(world.device)
        self.saved_step = 0
        self.monitor = settings.monitor

    def averaged(self) -> AbstractContextManager[None]:
        """While open, the model has the weights to use: their moving average where one is kept."""
        return self.ema.applied() if self.ema else nullcontext()

    def refuse_nonsense(self, checkpoints: Checkpoints) -> None:
        """Stop when the loss, a gradient or a weight is no longer a number; the last good checkpoint stays."""
        step = self.window.first_bad(self.world)
        if not step and not all_finite(self.model):
            step = self.progress.step
        if step:
            known = checkpoints.all()
            kept = f"; {known[-1].name} is the last good checkpoint" if known else "; no checkpoint was written yet"
            raise UserError(
                f"the loss or its gradient is not a finite number since step {step}{kept}",
                "lower training.learning_rate, raise training.warmup, write training.clip=1, "
                "or compute with runtime.precision=fp32",
            )

    def save(self, checkpoints: Checkpoints) -> None:
        """Write a checkpoint of this step, unless it has one or holds nonsense; every rank calls, rank 0 writes."""
        if self.saved_step == self.progress.step:
            return
        self.refuse_nonsense(checkpoints)
        self.window.fold(self.world)
        carried = gathered({name: tensor.cpu() for name, tensor in self.carried.items()}, self.world)
        if self.world.is_main:
            self.progress.window = self.window.to_json()
            training = moments_of(self.model, self.optimizer)
            training |= {CARRIED + name: tensor for parts in carried for name, tensor in parts.items()}
            if self.ema:
                training |= {BEHIND + name: tensor for name, tensor in weights_of(self.model).items()}
            with self.averaged():
                weights = weights_of(self.model)
            checkpoints.save(self.progress.step, weights, training, self.progress.to_json())
        self.saved_step = self.progress.step

    def forget_saved(self) -> None:
        """Let the next `save` write this step again: something about it has changed."""
        self.saved_step = -1

    def resume(self, checkpoints: Checkpoints) -> list[str]:
        """Go on from the newest good checkpoint, if there is one; return what was wrong with newer ones."""
        path, remarks = checkpoints.newest_undamaged() if self.world.is_main else (None, [])
        if self.world.is_main:
            if path is None and remarks:
                raise UserError(f"no checkpoint in {checkpoints.folder} can be used: {remarks[0]}", "start a new run")
            checkpoints.set_aside_after(step_of(path) if path else 0)
        path = from_main(path, self.world)
        if path is None:
            return []
        further = self._load(path)
        return [f"{remark}; training goes on from {path.name}" for remark in remarks] + further

    def _load(self, path: Path) -> list[str]:
        weights, training = read_weights(path), read_training(path)
        behind, carried = (_taken(training, mark) for mark in (BEHIND, CARRIED))
        load_weights(self.model, behind or weights, str(path))
        if self.ema:
            self.ema.load(weights)
        load_moments(self.model, self.optimizer, training)
        self.progress = Progress(**read_progress(path))
        self.progress.watch(self.monitor)
        self.window.load(self.progress.window, self.world)
        self.saved_step = self.progress.step
        return self._take_up(carried)

    def _take_up(self, carried: Tensors) -> list[str]:
        """Give this rank's parts back to the task; of another number of parts none is what it was."""
        saved, parts = {_part(name) for name in carried}, self.world.size * self.accumulation
        if not saved:
            return []
        if saved != set(range(parts)):
            problem = f"what was carried from batch to batch is of {len(saved)} parts, and now there are {parts}"
            return [f"{problem}; it begins anew"]
        first = self.world.rank * self.accumulation
        mine = range(first, first + self.accumulation)
        self.carried |= {name: x.to(self.world.device) for name, x in carried.items() if _part(name) in mine}
        return []


def _part(name: str) -> int:
    return int(name.partition(".")[0])


def _taken(tensors: Tensors, mark: str) -> Tensors:
    """Take what is marked out of `tensors`, by its own name."""
    return {name.removeprefix(mark): tensors.pop(name) for name in list(tensors) if name.startswith(mark)}
