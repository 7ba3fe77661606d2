"""Depth and residual connections: without them a deep stack of attention makes all tokens alike.

The gradient of a stack of L layers is a product of L Jacobians. A residual connection x + f(x) adds the identity to
each, so the product keeps a term that does not shrink (He et al. 2015). A Transformer also has norms, which divide each
layer's output by its size: they alone keep the whole gradient from vanishing. But attention is a weighted mean of
tokens, and a mean of means is the same for all tokens. Without residual connections the differences between tokens
vanish double exponentially with depth (rank collapse, Dong et al. 2021), and so does the gradient that would tell
tokens apart:

    gradient at the input    |d <h, r> / dx| / |r|     r random; with mean 0 over tokens in the second panel
    difference of tokens     |h - mean(h)| / |h|       mean over the tokens of a sentence

These are for weights as they are initialised, in float64. Then networks of each depth are trained: a plain MLP, where
a layer is x + f(x) or f(x), f(x) = relu(W x + b), without norms; and a Transformer with norms. "At worst a layer is the
identity" holds if f = 0: layers with all weights zero are added to a network, and its output must not change.
"""

from functools import partial

import torch
from torch import Tensor, nn

from regard.files import JsonObject
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toys import (
    ToyTensors,
    accuracy,
    build_tagger,
    fit_toy,
    generator_of,
    previous_words,
    rectangle,
    seeded,
    tagging_loss,
)  # fmt: skip
from regard.losses.crossentropy import Loss, cross_entropy
from regard.models.text_encoder import TransformerEncoder

WORDS, WIDTH, CLASSES = 16, 32, 4
PLAIN, NORMED = "MLP", "Transformer"
SERIES: dict[str, JsonObject] = {
    "post-norm": {"norm": "post"},
    "pre-norm": {"norm": "pre"},
    "no residual": {"norm": "pre", "residual": False},
    "no norm": {"norm_kind": "none"},
    "neither": {"norm_kind": "none", "residual": False},
}


def without_mean(x: Tensor) -> Tensor:
    """x (B, T, D) minus its mean over tokens."""
    return x - x.mean(dim=1, keepdim=True)


def measured_at(encoder: TransformerEncoder, seed: int) -> dict[str, float]:
    """The gradient at the input, the part of it that tells tokens apart, and the difference of tokens at the output."""
    encoder = encoder.double()
    tokens = rectangle(torch.randint(WORDS, (4, 16), generator=generator_of(seed, "words")))
    x = encoder.embed(tokens).detach().requires_grad_()
    h = encoder.final_norm(encoder.layers(x, encoder.pattern(tokens.layout)), tokens.layout)
    direction = torch.randn(h.shape, generator=generator_of(seed, "direction"), dtype=h.dtype)
    found = {"tokens": float(without_mean(h.detach()).norm() / h.detach().norm())}
    for panel, r in (("gradient", direction), ("apart", without_mean(direction))):
        (gradient,) = torch.autograd.grad((h * r).sum(), x, retain_graph=True)
        found[panel] = float(gradient.norm() / r.norm())
    return found


class DeepMLP(nn.Module):
    """Layers x + f(x), or f(x) without residual connections; f(x) = relu(W x + b)."""

    def __init__(self, layers: int, residual: bool) -> None:
        super().__init__()
        self.input, self.output = nn.Linear(2, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.layers, self.residual = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(layers)), residual

    def forward(self, x: Tensor) -> Tensor:
        """x (B, 2) -> logits (B, CLASSES)."""
        x = self.input(x)
        for layer in self.layers:
            x = x + layer(x).relu() if self.residual else layer(x).relu()
        return self.output(x)


def quarters(generator: torch.Generator, size: int = 64) -> ToyTensors:
    """Points in a plane; the class is the ring that a point is in, of four rings that hold as many points each."""
    x = torch.randn(size, 2, generator=generator)
    radius = 1 - (-x.square().sum(dim=1) / 2).exp()  # uniform in 0 .. 1
    return {"x": x, "labels": (radius * CLASSES).long().clamp(max=CLASSES - 1)}


def class_loss(model: nn.Module, batch: ToyTensors) -> Loss:
    return cross_entropy(model(batch["x"]), batch["labels"], ignore=-1)


@torch.no_grad()
def added_identity(seed: int, residual: bool) -> float:
    """The largest change of an MLP's output when layers are added whose weights are all zero."""
    seeded(seed, "weights")
    shallow, deep = DeepMLP(2, residual), DeepMLP(8, residual)
    deep.load_state_dict(deep.state_dict() | shallow.state_dict())
    for layer in deep.layers[2:]:
        for parameter in layer.parameters():
            nn.init.zeros_(parameter)
    x = quarters(generator_of(seed, "test"))["x"]
    return float((deep(x) - shallow(x)).abs().max())


def measure_training(seed: int, effort: Effort, record: Record) -> None:
    """Accuracy of networks of each depth after the same number of steps, with and without residual connections."""
    test, words = quarters(generator_of(seed, "test"), 2000), partial(previous_words, words=WORDS, length=8)
    for residual, series in ((True, "residual"), (False, "no residual")):
        for layers in effort.pick((2, 8, 24, 48), (2, 48)):
            seeded(seed, "weights")
            model = DeepMLP(layers, residual)
            fit_toy(model, quarters, class_loss, steps=effort.pick(300, 150), rate=1e-3, warmup=20, seed=seed)
            with torch.no_grad():
                right = (model(test["x"]).argmax(dim=1) == test["labels"]).float().mean()
            record("trained", f"{PLAIN}, {series}", layers, float(right))
        for layers in effort.pick((2, 8, 24), (2,)):
            seeded(seed, "weights")
            tagger = build_tagger(WORDS, WORDS, layers=layers, d_ff=32, positions="relative", residual=residual)
            fit_toy(tagger, words, tagging_loss, steps=effort.pick(100, 30), rate=3e-3, warmup=20, seed=seed)
            record(
                "trained", f"{NORMED}, {series}", layers, accuracy(tagger, words(generator_of(seed, "test"), size=200))
            )
        record("identity", "change", series, added_identity(seed, residual))


def measure(seed: int, effort: Effort, record: Record) -> None:
    for series, settings in SERIES.items():
        for layers in effort.pick((2, 4, 8, 16, 32, 48), (2, 4, 8, 16)):
            seeded(seed, "weights")
            model = build_tagger(WORDS, WORDS, layers=layers, d_model=64, d_ff=128, **settings)
            assert isinstance(model.encoder, TransformerEncoder)
            for panel, value in measured_at(model.encoder, seed).items():
                record(panel, series, layers, max(value, 1e-18))  # smaller values are rounding
    measure_training(seed, effort, record)


def judge(results: Results) -> Verdict:
    def at_depth(series: str) -> list[float]:
        return results.values("trained", series, results.xs("trained", series)[-1])

    def ratios(series: str) -> list[float]:
        first, *_, last = results.xs("gradient", series)
        shallow, deep = (results.values("gradient", series, layers) for layers in (first, last))
        return [large / small for large, small in zip(deep, shallow, strict=True)]

    plain, kept = at_depth(f"{PLAIN}, no residual"), at_depth(f"{PLAIN}, residual")
    tokens, normed = at_depth(f"{NORMED}, no residual"), at_depth(f"{NORMED}, residual")
    zero = results.values("identity", "change", "residual")
    return Verdict(
        decide(above(kept, [0.8]) and above([0.5], plain), above(plain, [0.8])),
        {
            "layers": float(results.xs("gradient", "neither")[-1]),
            "deepest": float(results.xs("trained", f"{PLAIN}, residual")[-1]),
            "guess": 1 / CLASSES,
        },
        {
            "plain": decide(above([0.01], ratios("neither")), above(ratios("neither"), [0.1])),
            "norms": decide(above([0.01], ratios("no residual")), above(ratios("no residual"), [0.1])),
            "transformer": decide(above(normed, [0.8]) and above([0.5], tokens), above(tokens, [0.8])),
            "identity": decide(above([1e-6], zero), above(zero, [0.01])),
        },
    )
