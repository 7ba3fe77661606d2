"""F-LSTM and G-LSTM (Kuchaiev & Ginsburg 2017): equal to torch's LSTM with the equivalent matrices; exact counts."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.tiny import write_recipe
from torch import nn

from regard.errors import UserError
from regard.exchange.graphs import scanned
from regard.ladder.measuring import parameters_without_embeddings
from regard.layers.recurrent import FactorisedLSTM, GroupedLSTM, Recurrent, StructuredLSTM, build_layer
from regard.run.model import Model
from regard.run.train import train
from regard.tasks.registry import load_recipe

CELLS = ["flstm", "glstm-2", "glstm-4"]


def seeded(cell: str, backward: bool = False) -> StructuredLSTM:
    torch.manual_seed(1)
    layer = build_layer(cell, 8, 12, backward).double()
    assert isinstance(layer, StructuredLSTM)
    return layer


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("backward", [False, True])
def test_outputs_are_those_of_torch_with_the_equivalent_matrices(cell: str, backward: bool) -> None:
    layer, x = seeded(cell, backward), torch.randn(3, 7, 8, dtype=torch.float64)
    W, U, b, d = layer.matrices()
    lstm = nn.LSTM(8, 12, batch_first=True).double()
    with torch.no_grad():
        for ours, theirs in zip((W, U, b, d), lstm.all_weights[0], strict=True):
            theirs.copy_(ours)
    expected = lstm(x.flip(1) if backward else x)
    y, (h, c) = layer(x)
    torch.testing.assert_close(y, expected[0].flip(1) if backward else expected[0])
    torch.testing.assert_close((h, c), (expected[1][0][0], expected[1][1][0]))
    lengths = torch.tensor([7, 4, 1])
    ours, theirs = layer(x, lengths), layer.to_dense()(x, lengths)
    torch.testing.assert_close(ours, theirs)


def test_a_product_of_two_matrices_and_blocks() -> None:
    """The matrix of F-LSTM has rank K / 2, that of G-LSTM no weight between two groups."""
    W, U, *_ = seeded("flstm").matrices()
    assert int(torch.linalg.matrix_rank(torch.cat([W, U], dim=1))) == 6
    grouped = seeded("glstm-2")
    x = torch.randn(1, 5, 8, dtype=torch.float64, requires_grad=True)
    grouped(x)[0][..., :6].sum().backward()
    assert x.grad is not None and bool((x.grad[..., :4] != 0).all()) and not bool(x.grad[..., 4:].any())


def test_numbers_of_weights_are_those_of_the_paper() -> None:
    i, k, r = 8, 12, 6
    count = {cell: sum(p.numel() for p in seeded(cell).parameters()) for cell in CELLS}
    assert count["flstm"] == r * (i + k) + 4 * k * r + 4 * k
    assert count["glstm-2"] == 4 * k * (i + k) // 2 + 4 * k
    assert count["glstm-4"] == 4 * k * (i + k) // 4 + 4 * k
    stack = Recurrent("glstm-2", 8, 12, layers=2, direction="both")
    assert parameters_without_embeddings(stack) == 2 * (count["glstm-2"] + 4 * k * (24 + k) // 2 + 4 * k)


def test_a_width_that_groups_do_not_divide_is_refused() -> None:
    with pytest.raises(UserError) as error:
        build_layer("glstm-8", 12, 12)
    assert error.value.where == "model.d_model"
    assert isinstance(build_layer("glstm-8", 8, 16), GroupedLSTM) and isinstance(
        build_layer("flstm", 5, 3), FactorisedLSTM
    )


@pytest.mark.parametrize("cell", CELLS[:2])
def test_an_export_computes_the_same(cell: str) -> None:
    torch.manual_seed(2)
    model = nn.ModuleDict({"rnn": Recurrent(cell, 8, 12, direction="both")}).double().eval()
    x, lengths = torch.randn(2, 5, 8, dtype=torch.float64), torch.tensor([5, 3])
    dense: Any = scanned(model)["rnn"]
    assert not any(isinstance(module, StructuredLSTM) for module in dense.modules())
    assert any(isinstance(module, StructuredLSTM) for module in model.modules())
    torch.testing.assert_close(dense(x, lengths)[0], model["rnn"](x, lengths)[0])


@pytest.mark.parametrize(("task", "kind", "changes"), [
    ("language", "lstm", {"model.kind": "flstm"}),
    ("translation", "recurrent", {"model.cell": "glstm-2", "model.decoder": "bahdanau"}),
    ("translation", "recurrent", {"model.cell": "flstm", "model.decoder": "luong"}),
])  # fmt: skip
def test_models_with_these_cells_train_and_decode(tmp_path: Path, task: str, kind: str, changes: Any) -> None:
    settings = {"training.max_steps": 30, "training.validate_every": 30} | changes
    recipe = load_recipe(write_recipe(tmp_path, task, kind, settings))
    run = train(recipe, tmp_path / "run", report=lambda _: None).run
    model = Model.load(run.folder)
    assert any(isinstance(module, StructuredLSTM) for module in model.model.modules())
    if task == "translation":
        (prediction,) = model.predict([{"src": "one two"}])
        assert prediction["translation"]
