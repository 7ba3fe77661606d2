"""Next sentence prediction: with a sentence of another document as the negative, the topic gives it away.

BERT is asked whether sentence B follows sentence A. Half of the time B is random (Devlin et al. 2018, section 3.1). The
random sentence is of another document, most often of another topic, so a model need not know how sentences are
connected: it compares topics (Lan et al. 2019, ALBERT; Liu et al. 2019, RoBERTa). Three kinds of negatives:

    document   B is of another document
    place      B is of another place in the same document
    swapped    A and B are exchanged

In the small language of the lab a sentence begins with the last noun of the sentence before, so all three can be
predicted. The reader is a Transformer encoder with max pooling, trained with sentences of other documents. It learns to
compare topics within few steps; what else it learns is seen later, so the curve over the steps is part of the answer.
A seed of its own chooses the learning rate, with a shorter training.
"""

from collections.abc import Callable
from functools import cache, partial
from statistics import fmean

import torch
from torch import Tensor, nn

from regard.attention.layouts import Padded
from regard.lab.budgets import best_rate, watched
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.small_world import IDS, PAD, SENTENCE, World, make_world
from regard.lab.toys import IGNORE, ToyTensors, fit_toy, generator_of, seeded
from regard.losses.crossentropy import Loss, cross_entropy
from regard.models.text_encoder import EncoderWithHead, TransformerEncoder, TransformerEncoderSettings

KINDS = DOCUMENT, PLACE, SWAPPED = "document", "place", "swapped"
SENTENCES = 6
BUDGETS = (0, 250, 500, 1000, 1500, 2000, 2500, 3000)
"""Steps after which the model is tested."""
EARLY = 500
"""Steps after which it knows topics, if it learns them first."""
Look = Callable[[int, nn.Module], None]


def negative_rows(kind: str, rows: Tensor, world: World, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """The rows of A and of a wrong B; `rows` are sentences that have a next one."""
    if kind == SWAPPED:
        return rows + 1, rows
    first = rows - rows % SENTENCES
    if kind == PLACE:  # any sentence of the document but A and the next
        places = torch.randint(SENTENCES - 2, rows.shape, generator=generator)
        return rows, first + torch.where(places < rows - first, places, places + 2)
    others = torch.randint(len(world) - SENTENCES, rows.shape, generator=generator)
    return rows, torch.where(others < first, others, others + SENTENCES)


def draw(kind: str, world: World, generator: torch.Generator, size: int = 32) -> ToyTensors:
    """Inputs [CLS] A [SEP] B [SEP], half of them with a wrong B (label 1)."""
    documents = torch.randint(len(world) // SENTENCES, (size,), generator=generator)
    rows = documents * SENTENCES + torch.randint(SENTENCES - 1, (size,), generator=generator)
    labels = torch.randint(2, (size,), generator=generator)
    wrong_a, wrong_b = negative_rows(kind, rows, world, generator)
    a, b = torch.where(labels == 1, wrong_a, rows), torch.where(labels == 1, wrong_b, rows + 1)
    width, lengths = 2 * SENTENCE + 3, world.lengths[a] + world.lengths[b] - 1
    ids = torch.nn.functional.pad(world.ids[a], (0, width), value=PAD)
    ids = ids.scatter(1, world.lengths[a, None] + torch.arange(world.ids.size(1) - 1), world.ids[b, 1:])[:, :width]
    places = torch.arange(width)
    segments = ((places >= world.lengths[a, None]) & (places < lengths[:, None])).long()
    return {"ids": ids, "segments": segments, "lengths": lengths, "labels": labels}


def build_reader(seed: int) -> EncoderWithHead:
    """A Transformer encoder with two outputs for an input."""
    seeded(seed, "weights")
    settings = TransformerEncoderSettings(
        layers=2, d_model=32, num_heads=4, d_ff=64, dropout=0.0, pooling="max", positions="rotary"
    )
    return EncoderWithHead(TransformerEncoder(settings, len(IDS)), 2, pooled=True, dropout=0.0)


def logits_of(model: nn.Module, batch: ToyTensors) -> Tensor:
    """Logits (B, 2): B follows A, B does not."""
    return model(Padded.of(batch["ids"], batch["lengths"]), batch["segments"])


def loss(model: nn.Module, batch: ToyTensors) -> Loss:
    return cross_entropy(logits_of(model, batch), batch["labels"], ignore=IGNORE)


@torch.no_grad()
def accuracy(model: nn.Module, batch: ToyTensors) -> float:
    """Share of the pairs that are judged rightly; half is chance."""
    return float((logits_of(model, batch).argmax(dim=-1) == batch["labels"]).double().mean())


def train(seed: int, rate: float, steps: int, look: Look = lambda step, model: None) -> EncoderWithHead:
    """A reader, trained with sentences of other documents; look(step, model) sees it on the way."""
    world, model = make_world(seed, 600, SENTENCES), build_reader(seed)
    batch = partial(draw, DOCUMENT, world)
    fit_toy(model, batch, watched(loss, BUDGETS, look), steps=steps, rate=rate, warmup=50, schedule="linear", seed=seed)
    return model


@cache
def chosen_rate(steps: int, rates: tuple[float, ...]) -> float:
    """The rate with the lowest loss on new pairs with sentences of other documents."""

    def validate(seed: int, rate: float) -> float:
        pairs = draw(DOCUMENT, make_world(seed, 150, SENTENCES, purpose="test"), generator_of(seed, "test"), 800)
        model = train(seed, rate, steps)
        with torch.no_grad():
            return float(loss(model, pairs).nll)

    return best_rate(validate, rates)


def measure(seed: int, effort: Effort, record: Record) -> None:
    steps, rates = effort.pick((3400, (1e-3, 2e-3)), (60, (5e-3,)))
    test = make_world(seed, 150, SENTENCES, purpose="test")
    pairs = {kind: draw(kind, test, generator_of(seed, "test"), 800) for kind in KINDS}

    def look(step: int, model: nn.Module) -> None:
        for kind in KINDS:
            record("curve", kind, step, accuracy(model, pairs[kind]))

    rate = chosen_rate(effort.pick(1000, steps), rates)
    model = train(seed, rate, steps, look)
    look(steps, model)
    record("rate", "rate", "chosen", rate)
    for kind in KINDS:
        record("accuracy", "accuracy", kind, accuracy(model, pairs[kind]))


def judge(results: Results) -> Verdict:
    document, *others = (results.values("accuracy", "accuracy", kind) for kind in KINDS)
    learnt, both = above(document, [0.6]), [value for values in others for value in values]
    last = int(results.xs("curve", DOCUMENT)[-1])
    at = min(EARLY, last)  # the last step of a quick run
    topic, *early = (results.values("curve", kind, at) for kind in KINDS)
    related = [value for values in early for value in values]
    return Verdict(
        decide(learnt and above(both, [0.6]), learnt and above([0.6], both)),
        {
            "early": at,
            "steps": last,
            "topic": fmean(topic),
            "related": fmean(related),
        },
        {"topics": decide(above(topic, [0.6]) and above([0.6], related), above(related, [0.6]))},
    )
