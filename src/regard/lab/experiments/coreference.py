"""What "it" refers to: attention links it to the right noun, in some heads, though nothing tells it to.

    The animal didn't cross the street because it was too tired.      it = the animal
    The animal didn't cross the street because it was too wide.       it = the street

A small grammar makes such sentences: one noun that lives and one that does not, in any order, and an adjective that
fits one of them. The model must name the noun at "it". We look at how much attention "it" pays to the right noun, and
then forbid it to look there. Attention is the basis for the link and no guarantee: heads divide the work (one may look
at nouns that live and yield to the adjective otherwise), and a noun may also reach "it" through other words.
"""

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from regard.attention.layouts import Padded, PaddedPattern
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toys import IGNORE, ToyTensors, build_tagger, fit_toy, generator_of, rectangle, seeded, tagging_loss
from regard.models.text_encoder import EncoderWithHead, TransformerEncoder

LIVING = ["animal", "dog", "cat", "horse", "child", "woman", "farmer", "bird"]
THINGS = ["street", "river", "field", "bridge", "road", "lake", "garden", "wall"]
ADJECTIVES = (["tired", "hungry", "afraid", "sleepy"], ["wide", "deep", "long", "muddy"])
VERBS = ["crossed", "liked", "reached", "left"]
WORDS = [*LIVING, *THINGS, *ADJECTIVES[0], *ADJECTIVES[1], *VERBS, "the", "because", "it", "was", "too"]
ID = {word: number for number, word in enumerate(WORDS)}
NOUNS = len(LIVING) + len(THINGS)
FIRST, SECOND, IT = 1, 4, 6
"""Positions of the nouns and of "it"."""
LAYERS, HEADS = 2, 2
RIGHT, OTHER, NOTHING, ALL = "right noun", "other noun", "nothing", "all heads"


def sentences(generator: torch.Generator, size: int = 64) -> ToyTensors:
    """Sentences; the label of "it" is its noun. `right` and `other` are the positions of the nouns."""

    def draw(count: int) -> Tensor:
        return torch.randint(count, (size,), generator=generator)

    living, thing = draw(len(LIVING)), len(LIVING) + draw(len(THINGS))
    swapped, kind = draw(2).bool(), draw(2)
    adjective = ID[ADJECTIVES[0][0]] + len(ADJECTIVES[0]) * kind + draw(len(ADJECTIVES[0]))
    frame = torch.tensor(
        [ID[word] for word in ["the", "the", "crossed", "the", "the", "because", "it", "was", "too", "the"]]
    )
    ids = frame.repeat(size, 1)
    ids[:, FIRST], ids[:, SECOND] = torch.where(swapped, thing, living), torch.where(swapped, living, thing)
    ids[:, 2], ids[:, -1] = ID[VERBS[0]] + draw(len(VERBS)), adjective
    labels = torch.full_like(ids, IGNORE)
    labels[:, IT] = torch.where(kind.bool(), thing, living)
    right = torch.where(swapped == kind.bool(), FIRST, SECOND)
    return {"ids": ids, "labels": labels, "right": right, "other": FIRST + SECOND - right}


@dataclass(frozen=True)
class WithoutKey(PaddedPattern):
    """A pattern in which "it" cannot attend to one position of each sentence, (B,)."""

    removed: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.long))

    @cached_property
    def mask(self) -> Tensor:
        """(B, 1, T, S)."""
        mask = torch.ones(len(self.removed), 1, self.queries.size, self.keys.size, dtype=torch.bool)
        mask[torch.arange(len(self.removed)), 0, IT, self.removed] = False
        return mask


@torch.no_grad()
def accuracy_without(model: EncoderWithHead, batch: ToyTensors, removed: Tensor | None) -> float:
    """Share of "it" that is resolved when it cannot attend to the positions `removed` (B,)."""
    assert isinstance(model.encoder, TransformerEncoder)
    tokens = rectangle(batch["ids"])
    assert isinstance(tokens.layout, Padded)
    pattern = None if removed is None else WithoutKey(tokens.layout, tokens.layout, causal=False, removed=removed)
    outputs = model.head(model.encoder.encode(tokens, pattern=pattern))[:, IT]
    return float((outputs.argmax(dim=-1) == batch["labels"][:, IT]).float().mean())


def noun_weights(model: EncoderWithHead, batch: ToyTensors) -> tuple[Tensor, Tensor]:
    """The weights of "it" on the right and on the other noun, (B, layers, H) each."""
    assert isinstance(model.encoder, TransformerEncoder)
    recorded = model.encoder.record_attention(rectangle(batch["ids"]))
    assert recorded is not None
    weights = recorded[:, :, :, IT]  # (B, layers, H, T)
    rows = torch.arange(len(weights))
    return weights[rows, :, :, batch["right"]], weights[rows, :, :, batch["other"]]


def measure(seed: int, effort: Effort, record: Record) -> None:
    seeded(seed, "weights")
    model = build_tagger(len(WORDS), NOUNS, layers=LAYERS, num_heads=HEADS)
    fit_toy(model, sentences, tagging_loss, steps=effort.pick(500, 150), rate=3e-3, seed=seed)
    test = sentences(generator_of(seed, "test"), 1000)
    for name, removed in ((NOTHING, None), (RIGHT, test["right"]), (OTHER, test["other"])):
        record("accuracy", "accuracy", name, accuracy_without(model, test, removed))
    right, other = noun_weights(model, test)
    for layer in range(LAYERS):
        for head in range(HEADS):
            name = f"{layer + 1}.{head + 1}"
            record("weights", RIGHT, name, float(right[:, layer, head].mean()))
            record("weights", OTHER, name, float(other[:, layer, head].mean()))
            record("rows", RIGHT, name, float((right > other)[:, layer, head].float().mean()))
    record("rows", RIGHT, ALL, float((right - other).sum(dim=(1, 2)).gt(0).float().mean()))


def judge(results: Results) -> Verdict:
    intact, without, other = (results.values("accuracy", "accuracy", name) for name in (NOTHING, RIGHT, OTHER))
    heads = [results.values("rows", RIGHT, x) for x in results.xs("rows", RIGHT) if x != ALL]
    return Verdict(
        decide(above(intact, without, by=0.2) and above(other, without, by=0.2), not above(intact, without)),
        {"worst": min(map(min, heads)), "best": max(map(max, heads))},
    )
