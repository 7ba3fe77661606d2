"""A recipe: one TOML file that says everything about a run, from the text to the search.

Each group of settings is defined beside the code it configures; here they are only put together and checked against
each other. `regard recipes` lists those that come with the toolkit.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import model_validator

from regard.config import Field, Settings, apply_overrides, build, nearest, read_toml
from regard.data.settings import DataSettings
from regard.decoding import DecodingSettings
from regard.errors import UserError
from regard.models import TransformerSettings
from regard.runtime import RuntimeSettings
from regard.text import TextSettings
from regard.training import TrainingSettings

MONITORS = ("loss", "perplexity", "bleu", "chrf", "ter", "exact_match")


class Recipe(Settings):
    """Everything a run depends on."""

    name: str = Field(
        pattern=r"^[\w.+-]*[\w+-][\w.+-]*$",
        description="the run's name, of letters, digits and . _ + -; its folder is runs/NAME",
    )
    about: str = Field("", description="one line for people")
    task: Literal["translation"] = Field("translation", description="what is learnt")
    start_from: str = Field(
        "", description="a run whose vocabulary and best weights this one begins with (fine-tuning)"
    )
    data: DataSettings
    text: TextSettings = TextSettings()
    model: TransformerSettings = TransformerSettings()
    training: TrainingSettings = TrainingSettings()
    decoding: DecodingSettings = DecodingSettings()
    runtime: RuntimeSettings = RuntimeSettings()

    @model_validator(mode="after")
    def agree(self) -> Self:
        """Refuse what contradicts itself across groups, before anything is computed."""
        if self.model.tie == "all" and not self.text.joint:
            raise ValueError('model.tie = "all" needs text.joint = true; else write model.tie = "output"')
        if self.model.positions == "learned" and self.model.max_positions < self.data.max_length:
            raise ValueError(
                f"model.max_positions = {self.model.max_positions} is shorter than data.max_length = "
                f"{self.data.max_length}; write a larger model.max_positions or a smaller data.max_length"
            )
        if self.training.monitor not in MONITORS:
            raise ValueError(
                f"training.monitor = {self.training.monitor!r} is none of {', '.join(MONITORS)}; "
                f"did you mean {nearest(self.training.monitor, MONITORS) or 'bleu'}?"
            )
        if self.data.max_length > self.training.batch_tokens:
            raise ValueError(
                f"training.batch_tokens = {self.training.batch_tokens} is less than one sentence of data.max_length = "
                f"{self.data.max_length} tokens; write a larger batch or a smaller max_length"
            )
        return self

    def to_toml(self) -> str:
        """The recipe with every default written out."""
        return to_toml(self.model_dump(exclude_none=True))


def load_recipe(source: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe from a file, or by its name from those that come with the toolkit."""
    path = find_recipe(source)
    return build(Recipe, apply_overrides(read_toml(path), overrides), str(path))


def find_recipe(source: str | Path) -> Path:
    """A file as it is; a bare name among the shipped recipes."""
    path = Path(source)
    if (path.exists() and not path.is_dir()) or path.suffix == ".toml":
        return path
    names = {recipe.stem: recipe for recipe in shipped_recipes()}
    if str(source) in names:
        return names[str(source)]
    close = nearest(str(source), list(names))
    raise UserError(
        f"{source}: neither a recipe file nor one that comes with the toolkit ({', '.join(names)})",
        f"did you mean {close}?" if close else "regard recipes lists them",
    )


def shipped_recipes() -> list[Path]:
    """The recipes beside the source tree, or inside the installed package."""
    here = Path(__file__).parent
    for folder in (here.parents[1] / "recipes", here / "recipes"):
        if any(folder.glob("*.toml")):
            return sorted(folder.glob("*.toml"))
    return []


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
        return "{ " + ", ".join(f"{key} = {_toml_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml_value(item) for item in value) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)
