"""Positions beyond the trained length: a vector for each place is unknown there, a distance is not.

A causal model names the word three places earlier. It is trained on sentences of four to ten words, and tested at
later places. A distance is the same at every place: relative positions learn one vector for the distance 3, rotary
positions turn queries and keys by angles whose difference depends on the distance. Absolute positions, learned or
sinusoidal, are vectors of places. A learned one beyond the tenth was never trained. A sinusoidal one is defined, but
the layers have never seen it. ALiBi only lowers scores with the distance, so it prefers the nearest words and cannot
select the third; without positions only the causal mask tells places apart.
"""

import torch

from regard.lab import toys
from regard.lab.experiment import Effort, Record, Results, Verdict, decide, equivalent, paired
from regard.lab.toys import IGNORE, POSITIONS, ToyTensors, generator_of

WORDS, DISTANCE, SHORTEST, LONGEST = 16, 3, 4, 10
TESTED = (4, 7, 10, 12, 16, 24, 32)
BEYOND = TESTED[3:]
"""The tested positions beyond the trained ones; the verdict takes the mean over them."""


def sentences(generator: torch.Generator, size: int = 32, length: int | None = None) -> ToyTensors:
    """Random words, of a random length that is trained unless it is given; a label is the word three places before."""
    drawn = int(torch.randint(SHORTEST, LONGEST + 1, (1,), generator=generator))
    ids = torch.randint(WORDS, (size, length or drawn), generator=generator)
    labels = ids.roll(DISTANCE, dims=1)
    labels[:, :DISTANCE] = IGNORE
    return {"ids": ids, "labels": labels}


def measure(seed: int, effort: Effort, record: Record) -> None:
    for kind in effort.pick((*POSITIONS, "learned + relative"), ("sinusoidal", "learned", "rotary", "relative")):
        toys.seeded(seed, "weights")
        absolute, _, relative = kind.partition(" + ")
        model = toys.build_tagger(WORDS, WORDS, positions=absolute, relative_positions=relative or "none", causal=True)
        steps = effort.pick(500, 150)
        toys.fit_toy(
            model, sentences, toys.tagging_loss, steps=steps, rate=1e-2, warmup=20, schedule="linear", seed=seed
        )
        test = sentences(generator_of(seed, "test"), 500, max(TESTED))
        with torch.no_grad():
            right = model(toys.rectangle(test["ids"])).argmax(dim=-1) == test["labels"]
        for position in TESTED:
            record("accuracy", kind, position, float(right[:, position - 1].float().mean()))
        beyond = right[:, [position - 1 for position in BEYOND]].float().mean()
        record("beyond", "accuracy", kind, float(beyond))


def judge(results: Results) -> Verdict:
    sinusoidal, learned = (results.values("accuracy", kind, LONGEST) for kind in ("sinusoidal", "learned"))
    beyond, unknown, relative = (
        results.values("beyond", "accuracy", kind) for kind in ("sinusoidal", "learned", "relative")
    )
    differ = paired(sinusoidal, learned, 0.02) or paired(learned, sinusoidal, 0.02)
    return Verdict(
        decide(equivalent(sinusoidal, learned), differ),
        {"longest": LONGEST, "guess": 1 / WORDS},
        {
            "beyond": decide(equivalent(beyond, unknown), paired(beyond, unknown) or paired(unknown, beyond)),
            "relative": decide(
                paired(relative, beyond, by=0.3) and paired(relative, unknown, by=0.3),
                paired(beyond, relative) or paired(unknown, relative),
            ),
        },
    )
