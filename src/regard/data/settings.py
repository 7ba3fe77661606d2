"""Settings of the `[data]` group of a recipe: the sources of each split, and what each task adds."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, model_validator

from regard.config import Field, SettingError, Settings, Unused, build, unless
from regard.data.fields import Fields
from regard.data.formats import FORMATS, check_source
from regard.data.records import file_ending
from regard.data.sources import Source, as_list
from regard.data.texts import UNKNOWN
from regard.errors import UserError
from regard.files import JsonObject

SIZE_SETTINGS = {"train": "data.train", "valid": "data.hold_out", "test": "data.hold_out_test"}
"""The setting that decides how many examples a split has, if valid and test are held out."""
Sources = Annotated[list[Source], BeforeValidator(as_list)]


class DataSettings(Settings):
    """The data of every task."""

    root: str = Field(".", description="relative paths below are relative to this folder")
    workers: int = Field(0, ge=0, le=1024, description="processes that tokenise; 0: one per core")
    train: Sources = Field(
        [],
        description="sources of the training examples: a table, the name of a file, or a list of them; an imported "
        "model has none",
    )
    valid: Sources = Field(
        [], description="sources of the examples that select the best checkpoint; default: some are held out of train"
    )
    test: Sources = Field([], description="sources of the examples for the final score")

    hold_out: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="share of the training texts to hold out as valid; 0: 10 % if there are at most 2,000 texts, "
        "otherwise 5 %, but at least 200 and at most 2,000",
    )
    hold_out_test: float = Field(0.0, ge=0, lt=1, description="share of the training texts to hold out as test")

    @model_validator(mode="after")
    def _check_hold_out(self) -> Self:
        for name, sources in (("hold_out", self.valid), ("hold_out_test", self.test)):
            if getattr(self, name) and sources:
                message = "has no effect: this split has a source; leave out one of the two"
                raise SettingError(name, message, "unused-setting")
        if self.hold_out + self.hold_out_test >= 1:
            raise SettingError("hold_out", "hold_out and hold_out_test together leave nothing to train on")
        return self

    @property
    def folder(self) -> Path:
        """`root` as a path."""
        return Path(self.root).expanduser()

    @property
    def held_out(self) -> tuple[str, ...]:
        """The splits that are held out of the training data."""
        valid = bool(self.hold_out) or bool(self.train and not self.valid)
        return tuple(split for split, held in (("valid", valid), ("test", bool(self.hold_out_test))) if held)


def build_source(values: JsonObject, fields: Fields, where: str) -> Source:
    """A source that a command names, checked."""
    source = build(Source, values, where)
    try:
        check_source(source, fields)
    except SettingError as error:
        raise UserError(f"{where}: {error}", code=error.code, where=error.key) from error
    return source


def adopt_settings(file: str, sources: Sequence[Source], fields: Fields) -> JsonObject:
    """How to read a file, from sources that name others: all settings of the first with the same ending.

    If there is none, a table or JSON file has the columns of the first that gives some; numbers fit tables only.
    """
    excluded = {"file", "src", "tgt", "where", "labels_file", "contexts_file", "repeat"}
    for source in sources:
        if source.file is not None and file_ending(source.file) == file_ending(file):
            return source.model_dump(exclude=excluded, exclude_unset=True)
    name = fields.endings.get(file_ending(file), fields.default_format)
    for source in sources:
        columns = [column for _, column in source.given_columns()]
        known = name in FORMATS and FORMATS[name].columns and source.file is not None
        tables = {name, fields.format_of(source)} <= {"csv", "tsv"}
        if known and columns and (tables or all(isinstance(column, str) for column in columns)):
            return source.model_dump(include={"columns", "names"}, exclude_unset=True)
    return {}


class PairDataSettings(DataSettings):
    """Data of translation, and the filters of training pairs."""

    max_length: int = Field(
        256,
        ge=2,
        description="leave out pairs with more tokens on a side, end symbol included, in training and validation",
    )
    max_ratio: float = Field(
        4.0,
        ge=0.0,
        description="leave out training pairs with one side this many times as long as the other, except short pairs: "
        "most of them are misaligned; 0: keep all",
    )
    drop_duplicates: bool = Field(True, description="keep only the first of equal training pairs")
    drop_identical: bool = Field(
        False,
        description="leave out training pairs with equal sides; off by default, as names and numbers are copied, but "
        "crawled text has many untranslated sentences that teach a model to copy",
    )
    placeholders: float = Field(
        0.0,
        ge=0.0,
        le=1.0,
        description="share of the training pairs in which some words that are the same on both sides, as names and "
        "numbers, become placeholders, so that the model learns to copy parts of a text that must not change",
    )
    typing_noise: float = Field(
        0.0,
        ge=0.0,
        le=1.0,
        description="share of the training pairs that are changed to what people type: a lowercase source, both sides "
        "in uppercase, or no final punctuation",
    )
    src_lang: str = Field("", description="source language code if there is one direction, e.g. en")
    tgt_lang: str = Field("", description="target language code if there is one direction, e.g. de")

    @property
    def directions(self) -> tuple[tuple[str, str], ...]:
        """(source language, target language) of all training pairs; () if the languages are not given."""
        pairs = [pair for source in self.train for pair in source.language_pairs()]
        own = [(self.src_lang, self.tgt_lang)] if self.src_lang and self.tgt_lang else []
        return tuple(dict.fromkeys(pairs or own))

    @property
    def tagged_languages(self) -> tuple[str, ...]:
        """The target languages that need a tag: all of them, if there are several."""
        targets = tuple(dict.fromkeys(target for _, target in self.directions))
        return targets if len(targets) > 1 else ()


class TextDataSettings(DataSettings):
    """Data of language models, its normalisation, and the length of BPTT segments."""

    bptt: int = Field(
        70, ge=1, description="tokens of a segment of backpropagation through time: how far gradients reach"
    )
    single_blanks: bool = Field(False, description="replace whitespace by single spaces, and strip lines")
    min_word_count: int = Field(
        0,
        ge=0,
        description=f"replace words that occur fewer times than this in the training text by {UNKNOWN}; 0: keep all",
    )


class DocumentDataSettings(DataSettings):
    """Data of BERT pretraining: how inputs are made of documents, and what is masked in them."""

    max_length: int = Field(128, ge=8, description="tokens of an input, [CLS] and [SEP] included")
    short: float = Field(0.1, ge=0, le=1, description="share of inputs that get a random shorter length")
    next_sentence: bool = Field(
        True,
        description="inputs are pairs of texts, in about half of them the second text does not follow the first, and "
        "the model predicts in which (Devlin et al. 2018, section 3.1, task 2); otherwise each input is one span of a "
        "document (Liu et al. 2019, section 4.2)",
    )
    negatives: Literal["random", "document", "swapped"] = Field(
        "random",
        description="the second text of pairs in which it does not follow the first: random: of another document "
        "(BERT); document: from elsewhere in the same document; swapped: the two texts of a pair are exchanged "
        "(ALBERT)",
    )
    masked: float = Field(0.15, gt=0, lt=1, description="share of the tokens that the model predicts")
    masking: list[float] = Field(
        [0.8, 0.1, 0.1],
        description="shares of the tokens to predict that become [MASK], become a random token, and stay as they are",
    )
    whole_words: bool = Field(False, description="mask all subwords of a word or none, as the authors' later models do")

    def no_effect(self) -> Iterator[Unused]:
        yield from unless(self.next_sentence, "next_sentence = true", "negatives")

    @model_validator(mode="after")
    def _check_masking(self) -> Self:
        if len(self.masking) != 3 or min(self.masking) < 0 or abs(sum(self.masking) - 1) > 1e-6:
            message = f"{self.masking} are not three shares that add up to 1, as in [0.8, 0.1, 0.1]; change them"
            raise SettingError("masking", message)
        return self


class LabelledDataSettings(DataSettings):
    """Data with labels, and which of the training examples are used."""

    drop_duplicates: bool = Field(True, description="keep only the first of equal training examples")
    same_ending: bool = Field(
        False,
        description="two examples are also equal if one ends with the whole text of the other: an article with and "
        "without its headline",
    )
    exclude_overlap: bool = Field(
        False, description="leave out training examples that are also in valid or test; they are always counted"
    )
    limit: int = Field(0, ge=0, description="train on a random sample of this many examples; 0: on all")
    limit_seed: int = Field(1, ge=0, lt=1 << 64, description="seed of the sample of limit")
    max_length: int = Field(
        128,
        ge=8,
        description="tokens of an input, special symbols included; a longer text is truncated, or split for tagging",
    )


class AnsweringDataSettings(LabelledDataSettings):
    """Data of question answering: long texts are read in windows that overlap."""

    max_length: int = Field(384, ge=16, description="tokens of a window: question, text and special symbols")
    max_question: int = Field(64, ge=1, description="tokens of a question; a longer one is truncated")
    stride: int = Field(128, ge=1, description="tokens of text from the start of a window to that of the next")
    max_answer: int = Field(30, ge=1, description="maximum tokens of a predicted answer")

    @model_validator(mode="after")
    def _check_windows(self) -> Self:
        capacity = self.max_length - self.max_question - 3  # [CLS], and a [SEP] after each text
        if capacity < 1:
            raise SettingError(
                "max_question",
                f"max_question = {self.max_question} leaves no tokens for the text in a window of max_length = "
                f"{self.max_length}; make max_question smaller",
            )
        if self.stride > capacity:
            raise SettingError(
                "stride",
                f"a window of max_length = {self.max_length} has {capacity} tokens of text beside a question of "
                f"max_question = {self.max_question}, and stride = {self.stride} would skip some; make stride smaller",
            )
        return self
