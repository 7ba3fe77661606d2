"""The search over stretches of a text finds what trying all of them finds."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.tasks.spans import (
    ContextWindow,
    Span,
    best_spans,
    span_scores,
    token_span,
    window_starts,
)

LENGTHS = st.integers(0, 60)
ROOMS, STRIDES = st.integers(1, 20), st.integers(1, 25)


def as_the_authors_cut(length: int, room: int, stride: int) -> list[int]:
    """The loop of their run_squad.py; a text without tokens is read there not at all."""
    firsts, first = [], 0
    while first < length:
        size = min(length - first, room)
        firsts.append(first)
        if first + size == length:
            break
        first += min(size, stride)
    return firsts


@given(LENGTHS, ROOMS, STRIDES)
def test_windows_begin_where_the_authors_let_them(length: int, room: int, stride: int) -> None:
    assert list(window_starts(length, room, stride)) == (as_the_authors_cut(length, room, stride) or [0])


@given(LENGTHS, ROOMS, STRIDES, st.data())
def test_what_is_no_longer_than_the_overlap_stands_whole_in_a_window(
    length: int, room: int, stride: int, data: st.DataObject
) -> None:
    longest = min(length, room - min(stride, room) + 1)
    size = data.draw(st.integers(0, longest))
    first = data.draw(st.integers(0, length - size))
    windows = window_starts(length, room, stride)
    assert any(begin <= first and first + size <= begin + room for begin in windows)


def drawn(length: int, room: int, stride: int, seed: int) -> list[ContextWindow]:
    generator = torch.Generator().manual_seed(seed)
    windows = []
    for first in window_starts(length, room, stride):
        size = min(room, length - first)
        windows.append(ContextWindow(first, *torch.randn(2, size, generator=generator)))
    return windows


def one_by_one(windows: list[ContextWindow], longest: int) -> dict[tuple[int, int], float]:
    """Every stretch of every window, once, with the best score it has in any of them."""
    found: dict[tuple[int, int], float] = {}
    for first, starts, ends in windows:
        for i in range(len(starts)):
            for j in range(i, min(i + longest, len(ends))):
                place = (first + i, first + j)
                found[place] = max(found.get(place, -torch.inf), float(starts[i] + ends[j]))
    return found


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("length", "room", "stride", "longest"),
    [(1, 1, 1, 1), (7, 7, 3, 4), (23, 8, 3, 5), (23, 8, 8, 30), (12, 5, 1, 2), (3, 30, 10, 40)],
)
def test_the_best_spans_are_those_found_one_by_one(
    length: int, room: int, stride: int, longest: int, seed: int
) -> None:
    windows = drawn(length, room, stride, seed)
    expected = one_by_one(windows, longest)
    scores = span_scores(windows, length, longest)
    assert scores.shape == (length, longest)
    assert int(scores.isfinite().sum()) == len(expected)
    for count in (1, 4, 10_000):
        found = best_spans(scores, count)
        ranked = sorted(expected.items(), key=lambda item: -item[1])[:count]
        assert [(each.first, each.last) for each in found] == [place for place, _ in ranked]
        torch.testing.assert_close(torch.tensor([s.score for s in found]), torch.tensor([s for _, s in ranked]))


def test_a_stretch_in_two_windows_is_one_answer_with_its_better_score() -> None:
    low, high = torch.zeros(3), torch.tensor([1.0, 2.0, 0.0])
    scores = span_scores([ContextWindow(0, low, low), ContextWindow(1, high, high)], 4, 2)
    found = best_spans(scores, 3)
    assert found[0] == Span(2, 2, 4.0)
    assert len({(each.first, each.last) for each in found}) == 3


def test_nothing_has_no_stretch() -> None:
    nothing = torch.empty(0)
    assert best_spans(span_scores([ContextWindow(0, nothing, nothing)], 0, 5), 3) == []


@st.composite
def texts_in_tokens(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Tokens in order, some side by side, some with blanks between them."""
    spans, place = [], 0
    for blank, size in draw(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), max_size=8)):
        spans.append((place + blank, place + blank + size))
        place += blank + size
    return spans


@given(texts_in_tokens(), st.integers(0, 20), st.integers(1, 10))
def test_covering_tokens_are_all_that_share_a_character(spans: list[tuple[int, int]], start: int, size: int) -> None:
    end = start + size
    sharing = [number for number, (a, b) in enumerate(spans) if set(range(a, b)) & set(range(start, end))]
    assert token_span(spans, start, end) == ((sharing[0], sharing[-1]) if sharing else None)
