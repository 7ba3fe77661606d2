"""The experiments of the lab: the files in `experiments/`, and those of plugins.

An experiment of your own is one Python file with `measure`, `judge`, `TEXTS` (texts.py) and the call

    register_experiment(__name__)

The environment variable REGARD_PLUGINS names such files; an installed package names its modules in the entry point
group `regard.experiments` (plugins.py).
"""

from collections.abc import Iterable
from functools import cache
from pkgutil import iter_modules

from regard.config import nearest
from regard.errors import UserError
from regard.lab import experiments
from regard.lab.experiment import Experiment
from regard.lab.texts import words
from regard.plugins import load_plugins

_REGISTERED: dict[str, Experiment] = {}


def register_experiment(module: str) -> None:
    """Add the experiment in a module, by the name of the module; the experiment is named as its file, with hyphens."""
    experiment = Experiment(module)
    known = {**_included(), **_REGISTERED}.get(experiment.name, experiment)
    if known.path != experiment.path:
        problem = f"{experiment.path}: {known.path} has the same experiment name, {experiment.name!r}"
        raise UserError(problem, "rename one of the files", code="duplicate-experiment", where=experiment.path)
    _REGISTERED[experiment.name] = experiment


@cache
def _included() -> dict[str, Experiment]:
    found = [Experiment(f"{experiments.__name__}.{module.name}") for module in iter_modules(experiments.__path__)]
    return {experiment.name: experiment for experiment in found}


def all_experiments() -> dict[str, Experiment]:
    load_plugins()
    return {**_included(), **_REGISTERED}


def by_topic(found: Iterable[Experiment]) -> list[Experiment]:
    """Experiments ordered by topic, then by name."""
    order = list(words("en")["topics"])
    return sorted(found, key=lambda experiment: (order.index(experiment.texts.topic), experiment.name))


def find_experiment(name: str) -> Experiment:
    found = all_experiments()
    if name not in found:
        close = nearest(name, list(found))
        remedy = f"did you mean `{close}`?" if close else "see `regard lab` for the list"
        raise UserError(f"there is no experiment {name!r}", remedy, code="unknown-experiment", where=name)
    return found[name]
