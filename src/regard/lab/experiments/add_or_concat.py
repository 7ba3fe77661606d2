"""Positions: added to the embeddings, or concatenated with them.

A Transformer layer needs vectors of the model's width D. So a concatenation [x; p] of embedding and position needs a
linear map W of 2 D to D numbers. Its upper half multiplies the embedding and its lower half the position:

    [x; p] W = x W_x + p W_p

The concatenation is a sum too, of two projections. The plain sum x + p is the case W_x = W_p = I. The two can compute
the same, but concatenation has 2 D^2 weights more, and they can place words and positions in different directions from
the first steps on. A sum with a wider feed-forward layer has as many weights as the concatenation and is compared too.
"""

from functools import partial

import torch
from torch import nn

from regard.lab import toys
from regard.lab.experiment import Effort, Record, Results, Verdict, decide
from regard.lab.toys import accuracy, generator_of, reversed_words
from regard.layers.positions import Concatenated

WORDS, LENGTH, WIDTH = 16, 12, 32
LOG_EVERY = 10
SETTINGS = {"sum": ("add", 64), "wide sum": ("add", 96), "concatenation": ("concat", 64)}
"""How positions are combined, and the width of the feed-forward layers."""


@torch.no_grad()
def difference(seed: int) -> float:
    """Largest difference of [x; p] W and x W_x + p W_p in float64, for random numbers of size about one."""
    toys.seeded(seed, "identity")
    split = Concatenated(WIDTH).double()
    whole = nn.Linear(2 * WIDTH, WIDTH, bias=False).double()
    whole.weight.data = torch.cat([split.word.weight, split.position.weight], dim=1)
    x, p = torch.randn(2, LENGTH, WIDTH, generator=generator_of(seed, "vectors"), dtype=torch.float64)
    return float((whole(torch.cat([x, p], dim=1)) - split(x, p)).abs().max())


def measure(seed: int, effort: Effort, record: Record) -> None:
    record("difference", "difference", "float64", difference(seed))
    batch = partial(reversed_words, words=WORDS, length=LENGTH, size=64)
    for positions in effort.pick(("sinusoidal", "learned"), ("sinusoidal",)):
        for name, (combine, d_ff) in SETTINGS.items():
            toys.seeded(seed, "weights")
            model = toys.build_tagger(
                WORDS, WORDS, d_model=WIDTH, d_ff=d_ff, positions=positions, combine=combine, max_positions=LENGTH
            )
            steps = effort.pick(250, 130)
            losses = toys.fit_toy(
                model, batch, toys.tagging_loss, steps=steps, rate=3e-3, seed=seed, log_every=LOG_EVERY
            )
            learnt = next((index for index, loss in enumerate(losses) if loss < 0.5), len(losses) - 1)
            record("weights", name, positions, sum(weight.numel() for weight in model.parameters()))
            record("steps", name, positions, (learnt + 1) * LOG_EVERY)
            record("accuracy", name, positions, accuracy(model, batch(generator_of(seed, "test"), size=300)))
            if positions == "sinusoidal":
                for index, loss in enumerate(losses):
                    record("loss", name, (index + 1) * LOG_EVERY, loss)


def judge(results: Results) -> Verdict:
    kinds = results.xs("accuracy", "sum")
    least = min(min(results.values("accuracy", name, kind)) for name in SETTINGS for kind in kinds)
    apart = max(results.values("difference", "difference", "float64"))
    decided = decide(apart < 1e-12 and least > 0.95, apart > 1e-6 or least < 0.5)
    return Verdict(decided, {"apart": apart, "least": least})
