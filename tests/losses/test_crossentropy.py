"""Losses against torch's own and against their definitions in float64."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F

from regard.layers.embeddings import OutputProjection
from regard.losses.crossentropy import cross_entropy, r_drop
from regard.losses.projected import projected_cross_entropy, projected_r_drop

GPU = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


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


def test_the_gradient_is_belief_minus_truth() -> None:
    torch.manual_seed(0)
    labels = torch.tensor([3, 0, 1, 4])
    for smoothing in (0.0, 0.1):
        logits = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(lambda z, s=smoothing: cross_entropy(z, labels, s, ignore=0).sum, (logits,))
        cross_entropy(logits, labels, smoothing, ignore=0).sum.backward()
        q = (1 - smoothing) * F.one_hot(labels, 5) + smoothing / 5
        expected = (logits.detach().softmax(-1) - q) * (labels != 0)[:, None]
        torch.testing.assert_close(logits.grad, expected)


def test_scores_in_half_precision_are_added_up_in_full() -> None:
    torch.manual_seed(0)
    logits, labels = torch.randn(6, 4000).bfloat16().requires_grad_(), torch.randint(1, 4000, (6,))
    loss = cross_entropy(logits, labels, 0.1)
    expected = F.cross_entropy(logits.detach().float(), labels, label_smoothing=0.1, reduction="sum")
    assert loss.sum.dtype == torch.float32
    torch.testing.assert_close(loss.sum, expected)
    loss.sum.backward()
    assert logits.grad is not None and logits.grad.dtype == torch.bfloat16


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_projected_and_in_parts_it_is_the_same_loss_with_the_same_gradients(
    smoothing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.losses.projected.MAX_LOGITS", {"cpu": 50})  # scores of three rows at a time
    torch.manual_seed(0)
    hidden = torch.randn(2, 5, 4, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(16, 4, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([[3, 1, 0, 0, 0], [15, 2, 7, 1, 0]])
    loss = projected_cross_entropy(OutputProjection(hidden, weight), labels, smoothing)
    expected = cross_entropy(hidden @ weight.T, labels, smoothing)
    assert int(loss.count) == int(expected.count) == 6
    torch.testing.assert_close((loss.sum, loss.nll), (expected.sum, expected.nll))
    found = torch.autograd.grad(loss.sum * 0.7, (hidden, weight))
    torch.testing.assert_close(found, torch.autograd.grad(expected.sum * 0.7, (hidden, weight)))


def test_projected_without_gradients_and_without_a_single_word() -> None:
    hidden, weight = torch.randn(3, 4), torch.randn(8, 4)
    loss = projected_cross_entropy(OutputProjection(hidden, weight), torch.zeros(3, dtype=torch.long))
    assert (float(loss.sum), int(loss.count)) == (0.0, 0)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=GPU)])
def test_projected_r_drop_is_both_losses_and_their_divergence(
    smoothing: float, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.losses.projected.MAX_LOGITS", {"cpu": 100, "cuda": 100})
    torch.manual_seed(0)
    dtype = torch.float64 if device == "cpu" else torch.float32
    hidden = torch.randn(4, 5, 4, dtype=dtype, device=device, requires_grad=True)
    weight = torch.randn(16, 4, dtype=dtype, device=device, requires_grad=True)
    labels = torch.tensor([[3, 1, 0, 0, 0], [15, 2, 7, 1, 0]], device=device)
    loss = projected_r_drop(OutputProjection(hidden, weight), labels, 5.0, smoothing)
    first, second = (hidden @ weight.T).chunk(2)
    one, two = cross_entropy(first, labels, smoothing), cross_entropy(second, labels, smoothing)
    expected = (one.sum + two.sum + 5.0 * r_drop(first, second, labels)) / 2
    torch.testing.assert_close(loss.sum, expected, atol=1e-4, rtol=1e-5, check_dtype=False)
    torch.testing.assert_close(loss.nll, ((one.nll + two.nll) / 2).detach(), atol=1e-4, rtol=1e-5)
    found = torch.autograd.grad(loss.sum * 0.7, (hidden, weight))
    torch.testing.assert_close(
        found, torch.autograd.grad(expected * 0.7, (hidden, weight)), atol=1e-4, rtol=1e-5, check_dtype=False
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("device", [pytest.param("cuda", marks=GPU)])
def test_the_kernel_visits_rows_as_torch_does(dtype: torch.dtype, device: str) -> None:
    from regard.losses.projected import paired, smoothed

    torch.manual_seed(0)
    z = torch.randn(2, 37, 9001).to(dtype)
    labels = torch.randint(0, 9001, (37,))
    labels[3] = 0
    tolerance = 1e-5 if dtype == torch.float32 else 1e-2
    for visit in (partial(smoothed, smoothing=0.1, ignore=0), partial(paired, smoothing=0.1, strength=5.0, ignore=0)):
        here = z[:1].clone() if "smoothed" in str(visit) else z.clone()
        there = here.to(device)
        found, expected = visit(there, labels.to(device)), visit(here, labels)
        torch.testing.assert_close(found.cpu(), expected, rtol=1e-4, atol=1e-2)
        torch.testing.assert_close(there.cpu(), here, rtol=tolerance, atol=tolerance)
