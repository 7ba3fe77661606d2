"""Hard and soft attention: one position or a mean of all; a sample has no gradient, and its substitutes are noisy.

    soft             context = sum_s a_s m_s                 the gradient goes through the weights a
    hard, Gumbel     context = m_s, s ~ a                    the gradient of a softmax with noise in its place (biased)
    hard, REINFORCE  context = m_s, s ~ a                    (reward - baseline) d log a_s: no bias, high variance

A model is given pairs of a letter and a digit, and one letter; it must name the digit of that letter. We compare the
accuracy after equal training. The noise of a gradient is that of the scores' weights for one batch over many samples:

    noise = E |g - E g|^2 / |E g|^2

With a noise of 1 a gradient is as much noise as signal; soft attention has none. "Hard attention moves to a region of
fixed size" describes local attention rather (Luong et al. 2015); that of Xu et al. 2015 takes one position.
"""

import torch
from torch import Tensor, nn

from regard.attention.recurrent_attention import Global, HardGumbel, HardReinforce, Kind, SourceAttention
from regard.attention.scoring import General
from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toys import IGNORE, ToyTensors, fit_toy, generator_of, seeded
from regard.layers.embeddings import OutputProjection
from regard.losses.crossentropy import Loss, cross_entropy
from regard.losses.reinforce import reinforce

LETTERS, DIGITS, PAIRS, WIDTH = 12, 8, 6, 32
SAMPLES = 200
SOFT, GUMBEL, REINFORCE, MIXED = "soft", "hard, Gumbel", "hard, REINFORCE", "hard, REINFORCE, half soft"
NAMES = {
    SOFT: Text("soft", "软"),
    GUMBEL: Text("hard, Gumbel", "硬，Gumbel"),
    REINFORCE: Text("hard, REINFORCE", "硬，REINFORCE"),
    MIXED: Text("hard, REINFORCE, half soft", "硬，REINFORCE，一半软"),
}


def build_kind(name: str) -> Kind:
    """The kind of attention of this name."""
    if name == SOFT:
        return Global()
    return HardGumbel() if name == GUMBEL else HardReinforce(WIDTH, soft=0.5 if name == MIXED else 0.0)


class Lookup(nn.Module):
    """Attention of a letter to pairs of a letter and a digit, and a linear output."""

    def __init__(self, kind: Kind) -> None:
        super().__init__()
        self.letters, self.digits = nn.Embedding(LETTERS, WIDTH), nn.Embedding(DIGITS, WIDTH)
        self.attention = SourceAttention(General(WIDTH, WIDTH, WIDTH), kind)
        self.output = nn.Linear(WIDTH, DIGITS, bias=False)

    def forward(self, batch: ToyTensors) -> tuple[OutputProjection, Tensor]:
        """-> the projection to the digits (B, 1, DIGITS), and the weights (B, PAIRS)."""
        memory = self.letters(batch["letters"]) + self.digits(batch["digits"])  # (B, PAIRS, D)
        source = self.attention.prepare(memory, torch.full((len(memory),), PAIRS))
        found = self.attention(self.letters(batch["asked"]), source, 0)
        return OutputProjection(found.context, self.output.weight, samples=found.samples), found.weights[:, 0]


def pairs(generator: torch.Generator, size: int = 64) -> ToyTensors:
    """Different letters with random digits; the label is the digit of the letter that is asked for."""
    letters = torch.rand(size, LETTERS, generator=generator).argsort(dim=1)[:, :PAIRS]
    digits = torch.randint(DIGITS, (size, PAIRS), generator=generator)
    place = torch.randint(PAIRS, (size, 1), generator=generator)
    asked, labels = letters.gather(1, place), digits.gather(1, place)
    return {"letters": letters, "digits": digits, "asked": asked, "labels": labels}


def loss(model: nn.Module, batch: ToyTensors) -> Loss:
    """Cross-entropy, and the terms of REINFORCE where positions were sampled for it."""
    projection, _ = model(batch)
    found = cross_entropy(projection.logits(), batch["labels"], ignore=IGNORE)
    if projection.samples is None:
        return found
    return reinforce(found, projection, batch["labels"], strength=1.0, entropy=0.0, ignore=IGNORE)


def gradient_noise(model: Lookup, batch: ToyTensors, samples: int) -> float:
    """E |g - E g|^2 / |E g|^2 of the gradient of the scores' weights, over samples of the same batch."""
    weights = list(model.attention.scoring.parameters())
    gradients = torch.stack(
        [torch.autograd.grad(loss(model, batch).sum, weights)[0].flatten() for _ in range(samples)]
    ).double()  # (samples, weights)
    mean = gradients.mean(dim=0)
    variance = (gradients - mean).square().sum() / (samples - 1)
    signal = mean.square().sum() - variance / samples  # without the part that is noise
    return float(variance / signal.clamp(min=1e-12 * float(mean.square().sum())))


class HardOrSoft(Experiment):
    """Positions that are read, noise of the gradient and accuracy of soft and hard attention."""

    name = "hard-or-soft"
    topic = "recurrent"
    title = Text("Hard or soft attention?", "硬注意力还是软注意力？")
    questions = (
        Question(
            "003:10-13",
            Text("What is the difference between hard and soft attention?", "硬注意力与软注意力有什么区别？"),
            Text(
                "Hard: attention moves to one region of fixed size at a time. Soft: a weighted sum of all regions.",
                "hard：每次移动到一个固定大小的区域；soft：每次是所有区域的加权和。",
            ),
        ),
    )
    hypothesis = Text(
        "Hard attention reads one position and soft attention all; the gradient of hard attention is noisier.",
        "硬注意力只读一个位置，软注意力读所有位置；硬注意力的梯度噪声更大。",
    )
    varied = Text("how scores become weights, and how they learn", "分数如何变成权重，以及如何学习")
    measured = Text(
        "positions with weight, noise of the gradient before training, accuracy after training",
        "有权重的位置数、训练前梯度的噪声、训练后的准确率",
    )
    refuted_if = Text(
        "hard attention reads several positions, or its gradient is no noisier",
        "硬注意力读多个位置，或其梯度噪声并不更大",
    )
    panels = (
        Panel(
            "seen",
            Text("positions that are read in training", "训练时读取的位置"),
            Text("attention", "注意力"),
            Text("positions", "位置数"),
            kind="bars",
            names={**NAMES, "positions": Text("positions", "位置数")},
        ),
        Panel(
            "noise",
            Text("noise of the gradient before training", "训练前梯度的噪声"),
            Text("attention", "注意力"),
            Text("variance / signal", "方差 / 信号"),
            kind="bars",
            names={**NAMES, "noise": Text("noise", "噪声")},
        ),
        Panel(
            "accuracy",
            Text("accuracy over training", "训练过程中的准确率"),
            Text("steps", "步数"),
            Text("accuracy", "准确率"),
            names=NAMES,
        ),
    )
    papers = ("Xu et al. 2015, section 4", "Williams 1992", "Jang et al. 2017")
    seconds = 23

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        test = pairs(generator_of(seed, "test"), 1000)
        for name in NAMES:
            seeded(seed, "weights")
            model = Lookup(build_kind(name)).train()
            with torch.no_grad():
                weights = model(test)[1]
            record("seen", "positions", name, float((weights > 0).sum(dim=-1).double().mean()))
            batch = pairs(generator_of(seed, "noise"))
            record("noise", "noise", name, gradient_noise(model, batch, effort.pick(SAMPLES, 50)))
            for steps in effort.pick((25, 50, 100, 200), (25, 50)):
                seeded(seed, "weights")
                model = Lookup(build_kind(name))
                fit_toy(model, pairs, loss, steps=steps, rate=1e-2, seed=seed)
                with torch.no_grad():
                    found = model(test)[0].logits().argmax(dim=-1)
                record("accuracy", name, steps, float((found == test["labels"]).double().mean()))

    def judge(self, results: Results) -> Verdict:
        hard = (GUMBEL, REINFORCE)
        one = all(seen == 1 for name in hard for seen in results.values("seen", "positions", name))
        every = all(seen == PAIRS for seen in results.values("seen", "positions", SOFT))
        soft = results.values("noise", "noise", SOFT)
        noisier = all(above(results.values("noise", "noise", name), soft) for name in hard)
        quieter = any(above(soft, results.values("noise", "noise", name)) for name in hard)
        first, *_, last = results.xs("accuracy", SOFT)
        return Verdict(
            decide(one and every and noisier, not (one and every) or quieter),
            Text(
                "Soft attention reads {soft_seen:.0f} of {pairs:.0f} positions, hard attention {hard_seen:.0f}. The "
                "noise of the gradient over its signal is {soft_noise:.2g} for soft attention, {gumbel_noise:.2g} for "
                "Gumbel samples and {reinforce_noise:.2g} for REINFORCE. After {first:.0f} steps the accuracy is "
                "{soft_first:.0%}, {gumbel_first:.0%} and {reinforce_first:.0%}, after {last:.0f} steps "
                "{soft_last:.0%}, {gumbel_last:.0%} and {reinforce_last:.0%}.",
                "软注意力读 {pairs:.0f} 个位置中的 {soft_seen:.0f} 个，硬注意力读 {hard_seen:.0f} 个。"
                "梯度的噪声与信号之比，软注意力为 {soft_noise:.2g}，Gumbel 采样为 {gumbel_noise:.2g}，REINFORCE 为 "
                "{reinforce_noise:.2g}。{first:.0f} 步后的准确率分别为 {soft_first:.0%}、{gumbel_first:.0%} 和 "
                "{reinforce_first:.0%}，{last:.0f} 步后为 {soft_last:.0%}、{gumbel_last:.0%} 和 {reinforce_last:.0%}。",
            ),
            {
                "pairs": PAIRS,
                "soft_seen": results.mean("seen", "positions", SOFT),
                "hard_seen": results.mean("seen", "positions", REINFORCE),
                "soft_noise": results.mean("noise", "noise", SOFT),
                "gumbel_noise": results.mean("noise", "noise", GUMBEL),
                "reinforce_noise": results.mean("noise", "noise", REINFORCE),
                "first": float(first),
                "last": float(last),
                **{
                    f"{key}_{when}": results.mean("accuracy", name, steps)
                    for key, name in (("soft", SOFT), ("gumbel", GUMBEL), ("reinforce", REINFORCE))
                    for when, steps in (("first", first), ("last", last))
                },
            },
        )
