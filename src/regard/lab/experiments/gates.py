"""The gates of a GRU, watched: the update gate z keeps the state on noise, the reset gate r drops it at a sign.

A sequence holds keys (numbers that are added), noise (to be ignored) and reset signs (the sum starts again at zero).
After every token the model names the sum, modulo four. So each kind of token needs another treatment of the state h:

    r = sigmoid(..)   z = sigmoid(..)   n = tanh(W x + r * (U h))   h' = (1 - z) * n + z * h

    noise    keep h                      large z
    key      compute n from x and h      small z, large r
    sign     compute n from x alone      small z, small r: with r = 0, n is an MLP of x

The notes reset before the product, n = tanh(W x + U (r * h)), as Cho et al. 2014; torch after it. Both are trained, and
GRUs with r = 1 or with z = 1/2 for all tokens. A trained GRU whose gate is set to a constant afterwards shows what the
model uses the gate for; a GRU trained without the gate shows whether it could do without it.
"""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.layouts import Tokens
from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toys import ToyTensors, accuracy, fit_toy, generator_of, rectangle, seeded, tagging_loss
from regard.layers.recurrent import RecurrentLayer

KEYS = NOISES = 4
SIGN = KEYS + NOISES
WIDTH = 32
FAR = 8
"""Noise tokens from which on a distance counts as long."""
AFTER, BEFORE, NO_RESET, NO_UPDATE = "reset after the product", "reset before the product", "r = 1", "z = 1/2"
KEY, NOISE, RESET = "key", "noise", "reset sign"


class GatedReader(nn.Module):
    """A GRU with an output after every token, whose gates can be read or set to a constant."""

    def __init__(self, before: bool = False) -> None:
        super().__init__()
        self.embedding, self.layer = nn.Embedding(SIGN + 1, WIDTH // 2), RecurrentLayer("gru", WIDTH // 2, WIDTH)
        self.output = nn.Linear(WIDTH, KEYS)
        self.candidate: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor] = reset_before if before else reset_after
        self.r: float | None = None
        self.z: float | None = None

    def forward(self, tokens: Tokens) -> Tensor:
        """ids (B, T) -> logits (B, T, KEYS)."""
        return self.output(self.read(tokens.ids)[0])

    def read(self, ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """ids (B, T) -> h, r and z after each token, (B, T, K) each."""
        _, U, _, d = self.layer.matrices()
        (h,) = self.layer.initial_state(len(ids))
        (U_rz, U_n), (d_rz, d_n) = (tensor.split((2 * WIDTH, WIDTH)) for tensor in (U, d))
        states, resets, updates = [], [], []
        for x in self.layer.inputs(self.embedding(ids)).unbind(1):
            x_rz, x_n = x.split((2 * WIDTH, WIDTH), dim=-1)
            r, z = (x_rz + F.linear(h, U_rz, d_rz)).sigmoid().chunk(2, dim=-1)
            r = r if self.r is None else torch.full_like(r, self.r)
            z = z if self.z is None else torch.full_like(z, self.z)
            h = (1 - z) * (x_n + self.candidate(h, r, U_n, d_n)).tanh() + z * h
            states.append(h)
            resets.append(r)
            updates.append(z)
        return torch.stack(states, dim=1), torch.stack(resets, dim=1), torch.stack(updates, dim=1)


def reset_after(h: Tensor, r: Tensor, U: Tensor, d: Tensor) -> Tensor:
    """r * (U h + d): torch."""
    return r * F.linear(h, U, d)


def reset_before(h: Tensor, r: Tensor, U: Tensor, d: Tensor) -> Tensor:
    """U (r * h) + d: the notes, Cho et al. 2014."""
    return F.linear(r * h, U, d)


def sums(generator: torch.Generator, size: int = 64, length: int = 24, noise: float = 0.68) -> ToyTensors:
    """Keys, noise and reset signs; the labels are the sums of the keys since the last sign, modulo KEYS."""
    kind = torch.rand(size, length, generator=generator)
    keys = torch.randint(KEYS, (size, length), generator=generator)
    noises = torch.randint(KEYS, SIGN, (size, length), generator=generator)
    ids = torch.where(kind < noise, noises, torch.where(kind < 1 - (1 - noise) / 3, keys, SIGN))
    total, labels = torch.zeros(size, dtype=torch.long), []
    for x in ids.unbind(1):
        total = torch.where(x < KEYS, (total + x) % KEYS, torch.where(x == SIGN, 0, total))
        labels.append(total)
    return {"ids": ids, "labels": torch.stack(labels, dim=1)}


def is_kind(ids: Tensor, kind: str) -> Tensor:
    """True at the tokens of a kind."""
    return {KEY: ids < KEYS, NOISE: (ids >= KEYS) & (ids < SIGN), RESET: ids == SIGN}[kind]


def distances(ids: Tensor) -> Tensor:
    """The number of noise tokens since the last key or sign, (B, T); from the start if there was none."""
    count, found = torch.zeros(len(ids), dtype=torch.long), []
    for noise in is_kind(ids, NOISE).unbind(1):
        count = torch.where(noise, count + 1, 0)
        found.append(count)
    return torch.stack(found, dim=1)


ORDER = "004:308-312"
"""The place of the question about the order of reset and product: the better one answers it."""


class Gates(Experiment):
    """Mean gates by kind of token, and accuracy without a gate."""

    name = "gates"
    topic = "recurrent"
    title = Text("What do the gates of a GRU do?", "GRU 的门控在做什么？")
    questions = (
        Question(
            "004:276-286, 004:308-326",
            Text("What are the reset gate and the update gate for?", "重置门和更新门各有什么用？"),
            Text(
                "The update gate keeps the state over useless tokens (long-term dependencies), the reset gate drops it "
                "at breaks (short-term dependencies).",
                "更新门在无用的词元上保留旧状态（长期依赖），重置门在逻辑中断处丢弃旧状态（短期依赖）。",
            ),
        ),
        Question(
            ORDER,
            Text("Is the state reset before or after the product?", "先重置隐状态再做乘法，还是先做乘法再重置？"),
            Text("Before: tanh(X W + (R * H) W + b).", "先重置：tanh(X W + (R ⊙ H) W + b)。"),
        ),
    )
    hypothesis = Text(
        "A trained GRU has a larger z on noise than on keys and signs, and a smaller r at signs than on noise.",
        "训练好的 GRU 在噪声上的 z 大于在关键词和重置符上的 z，在重置符上的 r 小于在噪声上的 r。",
    )
    varied = Text(
        "the kind of token; the equation of the candidate; one gate set to a constant, in training or afterwards",
        "词元种类；候选状态的公式；把一个门设为常数（训练时或训练后）",
    )
    measured = Text(
        "mean of the gates over units, and accuracy of the sum since the last sign",
        "各单元门值的平均，以及自上一个重置符以来的和的准确率",
    )
    refuted_if = Text(
        "z on noise is not larger than on keys, or r at signs is not smaller than on noise",
        "噪声上的 z 不比关键词上的大，或重置符上的 r 不比噪声上的小",
    )
    panels = (
        Panel(
            "gates",
            Text("mean gates of a trained GRU", "训练好的 GRU 的平均门值"),
            Text("token", "词元"),
            Text("gate", "门值"),
            kind="bars",
            names={
                "z": Text("z (keeps the state)", "z（保留状态）"),
                "r": Text("r (resets if small)", "r（小则重置）"),
                KEY: Text("key", "关键词"),
                NOISE: Text("noise", "噪声"),
                RESET: Text("reset sign", "重置符"),
            },
        ),
        Panel(
            "cut",
            Text("without a gate", "去掉一个门"),
            Text("GRU", "GRU"),
            Text("accuracy", "准确率"),
            kind="bars",
            names={
                "trained so": Text("trained so", "这样训练"),
                "set afterwards": Text("set after training", "训练后才这样设"),
                AFTER: Text("reset after the product (torch)", "先乘后重置（torch）"),
                BEFORE: Text("reset before the product (notes)", "先重置后乘（笔记）"),
            },
        ),
        Panel(
            "distance",
            Text("accuracy over the noise since the last key or sign", "准确率随噪声长度的变化"),
            Text(
                "noise tokens since the last key or sign; the last point: this number or more",
                "距上一个关键词或重置符的噪声词元数；最后一点：不少于此数",
            ),
            Text("accuracy", "准确率"),
            names={
                AFTER: Text("reset after the product (torch)", "先乘后重置（torch）"),
                BEFORE: Text("reset before the product (notes)", "先重置后乘（笔记）"),
                NO_RESET: Text("trained with r = 1", "以 r = 1 训练"),
                NO_UPDATE: Text("trained with z = 1/2", "以 z = 1/2 训练"),
            },
        ),
    )
    papers = ("Cho et al. 2014, equations 5 to 8", "Chung et al. 2014")
    seconds = 40

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        size, length, steps = effort.pick((64, 24, 300), (32, 12, 70))
        test = sums(generator_of(seed, "test"), 300, length)
        sparse = sums(generator_of(seed, "sparse"), 300, 2 * length, noise=0.85)
        for name in (AFTER, BEFORE, NO_RESET, NO_UPDATE):
            seeded(seed, "weights")
            model = GatedReader(before=name == BEFORE)
            model.r, model.z = 1.0 if name == NO_RESET else None, 0.5 if name == NO_UPDATE else None
            fit_toy(
                model, partial(sums, size=size, length=length), tagging_loss, steps=steps, rate=1e-2, seed=seed,
                log_every=steps,
            )  # fmt: skip
            record("cut", "trained so", name, accuracy(model, test))
            self.record_distances(model, name, sparse, record)
            if name == AFTER:
                self.record_gates(model, test, record)

    def record_distances(self, model: GatedReader, name: str, test: ToyTensors, record: Record) -> None:
        """Accuracy by the noise since the last key or sign."""
        with torch.no_grad():
            right = model(rectangle(test["ids"])).argmax(dim=-1) == test["labels"]
        distance = distances(test["ids"])
        for x in range(FAR):
            record("distance", name, x, float(right[distance == x].float().mean()))
        record("distance", name, FAR, float(right[distance >= FAR].float().mean()))

    def record_gates(self, model: GatedReader, test: ToyTensors, record: Record) -> None:
        """Mean gates by kind of token, and the accuracy with a gate that is set to a constant now."""
        with torch.no_grad():
            _, r, z = model.read(test["ids"])
        for kind in (KEY, NOISE, RESET):
            record("gates", "z", kind, float(z[is_kind(test["ids"], kind)].mean()))
            record("gates", "r", kind, float(r[is_kind(test["ids"], kind)].mean()))
        model.r = 1.0
        record("cut", "set afterwards", NO_RESET, accuracy(model, test))
        model.r, model.z = None, 0.5
        record("cut", "set afterwards", NO_UPDATE, accuracy(model, test))

    def judge(self, results: Results) -> Verdict:
        gates = {(gate, kind): results.values("gates", gate, kind) for gate in "zr" for kind in (KEY, NOISE, RESET)}
        keeps = above(gates["z", NOISE], gates["z", KEY]) and above(gates["z", NOISE], gates["z", RESET])
        resets = above(gates["r", NOISE], gates["r", RESET])
        before, after = (results.values("cut", "trained so", name) for name in (BEFORE, AFTER))
        wrong = above(gates["z", KEY], gates["z", NOISE]) or above(gates["r", RESET], gates["r", NOISE])
        return Verdict(
            decide(keeps and resets, wrong),
            Text(
                "z is {z_noise:.2f} on noise, {z_key:.2f} on keys and {z_sign:.2f} at signs; r is {r_noise:.2f} on "
                "noise and {r_sign:.2f} at signs. Setting r to one afterwards lowers the accuracy from {full:.0%} to "
                "{cut_r:.0%}, a constant z to {cut_z:.0%}. Trained without r it is {no_r:.0%}, without z {no_z:.0%}; "
                "with the reset before the product {before:.0%}.",
                "z 在噪声上为 {z_noise:.2f}，在关键词上为 {z_key:.2f}，在重置符上为 {z_sign:.2f}；"
                "r 在噪声上为 {r_noise:.2f}，在重置符上为 {r_sign:.2f}。训练后把 r 设为一，准确率从 {full:.0%} 降到 "
                "{cut_r:.0%}；把 z 设为常数则降到 {cut_z:.0%}。从头训练时，没有 r 为 {no_r:.0%}，没有 z 为 {no_z:.0%}；"
                "先重置后乘为 {before:.0%}。",
            ),
            {
                **{
                    f"{gate}_{word}": results.mean("gates", gate, kind)
                    for gate in "zr"
                    for word, kind in (("key", KEY), ("noise", NOISE), ("sign", RESET))
                },
                "full": results.mean("cut", "trained so", AFTER),
                "before": results.mean("cut", "trained so", BEFORE),
                "cut_r": results.mean("cut", "set afterwards", NO_RESET),
                "cut_z": results.mean("cut", "set afterwards", NO_UPDATE),
                "no_r": results.mean("cut", "trained so", NO_RESET),
                "no_z": results.mean("cut", "trained so", NO_UPDATE),
            },
            {ORDER: decide(*(above(*pair) for pair in ((before, after), (after, before))))},
        )
