"""Experiments for tests, which take no time: one file each, as a plugin would have it. Processes import them too."""

from regard.lab.experiment import Experiment

SWITCH = "REGARD_TEST_SWITCH"
"""The environment variable with a file whose text says how `switched` behaves."""
TIMED, DOUBLES, SWITCHED = (Experiment(f"{__name__}.{name}") for name in ("timed", "doubles", "switched"))
MADE = {experiment.name: experiment for experiment in (TIMED, DOUBLES, SWITCHED)}
