"""The recipe of a language model."""

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from regard.config import Field
from regard.data.fields import LINES, Fields
from regard.data.settings import TextDataSettings
from regard.decoding.settings import DecodingSettings
from regard.models.language import LanguageModelSettings
from regard.models.language_recurrent import RecurrentLanguageSettings
from regard.models.ngram import NGramSettings
from regard.recipe.base import Recipe
from regard.text.settings import TextSettings
from regard.training.settings import TrainingSettings


class LanguageTrainingSettings(TrainingSettings):
    """How a language model is trained: to expect a text as well as it can, without smoothing."""

    label_smoothing: float = Field(0.0, ge=0, lt=1, description="probability given away to wrong tokens in the target")


class LanguageRecipe(Recipe):
    """What comes next: a text, a model of it, and how to go on with a prompt."""

    monitors: ClassVar[tuple[str, ...]] = ("loss", "bits_per_character", "word_perplexity", "perplexity")

    fields: ClassVar[Fields] = LINES
    task: Literal["language"] = Field("language", description="what is learnt")
    data: TextDataSettings
    text: TextSettings = TextSettings()
    model: LanguageModelSettings = RecurrentLanguageSettings()
    training: LanguageTrainingSettings = LanguageTrainingSettings()
    decoding: DecodingSettings = DecodingSettings(search="sample")

    @model_validator(mode="after")
    def agree(self) -> Self:
        """Refuse what contradicts itself across groups, before anything is computed."""
        if self.start_from and isinstance(self.model, NGramSettings):
            raise ValueError('an n-gram is counted, and begins with nothing; write start_from = ""')
        if self.text.dropout:
            raise ValueError("text.dropout is for translators; write text.dropout = 0.0")
        if self.decoding.search == "mask_predict":
            raise ValueError('mask_predict is for translators of kind masked; write decoding.search = "sample"')
        if self.training.r_drop:
            raise ValueError("training.r_drop is for translators; write training.r_drop = 0.0")
        if self.model.length_limit is not None and self.model.length_limit < self.data.bptt:
            raise ValueError(
                f"model.max_positions = {self.model.length_limit} is shorter than data.bptt = {self.data.bptt}; "
                "write a larger model.max_positions or a smaller data.bptt"
            )
        if self.data.bptt * self.training.accumulation > self.training.batch_tokens:
            raise ValueError(
                f"training.batch_tokens = {self.training.batch_tokens} is less than a column of data.bptt = "
                f"{self.data.bptt} tokens for each of training.accumulation = {self.training.accumulation} parts; "
                "write a larger batch or a smaller bptt"
            )
        return self
