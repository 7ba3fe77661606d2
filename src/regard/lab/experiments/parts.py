"""The parts of an encoder: what each contributes, seen by leaving it out.

An encoder layer has two sublayers, self-attention and a feed-forward network, each inside of a residual connection with
a norm; positions are added to the embeddings. The task needs most of them: every word is a digit, and its label is its
sum with the digit to its left, modulo five. Attention brings the left digit, positions tell which one is left, and the
sum modulo five is no linear function. Two pre-norm layers are trained as a whole, and with one part left out.
"""

import torch

from regard.files import JsonObject
from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toys import ToyTensors, accuracy, build_tagger, fit_toy, generator_of, seeded, tagging_loss

DIGITS, LENGTH = 5, 8
WHOLE = "whole"
PARTS: dict[str, JsonObject] = {
    "attention": {"self_attention": False},
    "feed-forward": {"d_ff": 0},
    "norm": {"norm_kind": "none"},
    "residual": {"residual": False},
    "positions": {"positions": "none"},
}
NAMES = {
    WHOLE: Text("nothing left out", "完整模型"),
    "attention": Text("no attention", "去掉注意力"),
    "feed-forward": Text("no feed-forward", "去掉前馈层"),
    "norm": Text("no norm", "去掉归一化"),
    "residual": Text("no residual", "去掉残差"),
    "positions": Text("no positions", "去掉位置"),
}


def sums(generator: torch.Generator, size: int = 32) -> ToyTensors:
    """Random digits on a circle; the label is the sum with the left neighbour, modulo DIGITS."""
    ids = torch.randint(DIGITS, (size, LENGTH), generator=generator)
    return {"ids": ids, "labels": (ids + ids.roll(1, dims=1)) % DIGITS}


class Parts(Experiment):
    """Accuracy of a two-layer encoder without one of its parts."""

    name = "parts"
    topic = "layers"
    title = Text("Leave one part out", "去掉一个部件会怎样")
    questions = (
        Question(
            "001:182",
            Text("What does the encoder of a Transformer consist of?", "大概讲一下 Transformer 的 Encoder 模块？"),
            Text("–", "–"),
        ),
    )
    hypothesis = Text(
        "Without attention or without residual connections the encoder learns nothing; other parts cost less.",
        "去掉注意力或残差连接后，编码器什么也学不会；去掉其他部件的损失较小。",
    )
    varied = Text("the part that is left out", "去掉的部件")
    measured = Text("accuracy of the sum of every digit and its left neighbour", "每个数字与其左邻之和（取模）的准确率")
    refuted_if = Text(
        "without attention or residual connections the encoder is better than without another part",
        "去掉注意力或残差连接的编码器比去掉另一部件的更好",
    )
    panels = (
        Panel(
            "accuracy",
            Text("one part left out", "去掉一个部件"),
            Text("model", "模型"),
            Text("accuracy", "准确率"),
            kind="bars",
            names=NAMES,
        ),
    )
    papers = ("Vaswani et al. 2017, section 3.1",)
    seconds = 50

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        for name, without in {WHOLE: {}, **PARTS}.items():
            seeded(seed, "weights")
            settings: JsonObject = {"layers": 2, "d_ff": 64, **without}
            model = build_tagger(DIGITS, DIGITS, **settings)
            steps = effort.pick(400, 60)
            fit_toy(model, sums, tagging_loss, steps=steps, rate=5e-3, warmup=20, schedule="linear", seed=seed)
            record("accuracy", "accuracy", name, accuracy(model, sums(generator_of(seed, "test"), 500)))

    def judge(self, results: Results) -> Verdict:
        needed, others = ("attention", "residual"), ("feed-forward", "norm", "positions")
        values = {name: results.values("accuracy", "accuracy", name) for name in (WHOLE, *PARTS)}
        least = all(above(values[other], values[name], by=0.05) for name in needed for other in others)
        better = any(above(values[name], values[other]) for name in needed for other in others)
        learned = above(values[WHOLE], [0.9])  # a part costs nothing in a model that has not learned the task
        means = {name.replace("-", ""): results.mean("accuracy", "accuracy", name) for name in (WHOLE, *PARTS)}
        return Verdict(
            decide(least and learned, better and learned),
            Text(
                "The whole encoder reaches {whole:.0%}. Without attention it reaches {attention:.0%}, without residual "
                "connections {residual:.0%}, without positions {positions:.0%}, without feed-forward layers "
                "{feedforward:.0%}, without norms {norm:.0%}. Guessing gives {guess:.0%}.",
                "完整的编码器准确率为 {whole:.0%}。去掉注意力为 {attention:.0%}，去掉残差为 {residual:.0%}，"
                "去掉位置为 {positions:.0%}，去掉前馈层为 {feedforward:.0%}，去掉归一化为 {norm:.0%}。"
                "随机猜测为 {guess:.0%}。",
            ),
            {**means, "guess": 1 / DIGITS},
        )
