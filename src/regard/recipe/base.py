"""A recipe: one TOML file that says everything about a run, from the text to the search.

Each group of settings is defined beside the code it configures; here they are only put together and checked against
each other. What every task has is here; what is its own stands in a file of its own beside this one.
"""

import json
import re
from typing import Any, ClassVar, Self

from pydantic import model_validator

from regard.config import Field, Settings, nearest
from regard.data.fields import Fields
from regard.data.settings import check_sources
from regard.models.settings import ModelSettings
from regard.runtime import RuntimeSettings
from regard.training.settings import TrainingSettings


class Recipe(Settings):
    """Everything a run depends on; `task` says which of the recipes it is."""

    monitors: ClassVar[tuple[str, ...]] = ("loss", "perplexity")
    """What a validation of this task measures, the best choice for most last."""

    fields: ClassVar[Fields]
    """The fields of the examples of this task."""

    name: str = Field(
        pattern=r"^[\w.+-]*[\w+-][\w.+-]*$",
        description="the run's name, of letters, digits and . _ + -; its folder is runs/NAME",
    )
    about: str = Field("", description="one line for people")
    task: Any = Field(description="what is learnt")
    start_from: str = Field(
        "", description="a run whose vocabulary and best weights this one begins with (fine-tuning)"
    )
    data: Any
    text: Any
    model: ModelSettings
    training: TrainingSettings = TrainingSettings()
    runtime: RuntimeSettings = RuntimeSettings()

    @model_validator(mode="after")
    def check_data(self) -> Self:
        """Refuse sources that the task cannot read."""
        check_sources(self.data, self.fields)
        return self

    @model_validator(mode="after")
    def monitor_is_measured(self) -> Self:
        monitor, known = self.training.monitor, self.monitors
        if monitor not in known:
            raise ValueError(
                f"training.monitor = {monitor!r} is none of {', '.join(known)}; "
                f"did you mean {nearest(monitor, known) or known[-1]}?"
            )
        return self

    def to_toml(self) -> str:
        """The recipe with every default written out."""
        return to_toml(self.model_dump(exclude_none=True))


def to_toml(values: dict[str, Any], prefix: str = "") -> str:
    """Plain values as TOML: simple ones first, then a table for each group."""
    simple = {k: v for k, v in values.items() if not isinstance(v, dict)}
    lines = [f"{key} = {_toml_value(value)}" for key, value in simple.items()]
    for key, value in values.items():
        if isinstance(value, dict):
            lines += ["", f"[{prefix}{key}]", to_toml(value, f"{prefix}{key}.")]
    return "\n".join(lines)


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_toml_key(key)} = {_toml_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml_value(item) for item in value) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def _toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml_value(key)
