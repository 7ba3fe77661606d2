"""The recipe: every setting of a run, composed of the settings of the rooms below.

A task declares its own recipe class (see `tasks/`). It names the groups of settings the task uses, and `defaults`: the
values that differ from the defaults of a group. So a setting and its help text are written once.
"""

import json
import re
from collections.abc import Mapping
from typing import ClassVar, Self

from pydantic import model_validator

from regard.config import Field, SettingError, Settings, Table, nearest, with_defaults
from regard.data.fields import Fields
from regard.data.settings import DataSettings, check_sources
from regard.models.settings import ModelSettings
from regard.runtime import RuntimeSettings
from regard.training.settings import TrainingSettings


class Recipe(Settings):
    """Base of the recipes of all tasks."""

    defaults: ClassVar[Mapping[str, object]] = {}
    """Default values of this task by full setting name, for example {"training.schedule": "linear"}."""
    fields: ClassVar[Fields]
    """The fields of the examples of this task."""
    monitors: ClassVar[tuple[str, ...]] = ("loss", "perplexity")
    """The validation metrics of this task that `training.monitor` can name."""

    name: str = Field(
        pattern=r"^[\w.+-]*[\w+-][\w.+-]*$",
        description="the name of the run: letters, digits and . _ + -; its folder is runs/NAME",
    )
    about: str = Field("", description="one line that describes the run")
    task: str = Field("translation", description="the task to train")
    start_from: str = Field(
        "", description="a run folder: training starts with its tokenizer and its best weights (fine-tuning)"
    )
    data: DataSettings
    text: Settings
    model: ModelSettings
    training: TrainingSettings = TrainingSettings()
    runtime: RuntimeSettings = RuntimeSettings()

    @model_validator(mode="before")
    @classmethod
    def apply_defaults(cls, values: object) -> object:
        """Insert the defaults of the task where the recipe gives no value."""
        if not isinstance(values, dict):
            return values
        return cls.infer_defaults(with_defaults(cls, values, cls.defaults))

    @classmethod
    def infer_defaults(cls, values: Table) -> Table:
        """Insert defaults that depend on other settings."""
        return values

    @model_validator(mode="after")
    def check_data(self) -> Self:
        """Check that the task can read its sources."""
        check_sources(self.data, self.fields)
        return self

    @model_validator(mode="after")
    def check_monitor(self) -> Self:
        monitor, names = self.training.monitor, self.monitors
        if monitor not in names:
            raise SettingError(
                "training.monitor",
                f"{monitor!r} is not a metric of this task; choose one of {', '.join(names)}; "
                f"did you mean {nearest(monitor, names) or names[-1]}?",
            )
        return self

    def to_toml(self) -> str:
        """The recipe as TOML with every default written out; settings that other tasks have are left out."""
        values = self.model_dump(exclude_none=True)
        for key, _ in self.no_effect():
            group, _, name = key.rpartition(".")
            values.get(group, {}).pop(name, None)
        return to_toml(values)


def to_toml(values: Table, prefix: str = "") -> str:
    """Write plain values as TOML: simple values first, then one table per group."""
    simple = {k: v for k, v in values.items() if not isinstance(v, dict)}
    lines = [f"{key} = {_toml_value(value)}" for key, value in simple.items()]
    for key, value in values.items():
        if isinstance(value, dict):
            lines += ["", f"[{prefix}{key}]", to_toml(value, f"{prefix}{key}.")]
    return "\n".join(lines)


def _toml_value(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_toml_key(key)} = {_toml_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml_value(item) for item in value) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def _toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml_value(key)
