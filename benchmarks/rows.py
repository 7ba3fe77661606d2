"""Batches from rows of token ids, for benchmarks and tests."""

from collections.abc import Iterable, Sequence

import numpy as np

from regard.data.arrays import Array, Rows
from regard.data.batch import Batch
from regard.data.pairs import pad_pairs


def concatenate_rows(rows: Sequence[Sequence[int] | Array]) -> Rows:
    """Rows end to end, and the length of each."""
    arrays = [np.asarray(row, np.int64) for row in rows]
    return np.concatenate(arrays), np.array([len(row) for row in arrays], np.int64)


def collate_pairs(pairs: Iterable[tuple[Sequence[int] | Array, Sequence[int] | Array]]) -> Batch:
    """Padded batch of pairs of rows."""
    sources, targets = zip(*pairs, strict=True)
    return pad_pairs(concatenate_rows(sources), concatenate_rows(targets))
