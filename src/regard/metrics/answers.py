"""Exact match and F1 of short answers, as SQuAD counts them (Rajpurkar et al. 2016, section 6.1; and 2018).

    exact match   100 if the answer is one of the gold answers, word for word, else 0
    F1            the best over the gold answers of  2 same / (words of the answer + words of the gold answer)
                  same: the words that both hold, a word as often as both hold it

Both compare what is left of a text when capitals, punctuation, the articles a, an and the, and superfluous blanks are
gone. A question may have no answer: then nothing is the one right answer, and an empty one says so. A text of which
nothing is left, "The", is as empty as none.

These are the numbers of the official evaluate-v2.0.py, and of evaluate-v1.1.py where every question has an answer. They
are made for English: other languages keep their articles, and a text without blanks is one word, so that F1 is exact
match there. The official script of MLQA (Lewis et al. 2020), which knows the articles of other languages, drops the
punctuation of all scripts and not only of ASCII, and cuts Chinese into characters, gives other numbers.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence

from regard.metrics.score import Score, check_paired

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(text: str) -> str:
    """Without capitals, punctuation and articles, in this order, and with single blanks."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split())


def answer_exact(answer: str, golds: Sequence[str]) -> float:
    """1 if the answer says what a gold answer says, else 0; without gold answers, if it says nothing."""
    return float(normalised(answer) in _accepted(golds))


def answer_f1(answer: str, golds: Sequence[str]) -> float:
    """How many words the answer shares with the gold answer it is closest to, 0 to 1."""
    words = normalised(answer).split()
    return max(_overlap(words, gold.split()) for gold in _accepted(golds))


def answer_scores(answers: Sequence[str], golds: Sequence[Sequence[str]]) -> dict[str, Score]:
    """Means over the questions under `exact` and `f1`; `golds` are the right answers to each, none if it has none.

    Where some questions have an answer and some have none, also the means over each of them alone: a model that never
    answers is right about all of the latter.
    """
    check_paired(answers, golds)
    exact = [answer_exact(answer, gold) for answer, gold in zip(answers, golds, strict=True)]
    f1 = [answer_f1(answer, gold) for answer, gold in zip(answers, golds, strict=True)]
    answerable = [any(gold) for gold in golds]
    groups = {"": [True] * len(golds)}
    if len(set(answerable)) == 2:
        groups |= {"answerable": answerable, "unanswerable": [not has for has in answerable]}
    found: dict[str, Score] = {}
    for group, members in groups.items():
        count = sum(members)
        signature = f"SQuAD, English, {count:,} {group} questions".replace("  ", " ")
        for key, name, values in (("exact", "exact match", exact), ("f1", "F1", f1)):
            total = sum(value for value, member in zip(values, members, strict=True) if member)
            found[f"{key} {group}".strip()] = Score(name, 100.0 * total / count, signature)
    return found


def _accepted(golds: Sequence[str]) -> list[str]:
    """The normalised gold answers that say something; if none does, the right answer is none."""
    return [text for text in map(normalised, golds) if text] or [""]


def _overlap(answer: Sequence[str], gold: Sequence[str]) -> float:
    if not answer or not gold:
        return float(not answer and not gold)
    same = (Counter(answer) & Counter(gold)).total()
    return 2 * same / (len(answer) + len(gold))
