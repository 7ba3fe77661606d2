"""Local structure: full attention can learn it, but has to learn what a convolution has built in.

A layer of attention compares all pairs of positions. That the previous word matters must be learnt from examples, by
way of the position vectors. A convolution sees the neighbours only, a window of attention too, and ALiBi lowers the
scores of far words. Such models assume that near words matter. If that is true, they need fewer examples. If a far word
matters, a convolution and a window do not reach it:

    near task    name the previous word
    far task     name the first word of the sentence

Every model is trained for the same number of steps on a fixed set of sentences, and tested on new ones.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from regard.attention.layouts import Tokens
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toys import IGNORE, ToyTensors, accuracy, build_tagger, fit_toy, generator_of, seeded, tagging_loss
from regard.layers.convolution import ConvolutionalEncoderLayer

WORDS, LENGTH, WIDTH = 8, 16, 32
SIZES = (25, 50, 100, 400)


class ConvolutionalTagger(nn.Module):
    """Embeddings, one gated convolution of three words, and a linear output."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layer = ConvolutionalEncoderLayer(WIDTH, kernel=3, dropout=0.0)
        self.output = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens: Tokens) -> Tensor:
        """ids (B, T) without padding -> logits (B, T, WORDS)."""
        padding = torch.zeros(*tokens.ids.shape, 1, dtype=torch.bool)
        return self.output(self.layer(self.words(tokens.ids), padding))


MODELS: Mapping[str, Callable[[], nn.Module]] = {
    "full": lambda: build_tagger(WORDS, WORDS, d_model=WIDTH),
    "window": lambda: build_tagger(WORDS, WORDS, d_model=WIDTH, window=2),
    "alibi": lambda: build_tagger(WORDS, WORDS, d_model=WIDTH, relative_positions="alibi"),
    "convolution": ConvolutionalTagger,
}


def label(ids: Tensor, task: str) -> ToyTensors:
    """Sentences (B, T) with the previous or the first word as the label of each word; the first word has none."""
    labels = ids.roll(1, dims=1) if task == "near" else ids[:, :1].expand_as(ids).clone()
    labels[:, 0] = IGNORE
    return {"ids": ids, "labels": labels}


def measure(seed: int, effort: Effort, record: Record) -> None:
    test = torch.randint(WORDS, (300, LENGTH), generator=generator_of(seed, "test"))
    for size in effort.pick(SIZES, (SIZES[0],)):
        sentences = torch.randint(WORDS, (size, LENGTH), generator=generator_of(seed, "train", size))
        for task in ("near", "far"):

            def batch(generator: torch.Generator, task: str = task, sentences: Tensor = sentences) -> ToyTensors:
                return label(sentences[torch.randint(len(sentences), (32,), generator=generator)], task)

            for name, build in MODELS.items():
                seeded(seed, "weights")
                model = build()
                fit_toy(model, batch, tagging_loss, steps=effort.pick(150, 40), rate=5e-3, seed=seed)
                record(task, name, size, accuracy(model, label(test, task)))


def judge(results: Results) -> Verdict:
    full, convolution = (results.values("near", name, SIZES[0]) for name in ("full", "convolution"))
    decided = decide(above(convolution, full, by=0.05), above(full, convolution, by=-0.02))
    return Verdict(decided, {"few": SIZES[0], "many": float(results.xs("near", "full")[-1])})
