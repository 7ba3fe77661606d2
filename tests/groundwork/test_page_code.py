"""The functions on the pages of docs/groundwork equal torch's."""

import runpy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from benchmarks.groundwork import FOLDER

Load = Callable[[str], dict[str, Any]]


@pytest.fixture
def load(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Run the code of a page and return its names."""
    monkeypatch.chdir(tmp_path)
    return lambda name: runpy.run_path(str(FOLDER / "code" / f"{name}.py"))


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
