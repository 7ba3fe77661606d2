"""Linear models of a bag of words: W x + b, the minima of Newton's method and the normal equations, and evidence."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from tests.cli.command import regard
from tests.tiny import train_run

from regard.attention.layouts import Padded, Tokens
from regard.models.linear import LinearModel, LinearSettings, is_first

VOCABULARY, OUTPUTS = 9, 3
Array = NDArray[np.float64]


def make_tokens(count: int, seed: int = 0) -> tuple[Tokens, list[list[int]]]:
    random = np.random.default_rng(seed)
    rows = [random.integers(1, VOCABULARY, random.integers(1, 8)).tolist() for _ in range(count)]
    width = max(map(len, rows))
    ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    return Padded.of(ids, torch.tensor([len(row) for row in rows])), rows


def bags(rows: list[list[int]], features: str) -> Array:
    """x (N, V), counted one token at a time."""
    x = np.zeros((len(rows), VOCABULARY))
    for n, row in enumerate(rows):
        for token in row:
            x[n, token] = 1 if features == "presence" else x[n, token] + (1 if features == "count" else 1 / len(row))
    return x


def make_model(features: str = "presence", outputs: int = OUTPUTS, seed: int = 0) -> LinearModel:
    model = LinearModel(LinearSettings(features=features), VOCABULARY, outputs).double()  # type: ignore[arg-type]
    random = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.data.normal_(generator=random)
    return model


@pytest.mark.parametrize("features", ["presence", "count", "frequency"])
def test_outputs_are_a_product_with_the_bag(features: str) -> None:
    tokens, rows = make_tokens(20)
    model, x = make_model(features), torch.from_numpy(bags(rows, features))
    torch.testing.assert_close(model(tokens), F.linear(x, model.head.weight, model.head.bias))


def test_first_occurrences() -> None:
    ids = torch.tensor([[3, 1, 3, 3, 1, 2], [0, 0, 0, 0, 0, 0]])
    assert is_first(ids).int().tolist() == [[1, 1, 0, 0, 0, 1], [1, 0, 0, 0, 0, 0]]


def test_the_evidence_adds_up_to_the_probabilities() -> None:
    tokens, _ = make_tokens(20)
    model = make_model()
    summed = model.evidence(tokens).sum(dim=-1) + model.head.bias
    torch.testing.assert_close(summed.softmax(-1), model(tokens).softmax(-1))
    number = make_model(outputs=1)
    torch.testing.assert_close(number.evidence(tokens).sum(dim=-1) + number.head.bias, number(tokens))


def minimise(model: LinearModel, tokens: Tokens, loss: Callable[[torch.Tensor], torch.Tensor], ridge: float) -> None:
    """Gradients from autograd and L-BFGS, until they vanish."""
    optimizer = torch.optim.LBFGS(model.parameters(), 1.0, 2000, tolerance_grad=1e-12, tolerance_change=0.0,
                                  line_search_fn="strong_wolfe")  # fmt: skip

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        value = loss(model(tokens)) + ridge / 2 * sum((p**2).sum() for p in model.parameters())
        value.backward()
        return value

    optimizer.step(closure)


def newton(x: Array, labels: NDArray[np.int64], ridge: float) -> Array:
    """Ridge softmax regression in numpy, the gradient and the Hessian by hand: (O, V + 1), the bias last."""
    x, one_hot = np.c_[x, np.ones(len(x))], np.eye(OUTPUTS)[labels]
    W = np.zeros((OUTPUTS, x.shape[1]))
    for _ in range(30):
        p = np.exp(x @ W.T)
        p /= p.sum(1, keepdims=True)
        gradient = (p - one_hot).T @ x + ridge * W
        blocks = np.einsum("nc,cd,nv,nw->cvdw", p, np.eye(OUTPUTS), x, x) - np.einsum("nc,nd,nv,nw->cvdw", p, p, x, x)
        hessian = blocks.reshape(W.size, W.size) + ridge * np.eye(W.size)
        W = W - np.linalg.solve(hessian, gradient.ravel()).reshape(W.shape)
    return W


def test_classes_find_the_minimum_of_newtons_method() -> None:
    tokens, rows = make_tokens(60)
    labels = np.random.default_rng(1).integers(0, OUTPUTS, 60)
    model = make_model()
    minimise(model, tokens, lambda o: F.cross_entropy(o, torch.from_numpy(labels), reduction="sum"), 0.5)
    expected = newton(bags(rows, "presence"), labels, 0.5)
    found = torch.cat([model.head.weight, model.head.bias[:, None]], 1).detach().numpy()
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_numbers_find_the_solution_of_the_normal_equations() -> None:
    tokens, rows = make_tokens(60)
    y = np.random.default_rng(2).normal(size=60)
    model, x = make_model("count", 1), np.c_[bags(rows, "count"), np.ones(60)]
    minimise(model, tokens, lambda o: ((o[:, 0] - torch.from_numpy(y)) ** 2).sum(), 0.2)
    expected = np.linalg.solve(x.T @ x + 0.1 * np.eye(x.shape[1]), x.T @ y)
    found = torch.cat([model.head.weight[0], model.head.bias]).detach().numpy()
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_commands(tmp_path: Path) -> None:
    """It learns; predict, inspect and evaluate work, and export and embed are refused."""
    run = train_run(tmp_path, "classification", "linear", {"training.learning_rate": 0.05})
    evaluated = regard("evaluate", run, "--json")
    assert evaluated.status == 0 and '"name": "accuracy", "value": 100.0' in evaluated.out, evaluated.out
    inspected = regard("inspect", run, "a lovely film", "--json")
    assert inspected.status == 0 and '"evidence"' in inspected.out, inspected.err
    assert "evidence for each class" in regard("inspect", run, "a lovely film").out
    predicted = regard("predict", run, "a lovely film", "--json")
    assert predicted.status == 0 and '"label": "good"' in predicted.out, predicted.out
    for command, code in (
        (("export", run, "--folder", tmp_path / "x"), "unsupported-model"),
        (("export", run, "--to", "torch-export", "--folder", tmp_path / "x"), "unsupported-model"),
        (("embed", run, "a text", "--output", tmp_path / "x.npy"), "wrong-task"),
    ):
        refused = regard(*command)
        assert refused.status != 0 and code in refused.err, refused.err
    assert not (tmp_path / "x").exists()
    again = regard("train", tmp_path / "classification-linear.toml", f"start_from={run}", "--folder", tmp_path / "b")
    assert again.status == 0, again.err


def test_a_number_for_a_text(tmp_path: Path) -> None:
    """Linear regression learns the scores of words; its evidence is inspected too."""
    run = train_run(tmp_path, "regression", "linear", {"training.learning_rate": 0.05})
    evaluated = regard("evaluate", run, "--json")
    scores = {item["name"]: item["value"] for item in json.loads(evaluated.out)["scores"]}
    assert max(scores.values()) > 90, scores
    assert '"score"' in regard("inspect", run, "a lovely film", "--json").out


def test_tasks_with_a_label_for_each_token_refuse_it(tmp_path: Path) -> None:
    from regard.config import build
    from regard.errors import UserError
    from regard.tasks.registry import TASKS

    values = {"name": "x", "task": "tagging", "data": {"train": {"file": "a"}}, "model": {"kind": "linear"}}
    with pytest.raises(UserError) as error:
        build(TASKS["tagging"].recipe_type, values, "x", TASKS["tagging"].recipe_type.defaults)
    assert error.value.where == "model.kind"
