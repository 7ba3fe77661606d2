"""Base class of all model settings: the facts that training, data and search need of any model."""

from collections.abc import Iterator, Mapping
from typing import Literal, Self

from pydantic import model_validator

from regard.config import Field, SettingError, Settings, Unused, unless
from regard.messages import Count, Message

Tie = Literal["all", "output", "none"]
TIE = "weight tying: all: one matrix for source, target and output; output: one for target and output; none: three"
OUTPUT_BIAS = "add a bias to the logits"
CUSTOM_SIZE = "custom"
"""The value of `size` for a model with the shape of no named size."""
MAX_LAYERS, MAX_WIDTH, MAX_LENGTH = 256, 1 << 16, 1 << 20
"""Largest number of layers, largest width, and largest number of positions: larger values are mistakes."""
LENGTHS = ("max_positions", "max_distance", "max_length", "window")


def fill_from_size(values: object, sizes: Mapping[str, Mapping[str, object]], default: str) -> object:
    """Return settings with the values of their named size; values that are given stay."""
    if not isinstance(values, dict):
        return values
    size = values.get("size", default)
    return {**(sizes.get(size, {}) if isinstance(size, str) else {}), **values}


def name_of_size(values: Mapping[str, object], sizes: Mapping[str, Mapping[str, object]]) -> str:
    """Return the named size with these values, or "custom"."""
    return next((size for size, shape in sizes.items() if shape.items() <= values.items()), CUSTOM_SIZE)


def describe_layers(layers: int, heads: int, width: int) -> Message:
    """The layers of a Transformer in words, for `ModelSettings.summary`."""
    values = {"layers": Count(layers), "heads": Count(heads), "width": width}
    return Message("{layers:layer} of {heads:head}, width {width}", **values)


class ModelSettings(Settings):
    """Base of the settings of a model; `kind` in a recipe's [model] chooses the model."""

    kind: str
    d_model: int = Field(512, gt=0, description="model size: width of the hidden states")

    @model_validator(mode="after")
    def check_bounds(self) -> Self:
        """Refuse sizes that no model has: to build such a model takes all memory or all day."""
        for name, value in self:
            largest = MAX_LAYERS if name.endswith("layers") else MAX_LENGTH if name in LENGTHS else MAX_WIDTH
            if isinstance(value, int) and value > largest:
                raise SettingError(name, f"{value:,} is too large; the largest is {largest:,}")
        return self

    @property
    def length_limit(self) -> int | None:
        """Maximum number of tokens of a sentence; None if there is no limit."""
        return None

    @property
    def length_setting(self) -> str:
        """Name of the setting that determines `length_limit`."""
        return "max_positions"

    @property
    def has_attention(self) -> bool:
        """True if the model has attention weights to show."""
        return True

    @property
    def shared_vocabulary(self) -> bool:
        """True if source and target must share one vocabulary."""
        return False

    @property
    def supports_packing(self) -> bool:
        """True if `forward` takes packed batches (attention/layouts.py); otherwise a GPU gets padded batches."""
        return False

    @property
    def one_process_only(self) -> bool:
        """True if the model cannot be trained by several processes: batch norm needs the tokens of a whole batch."""
        return False

    @property
    def normalises_output(self) -> bool:
        """True if the vectors before the output have a fixed length in an untrained model."""
        return True

    @property
    def num_layers(self) -> int:
        """Total number of layers; deeper models need a lower learning rate."""
        layers = [value for name, value in self.model_dump().items() if name.endswith("layers")]
        return max(1, sum(layers))

    @property
    def summary(self) -> str:
        return self.kind


class WordVectorSettings(ModelSettings):
    """Base of the settings of models whose token embeddings can be pretrained word vectors."""

    embeddings_from: str = Field(
        "",
        description="file with pretrained word vectors for the token embeddings: word2vec or GloVe as text, or "
        'fastText (.vec); only with `text.kind = "word"` or "token"',
    )
    freeze_embeddings: bool = Field(
        False, description="only with `embeddings_from`: keep the token embeddings as they are in training"
    )

    def no_effect(self) -> Iterator[Unused]:
        yield from super().no_effect()
        yield from unless(bool(self.embeddings_from), "embeddings_from", "freeze_embeddings")


WORD_VECTORS = frozenset(WordVectorSettings.model_fields) - frozenset(ModelSettings.model_fields)
"""Settings that say how the first weights are made: a run that starts from another one does not adopt them."""
