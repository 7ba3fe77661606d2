"""The best answer span of a text, from the start and end scores of its tokens.

    score(i, j) = s_i + e_j            i <= j < i + A: the first token and the last            Devlin et al. 2018, 4.2
    p(i, j)     = exp score(i, j) / sum of exp score over all such spans

A text that is too long for one input is read in windows. A window begins every `stride` tokens, until one reaches the
end of the text. Windows overlap, so that an answer which one of them cuts is whole in another:

    | . . . . . . . . . |                   size = 9
              | . . . . . . . . . |         stride = 5
                        | . . . . . |

This is `doc_stride` in the authors' run_squad.py. Hugging Face calls `stride` the number of tokens that two windows
share, which is size - stride here. Scores of different windows are compared directly. A span that is whole in several
windows is one answer with the best of its scores.

L tokens of the text, T tokens of it in a window, A tokens of the longest answer.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class ContextWindow(NamedTuple):
    """The first token of a window, and the start and end scores of its tokens."""

    first: int
    starts: Tensor  # (T,)
    ends: Tensor  # (T,)


class Span(NamedTuple):
    """The first and the last token of a span, and its score."""

    first: int
    last: int
    score: float


def window_starts(length: int, size: int, stride: int) -> range:
    """The first token of each window of `size` tokens on a text of L tokens; an empty text has one window."""
    stride = min(stride, size)
    return range(0, max(0, length - size) + stride, stride)


def span_scores(windows: Iterable[ContextWindow], length: int, max_answer: int) -> Tensor:
    """score(i, i + a) of every span, (L, A); -inf if no window has the whole span."""
    scores = torch.full((length, max_answer), -torch.inf)  # (L, A)
    for first, starts, ends in windows:
        after = F.pad(ends, (0, max_answer), value=-torch.inf).unfold(0, max_answer, 1)  # (T + 1, A): e_i, e_i+1, ...
        part = scores[first : first + len(starts)]
        torch.maximum(part, starts[:, None] + after[:-1], out=part)
    return scores


def best_spans(scores: Tensor, count: int) -> list[Span]:
    """At most `count` spans with the highest scores (L, A), best first."""
    best = scores.flatten().topk(min(count, scores.numel()))
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    spans = ((divmod(index, scores.size(1)), score) for index, score in pairs if score > -torch.inf)
    return [Span(first, first + more, score) for (first, more), score in spans]


def token_span(spans: Sequence[tuple[int, int]], start: int, end: int) -> tuple[int, int] | None:
    """The first and the last token that overlap characters start to end, even partly; None if none do."""
    first = bisect_right(spans, start, key=lambda span: span[1])
    last = bisect_left(spans, end, key=lambda span: span[0]) - 1
    return (first, last) if first <= last else None
