"""Prefix beam search finds the text with the highest sum over paths; the best path may write another one."""

import itertools
import math
from collections import defaultdict

import pytest
import torch

from regard.decoding.ctc import best_path, collapse, ctc_search, prefix_beam_search

BLANK = 0


@pytest.mark.parametrize("seed", range(5))
def test_a_wide_beam_finds_the_most_probable_text(seed: int) -> None:
    log_p = torch.randn(5, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).log_softmax(-1)
    totals: dict[tuple[int, ...], float] = defaultdict(float)
    for path in itertools.product(range(4), repeat=5):
        probability = math.exp(sum(float(log_p[t, token]) for t, token in enumerate(path)))
        totals[tuple(collapse(list(path), BLANK))] += probability
    found = prefix_beam_search(log_p, BLANK, width=1000, nbest=3)
    best = sorted(totals.items(), key=lambda item: -item[1])[:3]
    assert [tuple(item.tokens) for item in found] == [text for text, _ in best]
    assert [math.exp(item.log_prob) for item in found] == pytest.approx([total for _, total in best])


def test_the_best_path_may_write_another_text() -> None:
    """Graves 2012, figure 7.4: the blank is the best token twice, and yet "a" is more probable than nothing."""
    log_p = torch.tensor([[0.6, 0.4], [0.6, 0.4]]).log()
    assert best_path(log_p, BLANK).tokens == []
    (found,) = prefix_beam_search(log_p, BLANK, width=4)
    assert found.tokens == [1] and math.exp(found.score) == pytest.approx(0.64)


def test_repeated_tokens_need_a_blank_between_them() -> None:
    assert collapse([1, 1, 0, 1, 2, 2], BLANK) == [1, 1, 2]


def test_positions_after_the_end_do_not_count() -> None:
    log_p = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(1)).log_softmax(-1)
    for width in (1, 3):
        both = ctc_search(log_p, torch.tensor([6, 3]), BLANK, width)
        alone = ctc_search(log_p[1:, :3], torch.tensor([3]), BLANK, width)
        assert both[1] == alone[0]
