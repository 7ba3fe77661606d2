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

from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toys import (
    ToyTensors,
    accuracy,
    build_tagger,
    fit_toy,
    generator_of,
    rectangle,
    seeded,
    tagging_loss,
)
from regard.layers.blocks import FeedForward
from regard.models.text_encoder import EncoderWithHead

WORDS, LENGTH, WIDTH = 12, 8, 32
LONG, SHORT = "long", "short"
TRAININGS = {LONG: Text("long training", "训练较久"), SHORT: Text("short training", "训练较短")}
ACTIVATIONS = {"relu": Text("ReLU", "ReLU"), "gelu": Text("GELU", "GELU")}
DEAD_WIDTH = 256


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
    model(rectangle(ids))
    handle.remove()
    return float((seen[0].flatten(0, -2).amax(dim=0) <= 0).float().mean())


@torch.no_grad()
def change_by_others(model: EncoderWithHead, seed: int) -> float:
    """The largest change of the network's output at position 0 when all other positions change: 0."""
    network = feed_forward_of(model)
    x = torch.randn(4, LENGTH, WIDTH, generator=generator_of(seed, "states"))
    other = torch.cat([x[:, :1], torch.randn(4, LENGTH - 1, WIDTH, generator=generator_of(seed, "others"))], dim=1)
    return float((network(x)[:, 0] - network(other)[:, 0]).abs().max())


class FeedForwardWidth(Experiment):
    """Accuracy over the inner width, dead units, and the share of parameters."""

    name = "feed-forward"
    topic = "layers"
    title = Text("What the feed-forward network does", "前馈网络的作用")
    questions = (
        Question(
            "001:189, 003:183-185, 004:502-515",
            Text(
                "What is the feed-forward network, and which activation has it?",
                "简单描述前馈神经网络？使用了什么激活函数？",
            ),
            Text(
                "An MLP with one hidden layer and ReLU; attention extracts relations in time, the MLP works on "
                "features.",
                "含一个隐藏层的 MLP，用 ReLU；注意力提取时序信息，MLP 提取特征维度的信息。",
            ),
        ),
        Question(
            "003:185",
            Text("Are its weights the same at every position?", "意思是每个位置权重一样？"),
            Text("– (asked with a question mark)", "–（笔记里打了问号）"),
        ),
    )
    hypothesis = Text(
        "A layer without a feed-forward network cannot learn a table of pairs; with a wide one it can.",
        "没有前馈网络的层学不会成对查表；有较宽的前馈网络就可以。",
    )
    varied = Text("the inner width of the feed-forward network, and its activation", "前馈网络的内部宽度与激活函数")
    measured = Text(
        "accuracy; share of units that are never active; change at a position when others change; share of parameters",
        "准确率；从不激活的单元比例；其他位置改变时某位置的变化；参数占比",
    )
    refuted_if = Text("without a feed-forward network the accuracy is as high", "没有前馈网络时准确率同样高")
    panels = (
        Panel(
            "accuracy",
            Text("a table of pairs of words", "由两个词查表"),
            Text("inner width", "内部宽度"),
            Text("accuracy", "准确率"),
            names=TRAININGS,
        ),
        Panel(
            "dead",
            Text("units that are never active", "从不激活的单元"),
            Text("activation", "激活函数"),
            Text("share of units", "单元比例"),
            kind="bars",
            names=ACTIVATIONS,
        ),
        Panel(
            "share",
            Text("share of the layer's parameters", "占该层参数的比例"),
            Text("inner width", "内部宽度"),
            Text("share", "比例"),
            names={"feed-forward": Text("feed-forward network", "前馈网络")},
        ),
        Panel(
            "position",
            Text("position 0 when all others change", "其他位置全部改变时的位置 0"),
            Text("network", "网络"),
            Text("largest change", "最大变化"),
            kind="bars",
            names={"feed-forward": Text("feed-forward network", "前馈网络")},
        ),
    )
    papers = ("Vaswani et al. 2017, section 3.3", "Hendrycks & Gimpel 2016")
    seconds = 48

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        test = table_words(generator_of(seed, "test"), 500)
        for width in effort.pick((0, 16, 64, 256), (0, 256)):
            for training, steps in ((SHORT, effort.pick(100, 30)), (LONG, effort.pick(400, 80))):
                model = self.trained(seed, width, "relu", steps, 5e-3)
                record("accuracy", training, width, accuracy(model, test))
            if width:
                layer = sum(p.numel() for p in model.encoder.layers[0].parameters())  # type: ignore[index, union-attr]
                inner = sum(p.numel() for p in feed_forward_of(model).parameters())
                record("share", "feed-forward", width, inner / layer)
                record("position", "change", "feed-forward", change_by_others(model, seed))
        for activation in ACTIVATIONS:
            model = self.trained(seed, DEAD_WIDTH, activation, steps=effort.pick(150, 20), rate=5e-2)
            record("dead", "share", activation, dead_share(model, test["ids"]))

    def trained(self, seed: int, width: int, activation: str, steps: int, rate: float) -> EncoderWithHead:
        """One layer, trained on the table."""
        seeded(seed, "weights")
        model = build_tagger(WORDS, WORDS, d_ff=width, activation=activation, positions="relative")
        fit_toy(model, table_words, tagging_loss, steps=steps, rate=rate, warmup=10, schedule="linear", seed=seed)
        return model

    def judge(self, results: Results) -> Verdict:
        widths = results.xs("accuracy", LONG)
        none, wide = (results.values("accuracy", LONG, width) for width in (widths[0], widths[-1]))
        return Verdict(
            decide(above(wide, none, by=0.1), above(none, [value - 0.02 for value in wide])),
            Text(
                "Without a feed-forward network the layer knows {none:.0%} of the answers, with an inner width of "
                "{width:.0f} {wide:.0%}; after a short training {none_short:.0%} and {wide_short:.0%}. That network "
                "has {share:.0%} of the layer's parameters. Its output at a "
                "position changes by {change:g} when all other positions change.",
                "没有前馈网络时，该层答对 {none:.0%}；内部宽度为 {width:.0f} 时答对 {wide:.0%}；训练较短时为 "
                "{none_short:.0%} 和 {wide_short:.0%}。前馈网络占该层参数的 "
                "{share:.0%}。其他位置全部改变时，前馈网络在一个位置上的输出变化为 {change:g}。",
            ),
            {
                "none": results.mean("accuracy", LONG, widths[0]),
                "wide": results.mean("accuracy", LONG, widths[-1]),
                "none_short": results.mean("accuracy", SHORT, widths[0]),
                "wide_short": results.mean("accuracy", SHORT, widths[-1]),
                "width": float(widths[-1]),
                "share": results.mean("share", "feed-forward", widths[-1]),
                "change": results.mean("position", "change", "feed-forward"),
            },
        )
