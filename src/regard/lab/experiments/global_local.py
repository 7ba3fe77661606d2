"""Global and local attention: how many words of the source a step of the decoder sees.

    Bahdanau        softmax over all source words; the query is the state before the step, s_{t-1}
    Luong, global   softmax over all source words; the query is the state after the step, s_t
    local-m         softmax over a window around the position of the target word itself
    local-p         softmax over a window around a predicted position, times a Gaussian

A recurrent model learns to copy a sentence, or to reverse it. A word is seen if its weight is above zero, computed in
float64, so that a small weight is not rounded to zero. The effective number of words is exp(H), with H the entropy of
the weights: a trained global attention may still look at one or two words only, but it chose them among all.
"""

from functools import partial

import torch
from torch import Tensor, nn

from regard.attention.layouts import Tokens
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toys import IGNORE, ToyTensors, fit_toy, generator_of, rectangle, seeded
from regard.losses.crossentropy import Loss, cross_entropy
from regard.models.recurrent import RecurrentModel, RecurrentSettings
from regard.text.symbols import BOS, SPECIALS

WORDS, LENGTH, WINDOW = 12, 10, 2
VOCABULARY = len(SPECIALS) + WORDS
COPY, REVERSE = "copy", "reverse"
DECODERS = {
    "bahdanau": {"decoder": "bahdanau", "attention": "global", "score": "additive"},
    "luong global": {"decoder": "luong", "attention": "global", "score": "general"},
    "local-m": {"decoder": "luong", "attention": "local-m", "score": "general"},
    "local-p": {"decoder": "luong", "attention": "local-p", "score": "general"},
}


def build(decoder: str) -> RecurrentModel:
    """A small recurrent model with one of the four decoders."""
    sizes = {"cell": "gru", "layers": 1, "encoder": "both", "d_model": 32, "d_embedding": 32, "window": WINDOW}
    settings = {**sizes, "input_feeding": False, "dropout": 0.0, **DECODERS[decoder]}
    return RecurrentModel(RecurrentSettings.model_validate(settings), VOCABULARY, VOCABULARY)


def sentences(generator: torch.Generator, task: str, size: int = 32) -> ToyTensors:
    """Random words as the source; the same words, or the words in reverse, as the target."""
    source = torch.randint(len(SPECIALS), VOCABULARY, (size, LENGTH), generator=generator)
    return {"source": source, "labels": source if task == COPY else source.flip(1)}


def inputs(batch: ToyTensors) -> tuple[Tokens, Tokens]:
    """The source, and the target shifted by one position."""
    labels = batch["labels"]
    start = torch.full((len(labels), 1), BOS)
    return rectangle(batch["source"]), rectangle(torch.cat([start, labels[:, :-1]], dim=1))


def loss(model: nn.Module, batch: ToyTensors) -> Loss:
    return cross_entropy(model(*inputs(batch)).logits(), batch["labels"], ignore=IGNORE)


def effective(weights: Tensor) -> float:
    """exp(H) of rows of weights (..., S), normalised to sum to one; the mean over the rows."""
    p = weights / weights.sum(dim=-1, keepdim=True)
    return float(torch.special.entr(p).sum(dim=-1).exp().mean())


def measure(seed: int, effort: Effort, record: Record) -> None:
    for task in (COPY, REVERSE):
        for decoder in DECODERS:
            seeded(seed, "weights")
            model = build(decoder)
            batch = partial(sentences, task=task)
            fit_toy(model, batch, loss, steps=effort.pick(120, 8), rate=1e-2, seed=seed)
            model.double()
            test = batch(generator_of(seed, "test"), size=200)
            cross = model.attentions(*inputs(test)).cross
            assert cross is not None
            weights = cross[:, 0, 0]  # (B, T, S)
            record("seen", task, decoder, float((weights > 0).sum(dim=-1).double().mean()))
            record("effective", task, decoder, effective(weights))
            with torch.no_grad():
                predicted = model(*inputs(test)).logits().argmax(dim=-1)
            record("accuracy", task, decoder, float((predicted == test["labels"]).double().mean()))


def judge(results: Results) -> Verdict:
    bahdanau, luong = (results.values("seen", COPY, decoder) for decoder in ("bahdanau", "luong global"))
    return Verdict(decide(above(luong, bahdanau), all(seen == LENGTH for seen in bahdanau)), {"length": LENGTH})
