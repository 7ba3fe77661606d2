"""Vanishing gradients: a fresh GRU forgets like an RNN; it remembers once its update gate z is near one.

The derivative of the last state by the token k steps before is a product of k matrices:

    RNN    dh_t / dh_{t-1} = diag(1 - h_t^2) U             each factor shrinks a vector, since tanh' <= 1
                             diag(h_t (1 - h_t)) U         with a sigmoid in place of tanh: sigmoid' <= 1/4
    GRU    dh_t / dh_{t-1} = diag(z) + (1 - z) (...) + ..  z = 1: the factor is 1, nothing vanishes

With biases of zero z is about 1/2, so half of the gradient is lost with every token. A bias b_z adds to the input of
the sigmoid: z is about 0.88 for b_z = 2 and 0.98 for b_z = 4. Training on a task that needs the first token moves z.

The gradient is measured for random directions v: the norm of d(v h_T) / d x_{T-k}, relative to that of k = 0.
"""

from functools import partial

import torch
from torch import Tensor, nn

from regard.attention.layouts import Tokens
from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toys import ToyTensors, accuracy, fit_toy, generator_of, seeded, tagging_loss
from regard.layers.recurrent import RecurrentLayer

SYMBOLS, WIDTH = 8, 48
RNN, SIGMOID, GRU = "RNN", "sigmoid RNN", "GRU"
GRU_2, GRU_4 = "GRU, bias of z = 2", "GRU, bias of z = 4"
CELLS = {RNN: ("rnn", 0.0), GRU: ("gru", 0.0), GRU_2: ("gru", 2.0), GRU_4: ("gru", 4.0)}
WORDS = {"rnn": RNN, "gru": GRU, "gru_2": GRU_2, "gru_4": GRU_4}
BEFORE, AFTER = "before", "after"


class Reader(nn.Module):
    """A recurrent layer that names a symbol after the last token."""

    def __init__(self, cell: str, bias_of_z: float) -> None:
        super().__init__()
        self.embedding, self.layer = nn.Embedding(SYMBOLS, WIDTH // 3), RecurrentLayer(cell, WIDTH // 3, WIDTH)
        self.output = nn.Linear(WIDTH, SYMBOLS)
        if cell == "gru":
            nn.init.constant_(self.layer.matrices()[2].data.chunk(3)[1], bias_of_z)  # r, z, n

    def forward(self, tokens: Tokens) -> Tensor:
        """ids (B, T) -> logits (B, SYMBOLS)."""
        return self.output(self.last(self.embedding(tokens.ids)))

    def last(self, x: Tensor) -> Tensor:
        """Embeddings (B, T, E) -> the last state (B, K)."""
        return self.layer(x)[0][:, -1]


def recall(generator: torch.Generator, distance: int, size: int = 32) -> ToyTensors:
    """Random symbols; the label is the first one, `distance` tokens before the last."""
    ids = torch.randint(SYMBOLS, (size, distance + 1), generator=generator)
    return {"ids": ids, "labels": ids[:, 0]}


def gradients(model: Reader, ids: Tensor, generator: torch.Generator) -> Tensor:
    """The norm of the gradient of the last state by the token k steps before, for k = 0 .. T - 1, relative to k = 0."""
    x = model.embedding(ids).detach().requires_grad_()
    h = model.last(x)
    directions = torch.randn(h.shape, generator=generator)
    (gradient,) = torch.autograd.grad((h * directions).sum(), x)
    norms = gradient.norm(dim=-1).mean(dim=0).flip(0)
    return norms / norms[0]


def gradient_panel(key: str, title: Text) -> Panel:
    """A panel of gradients over the distance."""
    return Panel(
        key,
        title,
        Text("tokens between", "相隔的词元数"),
        Text("relative gradient", "相对梯度"),
        log="y",
        names={
            RNN: Text("RNN, tanh", "RNN，tanh"),
            SIGMOID: Text("RNN, sigmoid", "RNN，sigmoid"),
            GRU: Text("GRU, bias of z = 0", "GRU，z 的偏置 = 0"),
            GRU_2: Text("GRU, bias of z = 2", "GRU，z 的偏置 = 2"),
            GRU_4: Text("GRU, bias of z = 4", "GRU，z 的偏置 = 4"),
        },
    )


class Vanishing(Experiment):
    """Gradient over distance before and after training, for an RNN and GRUs with three biases of z."""

    name = "vanishing"
    topic = "recurrent"
    title = Text("Do the gradients of a GRU vanish?", "GRU 的梯度会消失吗？")
    questions = (
        Question(
            "004:262-265",
            Text("Is phi of an RNN tanh or a sigmoid?", "RNN 的激活函数用 tanh 还是 sigmoid？"),
            Text("Either is possible.", "两者都可以。"),
        ),
        Question(
            "004:323",
            Text("Do gates help against vanishing gradients?", "门控能缓解梯度消失吗？"),
            Text(
                "Yes; if the update gate is near one for all tokens, the first state reaches the end.",
                "能；如果所有时间步的更新门都接近于 1，起始时刻的旧隐状态就能保留到序列末尾。",
            ),
        ),
    )
    hypothesis = Text(
        "If z is near one, the gradient of a GRU reaches far tokens that the gradient of an RNN does not reach, and it "
        "learns to recall them.",
        "z 接近一时，GRU 的梯度能到达 RNN 的梯度到不了的远处词元，并能学会回忆它们。",
    )
    varied = Text("the cell, the bias of z before training, and training", "单元类型、训练前 z 的偏置，以及是否训练")
    measured = Text(
        "gradient of the last state by earlier tokens, relative to the last token; accuracy of recalling the first one",
        "最后状态对前面词元的梯度（相对于最后一个词元）；回忆第一个词元的准确率",
    )
    refuted_if = Text(
        "a larger bias of z lowers the gradient, or the RNN recalls better",
        "增大 z 的偏置反而减小梯度，或 RNN 回忆得更好",
    )
    panels = (
        gradient_panel(BEFORE, Text("before training", "训练前")),
        gradient_panel(AFTER, Text("after training to recall the first token", "训练回忆第一个词元之后")),
        Panel(
            "accuracy",
            Text("recalling the first token", "回忆第一个词元"),
            Text("cell", "单元"),
            Text("accuracy", "准确率"),
            kind="bars",
            names=gradient_panel("", Text("", "")).names,
        ),
    )
    papers = ("Hochreiter 1991", "Bengio et al. 1994", "Cho et al. 2014", "Jozefowicz et al. 2015, section 2.2")
    seconds = 40

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        distance = effort.pick(24, 12)
        batch = partial(recall, distance=distance)
        seeded(seed, "weights")
        self.record_gradients(Reader("rnn-sigmoid", 0.0), BEFORE, SIGMOID, batch, seed, record)
        for name, (cell, bias) in CELLS.items():
            seeded(seed, "weights")
            model = Reader(cell, bias)
            self.record_gradients(model, BEFORE, name, batch, seed, record)
            fit_toy(model, batch, tagging_loss, steps=effort.pick(500, 90), rate=3e-3, seed=seed)
            self.record_gradients(model, AFTER, name, batch, seed, record)
            test = batch(generator_of(seed, "test"), size=500)
            record("accuracy", "accuracy", name, accuracy(model, test))

    def record_gradients(
        self, model: Reader, panel: str, name: str, batch: partial[ToyTensors], seed: int, record: Record
    ) -> None:
        """Record the gradient at every distance."""
        generator = generator_of(seed, "gradient")
        for k, value in enumerate(gradients(model, batch(generator, size=200)["ids"], generator).tolist()):
            record(panel, name, k, value)

    def judge(self, results: Results) -> Verdict:
        far = max(float(x) for x in results.xs(BEFORE, RNN))
        fresh = {name: results.values(BEFORE, name, far) for name in CELLS}
        right = {name: results.values("accuracy", "accuracy", name) for name in CELLS}
        by_bias = above(fresh[GRU_4], fresh[GRU_2]) and above(fresh[GRU_2], fresh[GRU])
        helps = above(fresh[GRU_4], fresh[RNN]) and above(right[GRU_4], right[RNN])
        return Verdict(
            decide(by_bias and helps, above(fresh[GRU], fresh[GRU_4]) or above(right[RNN], right[GRU_4])),
            Text(
                "Over {far:.0f} tokens the gradient of a fresh RNN falls to {rnn:.1g} ({sigmoid:.1g} with a sigmoid), "
                "that "
                "of a fresh GRU to {gru:.1g}; with a bias of z of two it is {gru_2:.1g}, of four {gru_4:.1g}. After "
                "the same training "
                "the RNN recalls {rnn_right:.0%} of the first tokens, the GRU {gru_right:.0%}, with a bias of two "
                "{gru_2_right:.0%}, of four {gru_4_right:.0%}.",
                "相隔 {far:.0f} 个词元时，未训练的 RNN 的梯度降到 {rnn:.1g}（用 sigmoid 时为 {sigmoid:.1g}），"
                "未训练的 GRU 降到 {gru:.1g}；"
                "z 的偏置为二时是 {gru_2:.1g}，为四时是 {gru_4:.1g}。同样训练之后，RNN 回忆第一个词元的准确率为 "
                "{rnn_right:.0%}，GRU 为 {gru_right:.0%}，偏置为二时 {gru_2_right:.0%}，为四时 {gru_4_right:.0%}。",
            ),
            {"far": far, "sigmoid": results.mean(BEFORE, SIGMOID, far)}
            | {word: results.mean(BEFORE, name, far) for word, name in WORDS.items()}
            | {f"{word}_right": results.mean("accuracy", "accuracy", name) for word, name in WORDS.items()},
        )
