"""A decoding request checks its columns and can be split."""

import pytest

from regard.decoding.engine import DecodingRequest
from regard.decoding.settings import DecodingSettings


def test_defaults_are_no_prefixes_and_the_first_ids() -> None:
    request = DecodingRequest([[5, 2], [6, 2]], [3, 4], DecodingSettings())
    assert len(request) == 2
    assert list(request.prefixes) == [(), ()]
    assert list(request.sentence_ids) == [0, 1]


def test_select_keeps_all_columns_together() -> None:
    settings = DecodingSettings()
    request = DecodingRequest([[5, 2], [6, 2], [7, 2]], [3, 4, 5], settings, [[8], [], [9]], [10, 11, 12])
    assert request.select([2, 0]) == DecodingRequest([[7, 2], [5, 2]], [5, 3], settings, [[9], [8]], [12, 10])


def test_columns_must_have_one_entry_for_each_source() -> None:
    settings = DecodingSettings()
    with pytest.raises(ValueError, match="2 max_new_tokens for 1 sources"):
        DecodingRequest([[2]], [3, 4], settings)
    with pytest.raises(ValueError, match="2 prefixes for 1 sources"):
        DecodingRequest([[2]], [3], settings, [[], []])
    with pytest.raises(ValueError, match="2 sentence_ids for 1 sources"):
        DecodingRequest([[2]], [3], settings, sentence_ids=[0, 1])
    with pytest.raises(ValueError, match="at least 1"):
        DecodingRequest([[2]], [0], settings)
