"""What it takes to turn token ids into hypotheses: whoever offers this can stand behind `predict`.

A `Stepper` lends its steps to our searches; an `Engine` is asked for the answer and may search as it likes: on the
device without waiting for the host, or in another library altogether.
"""

from collections.abc import Sequence
from typing import Protocol

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import DecodingSettings


class Engine(Protocol):
    """Sources in, hypotheses out."""

    def decode(
        self,
        sources: Sequence[Sequence[int]],
        max_new_tokens: Sequence[int],
        settings: DecodingSettings,
        *,
        prefixes: Sequence[Sequence[int]] | None = None,
        sentence_ids: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """Up to `settings.nbest` hypotheses for each source (ids with the end symbol), best first.

        `max_new_tokens` says how many tokens each may write, the end symbol among them and its forced `prefixes` aside;
        `sentence_ids` are the sentences' numbers in the whole corpus, for sampling that does not depend on batches.
        """
        ...
