"""What a document gives to a translator, and what it gets back: sentences, translations and their links."""

import math
from dataclasses import dataclass, replace

from regard.files import JsonObject

Link = tuple[int, int, int, int]
"""source_start, source_end, target_start, target_end in characters: a target token and the source it was read from."""

SCRIPT, NUMBERS, LANGUAGE = "unknown-script", "changed-numbers", "unsure-language"
PROBLEMS = {
    SCRIPT: "the model does not know the script of {text!r}, which was copied",
    NUMBERS: "the translation of {text!r} has other numbers",
    LANGUAGE: "the language of {text!r} is unsure ({detected}); set `source`",
}


@dataclass(frozen=True)
class Segment:
    """One sentence to translate.

    text          plain text; protected parts are already replaced by placeholders if the model has any
    needs_links   the translation must come with `links`, since tags or protected parts have to be located in it
    prefix        the beginning of its translation, if that is given
    known         its translation, if a translation memory has it
    capitals      it was written in capitals, as its translation will be
    """

    text: str
    needs_links: bool = False
    prefix: str = ""
    known: str | None = None
    capitals: bool = False


@dataclass(frozen=True)
class SegmentTranslation:
    """The translation of one segment: the best one, others from the second best on, and one link per target token.

    `prediction` is what the model says about it: score, hypotheses, ...; None if no model translated it. `problem` is a
    key of PROBLEMS, or "". `remembered` is True if it comes from a translation memory. `confidence` is the model's mean
    probability of a token (`Hypothesis.confidence`).
    """

    text: str
    alternatives: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    prediction: JsonObject | None = None
    problem: str = ""
    remembered: bool = False
    confidence: float | None = None

    def upper(self) -> "SegmentTranslation":
        """The same in capitals."""
        return replace(self, text=self.text.upper(), alternatives=tuple(map(str.upper, self.alternatives)))


def join_steps(before: SegmentTranslation, after: SegmentTranslation) -> SegmentTranslation:
    """A translation through a pivot language, with links from the first to the last text."""
    links: list[Link] = []
    for start, end, target_start, target_end in after.links:
        common = [(min(end, d) - max(start, c), a, b) for a, b, c, d in before.links]
        overlap, source_start, source_end = max(common, default=(0, 0, 0))
        if overlap > 0:
            links.append((source_start, source_end, target_start, target_end))
    remembered = before.remembered and after.remembered
    known = [item.confidence for item in (before, after) if item.confidence is not None]
    confidence = math.prod(known) if known else None
    problem = before.problem or after.problem
    return replace(after, links=tuple(links), problem=problem, remembered=remembered, confidence=confidence)
