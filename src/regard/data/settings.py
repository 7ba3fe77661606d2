"""Settings of the `[data]` group of a recipe: the sources of each split, and what each task adds."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, model_validator

from regard.config import Field, SettingError, Settings, Unused, build, unless
from regard.data.cleaning import CleanSettings
from regard.data.fields import Fields
from regard.data.formats import FORMATS, check_source
from regard.data.records import file_ending
from regard.data.remote import data_path
from regard.data.sources import Source, as_list
from regard.data.texts import UNKNOWN
from regard.errors import UserError
from regard.files import JsonObject

SIZE_SETTINGS = {"train": "data.train", "valid": "data.hold_out", "test": "data.hold_out_test"}
"""The setting that decides how many examples a split has, if valid and test are held out."""
Sources = Annotated[list[Source], BeforeValidator(as_list)]


class DataSettings(Settings):
    """The data of every task."""

    root: str = Field(".", description="folder for the relative paths in [data]")
    workers: int = Field(0, ge=0, le=1024, description="number of processes for tokenizing; 0: one per core")
    train: Sources = Field(
        [],
        description="training data: a file name, a table of source settings, or a list of them; an imported model "
        "has none",
    )
    valid: Sources = Field([], description="validation data, to select the best checkpoint; default: see `hold_out`")
    test: Sources = Field([], description="test data, for the final score")

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
                message = "has no effect: this split has its own data; remove this setting or the data"
                raise SettingError(name, message, "unused-setting")
        if self.hold_out + self.hold_out_test >= 1:
            raise SettingError("hold_out", "hold_out and hold_out_test together leave nothing to train on")
        return self

    @property
    def folder(self) -> Path:
        """`root` as a path."""
        return data_path(self.root)

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
    excluded = {"file", "src", "tgt", "where", "labels_file", "contexts_file", "repeat", "back_translated"}
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
        description="maximum tokens per side, end symbol included; longer training and validation pairs are left out",
    )
    max_ratio: float = Field(
        4.0,
        ge=0.0,
        description="maximum length ratio: leave out training pairs if one side is more than this many times as long "
        "as the other (often misaligned); short pairs are kept; 0: keep all",
    )
    drop_duplicates: bool = Field(True, description="keep only one of several equal training pairs")
    drop_identical: bool = Field(
        False,
        description="leave out training pairs with equal source and target. In crawled text these are often "
        "untranslated sentences, which teach a model to copy; names and numbers are left out too",
    )
    clean: CleanSettings | None = Field(
        None,
        description="filters of training pairs; an empty table, clean = {}, uses the default of each; `regard clean` "
        "shows what they leave out",
    )
    placeholders: float = Field(
        0.0,
        ge=0.0,
        le=1.0,
        description="share of training pairs in which words equal on both sides, e.g. names and "
        "numbers, become placeholders, so that the model learns to copy text that must not change",
    )
    typing_noise: float = Field(
        0.0,
        ge=0.0,
        le=1.0,
        description="share of training pairs changed as if typed carelessly: a lowercase source, both sides "
        "in uppercase, or no final punctuation",
    )
    src_lang: str = Field("", description="source language code, e.g. en; if there are several, set one per source")
    tgt_lang: str = Field("", description="target language code, e.g. de; if there are several, set one per source")

    def no_effect(self) -> Iterator[Unused]:
        if self.clean is not None:
            scored = not self.train or any("score" in source.columns for source in self.train)
            yield from unless(scored, "a source with a `score` column", "clean.min_score")

    @property
    def directions(self) -> tuple[tuple[str, str], ...]:
        """(source language, target language) of all training pairs; () if the languages are not given."""
        pairs = [pair for source in self.train for pair in source.language_pairs()]
        own = [(self.src_lang, self.tgt_lang)] if self.src_lang and self.tgt_lang else []
        return tuple(dict.fromkeys(pairs or own))

    @property
    def has_back_translations(self) -> bool:
        """True if a model wrote some of the training sources."""
        return any(source.back_translated for source in self.train)

    @property
    def tagged_languages(self) -> tuple[str, ...]:
        """The target languages that need a tag: all of them, if there are several."""
        targets = tuple(dict.fromkeys(target for _, target in self.directions))
        return targets if len(targets) > 1 else ()


class TextDataSettings(DataSettings):
    """Data of language models, its normalisation, and the length of BPTT segments."""

    bptt: int = Field(70, ge=1, description="tokens per training segment: how far back gradients reach")
    single_blanks: bool = Field(False, description="collapse whitespace to single spaces and strip lines")
    min_word_count: int = Field(
        0,
        ge=0,
        description=f"replace words that occur fewer times than this in the training text by {UNKNOWN}; 0: keep all",
    )


class DocumentDataSettings(DataSettings):
    """Data of BERT pretraining: how inputs are made of documents, and what is masked in them."""

    max_length: int = Field(128, ge=8, description="maximum tokens per input, [CLS] and [SEP] included")
    short: float = Field(0.1, ge=0, le=1, description="share of inputs shortened to a random length")
    next_sentence: bool = Field(
        True,
        description="next-sentence prediction: each input is a text pair, and the model predicts if the second text "
        "follows the first (Devlin et al. 2018, section 3.1, task 2); false: each input is one span of a "
        "document (Liu et al. 2019, section 4.2)",
    )
    negatives: Literal["random", "document", "swapped"] = Field(
        "random",
        description="second text that does not follow the first: random: from a different document "
        "(BERT); document: from elsewhere in the same document; swapped: exchange first and second text "
        "(ALBERT)",
    )
    masked: float = Field(0.15, gt=0, lt=1, description="share of tokens to predict")
    masking: list[float] = Field(
        [0.8, 0.1, 0.1],
        description="shares of the predicted tokens that become [MASK], become a random token, and stay unchanged",
    )
    whole_words: bool = Field(False, description="mask whole words, not single subwords (as in later BERT models)")

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

    drop_duplicates: bool = Field(True, description="keep only one of several equal training examples")
    same_ending: bool = Field(
        False,
        description="drop an example also if its text is the end of a different one, e.g. an article with and "
        "without its headline",
    )
    exclude_overlap: bool = Field(
        False, description="leave out training examples that are also in valid or test; false: only report the number"
    )
    limit: int = Field(0, ge=0, description="train on a random sample of this many examples; 0: on all")
    limit_seed: int = Field(1, ge=0, lt=1 << 64, description="only with `limit`: random seed of the sample")
    max_length: int = Field(
        128,
        ge=8,
        description="maximum tokens per input, special tokens included; longer texts are truncated (tagging: split)",
    )


class AnsweringDataSettings(LabelledDataSettings):
    """Data of question answering: long texts are read in windows that overlap."""

    max_length: int = Field(384, ge=16, description="tokens per window: question, text and special tokens together")
    max_question: int = Field(64, ge=1, description="maximum tokens per question; longer questions are truncated")
    stride: int = Field(128, ge=1, description="tokens between the starts of two windows")
    max_answer: int = Field(30, ge=1, description="maximum tokens per predicted answer")

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


class AudioDataSettings(DataSettings):
    """Data of recognition: how recordings become frames."""

    sample_rate: int = Field(16_000, ge=1000, le=192_000, description="samples per second of all recordings, in Hz")
    bands: int = Field(40, ge=1, le=512, description="features per frame: bands of the log-mel filterbank")
    window_ms: float = Field(25.0, ge=1, le=1000, description="length of a frame in milliseconds")
    hop_ms: float = Field(10.0, ge=1, le=1000, description="time from frame to frame in milliseconds")
    max_seconds: float = Field(
        30.0, gt=0, le=3600, description="maximum length of a recording; training leaves longer ones out"
    )
