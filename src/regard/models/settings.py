"""What every model's settings answer to those who train, store and search it without knowing which model it is."""

from typing import Any

from regard.config import Field, Settings


class ModelSettings(Settings):
    """Base of the settings of a model; `kind` in a recipe's [model] says which one is meant."""

    kind: Any
    d_model: int = Field(512, gt=0, description="width of the vectors a word becomes")

    @property
    def length_limit(self) -> int | None:
        """The most tokens of a sentence the model has positions for; None where there is no bound."""
        return None

    @property
    def length_setting(self) -> str:
        """The setting that `length_limit` follows from."""
        return "max_positions"

    @property
    def has_attention(self) -> bool:
        """Whether anything looks at anything: otherwise there is no attention to show."""
        return True

    @property
    def shared_vocabulary(self) -> bool:
        """Whether source and target must share one vocabulary."""
        return False

    @property
    def supports_packing(self) -> bool:
        """Whether `forward` takes packed batches too (attention/layouts.py); otherwise a GPU gets padded ones."""
        return False

    @property
    def num_layers(self) -> int:
        """How many layers a signal passes, about: deeper models want smaller steps."""
        layers = [value for name, value in self.model_dump().items() if name.endswith("layers")]
        return max(1, sum(layers))

    @property
    def summary(self) -> str:
        """The model in a few words, for people."""
        return str(self.kind)
