"""Tables of an evaluation: scores of each class, confusions, errors, and scores of translations by length."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from regard.data.examples import Example
from regard.metrics.classification import Counts
from regard.metrics.translation import bleu, bleu_tokenizer_for, chrf, chrf_metric
from regard.tasks.base import Prediction
from regard.text.tokenizer import Tokenizer
from regard.viz.content import Cell, Matrix, Table, truncate

MAX_ERRORS, ERROR_CHARACTERS = 10, 300
"""Rows of a table of errors, and characters of a text in it."""
LENGTHS = (10, 20, 30, 40, 60)
"""Bins of sentences by the number of tokens of the source."""
MAX_SCORED = 1000
"""Sentences of which chrF is computed one by one."""
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


def length_table(
    source: Tokenizer, examples: Sequence[Example], predictions: Sequence[Prediction], tokenizer: str
) -> Table:
    """BLEU and chrF by the number of tokens of the source."""
    bins: dict[tuple[int, str], list[tuple[str, str]]] = {}
    for example, item in zip(examples, predictions, strict=True):
        size = bin_name(len(source.encode(example["src"])), LENGTHS)
        bins.setdefault(size, []).append((item["translation"], example["tgt"]))
    groups = {name: pairs for (_, name), pairs in sorted(bins.items())}
    return group_table("scores by length", "source tokens", groups, [tokenizer] * len(groups))


def direction_table(examples: Sequence[Example], predictions: Sequence[Prediction], tokenizer: str = "") -> list[Table]:
    """BLEU and chrF of each direction; [] if there is only one."""
    groups: dict[str, list[tuple[str, str]]] = {}
    targets: dict[str, str] = {}
    for example, item in zip(examples, predictions, strict=True):
        if "to" in example:
            name = f"{example.get('from', '?')} → {example['to']}"
            groups.setdefault(name, []).append((item["translation"], example["tgt"]))
            targets[name] = example["to"]
    tokenizers = [tokenizer or bleu_tokenizer_for([tgt for _, tgt in groups[n]], to) for n, to in targets.items()]
    return [group_table("scores by direction", "direction", groups, tokenizers)] if len(groups) > 1 else []


def group_table(
    title: str, column: str, groups: Mapping[str, Sequence[tuple[str, str]]], tokenizers: Sequence[str]
) -> Table:
    """BLEU, with the tokenizer for each group, and chrF of groups of (output, reference)."""
    rows: list[list[Cell]] = []
    for (name, pairs), tokenizer in zip(groups.items(), tokenizers, strict=True):
        outputs, references = ([pair[side] for pair in pairs] for side in (0, 1))
        score = bleu(outputs, references, tokenize=tokenizer).value
        rows.append([name, len(pairs), score, chrf(outputs, references).value])
    return Table(title, {column: "text", "sentences": "count", "BLEU": "percent", "chrF": "percent"}, rows)


def lowest_chrf(examples: Sequence[Example], predictions: Sequence[Prediction]) -> list[Table]:
    """The translations with the lowest chrF among the first MAX_SCORED that are not exactly the reference."""
    metric = chrf_metric()
    scored: list[tuple[float, list[Cell]]] = []
    for example, item in list(zip(examples, predictions, strict=True))[:MAX_SCORED]:
        if (output := item["translation"]) != example["tgt"]:
            texts = [truncate(text, ERROR_CHARACTERS) for text in (example["src"], example["tgt"], output)]
            score = float(metric.sentence_score(output, [example["tgt"]]).score)
            scored.append((score, [*texts, score]))
    rows = [row for _, row in sorted(scored, key=lambda item: item[0])[:MAX_ERRORS]]
    columns = {"source": "text", "reference": "text", "output": "text", "chrF": "percent"}
    return [Table("lowest chrF", columns, rows)] if rows else []
