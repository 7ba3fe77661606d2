"""Base class of all model settings: the facts that training, data and search need of any model."""

from typing import Literal

from regard.config import Field, Settings

Tie = Literal["all", "output", "none"]
TIE = "weight tying: all: one matrix for source, target and output; output: one for target and output; none: three"


class ModelSettings(Settings):
    """Base of the settings of a model; `kind` in a recipe's [model] chooses the model."""

    kind: str
    d_model: int = Field(512, gt=0, description="model size: width of the hidden states")

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
    def num_layers(self) -> int:
        """Total number of layers; deeper models need a lower learning rate."""
        layers = [value for name, value in self.model_dump().items() if name.endswith("layers")]
        return max(1, sum(layers))

    @property
    def summary(self) -> str:
        """One line that describes the model."""
        return self.kind
