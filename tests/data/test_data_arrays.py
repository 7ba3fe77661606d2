"""Ragged columns are read back as they were written."""

from pathlib import Path

import numpy as np

from regard.data.arrays import Ragged, RaggedWriter, flatten, map_array, positions, smallest_unsigned


def test_rows_are_read_back_in_any_order(tmp_path: Path) -> None:
    writer = RaggedWriter(tmp_path, "rows", np.uint32)
    writer.append((np.array([1, 2, 70_000]), np.array([2, 0, 1])))
    writer.append((np.array([], np.uint32), np.array([], np.int64)))
    writer.append((np.array([5]), np.array([1])))
    assert writer.rows == 4
    writer.close()
    rows = Ragged.map(tmp_path, "rows", np.uint32)
    values, lengths = rows.gather(np.array([3, 1, 2, 0]))
    assert values.tolist() == [5, 70_000, 1, 2]
    assert lengths.tolist() == [1, 0, 1, 2]
    assert len(rows) == 4


def test_an_empty_file_is_an_empty_array(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert map_array(tmp_path / "empty", np.int64).tolist() == []


def test_ids_take_as_few_bytes_as_they_need() -> None:
    assert smallest_unsigned(1 << 16) == np.uint16
    assert smallest_unsigned((1 << 16) + 1) == np.uint32


def test_rows_are_flattened_and_indexed() -> None:
    values, lengths = flatten([[1, 2], [], [3]], np.uint16)
    assert values.tolist() == [1, 2, 3] and values.dtype == np.uint16 and lengths.tolist() == [2, 0, 1]
    assert positions(np.array([5, 0, 9]), lengths).tolist() == [5, 6, 9]
