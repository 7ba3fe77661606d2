"""The keyed permutation: a bijection, the same for the same seed, different for others."""

import numpy as np
import pytest

from regard.data.permutation import permute


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 15, 16, 17, 64, 65, 255, 257, 1000, 4096, 4097, 65_537])
@pytest.mark.parametrize("epoch", [0, 7])
def test_it_is_a_bijection(count: int, epoch: int) -> None:
    result = permute(np.arange(count), count, 1, epoch)
    assert np.array_equal(np.sort(result), np.arange(count))


def test_it_depends_on_seed_and_epoch_only() -> None:
    whole = permute(np.arange(10_000), 10_000, 3, 5)
    pieces = [permute(np.arange(first, first + 100), 10_000, 3, 5) for first in range(0, 10_000, 100)]
    assert np.array_equal(whole, np.concatenate(pieces))
    for seed, epoch in ((3, 6), (4, 5)):
        other = permute(np.arange(10_000), 10_000, seed, epoch)
        assert (other == whole).mean() < 0.01


def test_the_order_looks_random() -> None:
    """Neighbours are independent, and each tenth of the positions has numbers of all tenths."""
    count = 100_000
    order = permute(np.arange(count), count, 11, 2)
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 0.02
    assert abs(np.corrcoef(np.arange(count), order)[0, 1]) < 0.02
    table = np.histogram2d(np.arange(count), order, bins=10)[0]
    assert ((table - 1000) ** 2 / 1000).sum() < 81 + 5 * np.sqrt(2 * 81)  # chi-squared, 81 degrees of freedom


def test_a_billion_needs_no_array_of_all() -> None:
    some = permute(np.arange(10**9 - 1000, 10**9), 10**9, 1, 0)
    assert len(np.unique(some)) == 1000 and some.min() >= 0 and some.max() < 10**9
