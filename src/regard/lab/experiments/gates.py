"""The gates of a GRU, watched: the update gate z keeps the state on noise, the reset gate r drops it at a sign.

A sequence holds keys (numbers that are added), noise (to be ignored) and reset signs (the sum starts again at zero).
After every token the model names the sum, modulo four. So each kind of token needs another treatment of the state h:

    r = sigmoid(..)   z = sigmoid(..)   n = tanh(W x + r * (U h))   h' = (1 - z) * n + z * h

    noise    keep h                      large z
    key      compute n from x and h      small z, large r
    sign     compute n from x alone      small z, small r: with r = 0, n is an MLP of x

Cho et al. 2014 reset before the product, n = tanh(W x + U (r * h)); torch resets after it. Both are trained, and
GRUs with r = 1 or with z = 1/2 for all tokens. A trained GRU whose gate is set to a constant afterwards shows what the
model uses the gate for; a GRU trained without the gate shows whether it could do without it.
"""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.layouts import Tokens
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide, equivalent, paired
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
    """U (r * h) + d: Cho et al. 2014."""
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
    return {KEY: ids < KEYS, NOISE: (ids >= KEYS) & (ids < SIGN), RESET: ids == SIGN}[kind]


def distances(ids: Tensor) -> Tensor:
    """The number of noise tokens since the last key or sign, (B, T); from the start if there was none."""
    count, counts = torch.zeros(len(ids), dtype=torch.long), []
    for noise in is_kind(ids, NOISE).unbind(1):
        count = torch.where(noise, count + 1, 0)
        counts.append(count)
    return torch.stack(counts, dim=1)


def measure(seed: int, effort: Effort, record: Record) -> None:
    size, length, steps = effort.pick((64, 24, 300), (32, 12, 70))
    test = sums(generator_of(seed, "test"), 300, length)
    sparse = sums(generator_of(seed, "sparse"), 300, 2 * length, noise=0.85)
    distance = distances(sparse["ids"])
    for name in (AFTER, BEFORE, NO_RESET, NO_UPDATE):
        seeded(seed, "weights")
        model = GatedReader(before=name == BEFORE)
        model.r, model.z = 1.0 if name == NO_RESET else None, 0.5 if name == NO_UPDATE else None
        batch = partial(sums, size=size, length=length)
        fit_toy(model, batch, tagging_loss, steps=steps, rate=1e-2, seed=seed, log_every=steps)
        record("cut", "trained so", name, accuracy(model, test))
        with torch.no_grad():
            right = model(rectangle(sparse["ids"])).argmax(dim=-1) == sparse["labels"]
        for x in range(FAR + 1):
            selected = distance == x if x < FAR else distance >= FAR
            record("distance", name, x, float(right[selected].float().mean()))
        if name == AFTER:
            record_gates(model, test, record)


def record_gates(model: GatedReader, test: ToyTensors, record: Record) -> None:
    """Record the mean gates by kind of token, and the accuracy with a gate set to a constant after training."""
    with torch.no_grad():
        _, r, z = model.read(test["ids"])
    for kind in (KEY, NOISE, RESET):
        record("gates", "z", kind, float(z[is_kind(test["ids"], kind)].mean()))
        record("gates", "r", kind, float(r[is_kind(test["ids"], kind)].mean()))
    model.r = 1.0
    record("cut", "set afterwards", NO_RESET, accuracy(model, test))
    model.r, model.z = None, 0.5
    record("cut", "set afterwards", NO_UPDATE, accuracy(model, test))


def judge(results: Results) -> Verdict:
    z, r = ([results.values("gates", gate, kind) for kind in (KEY, NOISE, RESET)] for gate in "zr")
    keeps = above(z[1], z[0]) and above(z[1], z[2])
    before, after = (results.values("cut", "trained so", name) for name in (BEFORE, AFTER))
    without = [results.values("cut", "trained so", name) for name in (NO_RESET, NO_UPDATE)]
    return Verdict(
        decide(keeps and above(r[1], r[2]), above(z[0], z[1]) or above(r[2], r[1])),
        findings={
            "order": decide(equivalent(before, after), paired(before, after, 0.02) or paired(after, before, 0.02)),
            "reset": decide(paired(after, without[0], by=0.02), equivalent(after, without[0])),
            "update": decide(paired(after, without[1], by=0.02), equivalent(after, without[1])),
        },
    )
