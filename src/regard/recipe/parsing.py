"""The recipe of a parser: a translator from sentences to linearised trees."""

from typing import Any, ClassVar, Literal, Self

from pydantic import model_validator

from regard.config import Field
from regard.data.fields import TREES, Fields
from regard.data.settings import PairDataSettings
from regard.decoding.settings import DecodingSettings
from regard.models.masked import MaskedSettings
from regard.models.transformer import TransformerSettings
from regard.models.translation import TranslationModelSettings
from regard.recipe.translation import TranslationRecipe
from regard.text.settings import TextSettings
from regard.training.settings import TrainingSettings


class TreebankSettings(PairDataSettings):
    """The treebanks to train, validate and test on. A tree has several times as many tokens as its sentence."""

    max_ratio: float = Field(
        default=0.0, ge=0.0, description="training trees of so many times as many tokens as words are left out; 0: none"
    )


class SentenceSettings(TextSettings):
    """How sentences are cut. The vocabulary of trees is its own: every bracket that occurs, and XX for a word."""

    joint: Literal[False] = Field(default=False, description="sentences and trees have no word in common")


class ParserTrainingSettings(TrainingSettings):
    """How a parser is trained, and chosen by its brackets."""

    monitor: str = Field("f1", description="the validation metric that decides which checkpoint is the best")


class ParserDecodingSettings(DecodingSettings):
    """How to search for a tree: Vaswani et al. 2017, section 6.3, with a beam half as wide.

    Of the texts in view the likeliest that is a tree is taken. A row of words and short phrases is no loop.
    """

    beam: int = Field(10, ge=1, description="beam size: hypotheses kept for each sentence (beam)")
    alpha: float = Field(
        0.3, ge=0, description="length penalty of Wu et al. 2016; 0 is none, more favours longer texts"
    )
    nbest: int = Field(10, ge=1, description="texts looked at for one that is a tree, best first")
    extra_length: int = Field(300, ge=0, description="the output may have this many tokens more than the source")
    loop_guard: bool = Field(False, description="end a text that goes on repeating itself, and mark it")

    @model_validator(mode="before")
    @classmethod
    def as_many_as_are_found(cls, values: Any) -> Any:
        """All that a search finds are looked at, unless it is said otherwise."""
        if not isinstance(values, dict):
            return values
        found = values.get("beam", cls.model_fields["beam"].default) if values.get("search", "beam") == "beam" else 1
        return {"nbest": found} | values


class ParsingRecipe(TranslationRecipe):
    """Sentence in, tree out (Vinyals et al. 2015): treebanks, a translator, a search."""

    monitors: ClassVar[tuple[str, ...]] = ("loss", "perplexity", "precision", "recall", "complete", "f1")

    fields: ClassVar[Fields] = TREES
    task: Literal["parsing"] = Field("parsing", description="what is learnt")  # type: ignore[assignment]
    data: TreebankSettings
    text: SentenceSettings = SentenceSettings()
    model: TranslationModelSettings = TransformerSettings(tie="output")
    training: ParserTrainingSettings = ParserTrainingSettings()
    decoding: ParserDecodingSettings = ParserDecodingSettings()

    @model_validator(mode="before")
    @classmethod
    def sides_are_not_tied(cls, values: Any) -> Any:
        """Of two vocabularies only the target's can be tied to the output, which need not be said."""
        model = values.get("model", {})
        return values | {"model": {"tie": "output"} | model} if isinstance(model, dict) else values

    @model_validator(mode="after")
    def trees_word_by_word(self) -> Self:
        """Refuse models that cannot generate a tree token by token."""
        if isinstance(self.model, MaskedSettings):
            raise ValueError('a tree is written token by token; write model.kind = "transformer" or "recurrent"')
        return self
