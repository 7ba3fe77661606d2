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
from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toys import build_tagger, generator_of, rectangle, seeded
from regard.models.text_encoder import TransformerEncoder

WORDS, SENTENCES, LENGTH = 16, 4, 16
SERIES: dict[str, JsonObject] = {
    "post-norm": {"norm": "post"},
    "pre-norm": {"norm": "pre"},
    "no residual": {"norm": "pre", "residual": False},
    "no norm": {"norm_kind": "none"},
    "neither": {"norm_kind": "none", "residual": False},
}
NAMES = {
    "post-norm": Text("residual, post-norm", "残差，后归一化"),
    "pre-norm": Text("residual, pre-norm", "残差，前归一化"),
    "no residual": Text("no residual, pre-norm", "无残差，前归一化"),
    "no norm": Text("residual, no norm", "残差，无归一化"),
    "neither": Text("no residual, no norm", "无残差，无归一化"),
}
SMALLEST = 1e-18
"""Smaller values are recorded as this one: they are rounding."""


def without_mean(x: Tensor) -> Tensor:
    """x (B, T, D) minus its mean over tokens."""
    return x - x.mean(dim=1, keepdim=True)


def measured_at(encoder: TransformerEncoder, seed: int) -> dict[str, float]:
    """The gradient at the input, the part of it that tells tokens apart, and the difference of tokens at the output."""
    encoder = encoder.double()
    tokens = rectangle(torch.randint(WORDS, (SENTENCES, LENGTH), generator=generator_of(seed, "words")))
    x = encoder.embed(tokens).detach().requires_grad_()
    h = encoder.final_norm(encoder.layers(x, encoder.pattern(tokens.layout)), tokens.layout)
    direction = torch.randn(h.shape, generator=generator_of(seed, "direction"), dtype=h.dtype)
    found = {"tokens": float(without_mean(h.detach()).norm() / h.detach().norm())}
    for panel, r in (("gradient", direction), ("apart", without_mean(direction))):
        (gradient,) = torch.autograd.grad((h * r).sum(), x, retain_graph=True)
        found[panel] = float(gradient.norm() / r.norm())
    return {panel: max(value, SMALLEST) for panel, value in found.items()}


class Depth(Experiment):
    """The gradient at the input, and the differences between tokens, over the number of layers."""

    name = "depth"
    topic = "layers"
    title = Text("Why residual connections?", "为什么需要残差连接？")
    questions = (
        Question(
            "001:186, 001:101-118, 000:130",
            Text("What are the residual connections for?", "残差结构有什么意义？"),
            Text(
                "Gradients vanish by repeated products; the sum of a residual prevents zero, so that deep networks "
                "train. "
                "At worst the layer below is kept.",
                "链式连乘使梯度消失；残差的相加避免出现 0，因此网络可以更深。再不济也保留了上一层的信息。",
            ),
        ),
    )
    hypothesis = Text(
        "Without residual connections the gradient at the input of a deep Transformer vanishes.",
        "没有残差连接时，深层 Transformer 输入处的梯度会消失。",
    )
    varied = Text("the number of layers; residual connections and norms", "层数；残差连接与归一化")
    measured = Text(
        "the gradient at the input, the part of it that tells tokens apart, and how much tokens differ, at "
        "initialisation",
        "初始化时输入处的梯度、其中区分各个词的部分，以及各个词之间的差异",
    )
    refuted_if = Text(
        "without residual connections the gradient of the deepest network is as large as that of the shallowest",
        "没有残差连接时，最深网络的梯度与最浅网络的一样大",
    )
    panels = (
        Panel(
            "gradient",
            Text("gradient at the input", "输入处的梯度"),
            Text("layers", "层数"),
            Text("relative size", "相对大小"),
            log="xy",
            names=NAMES,
        ),
        Panel(
            "apart",
            Text("its part that tells tokens apart", "其中区分各个词的部分"),
            Text("layers", "层数"),
            Text("relative size", "相对大小"),
            log="xy",
            names=NAMES,
        ),
        Panel(
            "tokens",
            Text("difference between tokens", "词与词之间的差异"),
            Text("layers", "层数"),
            Text("relative size", "相对大小"),
            log="xy",
            names=NAMES,
        ),
    )
    papers = ("He et al. 2015", "Xiong et al. 2020", "Dong et al. 2021")
    seconds = 6

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        for series, settings in SERIES.items():
            for layers in effort.pick((2, 4, 8, 16, 32, 48), (2, 4, 8, 16)):
                seeded(seed, "weights")
                model = build_tagger(WORDS, WORDS, layers=layers, d_model=64, d_ff=128, **settings)
                assert isinstance(model.encoder, TransformerEncoder)
                for panel, value in measured_at(model.encoder, seed).items():
                    record(panel, series, layers, value)

    def judge(self, results: Results) -> Verdict:
        layers = results.xs("gradient", "no residual")
        first, last = layers[0], layers[-1]

        def ratios(panel: str, series: str) -> list[float]:
            """The deepest network's value relative to the shallowest one's, of each seed."""
            pairs = zip(results.values(panel, series, last), results.values(panel, series, first), strict=True)
            return [deep / shallow for deep, shallow in pairs]

        whole = ratios("gradient", "no residual")
        return Verdict(
            decide(above([0.01], whole), above(whole, [0.1])),
            Text(
                "With {layers:.0f} layers and norms, but no residual connections, the gradient at the input is "
                "{whole:.2g}: it does not vanish (without norms either it is {neither:.1g}). Its part that tells "
                "tokens "
                "apart does: {apart:.1g}, with residual connections {apart_residual:.2g}. Tokens differ by "
                "{tokens:.1g} "
                "of their size, with residual connections by {tokens_residual:.2g}.",
                "{layers:.0f} 层、有归一化而没有残差时，输入处的梯度为 {whole:.2g}，并没有消失（连归一化也没有时为 "
                "{neither:.1g}）。消失的是区分各个词的部分：{apart:.1g}，有残差时为 {apart_residual:.2g}。"
                "各个词的差异只占其大小的 {tokens:.1g}，有残差时为 {tokens_residual:.2g}。",
            )
            if min(whole) > 0.1
            else Text(
                "Without residual connections the gradient at the input of {layers:.0f} layers is {whole:.2g}, with "
                "them {residual:.2g}.",
                "没有残差时，{layers:.0f} 层网络输入处的梯度为 {whole:.2g}，有残差时为 {residual:.2g}。",
            ),
            {
                "layers": float(last),
                "whole": results.mean("gradient", "no residual", last),
                "residual": results.mean("gradient", "pre-norm", last),
                "neither": results.mean("gradient", "neither", last),
                "apart": results.mean("apart", "no residual", last),
                "apart_residual": results.mean("apart", "pre-norm", last),
                "tokens": results.mean("tokens", "no residual", last),
                "tokens_residual": results.mean("tokens", "pre-norm", last),
            },
        )
