"""Padding: a score of minus infinity before the softmax makes a sentence independent of what stands beside it.

Sentences of a batch are padded to the longest. Three ways to treat the padding as keys:

    masked before    e_ij = -inf at padding, then softmax: its weight is exp(-inf) = 0, and the others sum to 1
    masked after     softmax over all, then weights of 0 at padding: the others sum to less than 1
    not masked       padding is attended to like a word

The output of a sentence must not change when it is padded. We compare it with that of the sentence alone, in float64,
and let a model that was trained without padding read padded sentences.
"""

from functools import partial

import torch
from torch import Tensor

from regard.attention.attend import attend
from regard.attention.layouts import Padded, PaddedPattern
from regard.attention.scored_attention import AttentionFunction
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toys import build_tagger, fit_toy, generator_of, previous_words, rectangle, seeded, tagging_loss
from regard.models.text_encoder import EncoderWithHead, TransformerEncoder

WORDS, LENGTH = 16, 8
PAD = WORDS
WAYS = BEFORE, AFTER, NONE = "masked before the softmax", "masked after the softmax", "not masked"
PRECISION = torch.finfo(torch.float64).eps
"""Differences below the precision of float64 are recorded as this number, for the logarithmic axis."""


class MaskedAfter(PaddedPattern):
    """A pattern that sets the weights of padding to zero after the softmax."""

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, dropout: float, function: AttentionFunction | None = None
    ) -> Tensor:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # (B, H, T, K)
        _, weights = attend(q, k, v)
        return (weights * self.mask @ v).transpose(1, 2)


previous = partial(previous_words, words=WORDS, length=LENGTH)


@torch.no_grad()
def outputs(model: EncoderWithHead, ids: Tensor, padding: int, way: str) -> Tensor:
    """The outputs for sentences ids (B, T) with `padding` positions after them -> (B, T, WORDS)."""
    assert isinstance(model.encoder, TransformerEncoder)
    padded = torch.cat([ids, ids.new_full((len(ids), padding), PAD)], dim=1)
    real = Padded(torch.full((len(ids),), padded.size(1) if way == NONE else ids.size(1)), padded.size(1))
    pattern = (MaskedAfter if way == AFTER else PaddedPattern)(real, real, causal=False)
    return model.head(model.encoder.encode(rectangle(padded), pattern=pattern))[:, : ids.size(1)]


def measure(seed: int, effort: Effort, record: Record) -> None:
    seeded(seed, "weights")
    model = build_tagger(WORDS + 1, WORDS)
    fit_toy(model, partial(previous, size=64), tagging_loss, steps=effort.pick(300, 120), rate=3e-3, seed=seed)
    model.double()
    test = previous(generator_of(seed, "test"), size=200)
    alone = outputs(model, test["ids"], 0, BEFORE)
    for way in WAYS:
        for padding in (1, 2, 4, 8, 16, 32, 64):
            output = outputs(model, test["ids"], padding, way)
            record("change", way, padding, max(float((output - alone).abs().max()), PRECISION))
            record("accuracy", way, padding, float((output.argmax(dim=-1) == test["labels"]).double().mean()))


def judge(results: Results) -> Verdict:
    before, after, none = (results.values("change", way, 64) for way in WAYS)
    exact = 1e-9
    return Verdict(
        decide(
            above([exact], before) and above(after, [exact]) and above(none, [exact]),
            above(before, [exact]) or above([exact], none),
        ),
        {"padding": 64, "rounding": max(before), "largest": max(after)},
    )
