"""Which stretch of a text answers a question best, given how well each of its tokens begins and ends an answer.

    score(i, j) = s_i + e_j            i <= j < i + A: the first token and the last            Devlin et al. 2018, 4.2
    p(i, j)     = exp score(i, j) / sum of exp score over all such stretches

A text too long to be read at once is read in windows. They begin every `stride` tokens, until one reaches the end of
the text, and overlap, so that an answer which one of them cuts stands whole in another:

    | . . . . . . . . . |                   room = 9
              | . . . . . . . . . |         stride = 5
                        | . . . . . |

So count the authors (`doc_stride` in their run_squad.py). Hugging Face's programs call `stride` what two windows share,
which is room - stride here. Scores are compared across windows as they are; a stretch that stands whole in several of
them is one answer, with the best of its scores.

L tokens of the text, T tokens of it in a window, A tokens of the longest answer.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Window(NamedTuple):
    """The token of the text a window begins with, and how well each of its tokens begins and ends an answer."""

    first: int
    starts: Tensor  # (T,)
    ends: Tensor  # (T,)


class Stretch(NamedTuple):
    """The first and the last token of a part of the text, and how well it answers."""

    first: int
    last: int
    score: float


def window_firsts(length: int, room: int, stride: int) -> range:
    """Where the windows on a text of L tokens begin, each with room for so many; a text of none has one, too."""
    stride = min(stride, room)
    return range(0, max(0, length - room) + stride, stride)


def stretch_scores(windows: Iterable[Window], length: int, longest: int) -> Tensor:
    """score(i, i + a) of every stretch, (L, A); -inf where no window has it whole."""
    scores = torch.full((length, longest), -torch.inf)
    for first, starts, ends in windows:
        after = F.pad(ends, (0, longest), value=-torch.inf).unfold(0, longest, 1)  # (T + 1, A): e_i, e_i+1, ...
        part = scores[first : first + len(starts)]
        torch.maximum(part, starts[:, None] + after[:-1], out=part)
    return scores


def best_stretches(scores: Tensor, count: int) -> list[Stretch]:
    """The stretches with the highest of these scores (L, A), at most `count` of them, best first."""
    best = scores.flatten().topk(min(count, scores.numel()))
    found = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    places = ((divmod(place, scores.size(1)), score) for place, score in found if score > -torch.inf)
    return [Stretch(first, first + more, score) for (first, more), score in places]


def covering(spans: Sequence[tuple[int, int]], start: int, end: int) -> tuple[int, int] | None:
    """The first and the last of the tokens, given by their characters, that have any of characters start up to end.

    A token that is only partly inside counts whole: less than a token cannot be answered. None if there is no token.
    """
    first = bisect_right(spans, start, key=lambda span: span[1])
    last = bisect_left(spans, end, key=lambda span: span[0]) - 1
    return (first, last) if first <= last else None
