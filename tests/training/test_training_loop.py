"""The loop: exact gradients however a step is cut, exact resuming, every way to end, and no nonsense saved."""

import math
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from tests.training.toy import (
    ToyBatch,
    ToyLoss,
    ToyModel,
    ToySteps,
    ToyTask,
    cpu_world,
    toy_run,
    toy_settings,
    written_metrics,
)
from torch import nn

from regard.errors import UserError
from regard.training.checkpoint import Checkpoints, read_progress, read_weights
from regard.training.events import Event, TrainRecord
from regard.training.log import Logs
from regard.training.loop import fit
from regard.training.progress import TrainingProgress
from regard.training.task import Validation
from regard.training.weights import weights_of


def at(step: int, action: Callable[[], object]) -> Callable[[int], None]:
    """Do `action` once, before the step with that number (from 0) is trained."""
    done = [False]

    def before(number: int) -> None:
        if number == step and not done[0]:
            done[0] = True
            action()

    return before


def final_weights(folder: Path) -> dict[str, torch.Tensor]:
    return read_weights(Checkpoints(folder / "checkpoints").resolve("last"))


def assert_same_run(one: Path, other: Path) -> None:
    """Every number ever logged and every weight, to the bit."""
    assert written_metrics(one) == written_metrics(other)
    weights, others = final_weights(one), final_weights(other)
    assert weights.keys() == others.keys()
    assert all(torch.equal(weights[name], others[name]) for name in weights)


def test_the_toy_is_learned(tmp_path: Path) -> None:
    outcome = toy_run(tmp_path, toy_settings())
    assert (outcome.step, outcome.reason, outcome.best_step) == (60, "max_steps", 60)
    assert outcome.metrics["accuracy"] == 1 and outcome.best == outcome.metrics["loss"] < 0.1
    losses = [line["loss"] for line in written_metrics(tmp_path) if line["kind"] == "train"]
    assert losses[-1] < losses[0] / 5


@pytest.mark.parametrize("accumulation", [2, 4])
def test_accumulation_changes_nothing_but_rounding(tmp_path: Path, accumulation: int) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder, pieces in ((whole, 1), (parts, accumulation)):
        torch.manual_seed(1)
        model, world = ToyModel(dropout=0.0), cpu_world()
        settings = toy_settings(max_steps=20)
        checkpoints, steps = Checkpoints(folder / "checkpoints"), ToySteps(world, pieces)
        fit(ToyTask(), model, steps, settings, world, checkpoints, Logs(), lambda step: 0.01)
    torch.testing.assert_close(final_weights(whole), final_weights(parts), rtol=1e-5, atol=1e-6)


def test_the_gradient_is_of_the_sum_over_the_count() -> None:
    """One step of a rate so small that only its direction counts, against torch by hand."""
    world, model, by_hand = cpu_world(), ToyModel(dropout=0.0), ToyModel(dropout=0.0)
    by_hand.load_state_dict(model.state_dict())
    seen: list[TrainRecord] = []

    class Recorder(Logs):
        def log(self, event: Event) -> None:
            if isinstance(event, TrainRecord):
                seen.append(event)

    step = next(ToySteps(world, 3)(0))
    tokens = torch.cat([batch.tokens for batch in step.micro_batches])
    loss = nn.functional.cross_entropy(by_hand(tokens), tokens)
    loss.backward()
    norm = torch.stack([p.grad.norm() for p in by_hand.parameters() if p.grad is not None]).norm()
    folder = Path("unused")
    settings = toy_settings(max_steps=1, log_every=1, accumulation=3)
    checkpoints = Checkpoints(folder)
    checkpoints.save = lambda *_, **__: folder  # type: ignore[method-assign]
    fit(ToyTask(), model, ToySteps(world, 3), settings, world, checkpoints, Recorder(), lambda step: 0.0)
    assert seen[0].gradient_norm == pytest.approx(norm.item(), rel=1e-5)
    assert seen[0].loss == seen[0].nll == pytest.approx(loss.item(), rel=1e-6)
    assert seen[0].perplexity == pytest.approx(math.exp(loss.item()), rel=1e-6)


def test_dropout_falls_differently_at_every_step_and_part(tmp_path: Path) -> None:
    seeds: list[int] = []

    class Listening(ToyTask):
        def loss(self, model: nn.Module, batch: ToyBatch) -> ToyLoss:
            seeds.append(torch.initial_seed())
            return super().loss(model, batch)

    for seed in (3, 4):
        settings = toy_settings(max_steps=10, accumulation=3)
        toy_run(tmp_path / str(seed), settings, cpu_world(seed), task=Listening())
    assert len(set(seeds)) == len(seeds) == 60


@pytest.mark.parametrize(
    ("stop", "variant"),
    [
        (1, {}),
        (13, {"ema": 0.9}),
        (14, {}),
        (20, {"weight_decay": 0.1, "clip": 0.5, "accumulation": 3}),
        (33, {"ema": 0.9, "accumulation": 2}),
    ],
)
def test_an_interrupted_run_goes_on_to_the_bit(tmp_path: Path, stop: int, variant: dict[str, object]) -> None:
    settings = toy_settings(max_steps=45, **variant)
    toy_run(tmp_path / "whole", settings)
    outcome = toy_run(tmp_path / "cut", settings, before=at(stop - 1, lambda: signal.raise_signal(signal.SIGINT)))
    assert outcome.reason == "interrupted" and outcome.step in (stop - 1, stop)
    assert toy_run(tmp_path / "cut", settings).reason == "max_steps"
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


def test_a_longer_run_goes_on_from_a_finished_one_and_a_finished_one_changes_nothing(tmp_path: Path) -> None:
    toy_run(tmp_path / "whole", toy_settings(max_steps=40))
    toy_run(tmp_path / "grown", toy_settings(max_steps=20))
    before = (tmp_path / "grown" / "metrics.jsonl").read_bytes()
    again = toy_run(tmp_path / "grown", toy_settings(max_steps=20))
    assert again.step == 20 and again.metrics["accuracy"] > 0
    assert (tmp_path / "grown" / "metrics.jsonl").read_bytes() == before
    toy_run(tmp_path / "grown", toy_settings(max_steps=40))
    weights, others = final_weights(tmp_path / "whole"), final_weights(tmp_path / "grown")
    assert all(torch.equal(weights[name], others[name]) for name in weights)


@pytest.fixture
def hangups() -> Iterator[None]:
    """SIGHUP is not ignored, also if the tests run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hangups")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_sigterm_and_a_closed_terminal_are_requests_and_handlers_are_given_back(
    tmp_path: Path, number: signal.Signals
) -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(each) for each in numbers]
    outcome = toy_run(tmp_path, toy_settings(), before=at(10, lambda: signal.raise_signal(number)))
    assert outcome.reason == "interrupted"
    assert [signal.getsignal(each) for each in numbers] == before
    assert [path.name for path in Checkpoints(tmp_path / "checkpoints").all()] == [f"step-{outcome.step:08d}"]


def test_a_hangup_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        outcome = toy_run(tmp_path, toy_settings(), before=at(10, lambda: signal.raise_signal(signal.SIGHUP)))
    finally:
        signal.signal(signal.SIGHUP, before)
    assert outcome.reason == "max_steps"


def test_a_second_ctrl_c_aborts_at_once_and_leaves_what_was_saved(tmp_path: Path) -> None:
    def twice() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        toy_run(tmp_path, toy_settings(), before=at(25, twice))
    assert [path.name for path in Checkpoints(tmp_path / "checkpoints").all()] == ["step-00000020"]


class Poisoned(ToyTask):
    """At one step the loss, or only its gradient, is not a number."""

    def __init__(self, step: int, gradient_only: bool) -> None:
        self.step, self.gradient_only, self.seen = step, gradient_only, 0

    def loss(self, model: nn.Module, batch: ToyBatch) -> ToyLoss:
        self.seen += 1
        good = super().loss(model, batch)
        if self.seen != self.step:
            return good
        first = next(model.parameters())
        return ToyLoss(good.sum + (first.sum() * 0).sqrt() if self.gradient_only else good.sum * math.nan, good.nll)


@pytest.mark.parametrize("gradient_only", [False, True])
@pytest.mark.parametrize(("log_every", "step"), [(7, 33), (1000, 33), (1000, 40)])
def test_non_finite_numbers_stop_training_and_are_never_saved(
    tmp_path: Path, gradient_only: bool, log_every: int, step: int
) -> None:
    settings = toy_settings(log_every=log_every)
    with pytest.raises(UserError) as error:
        toy_run(tmp_path, settings, task=Poisoned(step, gradient_only))
    assert error.value.code == "diverged" and f"step {step}" in error.value.problem
    assert [path.name for path in Checkpoints(tmp_path / "checkpoints").all()] == ["step-00000020"]
    assert all(tensor.isfinite().all() for tensor in final_weights(tmp_path).values())
    assert all(math.isfinite(line["loss"]) for line in written_metrics(tmp_path) if line["kind"] == "train")
    assert toy_run(tmp_path, settings).reason == "max_steps"


class Scripted(ToyTask):
    """Validations whose scores, and losses if they are not 1, are given beforehand."""

    def __init__(self, scores: list[float], losses: list[float] | None = None) -> None:
        self.scores, self.losses = iter(scores), iter(losses or [1.0] * len(scores))

    def validate(self, model: nn.Module) -> Validation:
        assert not model.training and not torch.is_grad_enabled()
        return Validation({"loss": next(self.losses), "bleu": next(self.scores)})


def test_patience_counts_validations_without_improvement(tmp_path: Path) -> None:
    settings = toy_settings(max_steps=500, validate_every=10, patience=2, monitor="bleu", keep=1)
    outcome = toy_run(tmp_path, settings, task=Scripted([10, 30, 20, 40, 38, 39, 0, 0]))
    assert (outcome.reason, outcome.step, outcome.best, outcome.best_step) == ("patience", 60, 40, 40)
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    assert [path.name for path in checkpoints.all()] == ["step-00000040", "step-00000060"]
    assert checkpoints.resolve("best").name == "step-00000040"


@pytest.mark.parametrize(
    ("losses", "best_step", "last_step"),
    [
        ([3.0, 2.5, 2.0, 2.1, 2.2, 9.0], 30, 50),  # the lower loss; it is an improvement, so that patience begins again
        ([2.0, 2.5, 2.1, 9.0, 9.0, 9.0], 10, 30),
        ([2.0, 2.0, 2.0, 9.0, 9.0, 9.0], 30, 30),  # the later step, which is no improvement
        ([2.0, math.nan, math.nan, 9.0, 9.0, 9.0], 10, 30),
    ],
)
def test_the_loss_and_then_the_step_decide_between_equal_scores(
    tmp_path: Path, losses: list[float], best_step: int, last_step: int
) -> None:
    settings = toy_settings(max_steps=500, validate_every=10, patience=2, monitor="bleu", keep=1)
    outcome = toy_run(tmp_path, settings, task=Scripted([0.0] * 6, losses))
    assert (outcome.reason, outcome.step, outcome.best, outcome.best_step) == ("patience", last_step, 0.0, best_step)
    assert Checkpoints(tmp_path / "checkpoints").resolve("best").name == f"step-{best_step:08d}"
    marked = [line["step"] for line in written_metrics(tmp_path) if line["kind"] == "validation" and line["best"]]
    assert marked[-1] == best_step


@pytest.mark.parametrize(("loss", "best_step"), [(2.5, 20), (1.5, 40)])
def test_equal_scores_are_compared_across_an_interruption(tmp_path: Path, loss: float, best_step: int) -> None:
    settings = toy_settings(max_steps=40, validate_every=10, monitor="bleu")
    stop = at(35, lambda: signal.raise_signal(signal.SIGINT))
    toy_run(tmp_path, settings, task=Scripted([10, 30, 20], [3.0, 2.0, 1.0]), before=stop)
    assert toy_run(tmp_path, settings, task=Scripted([30], [loss])).best_step == best_step


def test_the_loss_of_the_best_step_is_read_from_progress_of_earlier_versions() -> None:
    state = TrainingProgress(step=20, monitor="bleu", best=5.0, best_step=20, validated_step=20, metrics={"loss": 2.0})
    old = {name: value for name, value in state.to_json().items() if name != "best_loss"}
    assert TrainingProgress.from_json(old).best_loss == 2.0
    unknown = TrainingProgress.from_json(old | {"validated_step": 30, "step": 40})  # the metrics are of another step
    assert unknown.to_json()["best_loss"] is None
    assert unknown.record_validation({"bleu": 5.0, "loss": 9.0}) and unknown.bad_validations == 1
    assert (unknown.best_step, unknown.best_loss) == (40, 9.0)
    unknown.set_monitor("loss")
    assert unknown.best_loss is None


def test_patience_survives_an_interruption(tmp_path: Path) -> None:
    settings = toy_settings(max_steps=500, validate_every=10, patience=2, monitor="bleu")
    stop = at(35, lambda: signal.raise_signal(signal.SIGINT))
    assert toy_run(tmp_path, settings, task=Scripted([10, 30, 20]), before=stop).reason == "interrupted"
    outcome = toy_run(tmp_path, settings, task=Scripted([20, 99]))
    assert (outcome.reason, outcome.step, outcome.best) == ("patience", 40, 30)


def test_epochs_and_minutes_are_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = toy_run(tmp_path / "epochs", toy_settings(max_epochs=2.0))
    assert (outcome.reason, outcome.step) == ("max_epochs", 20)
    clock = iter(range(0, 10_000, 5))
    monkeypatch.setattr("regard.training.loop.time.monotonic", lambda: float(next(clock)))
    outcome = toy_run(tmp_path / "minutes", toy_settings(max_minutes=1.0))
    assert outcome.reason == "max_minutes" and 0 < outcome.step < 20
    progress = read_progress(Checkpoints(tmp_path / "minutes" / "checkpoints").resolve("last"))
    assert progress["validated_step"] == outcome.step
    assert toy_run(tmp_path / "minutes", toy_settings(max_minutes=1.0)).step == outcome.step


def test_a_last_step_saved_before_it_was_judged_is_judged(tmp_path: Path) -> None:
    outcome = toy_run(tmp_path, toy_settings(max_steps=15, checkpoint_every=5))
    progress = read_progress(Checkpoints(tmp_path / "checkpoints").resolve("last"))
    assert progress["validated_step"] == outcome.step == 15 and outcome.best_step == 15


def test_an_unknown_metric_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        toy_run(tmp_path, toy_settings(monitor="blue"))
    assert (error.value.code, error.value.where) == ("invalid-setting", "training.monitor")


def test_the_average_is_validated_and_kept_but_not_trained(tmp_path: Path) -> None:
    judged: list[dict[str, torch.Tensor]] = []

    class Watching(ToyTask):
        def validate(self, model: nn.Module) -> Validation:
            judged.append(weights_of(model))
            return super().validate(model)

    toy_run(tmp_path / "ema", toy_settings(ema=0.99), task=Watching())
    toy_run(tmp_path / "plain", toy_settings())
    kept, plain = final_weights(tmp_path / "ema"), final_weights(tmp_path / "plain")
    assert all(torch.equal(kept[name], judged[-1][name]) for name in kept)
    assert not torch.equal(kept["embedding.weight"], plain["embedding.weight"])
    losses = [
        [line for line in written_metrics(tmp_path / name) if line["kind"] == "train"] for name in ("ema", "plain")
    ]
    assert losses[0] == losses[1]
    # Switched off, training goes on from the weights behind the average.
    toy_run(tmp_path / "ema", toy_settings(max_steps=61))
    toy_run(tmp_path / "plain", toy_settings(max_steps=61))
    kept, plain = final_weights(tmp_path / "ema"), final_weights(tmp_path / "plain")
    assert all(torch.equal(kept[name], plain[name]) for name in kept)


def test_the_stream_of_steps_is_closed(tmp_path: Path) -> None:
    closed = []
    world = cpu_world()

    def steps(first: int):  # type: ignore[no-untyped-def]
        try:
            yield from ToySteps(world)(first)
        finally:
            closed.append(first)

    arguments = (toy_settings(max_steps=3), world, Checkpoints(tmp_path), Logs(), lambda step: 0.01)
    fit(ToyTask(), ToyModel(), steps, *arguments)
    assert closed == [0]
