"""The functions on the pages of docs/groundwork equal torch's."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.groundwork.code import run_page

Load = Callable[[str], dict[str, Any]]


@pytest.fixture
def load() -> Load:
    """Give the names in the program of a page, after it ran."""
    return lambda name: run_page(name).names


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng((seed, *shape)).normal(size=shape)


def test_norms(load: Load) -> None:
    page, x, X = load("norms"), normal(7), normal(3, 4)
    assert page["l1"](x) == pytest.approx(float(torch.linalg.vector_norm(torch.tensor(x), 1)))
    assert page["l2"](x) == pytest.approx(float(torch.linalg.vector_norm(torch.tensor(x))))
    assert page["frobenius"](X) == pytest.approx(float(torch.linalg.matrix_norm(torch.tensor(X))))


def test_derivatives(load: Load) -> None:
    page, A = load("derivatives"), normal(3, 4)
    found = page["jacobian"](lambda x: np.tanh(A @ x), normal(4))
    expected = torch.autograd.functional.jacobian(lambda x: torch.tanh(torch.tensor(A) @ x), torch.tensor(normal(4)))
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-8)
    w = torch.tensor(page["w"], requires_grad=True)
    ((torch.tensor(page["y"]) - torch.tensor(page["X"]) @ w) ** 2).sum().backward()
    np.testing.assert_allclose(page["chain"][0], w.grad.numpy(), rtol=1e-12)  # type: ignore[union-attr]


def test_contours(load: Load) -> None:
    page, x = load("contours"), torch.tensor([0.3, -1.7], requires_grad=True)
    page["f"](x).backward()
    np.testing.assert_allclose(page["gradient"](x.detach().numpy()), x.grad.numpy(), rtol=1e-6)  # type: ignore[union-attr]


def test_subderivatives(load: Load) -> None:
    is_subderivative = load("subderivatives")["is_subderivative"]
    assert [is_subderivative(torch.abs, 0.0, slope) for slope in (-1.1, -1, 0.3, 1, 1.1)] == [False, *[True] * 3, False]
    assert [is_subderivative(torch.relu, 0.0, slope) for slope in (-0.1, 0, 0.5, 1, 1.1)] == [False, *[True] * 3, False]
    assert is_subderivative(torch.relu, 2.0, 1.0) and not is_subderivative(torch.relu, 2.0, 0.9)


def test_autograd(load: Load) -> None:
    page = load("autograd")
    arrays = [normal(2, 4), normal(3, 4), normal(3, 4, seed=1)]
    ours = [page["Variable"](array) for array in arrays]
    theirs = [torch.tensor(array, requires_grad=True) for array in arrays]
    page["attention"](*ours).sum().backward()
    F.scaled_dot_product_attention(theirs[0], theirs[1], theirs[2]).sum().backward()
    for a, b in zip(ours, theirs, strict=True):
        assert b.grad is not None
        np.testing.assert_allclose(a.grad, b.grad.numpy(), atol=1e-12)
    q = page["Variable"](arrays[0])  # used three times: its gradients add up
    page["attention"](q, q, q).sum().backward()
    x = torch.tensor(arrays[0], requires_grad=True)
    F.scaled_dot_product_attention(x, x, x).sum().backward()
    np.testing.assert_allclose(q.grad, x.grad.numpy(), atol=1e-12)  # type: ignore[union-attr]


def test_forward_mode(load: Load) -> None:
    page, w, direction = load("forward-mode"), normal(5), normal(5, seed=1)
    dual = page["loss"]([page["Dual"](*pair) for pair in zip(w, direction, strict=True)], page["Dual"](0.3, 0.0))
    x, weights = torch.tensor(0.3, dtype=torch.float64), torch.tensor(w, requires_grad=True)
    for weight in weights:
        x = torch.tanh(weight * x)
    x.backward()
    assert dual.value == pytest.approx(float(x.detach()), abs=1e-14)
    assert dual.tangent == pytest.approx(float(weights.grad @ torch.tensor(direction)), abs=1e-14)  # type: ignore[operator]


def test_linear_regression(load: Load) -> None:
    page, X, y, w = load("linear-regression"), normal(50, 4), normal(50), normal(4)
    expected = torch.linalg.lstsq(torch.tensor(X), torch.tensor(y)).solution
    np.testing.assert_allclose(page["closed_form"](X, y), expected.numpy(), rtol=1e-9)
    weights = torch.tensor(w, requires_grad=True)
    F.mse_loss(torch.tensor(X) @ weights, torch.tensor(y)).backward()
    np.testing.assert_allclose(page["gradient"](w, X, y), weights.grad.numpy(), rtol=1e-12)  # type: ignore[union-attr]


def test_softmax_regression(load: Load) -> None:
    page, X, W = load("softmax-regression"), normal(20, 6), torch.tensor(normal(3, 6), requires_grad=True)
    labels = np.random.default_rng(0).integers(0, 3, 20)
    loss = F.cross_entropy(torch.tensor(X) @ W.T, torch.tensor(labels))
    loss.backward()
    nll, gradient = page["loss_and_gradient"](W.detach().numpy(), X, labels)
    assert nll == pytest.approx(loss.item(), abs=1e-13)
    np.testing.assert_allclose(gradient, W.grad.numpy(), atol=1e-13)  # type: ignore[union-attr]


def test_regularisation(load: Load) -> None:
    """Weight decay of torch's SGD is ridge; at the lasso's solution the subgradient contains zero."""
    page, strength = load("regularisation"), 7.0
    X, y = torch.tensor(page["X"]), torch.tensor(page["y"])
    w = torch.zeros(X.size(1), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([w], 1e-3, weight_decay=2 * strength)
    for _ in range(3000):
        optimizer.zero_grad()
        ((X @ w - y) ** 2).sum().backward()
        optimizer.step()
    np.testing.assert_allclose(w.detach().numpy(), page["ridge"](page["X"], page["y"], strength), atol=1e-9)
    found = page["lasso"](page["X"], page["y"], strength)
    slope = 2 * page["X"].T @ (page["X"] @ found - page["y"])
    np.testing.assert_allclose(slope[found != 0], -strength * np.sign(found[found != 0]), atol=1e-6)
    assert (abs(slope[found == 0]) <= strength).all() and (found == 0).any()


def test_initialisation(load: Load) -> None:
    page = load("initialisation")
    he = page["schemes"]["He, Var w = 2 / n_in"]
    for value in page["spread"](he, torch.relu):
        assert 0.3 < value < 3
    assert page["spread"](None, torch.relu)[1] < 1e-6 < 1e6 < page["spread"](torch.nn.init.normal_, torch.relu)[1]


def test_reduction(load: Load) -> None:
    loss_after = load("reduction")["loss_after"]
    assert loss_after("sum", 32, 0.01) == pytest.approx(loss_after("mean", 32, 0.32), rel=1e-9)


def test_clipping(load: Load) -> None:
    page = load("clipping")
    for theta in (0.5, 100.0):
        parameter = torch.nn.Parameter(torch.zeros(5, dtype=torch.float64))
        parameter.grad = torch.tensor(normal(5))
        torch.nn.utils.clip_grad_norm_([parameter], theta)
        np.testing.assert_allclose(page["clip"](normal(5), theta), parameter.grad.numpy(), rtol=1e-5)
    u = torch.tensor(1.1, dtype=torch.float64, requires_grad=True)
    h = torch.zeros((), dtype=torch.float64)
    for _ in range(20):
        h = u * h + 0.1
    loss = (h - 1) ** 2 / 2
    loss.backward()
    assert page["gradient"](1.1) == pytest.approx((u.grad.item(), loss.item()))  # type: ignore[union-attr]


def test_batch_norm(load: Load) -> None:
    """Equal to torch's and to ours, in training and in evaluation."""
    from regard.layers.norms import BatchNorm

    page = load("batch-norm")
    norms = [page["BatchNorm"](4), torch.nn.BatchNorm1d(4), BatchNorm(4)]
    for step in range(3):
        x = torch.tensor(3 * normal(16, 4, seed=step) + 1, dtype=torch.float32)
        first, *others = [norm(x) for norm in norms]
        for other in others:
            torch.testing.assert_close(first, other)
    outputs = [norm.eval()(x) for norm in norms]
    torch.testing.assert_close(outputs[0], outputs[1])
    torch.testing.assert_close(outputs[0], outputs[2])


def test_series(load: Load) -> None:
    """One step ahead by hand; the window ends with the value before the target."""
    page = load("series")
    windows, targets, x = page["windows"], page["targets"], page["x"]
    assert windows[10].tolist() == x[10:14].tolist() and targets[10] == x[14]
    model = page["linear_model"]()
    error = F.mse_loss(model(windows[600:]), targets[600:])
    assert page["ahead"](model, 1) == pytest.approx(error.item(), rel=1e-5)
    second = model(torch.cat([windows[600:-1, 1:], model(windows[600:-1])[:, None]], dim=1))
    assert page["ahead"](model, 2) == pytest.approx(F.mse_loss(second, targets[601:]).item(), rel=1e-5)


@pytest.mark.parametrize("cell", ["gru", "gru-cho"])
def test_limits_of_regards_gru(cell: str) -> None:
    """r = 1 and z = 0 is the RNN cell, r = z = 0 an MLP, z = 1 a copy: equal to the bit, for both kinds of reset."""
    from regard.layers.recurrent import CELLS

    K = 4
    x, h, U, d = (torch.tensor(normal(*shape)) for shape in ((3, 3 * K), (3, K), (3 * K, K), (3 * K,)))
    expected = {
        (1e9, -1e9): CELLS["rnn"].step(x[:, 2 * K :], (h,), U[2 * K :], d[2 * K :])[0],
        (-1e9, -1e9): torch.tanh(x[:, 2 * K :] + (d[2 * K :] if cell == "gru-cho" else 0.0)),
        (0.3, 1e9): h,
    }
    for (reset, update), result in expected.items():
        gates = x.clone()
        gates[:, :K], gates[:, K : 2 * K] = reset, update
        (found,) = CELLS[cell].step(gates, (h,), U, d)
        torch.testing.assert_close(found, result, rtol=0, atol=1e-15)


def test_gru_step(load: Load) -> None:
    from regard.layers.recurrent import gru_step

    page, cell = load("gru-limits"), torch.nn.GRUCell(5, 4).double()
    x, h = torch.tensor(normal(3, 5)), torch.tensor(normal(3, 4))
    weights = cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh
    found = page["gru_step"](x, h, *weights)
    torch.testing.assert_close(found, cell(x, h), rtol=0, atol=1e-14)
    ours = gru_step(F.linear(x, cell.weight_ih, cell.bias_ih), (h,), cell.weight_hh, cell.bias_hh)[0]
    torch.testing.assert_close(found, ours, rtol=0, atol=1e-14)


def test_query_key_value(load: Load) -> None:
    from regard.attention.attend import attend

    page = load("query-key-value")
    Q, K, V = (torch.tensor(page[name]) for name in "QKV")
    output, weights = attend(Q, K, V)
    np.testing.assert_allclose(page["weights"], weights.numpy(), atol=1e-14)
    np.testing.assert_allclose(page["output"], output.numpy(), atol=1e-14)


def test_word_vectors(load: Load) -> None:
    """The neighbours of a noun are nouns; one word has different states in different roles."""
    from regard.data.builtin import TERMINALS

    page, nouns = load("word-vectors"), set(TERMINALS["NN"].split())
    for name, table in page["tables"].items():
        found = set(re.findall(r"[a-z]+", page["neighbours"](table.detach(), "king")))
        assert name == "one-hot" or len(found & nouns) >= 3, (name, found)
    similar = [
        torch.cosine_similarity(page["said"], page["state"](other, "that"), dim=0)
        for other in ("Ada thought that Emil laughed .", "the dog that slept saw Otto .")
    ]
    assert similar[0] > similar[1]
