"""Exact match and F1 of short answers, as in SQuAD (Rajpurkar et al. 2016, section 6.1; and 2018).

    exact match   100 if the answer equals one of the gold answers, else 0
    F1            maximum over the gold answers of  2 common / (words of the answer + words of the gold answer)
                  common: the words in both, with multiplicity

Texts are compared without case, punctuation, the articles a, an and the, and extra spaces. A question may have no
answer: then the empty answer is correct. A text that is empty after normalisation, like "The", is an empty answer.

The numbers equal those of the official evaluate-v2.0.py, and of evaluate-v1.1.py if every question has an answer. They
are made for English: articles of other languages stay, and a text without spaces is one word, so that F1 equals exact
match. The official script of MLQA (Lewis et al. 2020) knows the articles of other languages, removes the punctuation of
all scripts and splits Chinese into characters; its numbers differ.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence

from regard.metrics.score import Score, check_paired

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize(text: str) -> str:
    """Lowercase, then remove punctuation, articles and extra spaces."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split())


def answer_exact(answer: str, golds: Sequence[str]) -> float:
    """1 if the answer equals a gold answer, else 0; without gold answers, 1 if it is empty."""
    return float(normalize(answer) in _accepted(golds))


def answer_f1(answer: str, golds: Sequence[str]) -> float:
    """Maximum word F1 of the answer and a gold answer, 0 to 1."""
    words = normalize(answer).split()
    return max(_overlap(words, gold.split()) for gold in _accepted(golds))


def answer_scores(answers: Sequence[str], golds: Sequence[Sequence[str]]) -> dict[str, Score]:
    """Means over the questions as `exact` and `f1`; `golds` are the gold answers of each, empty if it has none.

    If some questions have an answer and some have none, the means over each group are added: a model that never answers
    is always correct on the second group.
    """
    check_paired(answers, golds)
    exact = [answer_exact(answer, gold) for answer, gold in zip(answers, golds, strict=True)]
    f1 = [answer_f1(answer, gold) for answer, gold in zip(answers, golds, strict=True)]
    answerable = [any(gold) for gold in golds]
    groups = {"": [True] * len(golds)}
    if len(set(answerable)) == 2:
        groups |= {"answerable": answerable, "unanswerable": [not has for has in answerable]}
    scores: dict[str, Score] = {}
    for group, members in groups.items():
        count = sum(members)
        signature = f"SQuAD, English, {count:,} {group} questions".replace("  ", " ")
        for key, name, values in (("exact", "exact match", exact), ("f1", "F1", f1)):
            total = sum(value for value, member in zip(values, members, strict=True) if member)
            scores[f"{key} {group}".strip()] = Score(name, 100.0 * total / count, signature)
    return scores


def _accepted(golds: Sequence[str]) -> list[str]:
    """Return the gold answers, normalised, without empty ones; the empty answer if there is no other."""
    return [text for text in map(normalize, golds) if text] or [""]


def _overlap(answer: Sequence[str], gold: Sequence[str]) -> float:
    if not answer or not gold:
        return float(not answer and not gold)
    common = (Counter(answer) & Counter(gold)).total()
    return 2 * common / (len(answer) + len(gold))
