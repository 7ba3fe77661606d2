"""Settings of fine-tuning: the recipe of all labelled tasks (Devlin et al. 2018, section A.3)."""

from collections.abc import Iterator, Mapping
from typing import ClassVar, Self

from pydantic import model_validator

from regard.config import SettingError, Unused
from regard.data.settings import LabelledDataSettings
from regard.models.text_encoder import EncoderSettings, TransformerEncoderSettings
from regard.recipe import Recipe, Rules
from regard.tasks import sizing
from regard.text.settings import BertTextSettings, EncoderTextSettings, TextSettings

# The common defaults of Devlin et al. 2018, sections A.2 and A.3, and of their program.
BERT_TRAINING: dict[str, object] = {
    "training.schedule": "linear",
    "training.adam_beta2": 0.999,
    "training.weight_decay": 0.01,
    "training.clip": 1.0,
    "training.label_smoothing": 0.0,
}


class LabelledRecipe(Recipe):
    """Base of the recipes of labelled tasks; the training defaults are those of fine-tuning."""

    defaults: ClassVar[Mapping[str, object]] = BERT_TRAINING | {
        "training.max_epochs": 3.0,
        "training.batch_examples": 32,
        "training.batch_tokens": 16_384,
        "training.learning_rate": 5e-5,
        "training.warmup": 0,
        "training.warmup_share": 0.1,
        "training.adam_epsilon": 1e-8,
        "training.validate_every": 0,
        "training.keep": 1,
    }
    rules: ClassVar[Rules] = sizing.labelled

    data: LabelledDataSettings
    text: EncoderTextSettings = BertTextSettings()
    model: EncoderSettings = TransformerEncoderSettings()

    @model_validator(mode="after")
    def check_lengths(self) -> Self:
        """Check settings of different groups against each other."""
        if self.model.kind == "bert" and self.text.kind not in ("bert", "imported"):
            raise SettingError("text.kind", f'a BERT reads text of kind "bert", not "{self.text.kind}"; write "bert"')
        if self.model.length_limit is not None and self.model.length_limit < self.data.max_length:
            raise SettingError(
                "data.max_length",
                f"{self.data.max_length} is more than model.max_positions = {self.model.length_limit}; write less",
            )
        if self.training.batch_tokens < self.data.max_length:
            raise SettingError(
                "training.batch_tokens",
                f"{self.training.batch_tokens} is less than one text of data.max_length = {self.data.max_length} "
                "tokens; write a larger one",
            )
        return self

    def no_effect(self) -> Iterator[Unused]:
        yield "training.r_drop", "translation"
        if isinstance(self.text, TextSettings):
            yield from ((key, "translation") for key in ("text.joint", "text.dropout"))
