"""Dropout at test time: eval() is the mean over all masks for a linear layer, and only near it for a network.

In training a unit is kept with probability 1 - p and divided by 1 - p, so that its mean is its value:

    x_i' = x_i m_i / (1 - p),   m_i = 1 with probability 1 - p, else 0,   E[x'] = x

In evaluation there is no mask. For a linear layer this is the mean of its outputs over all masks, W E[x'] = W x. A
softmax is not linear: E[softmax(z')] is not softmax(E[z']), and a mean over masks is less certain. This experiment
draws 1,000 masks and counts a difference in units of its own sampling error, the standard deviation over masks divided
by sqrt(1,000).

Dropout is meant against learning examples by heart. One panel trains a small network on few examples with each rate:
there the labels are noisy, and dropout does not help. The last panel shows where a Transformer's dropout sits (section
5.4 of the paper): it counts the zeros that training adds after the sum of words and positions, after both sublayers
before they are added to their input, and inside of the feed-forward network, where the paper has none.
"""

from functools import partial

import torch
from torch import Tensor, nn

from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide, paired
from regard.lab.toys import ToyTensors, build_tagger, fit_toy, generator_of, random_rows, rectangle, seeded
from regard.losses.crossentropy import Loss, cross_entropy

INPUTS, WIDTH, CLASSES, MASKS = 32, 128, 4, 1000
LINEAR, SOFTMAX = "linear layer", "softmax"
PAPER_RATE = 0.1
PLACES = {
    "embeddings": "encoder.dropout",
    "attention": "encoder.layers.0.attention_residual.dropout",
    "feed-forward": "encoder.layers.0.feedforward_residual.dropout",
    "inside": "encoder.layers.0.feedforward.dropout",
}
"""Where dropout may be in an encoder layer, and the module there."""


def examples(seed: int, purpose: str, size: int) -> ToyTensors:
    """Random inputs; the class is the largest of four linear functions of them, and noise."""
    x = torch.randn(size, INPUTS, generator=generator_of(seed, purpose))
    functions = torch.randn(INPUTS, CLASSES, generator=generator_of(seed, "functions"))
    noise = 3 * torch.randn(size, CLASSES, generator=generator_of(seed, purpose, "noise"))
    return {"x": x, "labels": (x @ functions + noise).argmax(dim=1)}


def class_loss(model: nn.Module, batch: ToyTensors) -> Loss:
    return cross_entropy(model(batch["x"]), batch["labels"], ignore=-1)


@torch.no_grad()
def outputs(rate: float, seed: int) -> tuple[Tensor, Tensor]:
    """The outputs of a linear layer with each mask (MASKS, CLASSES), and without dropout (CLASSES,)."""
    seeded(seed, "weights", "linear")
    dropout, linear = nn.Dropout(rate), nn.Linear(WIDTH, CLASSES).double()
    x = torch.randn(WIDTH, generator=generator_of(seed, "input"), dtype=torch.float64) * 4
    seeded(seed, "masks")
    return linear(dropout.train()(x.expand(MASKS, -1))), linear(dropout.eval()(x))


def zeros_in_training(seed: int) -> dict[str, float]:
    """The share of values that each dropout of an encoder with one layer sets to zero, by its name in the model."""
    seeded(seed, "encoder")
    model, shares = build_tagger(8, 8, layers=1, dropout=PAPER_RATE), dict[str, float]()
    tokens = rectangle(torch.randint(8, (16, 12), generator=generator_of(seed, "tokens")))

    def count(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor, name: str) -> None:
        dropped = (output == 0) & (inputs[0] != 0)
        shares[name] = float(dropped.sum() / (inputs[0] != 0).sum())

    for name, module in model.named_modules():
        if isinstance(module, nn.Dropout):
            module.register_forward_hook(partial(count, name=name))
    model.train()(tokens)
    return shares


def measure(seed: int, effort: Effort, record: Record) -> None:
    train, test = examples(seed, "train", 64), examples(seed, "test", 2000)
    for rate in effort.pick((0.0, 0.1, 0.3, 0.5, 0.7), (0.0, 0.5)):
        masked, plain = outputs(rate, seed)
        pairs = ((LINEAR, masked, plain), (SOFTMAX, masked.softmax(dim=-1), plain.softmax(dim=-1)))
        for series, sampled, expected in pairs:
            distance = (sampled.mean(dim=0) - expected).norm()
            error = sampled.var(dim=0).sum().sqrt() / MASKS**0.5
            record("mean", series, rate, float(distance / expected.norm()))
            record("errors", series, rate, float(distance / error) if error > 0 else 0.0)
        seeded(seed, "weights")
        model = nn.Sequential(nn.Linear(INPUTS, WIDTH), nn.ReLU(), nn.Dropout(rate), nn.Linear(WIDTH, CLASSES))
        batch = partial(random_rows, rows=train)
        fit_toy(model, batch, class_loss, steps=effort.pick(400, 200), rate=3e-3, seed=seed)
        for name, rows in (("train", train), ("test", test)):
            with torch.no_grad():
                loss = class_loss(model, rows)
            record("loss", name, rate, float(loss.nll / loss.count))
    shares = zeros_in_training(seed)
    for place, name in PLACES.items():
        record("where", "zeros", place, shares[name])


def judge(results: Results) -> Verdict:
    """A mean over masks equals eval() if it differs by less than four standard errors."""
    linear, softmax = (results.values("errors", series, 0.5) for series in (LINEAR, SOFTMAX))
    with_dropout, without = (results.values("loss", "test", rate) for rate in (0.5, 0.0))
    *paper, inside = (results.values("where", "zeros", place) for place in PLACES)
    placed = all(above(values, [PAPER_RATE / 2]) and above([2 * PAPER_RATE], values) for values in paper)
    return Verdict(
        decide(above([4.0], linear + softmax), above(softmax, [4.0]) and above([4.0], linear)),
        findings={
            "linear": decide(above([4.0], linear), above(linear, [4.0])),
            "helps": decide(paired(without, with_dropout), paired(with_dropout, without)),
            "where": decide(placed and max(inside) == 0, not placed or min(inside) > 0),
        },
    )
