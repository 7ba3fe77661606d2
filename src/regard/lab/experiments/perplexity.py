"""Perplexity: which mean of the number of choices it is, and its value for a model that knows nothing.

    PPL = exp(-1/n sum_t log p_t) = (prod_t 1/p_t)^(1/n)

A token of probability p is like a choice among 1/p equally likely ones, so the perplexity is the geometric mean of the
number of choices. The arithmetic mean is larger, the harmonic mean n / sum_t p_t smaller; the three are equal only if
all p_t are equal. A uniform model gives each token p = 1/V, so its perplexity is the size of the vocabulary V, however
long the corpus is.
"""

import math
from collections import Counter

import torch
from torch import Tensor

from regard.lab.english import pages, words_of
from regard.lab.experiment import Effort, Record, Results, Verdict, decide
from regard.lab.toys import build_tagger, generator_of, rectangle, seeded
from regard.losses.crossentropy import cross_entropy

LENGTH = 50


def perplexity(logits: Tensor, labels: Tensor) -> float:
    """exp of the mean cross-entropy."""
    loss = cross_entropy(logits, labels, ignore=-1)
    return math.exp(float(loss.nll / loss.count))


def means(p: Tensor) -> dict[str, float]:
    """Three means of the number of choices 1/p of each token."""
    choices = 1 / p.double()
    return {
        "arithmetic": float(choices.mean()),
        "geometric": float(choices.log().mean().exp()),
        "harmonic": float(1 / (1 / choices).mean()),
    }


def rows(corpus: list[str], size: int) -> Tensor:
    """The corpus in rows (B, LENGTH), with a vocabulary of this size; all rarer words are one token."""
    frequent = [word for word, _ in Counter(corpus).most_common(size - 1)]
    ids = {word: number for number, word in enumerate(frequent, start=1)}
    numbers = torch.tensor([ids.get(word, 0) for word in corpus])
    return numbers[: len(numbers) // LENGTH * LENGTH].view(-1, LENGTH)


def measure(seed: int, effort: Effort, record: Record) -> None:
    random = generator_of(seed, "probabilities")
    for spread in (0.0, 0.5, 1.0, 2.0, 3.0):  # standard deviation of the logits; 0: all probabilities are equal
        p = (spread * torch.randn(500, 10, generator=random)).softmax(dim=-1)
        tokens = p.multinomial(1, generator=random)[:, 0]
        record("means", "perplexity", spread, perplexity(p.log(), tokens))
        for name, mean in means(p.gather(1, tokens[:, None])[:, 0]).items():
            record("means", name, spread, mean)
    corpus = [word for page in pages() for word in words_of(page)]
    for size in (100, 300, 1000, 3000):
        ids = rows(corpus, size)
        chosen = ids[torch.randperm(len(ids), generator=random)[: effort.pick(100, 30)]]
        seeded(seed, "weights", size)
        model = build_tagger(size, size).eval()
        record("baseline", "uniform", size, perplexity(torch.zeros(*chosen.shape, size), chosen))
        with torch.no_grad():
            record("baseline", "untrained", size, perplexity(model(rectangle(chosen)), chosen))
        record("baseline", "vocabulary", size, size)
        record("baseline", "tokens", size, len(corpus))


def farthest(results: Results, panel: str, name: str, reference: str) -> float:
    """The largest ratio of two series, over all seeds and x."""
    logs = [
        abs(math.log(a / b))
        for x in results.xs(panel, name)
        for a, b in zip(results.values(panel, name, x), results.values(panel, reference, x), strict=True)
    ]
    return math.exp(max(logs))


def judge(results: Results) -> Verdict:
    geometric, harmonic = (farthest(results, "means", "perplexity", name) for name in ("geometric", "harmonic"))
    vocabulary, tokens = (farthest(results, "baseline", "uniform", name) for name in ("vocabulary", "tokens"))
    return Verdict(decide(harmonic < 1.001 and tokens < 1.001, geometric < 1.001 and vocabulary < 1.001))
