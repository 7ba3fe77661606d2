"""Error rates of recognition: edits that turn outputs into references, relative to the length of the references.

    WER = 100 (substitutions + deletions + insertions) / words of the references

The number of edits is the Levenshtein distance, the least one (Wagner & Fischer 1974). CER counts characters in place
of words. Both may be above 100.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from regard.messages import Message
from regard.metrics.score import Score, check_paired
from regard.metrics.significance import Scorer, tally_scorer


def edit_distance(output: Sequence[object], reference: Sequence[object]) -> int:
    """The least number of substitutions, deletions and insertions.

    d(i, j) = min(d(i-1, j) + 1, d(i, j-1) + 1, d(i-1, j-1) + [output_i != reference_j])
    """
    row = list(range(len(reference) + 1))
    for i, item in enumerate(output, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(reference, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (item != other))
    return row[-1]


def edit_counts(output: str, reference: str) -> dict[str, float]:
    """Edits and units of the reference of one text, for words ("wer") and characters ("cer")."""
    words = output.split(), reference.split()
    characters = [" ".join(side) for side in words]
    return {
        "wer edits": edit_distance(*words), "wer units": len(words[1]),
        "cer edits": edit_distance(*characters), "cer units": len(characters[1]),
    }  # fmt: skip


def error_rates(outputs: Sequence[str], references: Sequence[str]) -> Mapping[str, Score]:
    """Word and character error rate in percent, over all texts together."""
    return error_scorer(outputs, references)(np.ones(len(references), np.int64))


def error_scorer(outputs: Sequence[str], references: Sequence[str]) -> Scorer:
    """The error rates of resampled texts."""
    check_paired(outputs, references)
    return tally_scorer([edit_counts(*pair) for pair in zip(outputs, references, strict=True)], rates)


def rates(sums: dict[str, float]) -> dict[str, Score]:
    """Scores of summed `edit_counts`."""
    scores = {}
    for name, unit in (("wer", Message("words")), ("cer", Message("characters"))):
        edits, units = round(sums[f"{name} edits"]), round(sums[f"{name} units"])
        signature = Message("{edits:,} edits in {units:,} {unit}", edits=edits, units=units, unit=unit)
        scores[name] = Score(name.upper(), 100.0 * edits / max(1, units), signature)
    return scores
