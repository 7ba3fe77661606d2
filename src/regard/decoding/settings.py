"""How to search for the best output: which search, how wide, how long, and what it may not write."""

from collections.abc import Iterator
from typing import Literal, Self

from pydantic import model_validator
from torch import Tensor

from regard.config import Field, SettingError, Settings, Unused, unless

SEARCH_SETTINGS: dict[str, tuple[str, ...]] = {
    "beam": ("beam",),
    "sample": ("temperature", "top_k", "top_p"),
    "mask_predict": ("iterations", "length_candidates"),
    "greedy": (),
}
"""The settings that only one search uses; giving one of them on the command line chooses this search."""


class DecodingSettings(Settings):
    """Settings of the search; the defaults are those of Vaswani et al. 2017, section 6.1."""

    search: Literal["greedy", "beam", "sample", "mask_predict"] = Field(
        "beam",
        description="greedy takes the likeliest token, beam keeps several texts in view, sample draws at random; "
        "mask_predict fills in all words at once and mends the doubtful ones, for models of kind masked",
    )
    beam: int = Field(4, ge=1, description="texts kept in view for each sentence (beam)")
    alpha: float = Field(
        0.6, ge=0, description="length penalty of Wu et al. 2016; 0 is none, more favours longer texts"
    )
    nbest: int = Field(1, ge=1, description="texts returned for each sentence, best first")
    extra_length: int = Field(50, ge=0, description="the output may have this many tokens more than the source")
    max_length: int | None = Field(None, ge=1, description="the output may never have more tokens than this")
    temperature: float = Field(
        1.0, ge=1e-6, description="below 1 sharpens the distribution, above 1 flattens it (sample)"
    )
    top_k: int = Field(0, ge=0, description="draw from the k likeliest tokens only; 0 is off (sample)")
    top_p: float = Field(
        1.0, gt=0, le=1, description="draw from the likeliest tokens that hold this mass; 1 is off (sample)"
    )
    iterations: int = Field(10, ge=1, description="passes over a translation, the first included (mask_predict)")
    length_candidates: int = Field(
        5, ge=1, description="lengths tried for each sentence, likeliest first (mask_predict)"
    )
    no_repeat_ngram: int = Field(0, ge=0, description="never write the same n-gram of this size twice; 0 is off")
    loop_guard: bool = Field(True, description="end a text that goes on repeating itself, and mark it")
    batch_tokens: int = Field(4096, ge=1, description="source tokens decoded together")
    seed: int = Field(1, ge=0, description="the draws depend on this and the sentence's number alone (sample)")

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.search == "beam" and self.nbest > self.beam:
            raise SettingError(
                "nbest", f"{self.nbest} hypotheses need beam = {self.nbest} or more, not beam = {self.beam}"
            )
        if self.search == "greedy" and self.nbest > 1:
            raise SettingError("nbest", f'greedy search finds one hypothesis, not {self.nbest}; write search = "beam"')
        if self.search == "mask_predict" and self.nbest > self.length_candidates:
            raise SettingError(
                "nbest",
                f"{self.nbest} hypotheses need length_candidates = {self.nbest} or more, "
                f"not length_candidates = {self.length_candidates}",
            )
        return self

    def no_effect(self) -> Iterator[Unused]:
        """Yield the settings of the searches that are not used; beam = 1 is greedy search and therefore valid."""
        for search, names in SEARCH_SETTINGS.items():
            used = self.search == search or (search == "beam" and self.beam == 1)
            yield from unless(used, f'search = "{search}"', *names)
        yield from unless(self.search == "sample", 'search = "sample"', "seed")
        yield from unless(self.search != "mask_predict", "searches other than mask_predict", "alpha", "no_repeat_ngram")

    def max_new_tokens(self, source_lengths: Tensor) -> Tensor:
        """(B,) source lengths -> (B,) how many tokens each output may have (at least one), on the same device."""
        max_new_tokens = (source_lengths + self.extra_length).clamp(min=1)
        return max_new_tokens if self.max_length is None else max_new_tokens.clamp(max=self.max_length)
