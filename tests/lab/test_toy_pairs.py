"""Batches of toy translation: padding, the shifted target, and what a perfect writer scores."""

import torch

from regard.lab.toy_pairs import SHIFT, exact_match, pair_batch, share_equal, shifted_target, targets_of
from regard.lab.toys import IGNORE
from regard.models.recurrent import RecurrentModel, RecurrentSettings
from regard.text.symbols import BOS, EOS, PAD


def test_pairs_are_padded_and_shifted() -> None:
    batch = pair_batch([[0, 1], [2]], [[5], [6, 7]])
    assert batch["source"].tolist() == [[SHIFT, SHIFT + 1], [SHIFT + 2, PAD]]
    assert batch["lengths"].tolist() == [2, 1]
    assert batch["labels"].tolist() == [[SHIFT + 5, EOS, IGNORE], [SHIFT + 6, SHIFT + 7, EOS]]
    target = shifted_target(batch["labels"])
    assert target.ids[0, :2].tolist() == [BOS, SHIFT + 5] and target.ids[1].tolist() == [BOS, SHIFT + 6, SHIFT + 7]
    assert targets_of(batch) == [[5], [6, 7]]


def test_share_equal_counts_whole_rows() -> None:
    assert share_equal([[1, 2], [3], []], [[1, 2], [4], []]) == 2 / 3


def test_exact_match_of_a_fresh_model_is_a_share() -> None:
    torch.manual_seed(0)
    settings = RecurrentSettings(decoder="bahdanau", d_embedding=8, d_model=8)
    assert 0 <= exact_match(RecurrentModel(settings, SHIFT + 8, SHIFT + 8), pair_batch([[0, 1], [2]], [[5], [6]])) <= 1
