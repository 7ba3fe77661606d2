"""The recipe of BERT's pretraining."""

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from regard.config import Field
from regard.data.fields import SENTENCES, Fields
from regard.data.settings import DocumentDataSettings
from regard.models.bert import BertSettings
from regard.recipe.base import Recipe
from regard.recipe.bert_training import BertTrainingSettings
from regard.text.settings import BertTextSettings


class PretrainingTrainingSettings(BertTrainingSettings):
    """How a BERT is pretrained; the defaults are those of Devlin et al. 2018, section A.2, and of their program."""

    max_steps: int = Field(1_000_000, gt=0, description="stop after this many optimizer steps")
    batch_tokens: int = Field(
        131_072, gt=0, description="tokens of one optimizer step, over all processes together (256 inputs of 512)"
    )
    learning_rate: float = Field(1e-4, gt=0, description="the highest rate")
    warmup: int = Field(10_000, ge=0, description="steps over which the learning rate rises from zero")
    adam_epsilon: float = Field(1e-6, gt=0, description="Adam: what keeps a division by zero away")


class PretrainingRecipe(Recipe):
    """Which words are hidden, and does B come after A: documents, and a BERT that reads them."""

    monitors: ClassVar[tuple[str, ...]] = ("next_sentence_accuracy", "masked_accuracy", "masked_perplexity", "loss")

    fields: ClassVar[Fields] = SENTENCES
    task: Literal["pretraining"] = Field("pretraining", description="what is learnt")
    data: DocumentDataSettings = DocumentDataSettings()
    text: BertTextSettings = BertTextSettings()
    model: BertSettings = BertSettings()
    training: PretrainingTrainingSettings = PretrainingTrainingSettings()

    @model_validator(mode="after")
    def agree(self) -> Self:
        """Refuse what contradicts itself across groups, before anything is computed."""
        if self.training.monitor == "next_sentence_accuracy" and not self.data.next_sentence:
            raise ValueError('data.next_sentence = false asks for no next sentence; write training.monitor = "loss"')
        if self.data.next_sentence and self.model.segments < 2:
            raise ValueError(
                "data.next_sentence = true reads two texts, and model.segments = 1 tells no two apart; write "
                "data.next_sentence = false or model.segments = 2"
            )
        if self.model.max_positions < self.data.max_length:
            raise ValueError(
                f"model.max_positions = {self.model.max_positions} is shorter than data.max_length = "
                f"{self.data.max_length}; write a larger model.max_positions or a smaller data.max_length"
            )
        if self.training.batch_tokens < self.data.max_length:
            raise ValueError(
                f"training.batch_tokens = {self.training.batch_tokens} is less than one input of data.max_length = "
                f"{self.data.max_length} tokens; write a larger batch or a smaller max_length"
            )
        return self
