"""The interface of an engine: token ids in, hypotheses out.

A `Stepper` is driven by the searches of `decoding`. An `Engine` runs the whole search itself: on a GPU without waiting
for the host, or in another library.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import DecodingSettings
from regard.files import JsonObject
from regard.work import recall_groups


@dataclass(frozen=True)
class DecodingRequest:
    """Sources to decode, and how to search.

    sources         token ids of each source, with the end symbol
    max_new_tokens  maximum number of generated tokens of each output: with the end symbol, without the prefix
    settings        the search and its parameters
    prefixes        tokens that each output must begin with; () for no prefixes at all
    sentence_ids    index of each sentence in the whole corpus, so that samples do not depend on the batch;
                    () for 0, 1, 2 ...
    """

    sources: Sequence[Sequence[int]]
    max_new_tokens: Sequence[int]
    settings: DecodingSettings
    prefixes: Sequence[Sequence[int]] = ()
    sentence_ids: Sequence[int] = ()

    def __post_init__(self) -> None:
        count = len(self.sources)
        if not self.prefixes:
            object.__setattr__(self, "prefixes", [()] * count)
        if not self.sentence_ids:
            object.__setattr__(self, "sentence_ids", range(count))
        for name in ("max_new_tokens", "prefixes", "sentence_ids"):
            if len(getattr(self, name)) != count:
                raise ValueError(f"{len(getattr(self, name))} {name} for {count} sources")
        if min(self.max_new_tokens, default=1) < 1:
            raise ValueError("max_new_tokens must be at least 1 for every sentence")

    def __len__(self) -> int:
        return len(self.sources)

    def select(self, indices: Sequence[int]) -> "DecodingRequest":
        """The request for these sentences only, in this order."""
        return DecodingRequest(
            [self.sources[i] for i in indices],
            [self.max_new_tokens[i] for i in indices],
            self.settings,
            [self.prefixes[i] for i in indices],
            [self.sentence_ids[i] for i in indices],
        )

    def decode_groups(
        self, groups: Sequence[Sequence[int]], decode: Callable[["DecodingRequest"], list[list[Hypothesis]]]
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """The index of each sentence and its hypotheses, decoded group by group, over all processes of a team, or taken
        from work that is continued (see regard/work.py)."""

        def compute(group: Sequence[int]) -> list[list[JsonObject]]:
            return [[vars(item) for item in sentence] for sentence in decode(self.select(group))]

        for group, found in recall_groups(groups, lambda group: self.select(group).content(), compute):
            for index, sentence in zip(group, found, strict=True):
                yield index, [Hypothesis(**item) for item in sentence]

    def content(self) -> list[object]:
        """Everything that the hypotheses depend on, besides the model."""
        lists = (self.sources, self.max_new_tokens, self.prefixes, self.sentence_ids)
        return [*map(list, lists), self.settings.model_dump()]


class Engine(Protocol):
    """A way to execute a trained model."""

    def decode(self, request: DecodingRequest) -> list[list[Hypothesis]]:
        """Up to `settings.nbest` hypotheses for each source, best first."""
