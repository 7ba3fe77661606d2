"""BLEU against known damage: does it put sentences and test sets in the right order?

BLEU is said to agree with people. There are no people here, but the truth is known: English sentences are damaged, and
the share of damaged words is the quality. There are three kinds of damage:

    shuffled       these words change places        the words stay, their order does not
    cut            words at the end are removed     only the brevity penalty notices
    substituted    other words stand in their place

Each sentence gets a kind and a share at random, and a score (sentence level). Test sets ("systems") of many sentences,
each with its own mean share, are scored as a whole (corpus level). The rank correlation (Spearman) of score and quality
is 1 if the score puts all in the right order. It is also computed for the middle third, where qualities are similar, as
they are when two good systems are compared. chrF counts characters, not words.
"""

from collections.abc import Callable, Sequence

import numpy as np

from regard.lab.english import pages
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide, paired
from regard.metrics.classification import spearman
from regard.metrics.score import Score
from regard.metrics.translation import bleu, chrf
from regard.seeding import derive_seed

METRICS: dict[str, Callable[[Sequence[str], Sequence[str]], Score]] = {"BLEU": bleu, "chrF": chrf}
KINDS = ("shuffled", "cut", "substituted")
SIMILAR = {"sentence": "similar sentences", "corpus": "similar corpora"}
"""Levels, and the names of the same levels for translations of similar quality."""


def sentences() -> list[list[str]]:
    """Sentences of 10 to 30 words without code, in the order of the pages."""
    texts = (text.split() for page in pages() for part in page.split("\n\n") for text in part.split(". "))
    return [words for words in texts if 10 <= len(words) <= 30 and all(word.strip(",.;()").isalpha() for word in words)]


def damage(words: list[str], kind: str, share: float, others: list[str], rng: np.random.Generator) -> list[str]:
    """The sentence with about this share of its words shuffled, cut off or substituted."""
    count, damaged = round(share * len(words)), list(words)
    if kind == "cut":
        return damaged[: len(words) - count]
    places = rng.choice(len(words), count, replace=False)
    for place, source in zip(places, np.roll(places, 1), strict=True):
        damaged[place] = words[source] if kind == "shuffled" else others[rng.integers(len(others))]
    return damaged


def record_correlations(
    texts: list[list[str]], others: list[str], rng: np.random.Generator, effort: Effort, record: Record
) -> None:
    """Score sentences one by one, and test sets whose sentences have a mean share in common."""
    systems, size = effort.pick((60, 80), (30, 30))
    quality: dict[str, list[float]] = {level: [] for level in SIMILAR}
    scores: dict[tuple[str, str], list[float]] = {(name, level): [] for name in METRICS for level in SIMILAR}
    for _ in range(systems):
        mean = rng.uniform(0.05, 0.35)
        hypotheses, references, kept = [], [], []
        for index in rng.choice(len(texts), size, replace=False):
            share, words = rng.uniform(0, 2 * mean), texts[index]
            hypotheses.append(" ".join(damage(words, str(rng.choice(KINDS)), share, others, rng)))
            references.append(" ".join(words))
            kept.append(1 - round(share * len(words)) / len(words))
        quality["sentence"] += kept
        quality["corpus"].append(float(np.mean(kept)))
        for name, metric in METRICS.items():
            scores[name, "corpus"].append(metric(hypotheses, references).value)
            pairs = zip(hypotheses, references, strict=True)
            scores[name, "sentence"] += [metric([hypothesis], [reference]).value for hypothesis, reference in pairs]
    for level, truth in quality.items():
        order = np.argsort(truth, kind="stable")
        middle = sorted(order[len(order) // 3 : 2 * len(order) // 3].tolist())
        for name in METRICS:
            found = scores[name, level]
            record("correlation", name, level, spearman(found, truth).value / 100)
            alike = spearman([found[i] for i in middle], [truth[i] for i in middle])
            record("correlation", name, SIMILAR[level], alike.value / 100)


def measure(seed: int, effort: Effort, record: Record) -> None:
    rng = np.random.default_rng(derive_seed(seed, "damage"))
    texts = sentences()
    others = [word for words in texts for word in words]
    record_correlations(texts, others, rng, effort, record)
    chosen = [texts[i] for i in rng.choice(len(texts), effort.pick(200, 50), replace=False)]
    references = [" ".join(words) for words in chosen]
    for kind in KINDS:
        for share in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5):
            damaged = [" ".join(damage(words, kind, share, others, rng)) for words in chosen]
            record("bleu", kind, share, bleu(damaged, references).value)


def judge(results: Results) -> Verdict:
    corpus, alike, sentence, similar = (
        results.values("correlation", "BLEU", level)
        for level in ("corpus", "similar corpora", "sentence", "similar sentences")
    )
    return Verdict(
        decide(above(corpus, [0.9]), above([0.9], corpus)),
        findings={
            "sentence": decide(above(sentence, [0.9]), above([0.9], sentence)),
            "similar": decide(above(similar, [0.9]), above([0.9], similar)),
            "many": decide(paired(alike, similar, by=0.1), paired(similar, alike)),
        },
    )
