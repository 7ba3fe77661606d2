"""Tables of scores and of comparisons."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from regard.cli.screen import print_result, print_table

if TYPE_CHECKING:
    from regard.metrics.score import Score
    from regard.metrics.significance import Comparison

MAX_WRITTEN_OUT = 1e8


def print_scores(scores: "Sequence[Score]") -> None:
    """One line per metric: its value and how it was computed."""
    rows = [[score.name, format_score(score.value), score.signature] for score in scores]
    print_table(("metric", "value", "computed as"), rows, right=("value",))


def format_score(value: float) -> str:
    """Two digits after the point; 5.2e+21 for a long number, as a perplexity per word can be."""
    return f"{value:.2f}" if value < MAX_WRITTEN_OUT else f"{value:.1e}"


def print_comparison(comparisons: "Sequence[Comparison]", base: str, run: str) -> None:
    """One line per metric: both scores, their difference, its confidence interval and the p-value."""
    rows = [
        [
            item.metric,
            f"{item.base:.2f}",
            f"{item.other:.2f}",
            f"{item.delta:+.2f}",
            f"{item.ci_low:+.2f} to {item.ci_high:+.2f}",
            f"{item.p_value:.3f}",
        ]
        for item in comparisons
    ]
    columns = ("metric", base, run, "difference", "95% interval", "p")
    print_table(columns, rows, right=columns[1:])
    print_result(conclusion(comparisons))


def conclusion(comparisons: "Sequence[Comparison]") -> str:
    """Which differences are significant, in words."""
    from regard.metrics.significance import SIGNIFICANCE_LEVEL

    items = (
        f"{item.metric}: {'significant' if item.p_value < SIGNIFICANCE_LEVEL else 'not significant'}"
        for item in comparisons
    )
    return f"{'; '.join(items)} (paired bootstrap test, p < {SIGNIFICANCE_LEVEL})"
