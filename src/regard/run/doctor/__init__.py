"""The doctor: what can be known to go wrong with a recipe before hours are spent on it."""

from regard.run.doctor.check import Check, healthy, to_json
from regard.run.doctor.examine import examine

__all__ = ["Check", "examine", "healthy", "to_json"]
