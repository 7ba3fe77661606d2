"""The feed-forward network: the same function at every position, and most of the parameters.

    FFN(x) = activation(x W_1 + b_1) W_2 + b_2        W_1 (D, D_ff), W_2 (D_ff, D)

Attention moves information between positions; this network works on each position alone, with the same weights, like a
convolution of width one. Two checks tell: other positions change, and the output at this one does not; the same vector
stands at two positions, and both outputs are equal. A network with other weights at every position (`PerPosition`)
passes the first check and fails the second; attention fails the first.

It holds 2 D D_ff weights of a layer, attention 4 D^2: with D_ff = 4 D two thirds are here. A word must be looked up
here in a table of random answers, by itself and its left neighbour: attention brings the neighbour, the feed-forward
network remembers the table. The softmax and the norms are not linear either: how far a layer comes without a
feed-forward network is what is measured.

A ReLU unit that is negative for every input has no gradient: it is dead. GELU has a small gradient there.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.attention.layouts import Padded
from regard.attention.multihead import MultiHeadAttention
from regard.lab import toys
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide, paired
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


class PerPosition(nn.Module):
    """A control: a feed-forward network with weights of its own for every position."""

    def __init__(self) -> None:
        super().__init__()
        self.networks = nn.ModuleList(FeedForward(WIDTH, WIDE) for _ in range(LENGTH))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) -> (B, T, D)."""
        return torch.stack([network(x[:, t]) for t, network in enumerate(self.networks)], dim=1)


def mlp(network: FeedForward, x: Tensor) -> Tensor:
    """max(0, x W_1 + b_1) W_2 + b_2, written out."""
    hidden = (x @ network.fc1.weight.T + network.fc1.bias).clamp(min=0)
    return hidden @ network.fc2.weight.T + network.fc2.bias


@torch.no_grad()
def record_checks(network: FeedForward, seed: int, record: Record) -> None:
    """Largest differences: against the formula, when all other positions change, and between two equal positions."""
    toys.seeded(seed, "controls")
    attention = MultiHeadAttention(WIDTH, 4)
    layout = Padded(torch.full((4,), LENGTH), LENGTH)
    kinds: dict[str, Callable[[Tensor], Tensor]] = {
        "feed-forward": network,
        "per position": PerPosition(),
        "attention": lambda x: attention(x, x, layout.pattern(layout)),
    }
    x = torch.randn(4, LENGTH, WIDTH, generator=generator_of(seed, "states"))
    other = torch.cat([x[:, :1], torch.randn(4, LENGTH - 1, WIDTH, generator=generator_of(seed, "others"))], dim=1)
    twice = torch.cat([x[:, :1], x[:, :1], x[:, 2:]], dim=1)
    for kind, run in kinds.items():
        record("checks", "others", kind, float((run(x)[:, 0] - run(other)[:, 0]).abs().max()))
        y = run(twice)
        record("checks", "equal", kind, float((y[:, 0] - y[:, 1]).abs().max()))
    record("formula", "difference", "feed-forward", float((network(x) - mlp(network, x)).abs().max()))


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
    record_checks(feed_forward_of(model), seed, record)
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
    alone, same = (results.values("checks", check, "feed-forward") for check in ("others", "equal"))
    controls = results.values("checks", "others", "attention") + results.values("checks", "equal", "per position")
    formula = results.values("formula", "difference", "feed-forward")
    exact = above([1e-5], alone + same) and above(controls, [0.01])
    quick, slow = (results.values("accuracy", "short", width) for width in (WIDE, 0))
    return Verdict(
        decide(exact, above(alone, [0.01]) or above(same, [0.01])),
        {"width": WIDE},
        {
            "formula": decide(above([1e-5], formula), above(formula, [0.01])),
            "necessary": decide(above(wide, none, by=0.1), above(none, [value - 0.02 for value in wide])),
            "faster": decide(paired(quick, slow, by=0.05), not paired(quick, slow)),
        },
    )
