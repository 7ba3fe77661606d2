"""Training of toy models on batches that are computed from a seed, with regard's own training loop.

    fit_toy(model, batch, loss, steps=300, rate=1e-3, seed=1) -> the loss (nll per label) of every logged step

`batch(generator)` makes the tensors of one step from a torch generator; `loss(model, tensors)` returns a `Loss`. The
optimizer, its schedule, clipping and the order of random numbers are those of every regard run (training/loop.py);
only checkpoints are not written.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.attention.layouts import Padded, Tokens
from regard.attention.multihead import MultiHeadAttention
from regard.attention.scored_attention import ScoredAttention
from regard.attention.scoring import SCORINGS
from regard.files import JsonObject
from regard.losses.crossentropy import Loss, cross_entropy
from regard.models.text_encoder import EncoderWithHead, TransformerEncoder, TransformerEncoderSettings
from regard.runtime import World, seed_everything
from regard.seeding import derive_seed
from regard.training.checkpoint import Checkpoints
from regard.training.events import Event, TrainRecord
from regard.training.loop import fit
from regard.training.optimizer import build_schedule
from regard.training.settings import TrainingSettings
from regard.training.task import Validation
from regard.training.weights import Tensors

ToyTensors = Mapping[str, Tensor]
MakeBatch = Callable[[torch.Generator], ToyTensors]
ToyLoss = Callable[[nn.Module, ToyTensors], Loss]
IGNORE = -100
"""A label without a loss."""
POSITIONS = ("sinusoidal", "learned", "rotary", "relative", "alibi", "none")
"""The kinds of positions of an encoder."""


def generator_of(seed: int, *purpose: int | str) -> torch.Generator:
    """A torch generator for one purpose; equal arguments give equal numbers."""
    return torch.Generator().manual_seed(derive_seed(seed, *purpose))


def seeded(seed: int, *purpose: int | str) -> None:
    """Seed torch before weights are initialised."""
    seed_everything(seed, *purpose)


def shuffled_indices(size: int, seed: int, *purpose: int | str) -> list[int]:
    """0 .. size - 1 in a random order."""
    return torch.randperm(size, generator=generator_of(seed, *purpose)).tolist()


def fit_toy(
    model: nn.Module,
    batch: MakeBatch,
    loss: ToyLoss,
    *,
    steps: int,
    rate: float = 1e-3,
    seed: int = 1,
    warmup: int = 0,
    log_every: int = 10,
    **settings: object,
) -> list[float]:
    """Train `model` in place; return the mean nll per label of each `log_every` steps.

    Ctrl-C and SIGTERM raise KeyboardInterrupt, so that a model that has not learnt is never measured. `settings` are
    those of [training] in a recipe: schedule, clip, weight_decay, optimizer, label_smoothing, ...
    """
    values: JsonObject = {"schedule": "constant", "clip": 1.0, "label_smoothing": 0.0, **settings}
    training = TrainingSettings(
        max_steps=steps, learning_rate=rate, warmup=warmup, log_every=log_every, validate_every=steps, **values
    )
    log = LossLog()
    world = World(0, 1, 0, torch.device("cpu"), "fp32", seed=seed)
    outcome = fit(
        ToyTask(loss),
        model,
        ToySteps(batch, seed),
        training,
        world,
        NoCheckpoints(Path()),
        log,
        build_schedule(training, d_model=1),
    )
    if outcome.reason == "interrupted":
        raise KeyboardInterrupt
    model.eval()
    return log.losses


def rectangle(ids: Tensor) -> Tokens:
    """Sequences (B, T) of equal length, without padding."""
    return Padded.of(ids, torch.full((ids.size(0),), ids.size(1)))


def build_tagger(vocabulary: int, labels: int, *, pooled: bool = False, **settings: object) -> EncoderWithHead:
    """A Transformer encoder with an output for each token, or one for the sequence if `pooled`; `settings` are those of
    [model] in a recipe."""
    values: JsonObject = {"layers": 1, "d_model": 32, "num_heads": 4, "d_ff": 64, "dropout": 0.0, **settings}
    encoder = TransformerEncoder(TransformerEncoderSettings(**values), vocabulary)
    return EncoderWithHead(encoder, labels, pooled=pooled, dropout=0.0)


class OneHead(nn.Module):
    """Word and position embeddings, attention with one head of any score and width, and a linear output."""

    def __init__(self, score: str, head_dim: int, words: int, length: int, width: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        scored = ScoredAttention(SCORINGS[score](head_dim, head_dim, head_dim))
        self.attention = MultiHeadAttention(width, 1, head_dim=head_dim, scored_attention=scored)
        self.output = nn.Linear(width, words)

    def forward(self, tokens: Tokens) -> Tensor:
        """ids (B, T) -> logits (B, T, words)."""
        x = self.words(tokens.ids) + self.places(tokens.layout.positions)
        return self.output(self.attention(x, x, tokens.layout.pattern(tokens.layout)))


def previous_words(generator: torch.Generator, words: int, length: int, size: int = 32) -> ToyTensors:
    """Random words on a circle; the label of a word is the word before it."""
    ids = torch.randint(words, (size, length), generator=generator)
    return {"ids": ids, "labels": ids.roll(1, dims=1)}


def reversed_words(generator: torch.Generator, words: int, length: int, size: int = 32) -> ToyTensors:
    """Random words; the labels are the same words from last to first, so only positions tell where to look."""
    ids = torch.randint(words, (size, length), generator=generator)
    return {"ids": ids, "labels": ids.flip(1)}


def neighbour_words(
    generator: torch.Generator, words: int, length: int, distances: Sequence[int], size: int = 32
) -> ToyTensors:
    """Random words on a circle; the labels of a word are the words so far before it (after it, if negative)."""
    ids = torch.randint(words, (size, length), generator=generator)
    return {"ids": ids, "labels": torch.stack([ids.roll(by, dims=1) for by in distances], dim=2)}


def random_rows(generator: torch.Generator, rows: ToyTensors, size: int = 32) -> ToyTensors:
    """A batch of random rows of a fixed set of examples."""
    chosen = torch.randint(len(rows["labels"]), (size,), generator=generator)
    return {key: values[chosen] for key, values in rows.items()}


def tagging_loss(model: nn.Module, batch: ToyTensors) -> Loss:
    """Cross-entropy of the outputs for `ids` (B, T) against `labels` (B, T), or (B,) for a pooled output."""
    return cross_entropy(model(rectangle(batch["ids"])), batch["labels"], ignore=IGNORE)


@torch.no_grad()
def accuracy(model: nn.Module, batch: ToyTensors) -> float:
    """Share of labels that the model predicts."""
    model.eval()
    labels = batch["labels"]
    right = (model(rectangle(batch["ids"])).argmax(dim=-1) == labels) & (labels != IGNORE)
    return float(right.sum() / (labels != IGNORE).sum())


@dataclass(frozen=True)
class ToyBatch:
    tensors: ToyTensors

    def to(self, device: torch.device) -> "ToyBatch":
        """The batch itself: toys are trained on the CPU."""
        return self


@dataclass(frozen=True)
class ToyStep:
    batch: ToyBatch
    epoch: float = 0.0

    @property
    def micro_batches(self) -> list[ToyBatch]:
        return [self.batch]

    @property
    def count(self) -> int:
        """Labels of the step: those that are not `IGNORE`."""
        labels = self.batch.tensors["labels"]
        return labels.numel() if labels.is_floating_point() else int((labels != IGNORE).sum())

    @property
    def tokens(self) -> int:
        """Labels of the step, for the throughput."""
        return self.count


@dataclass(frozen=True)
class ToySteps:
    """The stream of steps; step n depends on the seed and n only."""

    batch: MakeBatch
    seed: int

    def __call__(self, first: int) -> Iterator[ToyStep]:
        step = first
        while True:
            yield ToyStep(ToyBatch(self.batch(generator_of(self.seed, "batch", step))))
            step += 1


@dataclass(frozen=True)
class ToyTask:
    """A task with a loss and without validation."""

    loss_function: ToyLoss

    def loss(self, model: nn.Module, batch: ToyBatch) -> Loss:
        return self.loss_function(model, batch.tensors)

    def validate(self, model: nn.Module) -> Validation:
        """Nothing: an experiment measures its models itself."""
        return Validation({"loss": 0.0})


class LossLog:
    def __init__(self) -> None:
        self.losses: list[float] = []

    def log(self, event: Event) -> None:
        if isinstance(event, TrainRecord):
            self.losses.append(event.nll)


class NoCheckpoints(Checkpoints):
    def save(self, step: int, weights: Tensors, training: Tensors, progress: JsonObject) -> Path:
        return self.folder

    def newest_undamaged(self) -> tuple[Path | None, list[str]]:
        return None, []

    def set_aside_after(self, step: int) -> None:
        pass
