"""Predictions of a run as a function for its worker: a batch, or a continuous batch if the engine can."""

from collections.abc import Sequence
from typing import Any

from regard.engines.choose import ContinuousSearch, continuous_search
from regard.run.model import Model
from regard.serve.worker import Unit
from regard.tasks.base import Prediction, Search


class Predict:
    """The predictions of a list of examples, with some options of the task."""

    def __init__(self, options: dict[str, Any], continuous: bool = True) -> None:
        """`continuous` is False for examples that give the beginning of their output: only batches support them."""
        self.options, self.continuous = options, continuous
        self.key = ("predict", continuous, tuple(sorted(options.items())))
        """Equal for equal options."""

    def __call__(self, model: Model, examples: list[Any]) -> list[Prediction]:
        return model.predict(examples, **self.options)

    def start(self, model: Model) -> "ContinuousPredictions | None":
        """A continuous batch, if the engine accepts new sentences while it decodes others."""
        task = model.task.configure(**self.options)
        if not self.continuous or task.search is None or task.search.request is None:
            return None
        running = continuous_search(model.engine, task.search.settings)
        return None if running is None else ContinuousPredictions(task.search, running)


class ContinuousPredictions:
    """Examples of a sequence-to-sequence task in a running search; a long example is several sentences of it."""

    def __init__(self, how: Search, search: ContinuousSearch[tuple[Unit, int]]) -> None:
        assert how.request is not None and how.join is not None
        self.request, self.join, self.decode, self.search = how.request, how.join, how.tokenizer.decode, search
        self.parts: dict[Unit, list[Any]] = {}
        """The hypotheses of each part of an example; None for parts in progress."""

    def __len__(self) -> int:
        return len(self.parts)

    def add(self, units: Sequence[Unit]) -> None:
        request, counts = self.request([unit.value for unit in units], 0)
        if any(request.prefixes):
            raise ValueError("a running search does not take outputs with a given beginning")
        names = [(unit, part) for unit, count in zip(units, counts, strict=True) for part in range(count)]
        self.search.add(names, request)
        self.parts |= {unit: [None] * count for unit, count in zip(units, counts, strict=True)}

    def remove(self, unit: Unit) -> None:
        for part in range(len(self.parts.pop(unit, ()))):
            self.search.remove((unit, part))

    def step(self) -> list[tuple[Unit, Prediction]]:
        for (unit, part), hypotheses in self.search.step():
            self.parts[unit][part] = hypotheses
        done = [unit for unit, parts in self.parts.items() if None not in parts]
        return [(unit, self.join(self.parts.pop(unit))) for unit in done]

    def partial(self, units: Sequence[Unit]) -> list[tuple[Unit, str]]:
        """The beginning of the best output so far; beam search may still change it. Of a long example: nothing."""
        running, decode = self.search.partial(), self.decode
        alone = [unit for unit in units if (unit, 0) in running and len(self.parts[unit]) == 1]
        return [(unit, decode(running[unit, 0])) for unit in alone]
