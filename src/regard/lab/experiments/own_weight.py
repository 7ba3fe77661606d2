"""The diagonal of the attention weights: a token attends most to itself only where queries and keys are equal.

With Q = K = x the score of a token with itself is x_i^T x_i = |x_i|^2, and for random vectors no other product
x_i^T x_j is as large. But attention has projections: (W_Q x_i)^T (W_K x_i) is a random number before training, as all
other scores are. Training makes a head attend to what the task needs; the token itself comes through the residual
connection anyway.
"""

from collections.abc import Callable
from functools import partial
from pydoc_data.topics import topics

import torch
from torch import Tensor

from regard.attention.attend import attend
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toys import (
    IGNORE,
    ToyTensors,
    build_tagger,
    fit_toy,
    generator_of,
    previous_words,
    rectangle,
    seeded,
    tagging_loss,
)
from regard.models.text_encoder import EncoderWithHead, TransformerEncoder

WORDS, LENGTH, WIDTH = 32, 16, 32
EQUAL, UNTRAINED = "Q = K = x", "not trained"
OWN, PREVIOUS, MASKED = "own word", "previous word", "masked letters"
LETTERS = " abcdefghijklmnopqrstuvwxyz"
MASK = len(LETTERS)
SHARE = "share"


def own(generator: torch.Generator, size: int = 32) -> ToyTensors:
    """Random words; the label of a word is the word itself."""
    ids = torch.randint(WORDS, (size, LENGTH), generator=generator)
    return {"ids": ids, "labels": ids}


def prose() -> Tensor:
    """The letters of Python's own documentation, without anything else."""
    text = " ".join(topics[name] for name in sorted(topics)).lower()
    words = "".join(letter if letter in LETTERS else " " for letter in text).split()
    return torch.tensor([LETTERS.index(letter) for letter in " ".join(words)])


def masked(letters: Tensor) -> Callable[..., ToyTensors]:
    """Pieces of the text, with a sixth of their letters masked; the labels are those letters."""

    def batch(generator: torch.Generator, size: int = 32) -> ToyTensors:
        start = torch.randint(len(letters) - LENGTH, (size, 1), generator=generator)
        ids = letters[start + torch.arange(LENGTH)]
        hidden = torch.rand(size, LENGTH, generator=generator) < 1 / 6
        return {"ids": ids.masked_fill(hidden, MASK), "labels": ids.masked_fill(~hidden, IGNORE)}

    return batch


def diagonal_share(weights: Tensor) -> float:
    """Share of the rows of weights (..., T, T) whose largest weight is on the diagonal."""
    return float((weights.argmax(dim=-1) == torch.arange(weights.size(-1))).float().mean())


def model_share(model: EncoderWithHead, ids: Tensor) -> float:
    """The share in all layers and heads of a model."""
    assert isinstance(model.encoder, TransformerEncoder)
    weights = model.encoder.record_attention(rectangle(ids))
    assert weights is not None
    return diagonal_share(weights)


def tagger() -> EncoderWithHead:
    return build_tagger(max(WORDS, MASK + 1), max(WORDS, MASK), layers=2, d_model=WIDTH)


def measure(seed: int, effort: Effort, record: Record) -> None:
    generator = generator_of(seed, "test")
    x = torch.randn(100, LENGTH, WIDTH, generator=generator)
    record("share", SHARE, EQUAL, diagonal_share(attend(x, x, x)[1]))
    seeded(seed, "weights", UNTRAINED)
    record("share", SHARE, UNTRAINED, model_share(tagger(), own(generator, 200)["ids"]))
    previous = partial(previous_words, words=WORDS, length=LENGTH)
    tasks: dict[str, Callable[..., ToyTensors]] = {OWN: own, PREVIOUS: previous, MASKED: masked(prose())}
    for name, batch in tasks.items():
        seeded(seed, "weights", name)
        model = tagger()
        steps = effort.pick(500 if name == MASKED else 250, 60)
        fit_toy(model, batch, tagging_loss, steps=steps, rate=3e-3, seed=seed)
        record("share", SHARE, name, model_share(model, batch(generator, size=200)["ids"]))


def judge(results: Results) -> Verdict:
    trained = [y for name in (OWN, PREVIOUS, MASKED) for y in results.values("share", SHARE, name)]
    return Verdict(decide(above(trained, [0.5]), above([0.5], trained)), {"chance": 1 / LENGTH})
