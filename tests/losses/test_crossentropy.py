"""Losses against torch's own and against their definitions in float64."""

import torch
import torch.nn.functional as F

from regard.losses import cross_entropy, r_drop


def test_label_smoothing_equals_torch() -> None:
    torch.manual_seed(0)
    logits, labels = torch.randn(3, 4, 9), torch.randint(0, 9, (3, 4))
    for smoothing in (0.0, 0.1, 0.5):
        loss = cross_entropy(logits, labels, smoothing, ignore=0)
        expected = F.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), ignore_index=0, label_smoothing=smoothing, reduction="sum"
        )
        torch.testing.assert_close(loss.sum, expected)
        torch.testing.assert_close(
            loss.nll, F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=0, reduction="sum")
        )
        assert int(loss.count) == int((labels != 0).sum())


def test_r_drop_is_the_mean_of_both_divergences_and_zero_for_equals() -> None:
    torch.manual_seed(0)
    first, second = torch.randn(2, 3, 5, dtype=torch.float64), torch.randn(2, 3, 5, dtype=torch.float64)
    labels = torch.tensor([[1, 2, 0], [3, 0, 0]])
    p, q = first.softmax(-1), second.softmax(-1)
    both = ((p * (p / q).log()).sum(-1) + (q * (q / p).log()).sum(-1)) / 2
    expected = both[labels != 0].sum()
    torch.testing.assert_close(r_drop(first, second, labels), expected, check_dtype=False, atol=1e-5, rtol=1e-5)
    assert float(r_drop(first, first, labels)) == 0.0
