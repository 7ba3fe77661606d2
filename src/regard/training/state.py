"""The state of training: weights, optimizer moments, EMA, recurrent state of the task and progress."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path

from torch import Tensor, nn

from regard.errors import UserError
from regard.run_files import STATE
from regard.runtime import World
from regard.training.averaging import Ema
from regard.training.checkpoint import Checkpoints, read_progress, read_training, read_weights, step_of
from regard.training.distributed import (
    all_reduce_max,
    broadcast_from_rank0,
    gather_to_rank0,
    together,
    unwrap,
    with_own_group,
)
from regard.training.optimizer import build_optimizer
from regard.training.progress import LogAccumulator, TrainingProgress
from regard.training.settings import TrainingSettings
from regard.training.sharding import Shard, Sharded, part_like
from regard.training.weights import (
    MOMENTS,
    Tensors,
    all_finite,
    load_moments,
    load_weights,
    moments_of,
    own_weights,
    parts_of,
    weights_of,
)
from regard.training.writing import Writer

# Prefixes of names in training.safetensors.
RAW_WEIGHTS = "weights:"  # the trained weights, if model.safetensors holds their moving average
RECURRENT_STATE = "carried:"  # the recurrent state of the task


class TrainingState:
    """The state of one model in training. A resumed run equals an uninterrupted one to the bit.

    The state of random generators is not saved, because every step seeds them by its number.
    """

    def __init__(
        self,
        placed: nn.Module,
        settings: TrainingSettings,
        world: World,
        recurrent_state: dict[str, Tensor] | None = None,
    ) -> None:
        """`model` is what `place` returned; `recurrent_state` is the dictionary of a `Stateful` task, which `resume`
        fills."""
        self.model = model = unwrap(placed)
        self.sharded = placed if isinstance(placed, Sharded) else None
        self.recurrent_state = {} if recurrent_state is None else recurrent_state
        self.accumulation = settings.accumulation
        self.world = world
        self.writer = Writer()
        self.writing_world = with_own_group(world) if self.sharded else world
        self.optimizer = build_optimizer(model, settings)
        self.ema = Ema(model, settings.ema) if settings.ema else None
        self.progress = TrainingProgress(monitor=settings.monitor)
        self.accumulator = LogAccumulator(world.device)
        self.saved_step = 0
        self.monitor = settings.monitor

    def averaged(self) -> AbstractContextManager[None]:
        """In this context the model has the weights to use: their moving average if there is one."""
        return self.ema.applied() if self.ema else nullcontext()

    @contextmanager
    def full_model(self) -> Iterator[nn.Module]:
        """The model with the weights to use. Every rank calls this, since the parts of a sharded model are gathered."""
        with self.averaged():
            if self.sharded is None:
                yield self.model
                return
            weights = weights_of(self.model)
        yield self.sharded.plain(weights, self.world.device)

    def require_finite(self, checkpoints: Checkpoints) -> None:
        """Raise a UserError if the loss, a gradient or a weight is NaN or infinite; it is never saved."""
        step = self.accumulator.first_non_finite(self.world)
        finite = all_finite(self.model)
        if not step and not (finite if self.sharded is None else not all_reduce_max(int(not finite), self.world)):
            step = self.progress.step
        if step:
            self.writer.wait()
            saved = checkpoints.all()
            last = f"{saved[-1].name} is the last good checkpoint" if saved else "no checkpoint was written yet"
            problem = f"the loss or its gradient is not a finite number since step {step}; {last}"
            slower = "reduce `training.learning_rate`, increase `training.warmup`"
            remedy = f"{slower}, or set `training.clip=1` or `runtime.precision=fp32`"
            raise UserError(problem, remedy, code="diverged", where=checkpoints.folder)

    def save(self, checkpoints: Checkpoints) -> None:
        """Copy the state of this step, unless it was saved already, and start to write it; every rank calls this.

        The checkpoint before it is finished first, so that memory never holds two copies; its error is raised here.
        """
        if self.saved_step == self.progress.step:
            return
        self.require_finite(checkpoints)
        self.writer.wait()
        self.accumulator.reduce(self.world)
        cpu_state = {name: tensor.to("cpu", copy=True) for name, tensor in self.recurrent_state.items()}
        states = gather_to_rank0(cpu_state, self.world)
        self.progress.window = self.accumulator.to_json()
        if self.world.is_main or self.sharded is not None:
            shard = self.sharded.shard if self.sharded else Shard(0, 1, True)
            training = moments_of(self.model, self.optimizer, shard.index == 0)
            training |= {RECURRENT_STATE + name: tensor for state in states for name, tensor in state.items()}
            if self.ema:
                raw = parts_of(own_weights(self.model), shard.index == 0)
                training |= {RAW_WEIGHTS + name: tensor for name, tensor in raw.items()}
            weights = weights_of(self.model, self.world.is_main, self.ema.shadow if self.ema else None)
            state = (self.progress.step, weights, training, self.progress.to_json())
            if self.sharded is None:
                self.writer.start(partial(checkpoints.save, *state))
            else:
                self.writer.start(partial(checkpoints.save_shards, *state, shard, self.writing_world))
        self.saved_step = self.progress.step

    def resume(self, checkpoints: Checkpoints) -> list[str]:
        """Load the newest undamaged checkpoint, if there is one; return notes for the user."""
        path, problems = broadcast_from_rank0(together(partial(self._find, checkpoints), self.world), self.world)
        if path is None:
            return []
        notes = self._load(path)
        return [f"{problem}; training resumes from {path.name}" for problem in problems] + notes

    def _find(self, checkpoints: Checkpoints) -> tuple[Path | None, list[str]]:
        """On rank 0 the newest undamaged checkpoint and the damage of newer ones, which are set aside."""
        if not self.world.is_main:
            return None, []
        path, problems = checkpoints.newest_undamaged()
        if path is None and problems:
            problem = f"every checkpoint in {checkpoints.folder} is damaged: {problems[0]}"
            raise UserError(problem, "start a new run", code="damaged-file", where=checkpoints.folder)
        checkpoints.set_aside_after(step_of(path) if path else 0)
        return path, problems

    def _load(self, path: Path) -> list[str]:
        parameters = dict(self.model.named_parameters())

        def keep(name: str, tensor: Tensor) -> Tensor:
            """The part of a moment that this rank needs."""
            moment, _, parameter = name.partition(":")
            like = parameters.get(parameter) if moment in MOMENTS else None
            return tensor if like is None or like.shape != tensor.shape else part_like(tensor, like)

        weights, training = read_weights(path), read_training(path, keep)
        raw_weights = _pop_prefix(training, RAW_WEIGHTS)
        recurrent_state = _pop_prefix(training, RECURRENT_STATE)
        load_weights(self.model, weights, str(path))
        if self.ema:
            self.ema.load(weights)
        if raw_weights:
            load_weights(self.model, raw_weights, str(path))
        load_moments(self.model, self.optimizer, training)
        self.progress = TrainingProgress.from_json(read_progress(path), f"{path / STATE}:progress")
        self.progress.set_monitor(self.monitor)
        self.accumulator.load(self.progress.window, self.world)
        self.saved_step = self.progress.step
        return self._restore(recurrent_state)

    def _restore(self, recurrent_state: Tensors) -> list[str]:
        """Give the task the states of this rank's micro-batches; the states of another number of them do not fit."""
        saved, count = {_micro_batch(name) for name in recurrent_state}, self.world.size * self.accumulation
        if not saved:
            return []
        if saved != set(range(count)):
            return [f"the recurrent state is of {len(saved)} micro-batches, and now there are {count}; it is reset"]
        first = self.world.rank * self.accumulation
        local = range(first, first + self.accumulation)
        self.recurrent_state |= {
            name: x.to(self.world.device) for name, x in recurrent_state.items() if _micro_batch(name) in local
        }
        return []


def _micro_batch(name: str) -> int:
    number = name.partition(".")[0]
    return int(number) if number.isdecimal() and len(number) < 9 else -1


def _pop_prefix(tensors: Tensors, prefix: str) -> Tensors:
    """Remove the tensors whose names begin with `prefix`, and return them by their names without it."""
    return {name.removeprefix(prefix): tensors.pop(name) for name in list(tensors) if name.startswith(prefix)}
