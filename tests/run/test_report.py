"""run/report.py: the HTML page of a run, for every task."""

from pathlib import Path

import pytest
from tests.conftest import TinyRun
from tests.tiny import TASKS

from regard.metrics.significance import Comparison
from regard.run.model import Model
from regard.run.report import choose_examples, evaluation_report, explanation_report, loss_curves, read_metrics

HAS_EXAMPLES = {task for task in TASKS if task not in ("language", "pretraining")}


@pytest.mark.parametrize("task", TASKS)
def test_the_page_of_an_evaluation(task: str, tiny_run: TinyRun) -> None:
    model = Model.load(tiny_run(task))
    report = evaluation_report(model, model.evaluate("test"), max_examples=6, max_explained=2)
    assert len(report.examples) == (6 if task in HAS_EXAMPLES - {"parsing"} else 3 if task == "parsing" else 0)
    explained = [example.attention is not None for example in report.examples]
    assert explained == [True, True, *[False] * (len(explained) - 2)] if explained else not explained
    assert report.curves["validation loss"] and report.scores
    assert {"task", "data", "model", "parameters", "vocabulary", "seed"} <= set(report.facts)


def test_right_and_wrong_of_translations(tiny_run: TinyRun) -> None:
    model = Model.load(tiny_run("translation"))
    report = evaluation_report(model, model.evaluate("test"))
    assert all(example.correct == (example.output == example.reference) for example in report.examples)
    assert [step for step, _ in report.curves["validation loss"]] == [120, 240]
    assert report.facts["steps"] == "240"


def test_the_page_of_a_comparison(tiny_run: TinyRun) -> None:
    model = Model.load(tiny_run("classification"))
    evaluation = model.evaluate("test")
    comparison = Comparison("accuracy", 50.0, 75.0, 25.0, p_value=0.013, ci_low=10.0, ci_high=40.0, signature="seed 1")
    report = evaluation_report(model, evaluation, comparisons=[comparison], base="runs/old")
    *scores, (name, value, signature) = report.scores
    assert [score[0] for score in scores] == [score.name for score in evaluation.scores]
    assert "accuracy" in name and "runs/old" in name and value == 25.0
    assert all(number in signature for number in ("75.00", "50.00", "+10.00", "+40.00", "0.013", "seed 1"))
    assert evaluation_report(model, evaluation).scores == scores


def test_the_page_of_one_example(tiny_run: TinyRun) -> None:
    model = Model.load(tiny_run("classification"))
    report = explanation_report(model, model.explain("a lovely film"))
    (example,) = report.examples
    assert example.source == "a lovely film" and example.output.startswith("good (")
    assert example.attention is not None and report.title == "classification: a lovely film"


def test_incomplete_lines_of_metrics_are_skipped(tiny_run: TinyRun, tmp_path: Path) -> None:
    lines = (tiny_run("translation") / "metrics.jsonl").read_text(encoding="utf-8")
    (tmp_path / "metrics.jsonl").write_text(lines + '{"kind": "tra', encoding="utf-8")
    records = read_metrics(tmp_path)
    assert records == read_metrics(tiny_run("translation"))
    curves = loss_curves(records)
    assert curves["train loss"][0][1] > curves["train loss"][-1][1]
    assert read_metrics(tmp_path / "missing") == []


def test_at_most_half_of_the_examples_are_wrong() -> None:
    right = [letter != "X" for letter in "abXXXXXh"]
    assert choose_examples(right, 4) == [0, 1, 2, 3]
    assert choose_examples(right, 6) == [0, 1, 2, 3, 4, 7]
    assert choose_examples(right, 100) == list(range(8))
    assert choose_examples([True] * 8, 3) == [0, 1, 2]
