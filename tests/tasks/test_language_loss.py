"""GPT's auxiliary loss L3 = L2 + lambda L1 (Radford et al. 2018, 3.2), against the formula and a language model."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.run.test_run_start_language import language_model, quiet, recipe, write_examples

from regard.attention.layouts import Packed, Padded
from regard.data.batch import Batch
from regard.data.inputs import Inputs
from regard.errors import UserError
from regard.layers.embeddings import OutputProjection
from regard.losses.crossentropy import Loss
from regard.run.run import Run
from regard.run.train import train
from regard.tasks.encoders import add_language_loss


@pytest.mark.parametrize("layout", [Padded, Packed])
def test_the_loss_is_that_of_the_formula(layout: Any) -> None:
    torch.manual_seed(1)
    lengths, ids = torch.tensor([4, 2, 1]), torch.randint(3, 9, (3, 4))
    weight, h = torch.randn(9, 5), torch.randn(3, 4, 5, requires_grad=True)
    tokens = layout.of(ids, lengths)
    rows = torch.arange(4) < lengths[:, None]
    hidden = h[rows] if layout is Packed else h
    plain = Loss(torch.tensor(2.5), torch.tensor(3), torch.tensor(2.0))
    total = add_language_loss(plain, OutputProjection(hidden, weight), tokens, 0.5)
    nll = [-F.log_softmax(h[b, t] @ weight.T, dim=0)[ids[b, t + 1]] for b in range(3) for t in range(lengths[b] - 1)]
    expected = 2.5 + 0.5 * 3 * torch.stack(nll).mean()
    torch.testing.assert_close(total.sum, expected)
    assert total.nll == 2 and total.count == 3
    ours, theirs = (torch.autograd.grad(x, h, retain_graph=True)[0] for x in (total.sum, expected))
    torch.testing.assert_close(ours, theirs)


def classifier(folder: Path, start: Path, **training: Any) -> Any:
    data = dict(train=write_examples(folder)["classification"], max_length=16, drop_duplicates=False)
    data["valid"] = data["train"]
    return recipe(folder, "classification", data=data, start_from=str(start), training=training)


def test_at_the_first_step_it_is_the_loss_of_the_language_model(tmp_path: Path) -> None:
    start = language_model(tmp_path)
    run = Run.create(tmp_path / "run", classifier(tmp_path, start, language_loss=0.5))
    run.prepare(quiet)
    task: Any = run.task
    model: Any = run.initial_model().eval()
    encoded = [task.encode({"text": text, "label": "cat"}) for text in ("the cat sat .", "a dog")]
    batch: Batch = Inputs.of(encoded, per_token=False).pad(torch.arange(2).numpy())
    loss, language = task.loss(model, batch), Run.open(start).model("best").eval()
    plain = task.criterion(model(batch.source, batch["segments"]), batch)
    nll = []
    for (read,) in encoded:
        ids = torch.tensor([read.ids])
        logits = language(ids)[0].logits()[0, :-1]
        nll += F.cross_entropy(logits, ids[0, 1:], reduction="none").tolist()
    assert float(loss.sum.detach()) == pytest.approx(
        float(plain.sum.detach()) + 0.5 * 2 * sum(nll) / len(nll), rel=1e-5
    )


def test_it_is_trained_and_lowers_the_loss_on_the_texts(tmp_path: Path) -> None:
    start, losses = language_model(tmp_path), {}
    for weight in (0.0, 4.0):
        built = classifier(tmp_path, start, language_loss=weight, max_steps=20, learning_rate=5e-3)
        run = train(built, tmp_path / f"run-{weight}", report=quiet).run
        model: Any = run.model("last")
        ids = torch.tensor([run.task.tokenizers["source"].encode("the cat sat .")])
        _, projection = model(Padded.of(ids, torch.tensor([ids.size(1)])), language=True)
        losses[weight] = F.cross_entropy(projection.logits()[0, :-1], ids[0, 1:]).item()
    assert losses[4.0] < losses[0.0]


def test_where_it_has_no_effect_it_is_an_error(tmp_path: Path) -> None:
    file = write_examples(tmp_path)
    cases = [("classification", {"model": {"kind": "transformer"}}), ("tagging", {"model": {"kind": "transformer"}})]
    for task, changes in [*cases, ("classification", {"model": {"kind": "recurrent"}})]:
        with pytest.raises(UserError) as error:
            recipe(tmp_path, task, data={"train": file[task]}, training={"language_loss": 0.5}, **changes)
        assert (error.value.code, error.value.where) == ("unused-setting", "training.language_loss")


def test_a_language_model_with_another_output_matrix_is_refused(tmp_path: Path) -> None:
    start = language_model(tmp_path, kind="transformer", layers=1, d_model=16, num_heads=2, d_ff=16, tie="none")
    with pytest.raises(UserError) as error:
        train(classifier(tmp_path, start, language_loss=0.5), tmp_path / "run", report=quiet)
    assert (error.value.code, error.value.where) == ("incompatible-start", "training.language_loss")
