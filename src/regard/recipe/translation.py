"""The recipe of a translator."""

from typing import Any, ClassVar, Literal, Self

from pydantic import model_validator

from regard.config import Field
from regard.data.fields import PAIRS, Fields
from regard.data.settings import PairDataSettings
from regard.decoding.settings import DecodingSettings
from regard.models.masked import MaskedSettings
from regard.models.transformer import TransformerSettings
from regard.models.translation import TranslationModelSettings
from regard.recipe.base import Recipe
from regard.text.settings import TextSettings


class TranslationRecipe(Recipe):
    """Sentence in, sentence out: pairs of text, a model of both, a search."""

    monitors: ClassVar[tuple[str, ...]] = ("loss", "perplexity", "chrf", "ter", "exact_match", "bleu")

    fields: ClassVar[Fields] = PAIRS
    task: Literal["translation"] = Field("translation", description="what is learnt")
    data: PairDataSettings
    text: TextSettings = TextSettings()
    model: TranslationModelSettings = TransformerSettings()
    decoding: DecodingSettings = DecodingSettings()

    @model_validator(mode="before")
    @classmethod
    def search_as_the_model_writes(cls, values: Any) -> Any:
        """A model that writes all words at once has one search, which need not be named."""
        model, decoding = values.get("model", {}), values.get("decoding", {})
        if isinstance(model, dict) and model.get("kind") == "masked" and isinstance(decoding, dict):
            return values | {"decoding": {"search": "mask_predict"} | decoding}
        return values

    @model_validator(mode="after")
    def agree(self) -> Self:
        """Refuse what contradicts itself across groups, before anything is computed."""
        imported = self.text.kind == "imported"
        for part in ("train", "valid"):
            if not getattr(self.data, part) and not imported:
                raise ValueError(f"data.{part}: must name at least one")
        if (
            self.model.shared_vocabulary and not self.text.joint and not imported
        ):  # whose two sides may number pieces alike
            raise ValueError('model.tie = "all" needs text.joint = true; else write model.tie = "output"')
        masked = isinstance(self.model, MaskedSettings)
        if masked != (self.decoding.search == "mask_predict"):
            raise ValueError(
                f'decoding.search = "{self.decoding.search}" does not suit model.kind = "{self.model.kind}"; '
                + (
                    'write decoding = { search = "mask_predict" }'
                    if masked
                    else "mask_predict is for kind = masked alone"
                )
            )
        if self.model.length_limit is not None and self.model.length_limit < self.data.max_length:
            raise ValueError(
                f"model.{self.model.length_setting} bounds sentences to {self.model.length_limit} tokens, fewer than "
                f"data.max_length = {self.data.max_length}; write a larger "
                f"model.{self.model.length_setting} or a smaller data.max_length"
            )
        if self.data.max_length > self.training.batch_tokens:
            raise ValueError(
                f"training.batch_tokens = {self.training.batch_tokens} is less than one sentence of data.max_length = "
                f"{self.data.max_length} tokens; write a larger batch or a smaller max_length"
            )
        return self
