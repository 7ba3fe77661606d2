"""The recipe: every setting of a run, composed of the settings of the rooms below.

A task declares its own recipe class (see `tasks/`). It names the groups of settings the task uses, and `defaults`: the
values that differ from the defaults of a group. So a setting and its help text are written once.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from pydantic import PrivateAttr, model_validator

from regard.config import Field, SettingError, Settings, SettingsTable, nearest, with_defaults
from regard.data.fields import Fields
from regard.data.formats import check_source
from regard.data.settings import DataSettings
from regard.models.settings import ModelSettings
from regard.run_files import SPLITS
from regard.runtime import RuntimeSettings
from regard.training.settings import TrainingSettings


@dataclass(frozen=True)
class Corpus:
    """The amount of training data, from which defaults are chosen.

    words        words of all texts that a model reads or writes; a Chinese or Japanese character counts as a word
    long_input   words of a long input: 95 % of the inputs are shorter
    """

    examples: int
    words: int
    long_input: int


@dataclass(frozen=True)
class ChosenDefault:
    """The value of a setting that the recipe does not give, chosen from the training data."""

    name: str
    value: object
    reason: str


Rules = Callable[["Recipe", Corpus], Iterable[ChosenDefault]]


def no_rules(recipe: "Recipe", corpus: Corpus) -> Iterable[ChosenDefault]:
    """Choose nothing: every setting has its fixed default."""
    return ()


class Recipe(Settings):
    """Base of the recipes of all tasks."""

    defaults: ClassVar[Mapping[str, object]] = {}
    """Default values of this task by full setting name, for example {"training.schedule": "linear"}."""
    fields: ClassVar[Fields]
    """The fields of the examples of this task."""
    rules: ClassVar[Rules] = no_rules
    """Defaults of this task that depend on the amount of training data."""
    monitors: ClassVar[tuple[str, ...]] = ("loss", "perplexity")
    """The validation metrics of this task that `training.monitor` can name."""

    supports_losses: ClassVar[bool] = False
    """True if `training.loss` may be other than cross-entropy."""
    supports_class_weights: ClassVar[bool] = False
    supports_language_loss: ClassVar[bool] = False
    supports_layers: ClassVar[bool] = False
    """True if layers can have learning rates of their own and be unfrozen one after another."""

    name: str = Field(
        pattern=r"^[\w.+-]*[\w+-][\w.+-]*$",
        description="run name, also the folder name in runs/; letters, digits and . _ + -",
    )
    about: str = Field("", description="one line that describes the run")
    task: str = Field("translation", description="the task to train")
    start_from: str = Field(
        "",
        description="run to start from (fine-tuning), a folder or the bundled `translator`: use its tokenizer and best "
        "weights",
    )
    data: DataSettings
    text: Settings = Settings()
    model: ModelSettings
    training: TrainingSettings = TrainingSettings()
    runtime: RuntimeSettings = RuntimeSettings()

    _given: frozenset[str] | None = PrivateAttr(default=None)
    """Full names of the settings that the user gave; None if the recipe was not read from a file: then all are."""

    def __eq__(self, other: object) -> bool:
        """True if all settings are equal; it does not matter which of them the user gave."""
        return isinstance(other, Recipe) and type(self) is type(other) and self.__dict__ == other.__dict__

    def is_given(self, name: str) -> bool:
        """True if the user gave a setting, so that no default is chosen for it."""
        return self._given is None or name in self._given

    def choose(self, corpus: Corpus) -> Iterator[ChosenDefault]:
        """Yield values for settings that depend on the amount of training data and that are not given."""
        for choice in type(self).rules(self, corpus):
            group, _, name = choice.name.partition(".")
            if not self.is_given(choice.name) and name in type(getattr(self, group)).model_fields:
                yield choice

    @model_validator(mode="before")
    @classmethod
    def apply_defaults(cls, values: object) -> object:
        """Insert the defaults of the task where the recipe gives no value."""
        if not isinstance(values, dict):
            return values
        return cls.infer_defaults(with_defaults(cls, values, cls.defaults))

    @classmethod
    def infer_defaults(cls, values: SettingsTable) -> SettingsTable:
        """Insert defaults that depend on other settings."""
        return values

    @model_validator(mode="after")
    def check_data(self) -> Self:
        """Raise SettingError if the task cannot read a source, or if an option of a source has no effect."""
        sources = [(split, *item) for split in SPLITS for item in enumerate(getattr(self.data, split))]
        for split, number, source in sources:
            try:
                check_source(source, self.fields)
                for name in ("repeat", "back_translated"):
                    if getattr(source, name) and split != "train":
                        raise SettingError(name, f"works with training data only; remove this setting from {split}")
            except SettingError as error:
                raise SettingError(f"data.{split}.{number}.{error.key}", str(error), error.code) from error
        return self

    @model_validator(mode="after")
    def check_loss(self) -> Self:
        if self.training.loss != "cross_entropy" and not self.supports_losses:
            raise SettingError("training.loss", f"{self.training.loss!r} does not work with task {self.task}")
        if self.training.class_weights != "none" and not self.supports_class_weights:
            raise SettingError("training.class_weights", f"works with classification only, not with task {self.task}")
        if self.training.language_loss and not self.supports_language_loss:
            message = f"works with classification and regression only, not with task {self.task}"
            raise SettingError("training.language_loss", message, "unused-setting")
        for name, off in (("layer_decay", 1.0), ("unfreeze_epochs", 0.0)):
            if getattr(self.training, name) != off and not self.supports_layers:
                message = f"works with labelled tasks only, not with task {self.task}"
                raise SettingError(f"training.{name}", message, "unused-setting")
        return self

    @model_validator(mode="after")
    def check_word_vectors(self) -> Self:
        if not getattr(self.model, "embeddings_from", ""):
            return self
        if self.start_from:
            message = "has no effect with start_from, whose weights are used; remove one of the two"
            raise SettingError("model.embeddings_from", message, "unused-setting")
        if (kind := getattr(self.text, "kind", "")) not in ("word", "token"):
            message = f'needs a tokenizer of words: text.kind = "word" or "token", not "{kind}"'
            raise SettingError("model.embeddings_from", message)
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

    def check_length(self, name: str, unit: str, accumulation: int = 1) -> None:
        """Raise SettingError if data.NAME, the length of one `unit`, is more than the model or a batch can hold."""
        length, limit = getattr(self.data, name), self.model.length_limit
        if limit is not None and limit < length:
            larger = f"model.{self.model.length_setting}"
            problem = f"{length} is more than {larger} allows, {limit} tokens"
            raise SettingError(f"data.{name}", f"{problem}; write a larger {larger} or a smaller data.{name}")
        if self.training.batch_tokens < length * accumulation:
            parts = f" for each of training.accumulation = {accumulation} micro-batches" if accumulation > 1 else ""
            problem = f"{self.training.batch_tokens} is less than one {unit} of data.{name} = {length} tokens{parts}"
            raise SettingError("training.batch_tokens", f"{problem}; write a larger batch_tokens or a smaller {name}")

    @property
    def has_attention(self) -> bool:
        """True if the outputs depend on attention weights, which can be shown."""
        return self.model.has_attention

    @property
    def compiles(self) -> bool:
        return True

    def training_in_steps(self, epoch: int) -> TrainingSettings:
        """The training settings for epochs of so many steps, with every value that depends on the data filled in."""
        training = self.training
        if training.validate_every and not training.warmup_share:
            return training
        filled = training.in_steps(epoch)
        return filled.model_copy(update={"max_steps": training.max_steps, "max_epochs": training.max_epochs})

    def to_toml(self) -> str:
        """The recipe as TOML with every default written out; settings that other tasks have are left out."""
        values = self.model_dump(exclude_none=True)
        for key, _ in self.no_effect():
            group, _, name = key.rpartition(".")
            values.get(group, {}).pop(name, None)
        return to_toml(values)


def to_toml(values: SettingsTable, prefix: str = "") -> str:
    """Write plain values as TOML: simple values first, then one table per group."""
    simple = {k: v for k, v in values.items() if not isinstance(v, dict)}
    lines = [f"{key} = {_toml_value(value)}" for key, value in simple.items()]
    for key, value in values.items():
        if isinstance(value, dict):
            lines += ["", f"[{prefix}{key}]", to_toml(value, f"{prefix}{key}.")]
    return "\n".join(lines)


def _toml_value(value: object) -> str:
    if isinstance(value, dict):
        keys = [key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml_value(key) for key in value]
        return f"{{ {', '.join(f'{k} = {_toml_value(item)}' for k, item in zip(keys, value.values(), strict=True))} }}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml_value(item) for item in value) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)
