"""The factor sqrt(d) of the embeddings: it makes words as long as positions, if their rows have length one.

    x = sqrt(d) E[w] + PE(p),   |PE(p)| = sqrt(d / 2)

With E ~ N(0, 1/d), which tied output weights need, a row has the length 1 whatever d is, and sqrt(d) E[w] the length
sqrt(d). With E ~ N(0, 1) a row has the length sqrt(d) by itself: then no factor is needed. So the factor belongs to the
initialisation, not to large d as such. Two small tasks show what it does in training: a word's own answer (content),
and the word at the mirrored position (place).
"""

from functools import partial

import torch
from torch import nn

from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide, equivalent, paired
from regard.lab.toys import ToyTensors, build_tagger, fit_toy, generator_of, reversed_words, seeded, tagging_loss
from regard.layers.embeddings import TokenEmbedding
from regard.layers.positions import sinusoid
from regard.models.text_encoder import TransformerEncoder

WORDS, LENGTH, WIDTH = 16, 8, 64
SCALED, UNSCALED, WIDE = "factor", "no factor", "no factor, N(0, 1)"


def words(generator: torch.Generator, size: int = 32) -> ToyTensors:
    """Random words; each is its own label."""
    ids = torch.randint(WORDS, (size, LENGTH), generator=generator)
    return {"ids": ids, "labels": ids}


@torch.no_grad()
def length_of_rows(series: str, width: int, seed: int) -> float:
    """The mean length of an embedded word."""
    seeded(seed, "embedding", width)
    embedding = TokenEmbedding(WORDS, width, scale=None if series == SCALED else 1.0)
    if series == WIDE:
        nn.init.normal_(embedding.weight)
    return float(embedding(torch.arange(WORDS)).norm(dim=1).mean())


mirrored = partial(reversed_words, words=WORDS, length=LENGTH)


def measure(seed: int, effort: Effort, record: Record) -> None:
    for width in (16, 64, 256, 1024):
        for series in (SCALED, UNSCALED, WIDE):
            record("length", series, width, length_of_rows(series, width, seed))
        record("length", "positions", width, float(sinusoid(torch.arange(LENGTH), width).norm(dim=1).mean()))
    for series in (SCALED, UNSCALED, WIDE):
        for task, batch, steps in (("content", words, effort.pick(40, 20)), ("place", mirrored, effort.pick(150, 40))):
            seeded(seed, "weights")
            scaled = series == SCALED
            model = build_tagger(WORDS, WORDS, d_model=WIDTH, scale_embeddings=scaled, positions="sinusoidal")
            if series == WIDE:
                assert isinstance(model.encoder, TransformerEncoder)
                nn.init.normal_(model.encoder.words.weight)
            fit_toy(model, batch, tagging_loss, steps=steps, rate=1e-3, seed=seed)
            with torch.no_grad():
                loss = tagging_loss(model, batch(generator_of(seed, "test"), size=500))
            record("loss", series, task, float(loss.nll / loss.count))


def judge(results: Results) -> Verdict:
    short = above(results.values("length", "positions", 1024), results.values("length", UNSCALED, 1024))
    scaled, unscaled, wide = (results.values("loss", series, "content") for series in (SCALED, UNSCALED, WIDE))
    place, bare = (results.values("loss", series, "place") for series in (SCALED, UNSCALED))
    return Verdict(
        decide(short and paired(unscaled, scaled), not short or paired(scaled, unscaled)),
        {"width": 1024},
        {
            "place": decide(paired(bare, place), paired(place, bare)),
            "always": decide(paired(wide, scaled, by=0.1), equivalent(wide, scaled, within=0.1)),
        },
    )
