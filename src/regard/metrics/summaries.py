"""ROUGE: how much of a reference summary is in a summary (Lin 2004).

    ROUGE-N    n-grams of both, each as often as in the text with fewer of them       n = 1, 2
    ROUGE-L    the longest common subsequence of words, L words                       sections 3 and 2

    P = shared / of the summary,   R = shared / of the reference,   F = 2 P R / (P + R)

The score of a corpus is the mean of F, in percent, as in the package rouge-score, which gives the same numbers for
ASCII text: words are runs of letters and digits in lowercase, without stemming. A Chinese or Japanese character is a
word of its own here.
"""

import re
from collections import Counter
from collections.abc import Sequence

from regard.messages import Message
from regard.metrics.score import Score, check_paired

WORD = re.compile(
    "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]|[^\\W_\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+"
)
ROUGE = {"rouge_1": "ROUGE-1", "rouge_2": "ROUGE-2", "rouge_l": "ROUGE-L"}
"""The names of the scores by their names in `training.monitor`."""


def rouge_scores(summary: str, reference: str) -> dict[str, float]:
    """F of one summary by name of `ROUGE`, from 0 to 1."""
    ours, theirs = (WORD.findall(text.lower()) for text in (summary, reference))
    grams = [(ngrams(ours, n), ngrams(theirs, n)) for n in (1, 2)]
    by_n = [f_score((a & b).total(), a.total(), b.total()) for a, b in grams]
    return dict(zip(ROUGE, [*by_n, f_score(common_subsequence(ours, theirs), len(ours), len(theirs))], strict=True))


def rouge(summaries: Sequence[str], references: Sequence[str], name: str) -> Score:
    """The mean of one of the scores in `ROUGE` over a corpus, in percent."""
    check_paired(summaries, references)
    values = [rouge_scores(*pair)[name] for pair in zip(summaries, references, strict=True)]
    signature = Message("mean F over {count:,} texts, lowercase, no stemming", count=len(values))
    return Score(ROUGE[name], 100.0 * sum(values) / len(values), signature)


def ngrams(words: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    """How often each sequence of n words occurs."""
    return Counter(tuple(words[start : start + n]) for start in range(len(words) - n + 1))


def f_score(shared: int, ours: int, theirs: int) -> float:
    """2 P R / (P + R) = 2 shared / (ours + theirs); 0 if nothing is shared."""
    return 2 * shared / (ours + theirs) if shared else 0.0


def common_subsequence(a: Sequence[str], b: Sequence[str]) -> int:
    """Length of the longest common subsequence.

    L(i, j) = L(i-1, j-1) + 1 if a_i = b_j, else max(L(i-1, j), L(i, j-1))
    """
    row = [0] * (len(b) + 1)
    for word in a:
        before = row
        row = [0]
        for j, other in enumerate(b):
            row.append(before[j] + 1 if word == other else max(before[j + 1], row[j]))
    return row[-1]
