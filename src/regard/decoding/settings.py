"""Settings of decoding: which search, how wide, how long, and its constraints."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, Self, TypedDict

from pydantic import model_validator

from regard.config import Field, SettingError, Settings, Unused, unless
from regard.files import JsonObject

if TYPE_CHECKING:  # the command line builds options from these settings and does not need torch
    from torch import Tensor

SEARCH_SETTINGS: dict[str, tuple[str, ...]] = {
    "beam": ("beam",),
    "sample": ("temperature", "top_k", "top_p"),
    "mask_predict": ("iterations", "length_candidates"),
    "greedy": (),
}
"""The settings that only one search uses; giving one of them on the command line chooses this search."""
MAX_HYPOTHESES, MAX_LENGTH = 4096, 1 << 20
"""Largest beam, number of outputs and of passes, and longest output: larger values are mistakes."""


class DecodingSettings(Settings):
    """Settings of the search; the defaults are those of Vaswani et al. 2017, section 6.1."""

    search: Literal["greedy", "beam", "sample", "mask_predict"] = Field(
        "beam",
        description="greedy: always the most likely token; beam: beam search; sample: random sampling; mask_predict: "
        "all tokens in parallel, then refined, only with mask-predict models",
    )
    beam: int = Field(4, ge=1, le=MAX_HYPOTHESES, description='only with `search = "beam"`: hypotheses per sentence')
    alpha: float = Field(
        0.6, ge=0, description="length penalty (Wu et al. 2016); 0: off; larger values favour longer outputs"
    )
    nbest: int = Field(1, ge=1, le=MAX_HYPOTHESES, description="number of outputs per sentence, best first")
    extra_length: int = Field(
        50, ge=0, le=MAX_LENGTH, description="maximum output length, as a number of tokens more than the source has"
    )
    max_length: int | None = Field(None, ge=1, le=MAX_LENGTH, description="maximum output length, in tokens")
    temperature: float = Field(
        1.0, ge=1e-6, description='only with `search = "sample"`: values below 1 sharpen the distribution'
    )
    top_k: int = Field(0, ge=0, description='only with `search = "sample"`: use the k most likely tokens; 0: off')
    top_p: float = Field(
        1.0,
        gt=0,
        le=1,
        description='only with `search = "sample"`: use the most likely tokens up to this total probability; 1: off',
    )
    iterations: int = Field(
        10, ge=1, le=MAX_HYPOTHESES, description='only with `search = "mask_predict"`: number of passes'
    )
    length_candidates: int = Field(
        5,
        ge=1,
        le=MAX_HYPOTHESES,
        description='only with `search = "mask_predict"`: number of output lengths to try per sentence',
    )
    no_repeat_ngram: int = Field(0, ge=0, description="never generate an n-gram of this size twice; 0: off")
    loop_guard: bool = Field(
        True, description="stop an output that repeats itself endlessly, and mark the output as looped"
    )
    batch_tokens: int = Field(4096, ge=1, description="maximum number of source tokens per batch")
    seed: int = Field(1, ge=0, description='only with `search = "sample"`: random seed')

    @model_validator(mode="after")
    def _check_search(self) -> Self:
        if self.search == "beam" and self.nbest > self.beam:
            problem = f"{self.nbest} outputs need `beam = {self.nbest}` or more, not `beam = {self.beam}`"
            raise SettingError("nbest", problem)
        if self.search == "greedy" and self.nbest > 1:
            raise SettingError("nbest", f'greedy search gives one output, not {self.nbest}; set `search = "beam"`')
        if self.search == "mask_predict" and self.nbest > self.length_candidates:
            needed = f"{self.nbest} outputs need `length_candidates = {self.nbest}` or more"
            raise SettingError("nbest", f"{needed}, not `length_candidates = {self.length_candidates}`")
        return self

    def no_effect(self) -> Iterator[Unused]:
        """Yield the settings of the searches that are not used; beam = 1 is greedy search and therefore valid."""
        for search, names in SEARCH_SETTINGS.items():
            used = self.search == search or (search == "beam" and self.beam == 1)
            yield from unless(used, f'search = "{search}"', *names)
        yield from unless(self.search == "sample", 'search = "sample"', "seed")
        yield from unless(self.search != "mask_predict", "searches other than mask_predict", "alpha", "no_repeat_ngram")

    def max_new_tokens(self, source_lengths: "Tensor") -> "Tensor":
        """(B,) source lengths -> (B,) maximum number of generated tokens (at least one), on the same device."""
        max_new_tokens = (source_lengths + self.extra_length).clamp(min=1)
        return max_new_tokens if self.max_length is None else max_new_tokens.clamp(max=self.max_length)


class DecodingOptions(TypedDict, total=False):
    """Options of a search in Python, the settings above: beam=8, nbest=4, ..."""

    search: Literal["greedy", "beam", "sample", "mask_predict"]
    beam: int
    alpha: float
    nbest: int
    extra_length: int
    max_length: int | None
    temperature: float
    top_k: int
    top_p: float
    iterations: int
    length_candidates: int
    no_repeat_ngram: int
    loop_guard: bool
    batch_tokens: int
    seed: int


def change_search(settings: DecodingSettings, changes: JsonObject) -> JsonObject:
    """The values of `settings` with `changes`; a change that only one search uses selects that search.

    beam=5 selects beam search, top_k=10 sampling; nbest > 1 needs a search that gives several outputs. Settings of
    other searches are dropped.
    """
    search = changes.get("search") or next(
        (search for search, names in SEARCH_SETTINGS.items() if any(name in changes for name in names)), settings.search
    )
    if search == "greedy" and "search" not in changes and changes.get("nbest", 1) > 1:
        search = "beam"
    unused = {name for other, names in SEARCH_SETTINGS.items() if other != search for name in names}
    unused |= {"nbest"} if search != settings.search else set()
    unused |= {"seed"} if search != "sample" else set()
    values = {name: value for name, value in settings.model_dump().items() if name not in unused} | {"search": search}
    if search == "beam":  # the beam is at least as large as nbest
        beam = changes.get("beam") or max(values.get("beam", DecodingSettings().beam), changes.get("nbest", 1))
        values |= {"beam": beam, "nbest": min(values.get("nbest", 1), beam)}
    return values | changes
