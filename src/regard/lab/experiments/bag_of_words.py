"""A bag of words: self-attention without positions does not know the order, but no other Transformer is like that.

A model reads eight words, among them A and B, and says whether A comes before B. Then the words are shuffled. Attention
is a sum over a set: without positions, and without a mask, the mean of the outputs is the same for every order.
Positions change that. A causal mask changes it too, without any positions: word i sees i words, and can tell its place
from that. ALiBi in an encoder is a special case: its bias depends on the absolute value of the distance, so a sentence
and its reverse look the same. The second panel asks every word for its own place.
"""

import torch
from torch import Tensor

from regard.lab import toys
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toys import ToyTensors, generator_of
from regard.models.text_encoder import EncoderWithHead

FILLERS, LENGTH = 8, 8
FIRST, SECOND, START = FILLERS, FILLERS + 1, FILLERS + 2
CAUSAL, SAME = "none, causal mask", "same answer when shuffled"


def shuffle_rows(ids: Tensor, generator: torch.Generator) -> Tensor:
    """The words of each row in an order of its own."""
    return ids.gather(1, torch.rand(ids.shape, generator=generator).argsort(dim=1))


def pairs(generator: torch.Generator, size: int = 32) -> ToyTensors:
    """Rows with A, B and fillers in random order; the label is 1 if A comes before B."""
    ids = torch.randint(FILLERS, (size, LENGTH), generator=generator)
    ids[:, 0], ids[:, 1] = FIRST, SECOND
    ids = shuffle_rows(ids, generator)
    first, second = ((ids == word).long().argmax(dim=1) for word in (FIRST, SECOND))
    return {"ids": ids, "labels": (first < second).long()}


def places(generator: torch.Generator, size: int = 32) -> ToyTensors:
    """A start symbol and random words; the label of each is its place."""
    ids = torch.randint(FILLERS, (size, LENGTH), generator=generator)
    ids[:, 0] = START
    return {"ids": ids, "labels": torch.arange(LENGTH).expand(size, -1).contiguous()}


@torch.no_grad()
def same_answers(model: EncoderWithHead, ids: Tensor, generator: torch.Generator) -> float:
    """Share of rows whose answer stays the same when their words are shuffled."""
    first, second = (model(toys.rectangle(x)).argmax(dim=-1) for x in (ids, shuffle_rows(ids, generator)))
    return float((first == second).float().mean())


def trained(seed: int, kind: str, batch: toys.MakeBatch, steps: int) -> EncoderWithHead:
    """A model of two layers, trained on one of the two tasks."""
    toys.seeded(seed, "weights")
    causal, positions = kind == CAUSAL, "none" if kind == CAUSAL else kind
    model = toys.build_tagger(START + 1, LENGTH, pooled=batch is pairs, layers=2, positions=positions, causal=causal)
    toys.fit_toy(model, batch, toys.tagging_loss, steps=steps, rate=5e-3, schedule="linear", seed=seed)
    return model


def measure(seed: int, effort: Effort, record: Record) -> None:
    kinds = ("none", CAUSAL, *(kind for kind in toys.POSITIONS if kind != "none"))
    for kind in effort.pick(kinds, ("none", CAUSAL, "sinusoidal")):
        model = trained(seed, kind, pairs, steps=effort.pick(200, 100))
        test = pairs(generator_of(seed, "test"), 1000)
        record("order", "right in order", kind, toys.accuracy(model, test))
        record("order", SAME, kind, same_answers(model, test["ids"], generator_of(seed, "shuffle")))
    for kind in effort.pick(("none", CAUSAL, "sinusoidal"), ("none", CAUSAL)):
        model = trained(seed, kind, places, steps=effort.pick(200, 40))
        record("place", "accuracy", kind, toys.accuracy(model, places(generator_of(seed, "test"), 1000)))


def judge(results: Results) -> Verdict:
    same = results.values("order", SAME, "sinusoidal")
    return Verdict(decide(above(same, [0.9]), above([0.75], same)))
