"""Tables of an evaluation that several tasks show."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from regard.metrics.classification import Counts
from regard.viz.content import Cell, Matrix, Table, truncate

MAX_ERRORS, ERROR_CHARACTERS = 10, 300
"""Rows of a table of errors, and characters of a text in it."""
MAX_MATRIX_LABELS = 100
"""A confusion matrix of more labels is not readable."""


def counts_table(title: str, column: str, counts: Mapping[str, Counts], unit: str) -> Table:
    """Precision, recall and F1 of every class; how many `unit` are of the class, and how many are predicted."""
    columns = {column: "text", "precision": "percent", "recall": "percent", "F1": "percent"}
    rows: list[list[Cell]] = [
        [name, *(100 * share for share in (item.precision, item.recall, item.f1)), item.gold, item.predicted]
        for name, item in sorted(counts.items())
    ]
    return Table(title, columns | {unit: "count", "predicted": "count"}, rows)


def confusion_matrix(title: str, gold: Sequence[str], predicted: Sequence[str]) -> list[Matrix]:
    """The confusion matrix of labels; none if there are too many to read."""
    labels = sorted({*gold, *predicted})
    if len(labels) > MAX_MATRIX_LABELS:
        return []
    index = {label: number for number, label in enumerate(labels)}
    counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
    for (label, output), times in Counter(zip(gold, predicted, strict=True)).items():
        counts[index[label], index[output]] = times
    return [Matrix(title, labels, counts)]


def confident_errors(errors: Iterable[tuple[str, str, str, float]]) -> list[Table]:
    """The errors with the highest probability: text, label, prediction and probability of each."""
    worst = sorted(errors, key=lambda error: -error[3])[:MAX_ERRORS]
    rows: list[list[Cell]] = [
        [*(truncate(text, ERROR_CHARACTERS) for text in texts), 100 * share] for *texts, share in worst
    ]
    columns = {"text": "text", "label": "text", "prediction": "text", "probability": "percent"}
    return [Table("most confident errors", columns, rows)] if rows else []


def frequent_pairs(title: str, columns: Sequence[str], pairs: Iterable[tuple[str, ...]], count: int) -> list[Table]:
    """The most frequent ones of some rows of text, with the number of times each occurs."""
    rows: list[list[Cell]] = [[*row, times] for row, times in Counter(pairs).most_common(count)]
    return [Table(title, dict.fromkeys(columns, "text") | {"times": "count"}, rows)] if rows else []


def bin_name(size: int, edges: Sequence[int]) -> tuple[int, str]:
    """The bin of a size, 1 or more: its number and its name, for example "11–20"; the last one is open."""
    number = next((index for index, edge in enumerate(edges) if size <= edge), len(edges))
    first = edges[number - 1] + 1 if number else 1
    return number, f"{first}–{edges[number]}" if number < len(edges) else f"{first}–"
