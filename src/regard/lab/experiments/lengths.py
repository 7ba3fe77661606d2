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
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toys import IGNORE, POSITIONS, ToyTensors, generator_of

WORDS, DISTANCE, SHORTEST, LONGEST = 16, 3, 4, 10
TESTED = (4, 7, 10, 12, 16, 24, 32)
FAR = 16
"""The position beyond the trained ones that the verdict compares."""


def sentences(generator: torch.Generator, size: int = 32, length: int | None = None) -> ToyTensors:
    """Random words, of a random length that is trained unless it is given; a label is the word three places before."""
    drawn = int(torch.randint(SHORTEST, LONGEST + 1, (1,), generator=generator))
    ids = torch.randint(WORDS, (size, length or drawn), generator=generator)
    labels = ids.roll(DISTANCE, dims=1)
    labels[:, :DISTANCE] = IGNORE
    return {"ids": ids, "labels": labels}


def measure(seed: int, effort: Effort, record: Record) -> None:
    for kind in effort.pick((*POSITIONS, "learned + relative"), ("sinusoidal", "learned", "relative")):
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


def judge(results: Results) -> Verdict:
    sinusoidal, learned, relative = (
        [results.values("accuracy", kind, position) for position in (LONGEST, FAR)]
        for kind in ("sinusoidal", "learned", "relative")
    )
    known = all(above(kind[0], [0.9]) for kind in (sinusoidal, learned))
    unknown = all(above(relative[1], kind[1], by=0.3) for kind in (sinusoidal, learned))
    differ = any(above(*pair, by=0.3) or above(*pair[::-1], by=0.3) for pair in zip(sinusoidal, learned, strict=True))
    return Verdict(decide(known and unknown and not differ, differ), {"far": FAR, "guess": 1 / WORDS})
