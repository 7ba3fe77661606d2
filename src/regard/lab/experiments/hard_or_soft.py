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
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toys import IGNORE, ToyTensors, fit_toy, generator_of, seeded
from regard.layers.embeddings import OutputProjection
from regard.losses.crossentropy import Loss, cross_entropy
from regard.losses.reinforce import reinforce

LETTERS, DIGITS, PAIRS, WIDTH = 12, 8, 6, 32
SOFT, GUMBEL, REINFORCE, MIXED = "soft", "hard, Gumbel", "hard, REINFORCE", "hard, REINFORCE, half soft"
KINDS = (SOFT, GUMBEL, REINFORCE, MIXED)
MEASURES = {"seen": "positions", "noise": "noise"}


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
        attended = self.attention(self.letters(batch["asked"]), source, 0)
        projection = OutputProjection(attended.context, self.output.weight, samples=attended.samples)
        return projection, attended.weights[:, 0]


def pairs(generator: torch.Generator, size: int = 64) -> ToyTensors:
    """Different letters with random digits; the label is the digit of the letter that is asked for."""
    letters = torch.rand(size, LETTERS, generator=generator).argsort(dim=1)[:, :PAIRS]
    digits = torch.randint(DIGITS, (size, PAIRS), generator=generator)
    index = torch.randint(PAIRS, (size, 1), generator=generator)
    asked, labels = letters.gather(1, index), digits.gather(1, index)
    return {"letters": letters, "digits": digits, "asked": asked, "labels": labels}


def loss(model: nn.Module, batch: ToyTensors) -> Loss:
    """Cross-entropy, and the terms of REINFORCE where positions were sampled for it."""
    projection, _ = model(batch)
    nll = cross_entropy(projection.logits(), batch["labels"], ignore=IGNORE)
    if projection.samples is None:
        return nll
    return reinforce(nll, projection, batch["labels"], strength=1.0, entropy=0.0, ignore=IGNORE)


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


def measure(seed: int, effort: Effort, record: Record) -> None:
    test = pairs(generator_of(seed, "test"), 1000)
    for name in KINDS:
        seeded(seed, "weights")
        model = Lookup(build_kind(name)).train()
        with torch.no_grad():
            weights = model(test)[1]
        record("seen", "positions", name, float((weights > 0).sum(dim=-1).double().mean()))
        batch = pairs(generator_of(seed, "noise"))
        record("noise", "noise", name, gradient_noise(model, batch, effort.pick(200, 50)))
        for steps in effort.pick((25, 50, 100, 200), (25, 50)):
            seeded(seed, "weights")
            model = Lookup(build_kind(name))
            fit_toy(model, pairs, loss, steps=steps, rate=1e-2, seed=seed)
            with torch.no_grad():
                predicted = model(test)[0].logits().argmax(dim=-1)
            record("accuracy", name, steps, float((predicted == test["labels"]).double().mean()))


def judge(results: Results) -> Verdict:
    seen, noise = ({kind: results.values(panel, key, kind) for kind in KINDS} for panel, key in MEASURES.items())
    as_said = {*seen[GUMBEL], *seen[REINFORCE]} == {1} and {*seen[SOFT]} == {PAIRS}
    noisier = all(above(noise[kind], noise[SOFT]) for kind in (GUMBEL, REINFORCE))
    quieter = any(above(noise[SOFT], noise[kind]) for kind in (GUMBEL, REINFORCE))
    return Verdict(decide(as_said and noisier, not as_said or quieter), {"pairs": PAIRS})
