"""A number that says what it measures and how it was computed, so that two of them can be compared."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Score:
    """A metric's value; the signature names every choice that went into it."""

    name: str
    value: float
    signature: str = ""

    def __str__(self) -> str:
        number = f"{self.value:.2f}"
        return f"{self.name}|{self.signature} = {number}" if self.signature else f"{self.name} = {number}"


def check_paired(hypotheses: Sequence[object], references: Sequence[object]) -> None:
    """Refuse lists that do not belong together; scoring the shorter of the two would look like a result."""
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses for {len(references)} references")
    if not hypotheses:
        raise ValueError("there is nothing to score: no hypotheses and no references")


def exact_match(hypotheses: Sequence[object], references: Sequence[object]) -> Score:
    """Percentage of hypotheses that are their reference, to the last character or token."""
    check_paired(hypotheses, references)
    same = sum(hypothesis == reference for hypothesis, reference in zip(hypotheses, references, strict=True))
    return Score("exact match", 100.0 * same / len(references))


def perplexity(nll_sum: float, count: float) -> float:
    """exp of the mean negative log likelihood of a token: how many equally likely choices the model sees at each."""
    if count <= 0:
        raise ValueError(f"perplexity over {count} tokens")
    try:
        return math.exp(nll_sum / count)
    except OverflowError:
        return math.inf
