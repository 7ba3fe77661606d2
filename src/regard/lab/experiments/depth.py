"""Depth and residual connections: without them a deep stack of attention makes all tokens alike.

The gradient of a stack of L layers is a product of L Jacobians. A residual connection x + f(x) adds the identity to
each, so the product keeps a term that does not shrink (He et al. 2015). A Transformer also has norms, which divide each
layer's output by its size: they alone keep the whole gradient from vanishing. But attention is a weighted mean of
tokens, and a mean of means is the same for all tokens. Without residual connections the differences between tokens
vanish double exponentially with depth (rank collapse, Dong et al. 2021), and so does the gradient that would tell
tokens apart:

    gradient at the input    |d <h, r> / dx| / |r|     r random; with mean 0 over tokens in the second panel
    difference of tokens     |h - mean(h)| / |h|       mean over the tokens of a sentence

All weights are as they are initialised, in float64.
"""

import torch
from torch import Tensor

from regard.files import JsonObject
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toys import build_tagger, generator_of, rectangle, seeded
from regard.models.text_encoder import TransformerEncoder

WORDS = 16
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


def measure(seed: int, effort: Effort, record: Record) -> None:
    for series, settings in SERIES.items():
        for layers in effort.pick((2, 4, 8, 16, 32, 48), (2, 4, 8, 16)):
            seeded(seed, "weights")
            model = build_tagger(WORDS, WORDS, layers=layers, d_model=64, d_ff=128, **settings)
            assert isinstance(model.encoder, TransformerEncoder)
            for panel, value in measured_at(model.encoder, seed).items():
                record(panel, series, layers, max(value, 1e-18))  # smaller values are rounding


def judge(results: Results) -> Verdict:
    first, *_, last = results.xs("gradient", "no residual")
    shallow, deep = (results.values("gradient", "no residual", layers) for layers in (first, last))
    ratios = [large / small for large, small in zip(deep, shallow, strict=True)]
    return Verdict(decide(above([0.01], ratios), above(ratios, [0.1])), {"layers": float(last)})
