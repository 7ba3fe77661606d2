"""Tables of evaluations: tasks/tables.py, and the tables and marked texts of single tasks."""

from typing import Any

import numpy as np
import pytest
import torch

from regard.metrics.classification import Counts
from regard.metrics.parsing import counts_by_label
from regard.tasks.language import token_bits
from regard.tasks.tables import (
    MAX_ERRORS,
    MAX_MATRIX_LABELS,
    bin_name,
    confident_errors,
    confusion_matrix,
    counts_table,
    frequent_pairs,
    lowest_chrf,
)
from regard.tasks.tagging import entity_errors, marked_words
from regard.trees import parsed


def test_counts_become_percentages() -> None:
    table = counts_table("classes", "class", {"b": Counts(1, 2, 4), "a": Counts(0, 0, 3)}, "examples")
    assert list(table.columns) == ["class", "precision", "recall", "F1", "examples", "predicted"]
    assert table.rows == [["a", 0.0, 0.0, 0.0, 3, 0], ["b", 50.0, 25.0, pytest.approx(100 / 3), 4, 2]]


def test_a_confusion_matrix_has_gold_rows_and_predicted_columns() -> None:
    (matrix,) = confusion_matrix("m", ["b", "a", "b", "b"], ["a", "a", "b", "c"])
    assert matrix.labels == ["a", "b", "c"]
    assert np.asarray(matrix.counts).tolist() == [[1, 0, 0], [1, 1, 1], [0, 0, 0]]
    labels = [f"{number:03}" for number in range(MAX_MATRIX_LABELS)]
    assert len(confusion_matrix("m", labels, labels)) == 1
    assert confusion_matrix("m", [*labels, "more"], [*labels, "more"]) == []


def test_the_most_confident_errors_come_first() -> None:
    errors = [(f"text {n}", "a", "b", n / 100) for n in range(20)]
    (table,) = confident_errors(errors)
    assert [row[3] for row in table.rows] == pytest.approx([float(n) for n in range(19, 19 - MAX_ERRORS, -1)])
    assert table.rows[0][:3] == ["text 19", "a", "b"]
    assert confident_errors([]) == []
    ((row,),) = (table.rows for table in confident_errors([("x" * 400, "a", "b", 1.0)]))
    assert len(str(row[0])) == 300


def test_frequent_pairs() -> None:
    (table,) = frequent_pairs("t", ("a", "b"), [("x", "y"), ("z", "y"), ("x", "y")], 1)
    assert table.rows == [["x", "y", 2]] and list(table.columns.items()) == [
        ("a", "text"),
        ("b", "text"),
        ("times", "count"),
    ]
    assert frequent_pairs("t", ("a",), [], 5) == []


def test_bins_of_lengths() -> None:
    names = {size: bin_name(size, (10, 20)) for size in (1, 10, 11, 20, 21, 500)}
    assert names == {
        1: (0, "1–10"),
        10: (0, "1–10"),
        11: (1, "11–20"),
        20: (1, "11–20"),
        21: (2, "21–"),
        500: (2, "21–"),
    }


def test_marked_words() -> None:
    shown = marked_words(["Ada", "met", "Bo", "Lee"], ["B-PER", "O", "B-PER", "I-PER"], True)
    assert shown.text == "Ada met Bo Lee" and shown.spans == [(0, 3, "PER"), (8, 14, "PER")]
    tagged = marked_words(["the", "dog"], ["DET", "NOUN"], False)
    assert tagged.spans == [(0, 3, "DET"), (4, 7, "NOUN")]
    assert marked_words(["a", "b"], ["O", "O"], True).spans == []


def test_errors_of_entities() -> None:
    words = ["Ada", "met", "Bo", "Lee"]
    gold, predicted = ["B-PER", "O", "B-PER", "I-PER"], ["B-LOC", "B-PER", "B-PER", "O"]
    assert list(entity_errors(words, gold, predicted)) == [
        ("Ada", "PER", "LOC"), ("met", "–", "PER"), ("Bo", "–", "PER"), ("Bo Lee", "PER", "–"),
    ]  # fmt: skip
    assert list(entity_errors(words, gold, gold)) == []


def test_the_worst_translations() -> None:
    outputs = ["the cat sat", "a dog", "xyz", "the same"]
    references = ["the cat sits", "a big dog", "hello", "the same"]
    examples = [{"src": f"s{n}", "tgt": text} for n, text in enumerate(references)]
    (table,) = lowest_chrf(examples, [{"translation": text} for text in outputs])
    assert [row[0] for row in table.rows] == ["s2", "s1", "s0"], "not the one that is equal to its reference"
    scores: list[Any] = [row[3] for row in table.rows]
    assert scores == sorted(scores) and scores[0] == 0
    assert lowest_chrf(examples[3:], [{"translation": "the same"}]) == []


def test_brackets_by_label() -> None:
    gold = list(parsed(["(ROOT (S (NP (D the) (N cat)) (VP (V sat))))", "(ROOT (S (NP (N it)) (VP (V sat))))"]))
    found = list(
        parsed(["(ROOT (S (NP (D the)) (NP (N cat)) (VP (V sat))))", "(ROOT (S (NP (N other)) (VP (V sat))))"])
    )
    counts = counts_by_label(found, gold)
    assert counts == {"NP": Counts(0, 2, 1), "S": Counts(1, 1, 1), "VP": Counts(1, 1, 1)}, "other words: left out"


def test_information_of_tokens() -> None:
    class Half(torch.nn.Module):
        """Every token has half the probability of all before it in the vocabulary."""

        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))

        def forward(self, ids: torch.Tensor) -> tuple[Any, dict[str, Any]]:
            logits = torch.full((*ids.shape, 4), -1e9)
            logits[..., :2] = 0
            logits[:, -1, :] = 0  # the last token is one of four

            class Projection:
                def logits(self) -> torch.Tensor:
                    return logits

            return Projection(), {}

    assert token_bits(Half(), [0, 1, 3]) == pytest.approx([1, 1, 2], abs=1e-5)
