"""Distance: attention recalls the first of n symbols for every n, recurrent networks only for a small one.

A model reads n random symbols and must name the first one at the end. In a recurrent network the symbol passes n - 1
state updates, h_t = f(h_{t-1}, x_t). On the way back the gradient is a product of n - 1 Jacobians dh_t / dh_{t-1}: it
fades, and the network does not find out that the first symbol matters. An LSTM adds to its cell,
c_t = f_t c_{t-1} + ..., with a forget gate near 1 at the start, and gets farther. In attention the path from the first
symbol to the last position is one weighted sum, for any n. That the path is short does not mean that n plays no role:
the softmax has to find one position among n.
"""

from functools import partial

import torch
from torch import Tensor, nn

from regard.attention.layouts import Padded, Tokens
from regard.attention.multihead import MultiHeadAttention
from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toys import ToyTensors, accuracy, fit_toy, generator_of, seeded, tagging_loss
from regard.layers.positions import sinusoid
from regard.layers.recurrent import Recurrent

SYMBOLS, WIDTH, STEPS = 8, 32, 200
LEARNED = 0.1
"""A model has learned the task when its loss is below this nll."""
ATTENTION = "attention"
NAMES = {
    "rnn": Text("RNN", "RNN"),
    "gru": Text("GRU", "GRU"),
    "lstm": Text("LSTM", "LSTM"),
    ATTENTION: Text("attention", "注意力"),
}


class RecurrentReader(nn.Module):
    """A recurrent layer; the answer is read from its last state."""

    def __init__(self, cell: str) -> None:
        super().__init__()
        self.symbols = nn.Embedding(SYMBOLS, WIDTH)
        self.layer = Recurrent(cell, WIDTH, 2 * WIDTH)
        self.output = nn.Linear(2 * WIDTH, SYMBOLS)

    def forward(self, tokens: Tokens) -> Tensor:
        """ids (B, T) -> logits (B, SYMBOLS)."""
        states, _ = self.layer(self.symbols(tokens.ids))
        return self.output(states[:, -1])


class AttentionReader(nn.Module):
    """Attention of the last position to all positions, with one head."""

    def __init__(self) -> None:
        super().__init__()
        self.symbols = nn.Embedding(SYMBOLS, WIDTH)
        self.attention = MultiHeadAttention(WIDTH, 1)
        self.output = nn.Linear(WIDTH, SYMBOLS)

    def forward(self, tokens: Tokens) -> Tensor:
        """ids (B, T) -> logits (B, SYMBOLS)."""
        x = self.symbols(tokens.ids) + sinusoid(tokens.layout.positions, WIDTH)
        last, keys = (Padded(torch.full((len(x),), size), size) for size in (1, x.size(1)))  # one query a sentence
        return self.output(self.attention(x[:, -1:], x, last.pattern(keys))[:, 0])


def symbols(generator: torch.Generator, length: int, size: int = 32) -> ToyTensors:
    """Random symbols; the label is the first of them."""
    ids = torch.randint(SYMBOLS, (size, length), generator=generator)
    return {"ids": ids, "labels": ids[:, 0]}


class Recall(Experiment):
    """Accuracy and training time over the distance, for three recurrent networks and attention."""

    name = "recall"
    topic = "recurrent"
    title = Text("Does distance matter?", "距离有影响吗？")
    questions = (
        Question(
            "002:30, 003:150, 000:262",
            Text(
                "What does it mean that attention does not care about distance?",
                "注意力“不需要考虑距离”是什么意思？",
            ),
            Text(
                "In an RNN far dependencies pass many steps, and the farther, the less likely they are captured. In "
                "self-attention every path has length one, whatever the distance.",
                "RNN 要经过若干时间步才能联系起来，距离越远，有效捕获的可能性越小；"
                "self-attention 无论相距多远，路径长度都是一。",
            ),
        ),
    )
    hypothesis = Text(
        "Attention recalls the first symbol at any distance; recurrent networks fail when it is far.",
        "无论距离多远，注意力都能回忆起第一个符号；距离远时循环网络会失败。",
    )
    varied = Text("the number of symbols, and the kind of network", "符号的个数，以及网络的种类")
    measured = Text(
        "accuracy of the first symbol after equal training; steps until the loss is low",
        "同样训练后第一个符号的准确率；损失降低所需的步数",
    )
    refuted_if = Text(
        "attention falls with the distance as well, or a recurrent network does not fall",
        "注意力也随距离下降，或循环网络不下降",
    )
    panels = (
        Panel(
            "accuracy",
            Text("recalling the first of n symbols", "回忆 n 个符号中的第一个"),
            Text("symbols n", "符号个数 n"),
            Text("accuracy", "准确率"),
            names=NAMES,
        ),
        Panel(
            "steps",
            Text("steps until it is learned, at most all", "学会所需的步数（最多为全部步数）"),
            Text("symbols n", "符号个数 n"),
            Text("steps", "步数"),
            names=NAMES,
        ),
    )
    papers = ("Vaswani et al. 2017, section 4", "Hochreiter & Schmidhuber 1997")
    seconds = 60

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        for length in effort.pick((5, 10, 15, 20, 40), (5, 30)):
            for kind in NAMES:
                seeded(seed, "weights", kind)
                model = AttentionReader() if kind == ATTENTION else RecurrentReader(kind)
                batch = partial(symbols, length=length)
                steps = effort.pick(STEPS, 60)
                losses = fit_toy(model, batch, tagging_loss, steps=steps, rate=effort.pick(3e-3, 1e-2), seed=seed)
                below = [number for number, loss in enumerate(losses, 1) if loss < LEARNED]
                record("accuracy", kind, length, accuracy(model, batch(generator_of(seed, "test"), size=500)))
                record("steps", kind, length, below[0] * steps / len(losses) if below else steps)

    def judge(self, results: Results) -> Verdict:
        lengths = results.xs("accuracy", ATTENTION)
        near, far = lengths[0], lengths[-1]
        attention = results.values("accuracy", ATTENTION, far)
        recurrent = [y for kind in NAMES if kind != ATTENTION for y in results.values("accuracy", kind, far)]
        return Verdict(
            decide(above(attention, recurrent, by=0.5), above([0.5], attention) or above(recurrent, attention)),
            Text(
                "Among {near:.0f} symbols the RNN recalls the first in {rnn_near:.0%} of all cases, the GRU in "
                "{gru_near:.0%}, the LSTM in {lstm_near:.0%} and attention in {attention_near:.0%}; among {far:.0f} "
                "it is {rnn_far:.0%}, {gru_far:.0%}, {lstm_far:.0%} and {attention_far:.0%}. Attention needs "
                "{steps_near:.0f} steps to learn the near task and {steps_far:.0f} for the far one.",
                "{near:.0f} 个符号时，RNN 回忆第一个符号的准确率为 {rnn_near:.0%}，GRU 为 {gru_near:.0%}，LSTM 为 "
                "{lstm_near:.0%}，注意力为 {attention_near:.0%}；{far:.0f} 个符号时分别为 {rnn_far:.0%}、"
                "{gru_far:.0%}、{lstm_far:.0%} 和 {attention_far:.0%}。注意力学会近的任务需要 {steps_near:.0f} 步，"
                "远的需要 {steps_far:.0f} 步。",
            ),
            {
                "near": float(near),
                "far": float(far),
                "steps_near": results.mean("steps", ATTENTION, near),
                "steps_far": results.mean("steps", ATTENTION, far),
                **{f"{kind}_near": results.mean("accuracy", kind, near) for kind in NAMES},
                **{f"{kind}_far": results.mean("accuracy", kind, far) for kind in NAMES},
            },
        )
