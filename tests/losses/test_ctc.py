"""Our forward algorithm equals torch's CTC and a sum over all paths; posteriors are distributions."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F

from regard.decoding.ctc import collapse
from regard.losses.ctc import ctc_loss, path_log_probability, state_posteriors, states

BLANK = 0


def test_the_forward_algorithm_sums_over_all_paths() -> None:
    torch.manual_seed(1)
    log_p = torch.randn(5, 4, dtype=torch.float64).log_softmax(-1)
    for text in ([], [1], [1, 1], [1, 2], [2, 2, 1]):
        paths = (path for path in itertools.product(range(4), repeat=5) if collapse(list(path), BLANK) == text)
        total = sum(math.exp(sum(float(log_p[t, token]) for t, token in enumerate(path))) for path in paths)
        labels = states(torch.tensor([text], dtype=torch.long), BLANK)
        found = path_log_probability(log_p[None, :, labels[0]], labels, torch.tensor([5]), torch.tensor([len(text)]))
        assert float(found.exp()) == pytest.approx(total, rel=1e-9)


def test_the_forward_algorithm_equals_torch_in_value_and_gradient() -> None:
    torch.manual_seed(2)
    lengths, sizes = torch.tensor([9, 12, 7]), torch.tensor([3, 5, 0])
    targets = torch.tensor([[1, 1, 2, 0, 0], [3, 4, 4, 4, 1], [0, 0, 0, 0, 0]])
    logits = torch.randn(3, 12, 6, dtype=torch.float64)
    gradients, values = [], []
    for ours in (True, False):
        x = logits.clone().requires_grad_()
        log_p = x.log_softmax(-1)
        if ours:
            labels = states(targets, BLANK)
            emissions = log_p.gather(2, labels[:, None].expand(-1, 12, -1))
            nll = -path_log_probability(emissions, labels, lengths, sizes)
        else:
            nll = F.ctc_loss(log_p.transpose(0, 1), targets, lengths, sizes, BLANK, reduction="none")
        nll.sum().backward()
        assert x.grad is not None
        gradients.append(x.grad)
        values.append(nll.detach())
    torch.testing.assert_close(*values)
    torch.testing.assert_close(*gradients)


def test_the_training_loss_leaves_out_end_symbols_and_rows_without_labels() -> None:
    torch.manual_seed(3)
    logits, lengths = torch.randn(3, 8, 6), torch.tensor([8, 6, 8])
    labels = torch.tensor([[3, 4, 2], [5, 2, 0], [0, 0, 0]])  # 2 is the end symbol
    loss = ctc_loss(logits, lengths, labels, BLANK)
    log_p = logits[:2].log_softmax(-1).transpose(0, 1)
    texts = torch.tensor([[3, 4], [5, 0]])
    expected = F.ctc_loss(log_p, texts, lengths[:2], torch.tensor([2, 1]), BLANK, reduction="sum")
    torch.testing.assert_close(loss.sum, expected)
    assert int(loss.count) == 5


def test_posteriors_are_distributions_and_follow_certain_outputs() -> None:
    path = [0, 3, 3, 0, 4, 0]
    log_p = torch.full((6, 5), 1e-4, dtype=torch.float64).scatter(1, torch.tensor(path)[:, None], 1.0).log_softmax(-1)
    found = state_posteriors(100 * log_p, torch.tensor([3, 4]), BLANK)
    torch.testing.assert_close(found.sum(dim=1), torch.ones(6, dtype=torch.float64))
    assert found.argmax(dim=1).tolist() == [0, 1, 1, 2, 3, 4]
