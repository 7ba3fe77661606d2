"""The recipes of understanding: classes, numbers, tags, answers and choices, from nothing or from a pretrained run."""

from typing import Any, ClassVar, Literal, Self

from pydantic import model_validator

from regard.config import Field
from regard.data.fields import CHOICES, LABELLED_TEXT, QUESTIONS, SCORED_TEXT, TAGGED_WORDS, Fields
from regard.data.settings import AnsweringDataSettings, LabelledDataSettings
from regard.models.text_encoder import EncoderSettings, TransformerEncoderSettings
from regard.recipe.base import Recipe
from regard.recipe.bert_training import BertTrainingSettings
from regard.text.settings import BertTextSettings


class UnderstandingTrainingSettings(BertTrainingSettings):
    """How a model of understanding is trained; the defaults are those of fine-tuning (Devlin et al. 2018, A.3)."""

    max_epochs: float = Field(3.0, ge=0, description="stop after this many passes over the data, if sooner; 0 = off")
    batch_examples: int = Field(32, gt=0, description="examples of one optimizer step, over all processes together")
    batch_tokens: int = Field(
        16_384, gt=0, description="a step of long examples has fewer of them: at most so many tokens"
    )
    learning_rate: float = Field(5e-5, gt=0, description="the highest rate")
    warmup: int = Field(0, ge=0, description="steps over which the learning rate rises; 0 = by warmup_share")
    warmup_share: float = Field(0.1, ge=0, lt=1, description="share of all steps over which the learning rate rises")
    adam_epsilon: float = Field(1e-8, gt=0, description="Adam: what keeps a division by zero away")
    validate_every: int = Field(0, ge=0, description="steps between two validations; 0 = at the end of every epoch")
    keep: int = Field(1, gt=0, description="newest checkpoints kept, beside the best one")

    def settled(self, steps_in_epoch: int) -> Self:
        """The same with everything counted in steps, now that the length of an epoch is known."""
        steps = self.max_steps
        if self.max_epochs:
            steps = max(1, min(steps, round(self.max_epochs * steps_in_epoch)))
        return self.model_copy(
            update={
                "max_steps": steps,
                "max_epochs": 0.0,
                "warmup": self.warmup or round(self.warmup_share * steps),
                "validate_every": self.validate_every or steps_in_epoch,
            }
        )


class UnderstandingRecipe(Recipe):
    """A text in, something about it out."""

    data: LabelledDataSettings
    text: BertTextSettings = BertTextSettings()
    model: EncoderSettings = TransformerEncoderSettings()
    training: UnderstandingTrainingSettings = UnderstandingTrainingSettings()

    @model_validator(mode="before")
    @classmethod
    def judge_by_the_usual(cls, values: Any) -> Any:
        """The best checkpoint is chosen by the measure of the task, unless another is named."""
        if not isinstance(values, dict) or not isinstance(values.get("training", {}), dict):
            return values
        return values | {"training": {"monitor": cls.monitors[-1]} | values.get("training", {})}

    @model_validator(mode="after")
    def agree(self) -> Self:
        """Refuse what contradicts itself across groups, before anything is computed."""
        if self.model.length_limit is not None and self.model.length_limit < self.data.max_length:
            raise ValueError(
                f"model.max_positions = {self.model.length_limit} is shorter than "
                f"data.max_length = {self.data.max_length}; write a smaller data.max_length"
            )
        if self.training.batch_tokens < self.data.max_length:
            raise ValueError(
                f"training.batch_tokens = {self.training.batch_tokens} is less than one text of data.max_length = "
                f"{self.data.max_length} tokens; write a larger batch"
            )
        return self


class ClassificationRecipe(UnderstandingRecipe):
    """Of which class is a text, or a pair of texts?"""

    monitors: ClassVar[tuple[str, ...]] = ("loss", "f1", "matthews", "accuracy")
    fields: ClassVar[Fields] = LABELLED_TEXT
    task: Literal["classification"] = Field("classification", description="what is learnt")


class RegressionRecipe(UnderstandingRecipe):
    """Which number belongs to a text, or a pair of texts?"""

    monitors: ClassVar[tuple[str, ...]] = ("loss", "pearson", "spearman")
    fields: ClassVar[Fields] = SCORED_TEXT
    task: Literal["regression"] = Field("regression", description="what is learnt")

    @model_validator(mode="after")
    def numbers_are_not_smoothed(self) -> Self:
        if self.training.label_smoothing:
            raise ValueError("training.label_smoothing is for classes; write training.label_smoothing = 0.0")
        return self


class TaggingRecipe(UnderstandingRecipe):
    """Which tag belongs to each word?"""

    monitors: ClassVar[tuple[str, ...]] = ("loss", "accuracy", "f1")
    fields: ClassVar[Fields] = TAGGED_WORDS
    task: Literal["tagging"] = Field("tagging", description="what is learnt")


class AnsweringRecipe(UnderstandingRecipe):
    """Which words of a passage answer a question?"""

    monitors: ClassVar[tuple[str, ...]] = ("loss", "exact", "f1")
    fields: ClassVar[Fields] = QUESTIONS
    task: Literal["answering"] = Field("answering", description="what is learnt")
    data: AnsweringDataSettings


class ChoiceRecipe(UnderstandingRecipe):
    """Which of several continuations or answers is the right one?"""

    monitors: ClassVar[tuple[str, ...]] = ("loss", "accuracy")
    fields: ClassVar[Fields] = CHOICES
    task: Literal["choice"] = Field("choice", description="what is learnt")


UNDERSTANDING: tuple[type[UnderstandingRecipe], ...] = (
    ClassificationRecipe, RegressionRecipe, TaggingRecipe, AnsweringRecipe, ChoiceRecipe,
)  # fmt: skip
