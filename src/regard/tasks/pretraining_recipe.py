"""Settings of BERT pretraining."""

from collections.abc import Iterator, Mapping
from typing import ClassVar, Self

from pydantic import model_validator

from regard.config import SettingError, Unused, unless
from regard.data.fields import SENTENCES, Fields
from regard.data.settings import DocumentDataSettings
from regard.models.bert import BertSettings
from regard.recipe import Recipe, Rules
from regard.tasks import sizing
from regard.tasks.finetuning import BERT_TRAINING
from regard.text.settings import BertTextSettings, MaskedTextSettings, TextSettings

MASKING = ("data.masked", "data.masking", "data.whole_words")
"""Settings of masking."""


class PretrainingRecipe(Recipe):
    """The recipe of BERT pretraining; the defaults are those of Devlin et al. 2018, section A.2."""

    fields: ClassVar[Fields] = SENTENCES
    defaults: ClassVar[Mapping[str, object]] = BERT_TRAINING | {
        "task": "pretraining",
        "training.max_steps": 1_000_000,
        "training.batch_tokens": 131_072,  # 256 inputs of 512 tokens
        "training.learning_rate": 1e-4,
        "training.warmup": 10_000,
        "training.adam_epsilon": 1e-6,
    }
    rules: ClassVar[Rules] = sizing.pretraining
    monitors = (
        "next_sentence_accuracy", "masked_accuracy", "masked_perplexity", "next_token_accuracy",
        "next_token_perplexity", "loss",
    )  # fmt: skip

    data: DocumentDataSettings = DocumentDataSettings()
    text: MaskedTextSettings = BertTextSettings()
    model: BertSettings = BertSettings()

    @model_validator(mode="after")
    def check_groups(self) -> Self:
        """Check settings of different groups against each other."""
        data, model, training = self.data, self.model, self.training
        if training.monitor == "next_sentence_accuracy" and not data.next_sentence:
            raise SettingError("training.monitor", 'data.next_sentence is false; write "loss"')
        if training.monitor.startswith("masked" if model.causal else "next_token"):
            name = "next_token" if model.causal else "masked"
            raise SettingError("training.monitor", f"model.causal is {model.causal}; write {name}_perplexity")
        if data.next_sentence and model.segments < 2:
            raise SettingError("model.segments", "data.next_sentence = true needs 2 segments; write 2")
        if model.max_positions < data.max_length:
            raise SettingError(
                "data.max_length",
                f"{data.max_length} is more than model.max_positions = {model.max_positions}; write a larger "
                "model.max_positions or a smaller data.max_length",
            )
        if training.batch_tokens < data.max_length:
            raise SettingError(
                "training.batch_tokens",
                f"{training.batch_tokens} is less than one input of data.max_length = {data.max_length} tokens; write "
                "a larger batch_tokens or a smaller max_length",
            )
        return self

    def no_effect(self) -> Iterator[Unused]:
        yield "training.r_drop", "translation"
        yield "training.batch_examples", "labelled tasks"
        if isinstance(self.text, TextSettings):
            yield from ((key, "translation") for key in ("text.joint", "text.dropout"))
        yield from unless(not self.model.causal, "model.causal = false", *MASKING)
