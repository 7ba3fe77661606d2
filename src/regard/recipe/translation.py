"""The recipe of a translator."""

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from regard.config import Field
from regard.data.settings import DataSettings
from regard.models import TransformerSettings, TranslationModelSettings
from regard.recipe.base import Recipe


class TranslationRecipe(Recipe):
    """Sentence in, sentence out: pairs of text, a model of both, a search."""

    monitors: ClassVar[tuple[str, ...]] = ("loss", "perplexity", "chrf", "ter", "exact_match", "bleu")

    task: Literal["translation"] = Field("translation", description="what is learnt")
    data: DataSettings
    model: TranslationModelSettings = TransformerSettings()

    @model_validator(mode="after")
    def agree(self) -> Self:
        """Refuse what contradicts itself across groups, before anything is computed."""
        if self.model.joint and not self.text.joint:
            raise ValueError('model.tie = "all" needs text.joint = true; else write model.tie = "output"')
        if self.model.longest is not None and self.model.longest < self.data.max_length:
            raise ValueError(
                f"model.max_positions = {self.model.longest} is shorter than data.max_length = "
                f"{self.data.max_length}; write a larger model.max_positions or a smaller data.max_length"
            )
        if self.data.max_length > self.training.batch_tokens:
            raise ValueError(
                f"training.batch_tokens = {self.training.batch_tokens} is less than one sentence of data.max_length = "
                f"{self.data.max_length} tokens; write a larger batch or a smaller max_length"
            )
        return self
