"""The experiments of the lab: every subclass of `Experiment` in a file of `experiments/`."""

import inspect
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from regard.errors import UserError
from regard.lab import experiments
from regard.lab.experiment import TOPICS, Experiment


@cache
def all_experiments() -> dict[str, Experiment]:
    """Every experiment by name, ordered by topic and name of the file."""
    found = []
    for module in iter_modules(experiments.__path__):
        file = import_module(f"{experiments.__name__}.{module.name}")
        for _, member in inspect.getmembers(file, inspect.isclass):
            if issubclass(member, Experiment) and member.__module__ == file.__name__ and not inspect.isabstract(member):
                found.append(member())
    order = list(TOPICS)
    return {found.name: found for found in sorted(found, key=lambda experiment: order.index(experiment.topic))}


def find_experiment(name: str) -> Experiment:
    """The experiment of this name."""
    found = all_experiments()
    if name not in found:
        raise UserError(
            f"there is no experiment {name!r}",
            f"choose one of {', '.join(found)}",
            code="unknown-experiment",
            where=name,
        )
    return found[name]
