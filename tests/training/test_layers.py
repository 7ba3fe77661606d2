"""ULMFiT's fine-tuning: slanted triangular rates, a rate for each layer, gradual unfreezing (Howard & Ruder 2018)."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.run.test_run_start_language import language_model, quiet, recipe, write_examples
from torch import Tensor

from regard.attention.layouts import Padded
from regard.data.inputs import Inputs
from regard.errors import UserError
from regard.run.model import Model
from regard.run.run import Run
from regard.run.train import train
from regard.tasks.base import AnyTask
from regard.training.optimizer import build_optimizer, layer_groups, set_rate, slanted
from regard.training.settings import TrainingSettings


def test_the_schedule_is_equation_3() -> None:
    steps, cut_frac, ratio, peak = 200, 0.1, 32, 0.01
    cut = math.floor(steps * cut_frac)
    for t in range(1, steps + 1):
        p = t / cut if t < cut else 1 - (t - cut) / (cut * (1 / cut_frac - 1))
        assert slanted(t, peak, cut, steps) == pytest.approx(peak * (1 + p * (ratio - 1)) / ratio, rel=1e-12)


def classifier(folder: Path, start: Path | None = None, **training: Any) -> Any:
    data = dict(train=write_examples(folder)["classification"], max_length=16, drop_duplicates=False)
    data["valid"] = data["train"]
    model = {} if start else {"model": {"kind": "transformer", "layers": 3, "d_model": 8, "num_heads": 2, "d_ff": 8}}
    begin = {"start_from": str(start)} if start else {}
    return recipe(folder, "classification", data=data, training=training, **begin, **model)


def prepared(folder: Path, built: Any) -> tuple[AnyTask, Any]:
    run = Run.create(folder, built)
    run.prepare(quiet)
    return run.task, run.initial_model()


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_each_layer_has_its_own_rate(tmp_path: Path, optimizer: Any, decay: float) -> None:
    """One step equals one step of an optimizer that was built for each layer with its own rate."""
    task, model = prepared(tmp_path / "run", classifier(tmp_path))
    settings = TrainingSettings(optimizer=optimizer, weight_decay=decay, layer_decay=2.6)
    batch = Inputs.of([task.encode({"text": "a cat", "label": "cat"})], per_token=False).pad(torch.arange(1).numpy())  # type: ignore[attr-defined]
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    task.loss(model, batch).sum.backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    whole = build_optimizer(model, settings)
    set_rate(whole, 0.1)
    whole.step()
    after = {name: p.detach().clone() for name, p in model.named_parameters()}
    model.load_state_dict(before, strict=False)
    names = {id(p): name for name, p in model.named_parameters()}
    kinds: Any = {"adam": torch.optim.AdamW, "sgd": torch.optim.SGD}[optimizer]
    more: Any = {"adam": dict(betas=(0.9, 0.98), eps=1e-9), "sgd": dict(momentum=0.9)}[optimizer]
    assert [names[id(group[0])].split(".")[1] for group in layer_groups(model)] == [
        "weight", "layers", "layers", "layers", "words",
    ]  # fmt: skip
    for depth, group in enumerate(layer_groups(model)):
        for p in group:
            p.grad = gradients.get(names[id(p)])
            kinds([p], lr=0.1 / 2.6**depth, weight_decay=decay if p.dim() >= 2 else 0.0, **more).step()
    for name, p in model.named_parameters():
        torch.testing.assert_close(after[name], p.detach(), msg=name)


def test_layers_are_unfrozen_from_the_top(tmp_path: Path) -> None:
    """12 examples in batches of 4: one layer more every 3 steps; a run that is resumed continues as it began."""
    common = dict(batch_examples=4, unfreeze_epochs=1.0, weight_decay=0.1, max_epochs=9.0, checkpoint_every=1, keep=99)
    built = classifier(tmp_path, None, **{**common, "max_steps": 8})
    run = train(built, tmp_path / "run", report=quiet).run
    first = Run.create(tmp_path / "new", built)
    first.prepare(quiet)
    torch.manual_seed(0)
    states: list[dict[str, Tensor]] = [run.model(f"step-{step:08d}").state_dict() for step in range(1, 9)]
    model: Any = run.model("last")
    names = {id(p): name for name, p in model.named_parameters()}
    groups = [[names[id(p)] for p in group] for group in layer_groups(model)]
    for step in range(1, 8):  # from checkpoint `step` to the next
        epoch = step // 3
        changed = [any(not torch.equal(states[step - 1][n], states[step][n]) for n in group) for group in groups]
        assert changed == [depth <= epoch for depth in range(5)], step
    half = classifier(tmp_path, None, **{**common, "max_steps": 5})
    train(half, tmp_path / "half", report=quiet)
    resumed = train(built, tmp_path / "half", resume=True, report=quiet).run.model("last").state_dict()
    assert all(torch.equal(resumed[name], tensor) for name, tensor in states[-1].items())


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_a_classifier_starts_from_a_recurrent_language_model(tmp_path: Path, kind: str) -> None:
    start = language_model(tmp_path, kind=kind, layers=2, d_model=12, d_embedding=8)
    training = dict(schedule="slanted", warmup=0, warmup_share=0.1, layer_decay=2.6, unfreeze_epochs=1.0)
    built = classifier(tmp_path, start, **training)
    assert (built.model.kind, built.model.pooling, built.model.d_embedding) == (kind, "concat", 8)
    task, model = prepared(tmp_path / "run", built)
    language: Any = Run.open(start).model("best")
    ids = torch.tensor([task.tokenizers["source"].encode("the cat sat ."), [3, 4, 5, 0, 0, 0][:4]])[:, :4]
    lengths = torch.tensor([4, 3])
    tokens = Padded.of(ids, lengths)
    h = model.eval().encoder(tokens)
    torch.testing.assert_close(h, language.read(ids)[0][-1])
    pooled = model.encoder.pool(h, tokens.layout)
    for row, length in enumerate(lengths.tolist()):
        own = language.read(ids[row : row + 1, :length])[0][-1][0]
        torch.testing.assert_close(pooled[row], torch.cat([own[-1], own.amax(0), own.mean(0)]))
    trained = train(built, tmp_path / "run", report=quiet).run
    (prediction,) = Model.load(trained.folder).predict([{"text": "a cat"}])
    assert prediction["label"] in ("cat", "dog")
    again = classifier(tmp_path, trained.folder)
    assert again.model == built.model


@pytest.mark.parametrize("name", ["layer_decay", "unfreeze_epochs"])
def test_other_tasks_refuse_the_settings(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError) as error:
        recipe(tmp_path, "language", data={"train": "x.txt"}, training={name: 2.0})
    assert (error.value.code, error.value.where) == ("unused-setting", f"training.{name}")
