"""The feed-forward network: the same function at every position, and most of the parameters.

    FFN(x) = activation(x W_1 + b_1) W_2 + b_2        W_1 (D, D_ff), W_2 (D_ff, D)

Attention moves information between positions; this network works on each position alone, with the same weights, like a
convolution of width one. It holds 2 D D_ff weights of a layer, attention 4 D^2: with D_ff = 4 D two thirds are here. A
word must be looked up here in a table of random answers, by itself and its left neighbour: attention brings the
neighbour, the feed-forward network remembers the table. The softmax and the norms are not linear either: how far a
layer comes without a feed-forward network is what is measured.

A ReLU unit that is negative for every input has no gradient: it is dead. GELU has a small gradient there.
"""

import torch
from torch import Tensor

from regard.lab import toys
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toys import ToyTensors, accuracy, generator_of
from regard.layers.blocks import FeedForward
from regard.models.text_encoder import EncoderWithHead

WORDS, LENGTH, WIDTH = 12, 8, 32
WIDE = 256


def table_words(generator: torch.Generator, size: int = 32) -> ToyTensors:
    """Random words on a circle; the label is the entry of a fixed random table for the left neighbour and the word."""
    table = torch.randint(WORDS, (WORDS, WORDS), generator=generator_of(1, "table"))
    ids = torch.randint(WORDS, (size, LENGTH), generator=generator)
    return {"ids": ids, "labels": table[ids.roll(1, dims=1), ids]}


def feed_forward_of(model: EncoderWithHead) -> FeedForward:
    """The feed-forward network of a model with one layer."""
    return next(module for module in model.modules() if isinstance(module, FeedForward))


@torch.no_grad()
def dead_share(model: EncoderWithHead, ids: Tensor) -> float:
    """Share of hidden units that are negative before the activation for every word."""
    network, seen = feed_forward_of(model), []
    handle = network.fc1.register_forward_hook(lambda module, inputs, output: seen.append(output))
    model(toys.rectangle(ids))
    handle.remove()
    return float((seen[0].flatten(0, -2).amax(dim=0) <= 0).float().mean())


@torch.no_grad()
def change_by_others(model: EncoderWithHead, seed: int) -> float:
    """The largest change of the network's output at position 0 when all other positions change: 0."""
    network = feed_forward_of(model)
    x = torch.randn(4, LENGTH, WIDTH, generator=generator_of(seed, "states"))
    other = torch.cat([x[:, :1], torch.randn(4, LENGTH - 1, WIDTH, generator=generator_of(seed, "others"))], dim=1)
    return float((network(x)[:, 0] - network(other)[:, 0]).abs().max())


def measure(seed: int, effort: Effort, record: Record) -> None:
    test = table_words(generator_of(seed, "test"), 500)
    for width in effort.pick((0, 16, 64, WIDE), (0, WIDE)):
        for training, steps in (("short", effort.pick(100, 30)), ("long", effort.pick(400, 80))):
            model = trained(seed, width, "relu", steps, 5e-3)
            record("accuracy", training, width, accuracy(model, test))
        if width:
            layer = sum(p.numel() for p in model.encoder.layers[0].parameters())  # type: ignore[index, union-attr]
            inner = sum(p.numel() for p in feed_forward_of(model).parameters())
            record("share", "feed-forward", width, inner / layer)
            record("position", "change", "feed-forward", change_by_others(model, seed))
    for activation in ("relu", "gelu"):
        model = trained(seed, WIDE, activation, steps=effort.pick(150, 20), rate=5e-2)
        record("dead", "share", activation, dead_share(model, test["ids"]))


def trained(seed: int, width: int, activation: str, steps: int, rate: float) -> EncoderWithHead:
    """One layer, trained on the table."""
    toys.seeded(seed, "weights")
    model = toys.build_tagger(WORDS, WORDS, d_ff=width, activation=activation, positions="relative")
    toys.fit_toy(model, table_words, toys.tagging_loss, steps=steps, rate=rate, warmup=10, schedule="linear", seed=seed)
    return model


def judge(results: Results) -> Verdict:
    none, wide = (results.values("accuracy", "long", width) for width in (0, WIDE))
    return Verdict(decide(above(wide, none, by=0.1), above(none, [value - 0.02 for value in wide])), {"width": WIDE})
