"""A target of an export: a library that runs models of regard.

B sentences, T target, V vocabulary.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard.attention.layouts import Padded
from regard.decoding.engine import Engine
from regard.decoding.stepper import Symbols
from regard.engines.stepper_engine import StepperEngine, pad_rows
from regard.errors import UserError
from regard.exchange.folders import require_quantization
from regard.tasks.base import AnyTask, Exchange
from regard.text.symbols import PAD

Pair = tuple[Sequence[int], Sequence[int]]
"""Tokens of a source and of an output without padding; the source has its end symbol."""
PAIRS_PER_BATCH = 16


@dataclass(frozen=True)
class Trained:
    """A trained model to export: its task, its run's folder, and a function that loads it."""

    task: AnyTask
    folder: Path
    load: Callable[[], nn.Module]
    random_weights: tuple[str, ...] = ()
    """Names of weights that an import filled with random values; they are not exported for transformers."""

    @cached_property
    def model(self) -> nn.Module:
        return self.load()

    @property
    def exchange(self) -> Exchange:
        """The task's counterparts in other libraries; a UserError if it has none."""
        if self.task.exchange is None:
            raise self.unsupported("regard", "set `exchange` in the class of the task")
        return self.task.exchange

    @property
    def symbols(self) -> Symbols:
        assert self.task.search is not None
        return self.task.search.symbols

    @property
    def artifacts(self) -> list[str]:
        """Names of the tokenizer and label files in the run's folder."""
        names: tuple[str, ...] = self.task.artifacts(self.task.recipe)
        return [name for name in names if (self.folder / name).exists()]

    def copy_artifacts(self, folder: Path) -> None:
        for name in self.artifacts:
            (folder / name).write_bytes((self.folder / name).read_bytes())

    def unsupported(self, library: str, remedy: str) -> UserError:
        """The error that a library cannot run the model."""
        recipe = self.task.recipe
        problem = f"{library} does not support the model in {self.folder}: task {recipe.task}, {recipe.model.summary}"
        return UserError(problem, remedy, code="unsupported-model", where=self.folder)


class Target(ABC):
    """A library that runs exported models, for one model and one type of weights."""

    name: ClassVar[str]
    """The value of `regard export --to`."""
    quantizations: ClassVar[tuple[str, ...]] = ("float32",)
    """Types of weights; the first is the default."""
    search_bound: ClassVar[float] = 1.0
    """The largest bound on identical outputs of the recipe's search; less than 1 if the library has its own search."""
    output: ClassVar[str] = "logits"
    """The output whose difference is measured."""

    def __init__(self, trained: Trained, quantization: str | None = None) -> None:
        """Raise UserError if the library is missing, or cannot run the model with these weights."""
        self.trained, self.quantization = trained, quantization or self.quantizations[0]
        if len(self.quantizations) > 1:
            require_quantization(self.quantization, self.quantizations)
        elif self.quantization not in self.quantizations:
            problem = f"`--to {self.name}` cannot convert the weights to {self.quantization}"
            remedy = "leave `--quantization` out: only `--to ctranslate2` and `--to onnx` support it"
            raise UserError(problem, remedy, code="unsupported-option", where="quantization")

    @property
    @abstractmethod
    def packages(self) -> tuple[str, ...]:
        """The packages that run the export, the most important one first."""

    @abstractmethod
    def write(self, folder: Path) -> int:
        """Write the model and its tokenizers into an existing folder; return the number of weights."""

    @abstractmethod
    def open(self, folder: Path, device: torch.device | None = None) -> nn.Module | Engine:
        """Open an export in its library: an engine or a model, the argument of `Task.predict`."""

    def difference(self, engine: nn.Module | Engine, pairs: Sequence[Pair]) -> float:
        """The largest difference between the outputs of the run's model and of `engine` for every written token."""
        largest = 0.0
        for start in range(0, len(pairs), PAIRS_PER_BATCH):
            part = pairs[start : start + PAIRS_PER_BATCH]
            ours = forced_logits(self.trained.model, part, self.trained.symbols.bos)
            largest = max(largest, self.batch_difference(engine, part, ours))
        return largest

    def batch_difference(self, engine: Any, pairs: Sequence[Pair], ours: Tensor) -> float:
        """The same for some pairs and the logits (B, T, V) of the run's model."""
        written = torch.arange(ours.size(1)) <= torch.tensor([len(target) for _, target in pairs])[:, None]
        return float((ours - self.logits(engine, pairs))[written].abs().max())

    def logits(self, engine: nn.Module | Engine, pairs: Sequence[Pair]) -> Tensor:
        """The logits (B, T, V) of the exported model."""
        assert isinstance(engine, StepperEngine)
        return forced_logits(engine.stepper, pairs, self.trained.symbols.bos)


@torch.no_grad()
def forced_logits(stepper: Any, pairs: Sequence[Pair], bos: int) -> Tensor:
    """The logits (B, T, V) of every token of the outputs and of their end, step by step."""
    targets, _ = pad_rows([[bos, *target] for _, target in pairs], PAD, torch.device("cpu"))
    state = stepper.start(Padded.of(*pad_rows([source for source, _ in pairs], PAD, torch.device("cpu"))))
    rows = []
    for column in targets.split(1, dim=1):
        logits, state = stepper.step(column, state)
        rows.append(logits.float())
    return torch.cat(rows, dim=1)


def count_weights(weights: dict[str, Tensor]) -> int:
    return sum(tensor.numel() for tensor in weights.values())
