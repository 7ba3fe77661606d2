"""Decoding of CTC outputs: the best path, and prefix beam search (Graves et al. 2006, section 3.2; Hannun et al. 2014).

The best path takes the most probable token at every position. But one text has many paths, and the text with the
highest sum may not have the best path. Prefix beam search adds up the paths that write the same prefix. For each prefix
it keeps two probabilities: of the paths that end in a blank, and of those that end in the prefix's last token.

    next is a blank        same prefix, ends in a blank
    next is the last one   same prefix, if the path ends in this token; a second one, if it ends in a blank
    next is another token  the prefix and this token

T positions, V vocabulary with the blank, W prefixes.
"""

import math
from itertools import groupby

import torch
from torch import Tensor

from regard.decoding.hypothesis import Hypothesis

Prefix = tuple[int, ...]
Scores = tuple[float, float]
"""Logarithms of the probabilities of paths that end in a blank, and in the last token."""
NONE: Scores = (-math.inf, -math.inf)
MAX_TOKENS = 40
"""Tokens that are tried at each position: the most probable ones."""


def log_add(*values: float) -> float:
    """log(sum of exp)."""
    highest = max(values)
    return highest if math.isinf(highest) else highest + math.log(sum(math.exp(value - highest) for value in values))


def collapse(path: list[int], blank: int) -> list[int]:
    """The text of a path: repeated tokens are merged, then blanks removed."""
    return [token for token, _ in groupby(path) if token != blank]


def best_path(log_p: Tensor, blank: int) -> Hypothesis:
    """log p_t (T, V) -> the text of the most probable path; its score is that of the path alone."""
    values, tokens = log_p.max(dim=-1)
    score = float(values.sum())
    return Hypothesis(collapse(tokens.tolist(), blank), score, score, finished=True)


def prefix_beam_search(log_p: Tensor, blank: int, width: int, nbest: int = 1) -> list[Hypothesis]:
    """log p_t (T, V) -> the `nbest` most probable texts found, best first; their scores are sums over paths."""
    beam: dict[Prefix, Scores] = {(): (0.0, -math.inf)}
    top, indices = log_p.topk(min(MAX_TOKENS, log_p.size(-1)))
    rows = zip(top.tolist(), indices.tolist(), log_p[:, blank].tolist(), strict=True)
    for values, tokens, blank_value in rows:
        found: dict[Prefix, Scores] = {}

        def add(prefix: Prefix, ends_in_blank: float, ends_in_token: float, to: dict[Prefix, Scores] = found) -> None:
            before = to.get(prefix, NONE)
            to[prefix] = log_add(before[0], ends_in_blank), log_add(before[1], ends_in_token)

        for prefix, (in_blank, in_token) in beam.items():
            either = log_add(in_blank, in_token)
            add(prefix, either + blank_value, -math.inf)
            for value, token in zip(values, tokens, strict=True):
                if token == blank:
                    continue
                if prefix and prefix[-1] == token:
                    add(prefix, -math.inf, in_token + value)
                    add((*prefix, token), -math.inf, in_blank + value)
                else:
                    add((*prefix, token), -math.inf, either + value)
        ranked = sorted(found.items(), key=lambda item: (-log_add(*item[1]), item[0]))
        beam = dict(ranked[:width])
    scores = [(list(prefix), log_add(*both)) for prefix, both in beam.items()]
    return [Hypothesis(prefix, score, score, finished=True) for prefix, score in scores[:nbest]]


@torch.no_grad()
def ctc_search(log_p: Tensor, lengths: Tensor, blank: int, width: int = 1, nbest: int = 1) -> list[list[Hypothesis]]:
    """log p_t (B, T, V) of recordings with `lengths` (B,) positions -> hypotheses of each; width 1 is the best path."""
    rows = [row[:length].cpu() for row, length in zip(log_p, lengths.tolist(), strict=True)]
    if width == 1:
        return [[best_path(row, blank)] for row in rows]
    return [prefix_beam_search(row.double(), blank, width, nbest) for row in rows]
