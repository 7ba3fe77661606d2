"""Names of weights, from ours to theirs."""

import re
from collections.abc import Mapping


def renamed(name: str, modules: Mapping[str, str]) -> str:
    """A name with each expression of `modules` replaced, one after another."""
    for ours, theirs in modules.items():
        name = re.sub(ours, theirs, name)
    return name
