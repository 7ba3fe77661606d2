"""Prefetching changes when things are made, and nothing else."""

import threading
from collections.abc import Iterator

import pytest

from regard.data.batch import prefetch


def running() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "prefetch"]


@pytest.mark.parametrize("depth", [1, 2, 50])
@pytest.mark.parametrize("count", [0, 1, 20])
def test_items_come_in_order(depth: int, count: int) -> None:
    assert list(prefetch(range(count), depth)) == list(range(count))
    assert running() == []


def test_an_error_is_raised_at_its_item() -> None:
    def items() -> Iterator[int]:
        yield 1
        yield 2
        raise ValueError("the third is broken")

    stream = prefetch(items())
    assert [next(stream), next(stream)] == [1, 2]
    with pytest.raises(ValueError, match="the third is broken"):
        next(stream)
    assert running() == []


def test_closing_ends_the_thread_and_the_source() -> None:
    closed = threading.Event()

    def endless() -> Iterator[int]:
        try:
            number = 0
            while True:
                yield number
                number += 1
        finally:
            closed.set()

    stream = prefetch(endless(), depth=2)
    assert [next(stream), next(stream)] == [0, 1]
    stream.close()
    assert running() == []
    assert closed.is_set()


def test_no_more_than_depth_ahead() -> None:
    made: list[int] = []
    fourth = threading.Event()

    def items() -> Iterator[int]:
        for number in range(100):
            made.append(number)
            if number == 3:
                fourth.set()
            yield number

    stream = prefetch(items(), depth=3)
    assert next(stream) == 0
    assert next(stream) == 1  # taking the second frees the first one's place
    assert fourth.wait(10)
    assert len(made) <= 5
    stream.close()


def test_nothing_starts_before_the_first_item_is_requested() -> None:
    stream = prefetch(iter([1]))
    assert running() == []
    assert list(stream) == [1]
