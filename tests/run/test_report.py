"""run/report.py: the HTML page of a run, for every task."""

import json
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import fails, regard
from tests.conftest import TinyRun
from tests.tiny import TASKS

from regard import __version__
from regard.metrics.significance import Comparison
from regard.run.inspecting import inspect_attention
from regard.run.model import Model
from regard.run.page_data import Place, render_inspection, stored_layers
from regard.run.report import (
    choose_examples,
    comparison_table,
    evaluation_report,
    loss_curves,
    monitor_curve,
    read_metrics,
)
from regard.viz.content import EXCERPT_CHARACTERS, Marked, Matrix, Preformatted, Shaded, Shares, Table
from regard.viz.document import asset
from regard.viz.report import Report, page_data

COUNTS = {"parsing": 3, "language": 10, "pretraining": 10}
TITLES = {
    "translation": ["scores by length"],
    "parsing": ["phrases", "scores by length"],
    "language": [],
    "pretraining": [],
    "classification": ["classes", "confusion matrix"],
    "regression": ["errors by label", "largest errors"],
    "tagging": ["entity types"],
    "dependencies": ["relations", "scores by length"],
    "answering": ["questions by first word"],
    "choice": ["accuracy by number of choices", "positions of the choices"],
    "recognition": [],
}
ERRORS = {"confusions", "most confident errors", "frequent errors", "lowest chrF"}


@pytest.mark.parametrize("task", TASKS)
def test_the_page_of_an_evaluation(task: str, tiny_run: TinyRun) -> None:
    model = Model.load(tiny_run(task))
    report = evaluation_report(model, model.evaluate("test", with_samples=True), max_examples=6, max_explained=2)
    assert len(report.examples) == min(6, COUNTS.get(task, 6))
    explained = [example.attention is not None for example in report.examples]
    assert explained == ([True, True] if task != "language" else [False, False]) + [False] * (len(explained) - 2)
    assert [table.title for table in report.tables if table.title not in ERRORS] == TITLES[task]
    assert report.curves["validation loss"] and report.scores
    assert {"task", "data", "model", "parameters", "vocabulary", "seed"} <= set(report.facts)
    json.dumps([table.to_json() for table in report.tables])
    check_chinese(report)


def check_chinese(report: Report) -> None:
    """Every title, name and sentence of a report has a Chinese text; names and values of settings stay as they are."""
    words = json.loads(asset("words.json"))["zh"]
    data = page_data(report)
    columns = [name for table in data["tables"] for name, _ in table.get("columns", ())]
    names = [*columns, *(name for name, _ in data["facts"]), *(name for name, *_ in data["scores"])]
    names += [curve["name"] for curve in data["curves"]] + ([data["monitor"]["name"]] if data["monitor"] else [])
    missing = [name for name in names if f"name_{name}" not in words]
    missing += [table["title"] for table in data["tables"] if f"title_{table['title']}" not in words]
    maps = {item["name"] for example in data["examples"] for item in example["maps"]}
    assert not missing + [name for name in maps if f"map_{name}" not in words]
    signatures = [text for *_, text in data["scores"] if text and not re.search(r"\|version:", str(text))]
    facts = dict(data["facts"])
    for text in (*signatures, facts["model"], facts["vocabulary"], facts["training time"]):
        assert re.search(r"[\u4e00-\u9fff]", text["zh"]) and not re.search(r"[\u4e00-\u9fff]", text["en"])
        assert not re.search(r"\b(of|the|and|examples|tokens|words|layers?)\b", text["zh"]), text


def evaluated(run: Path, **options: Any) -> Report:
    model = Model.load(run)
    return evaluation_report(model, model.evaluate("test", with_samples=True), **options)


def tables(report: Report) -> dict[str, Any]:
    return {table.title: table for table in report.tables}


def test_a_page_says_where_it_comes_from(tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Path(shutil.copytree(tiny_run("translation"), tmp_path / "another name"))
    monkeypatch.chdir(run)
    before = datetime.now(UTC).replace(second=0, microsecond=0)
    report = evaluated(Path())
    assert report.title == "another name"
    assert report.facts["run"] == str(run) and report.facts["version"] == f"regard {__version__}"
    assert (report.facts["checkpoint"], report.facts["step"], report.facts["training steps"]) == ("best", "240", "240")
    date = datetime.strptime(report.facts["date"], "%Y-%m-%d %H:%M UTC").replace(tzinfo=UTC)
    assert before <= date <= datetime.now(UTC)
    assert report.facts["evaluated on"] == "test, 10 examples"


def test_the_monitored_metric_is_plotted(tiny_run: TinyRun) -> None:
    report = evaluated(tiny_run("translation"))
    assert report.monitor is not None
    assert (report.monitor.name, report.monitor.best_step) == ("exact match", 240)
    assert [step for step, _ in report.monitor.points] == [120, 240]
    records = [
        {"kind": "validation", "step": 5, "metrics": {"loss": 2.0, "f1": 50.0}, "best": True},
        {"kind": "validation", "step": 10, "metrics": {"loss": 1.0, "f1": 70.0}, "best": True},
        {"kind": "validation", "step": 15, "metrics": {"loss": 1.5, "f1": 60.0}, "best": False},
        {"kind": "train", "step": 15, "nll": 1.0},
    ]
    curve = monitor_curve(records, "f1")
    assert curve is not None and curve.best_step == 10
    assert curve.points == [(5, 50.0), (10, 70.0), (15, 60.0)]
    assert monitor_curve(records, "loss") is None and monitor_curve(records, "bleu") is None


def test_right_and_wrong_of_translations(tiny_run: TinyRun) -> None:
    report = evaluated(tiny_run("translation"))
    assert all(example.correct == (example.output == example.reference) for example in report.examples)
    assert [step for step, _ in report.curves["validation loss"]] == [120, 240]
    (lengths,) = [table for table in report.tables if table.title == "scores by length"]
    assert isinstance(lengths, Table)
    assert sum(int(row[1]) for row in lengths.rows) == 10
    assert [row[0] for row in lengths.rows] == ["1–10"]


def test_the_page_of_a_classifier(tiny_run: TinyRun) -> None:
    model = Model.load(tiny_run("classification"))
    evaluation = model.evaluate("test")
    for prediction in evaluation.predictions[:3]:  # three errors, of which the second is the most confident
        prediction["label"] = "good" if prediction["label"] == "bad" else "bad"
    shares = (0.7, 0.9, 0.8)
    for prediction, share in zip(evaluation.predictions, shares, strict=False):
        prediction["probability"] = share
    report = evaluation_report(model, evaluation, max_examples=8)
    found = tables(report)
    gold = [example["label"] for example in evaluation.examples]
    predicted = [item["label"] for item in evaluation.predictions]
    matrix = found["confusion matrix"]
    assert isinstance(matrix, Matrix) and matrix.labels == ["bad", "good"]
    for row, label in enumerate(matrix.labels):
        for column, output in enumerate(matrix.labels):
            times = sum(pair == (label, output) for pair in zip(gold, predicted, strict=True))
            assert matrix.to_json()["counts"][row][column] == times
    rows = {row[0]: row[1:] for row in found["classes"].rows}
    for label in ("bad", "good"):
        right = sum(a == b == label for a, b in zip(gold, predicted, strict=True))
        precision, recall = right / predicted.count(label), right / gold.count(label)
        f1 = 2 * precision * recall / (precision + recall)
        expected = [100 * precision, 100 * recall, 100 * f1, gold.count(label), predicted.count(label)]
        assert rows[label] == pytest.approx(expected)
    errors = found["most confident errors"].rows
    assert [row[3] for row in errors] == pytest.approx([90, 80, 70])
    assert errors[0] == [evaluation.examples[1]["text"], gold[1], predicted[1], 90.0]
    assert sum(row[2] for row in found["confusions"].rows) == 3
    assert [example.correct for example in report.examples] == [False] * 3 + [True] * 5
    first = report.examples[0]
    assert isinstance(first.output, Shares) and first.reference == gold[0] and first.confidence == 0.7
    assert first.output.shares == list(evaluation.predictions[0]["probabilities"].values())


def test_the_page_of_a_tagger(tiny_run: TinyRun) -> None:
    model = Model.load(tiny_run("tagging"))
    examples = model.evaluate("test").examples[:2]
    evaluation = model.evaluate("test", examples=examples)
    words = examples[0]["words"]
    evaluation.predictions[0]["tags"] = ["B-LOC", "O", "B-PER", "I-PER", "O", "B-LOC", "O"]
    evaluation.predictions[1]["tags"] = list(examples[1]["tags"])
    report = evaluation_report(model, evaluation)
    found = tables(report)
    assert {row[0]: row[4:] for row in found["entity types"].rows} == {"LOC": [2, 3], "PER": [2, 2]}
    expected = {(words[0], "PER", "LOC", 1), (" ".join(words[2:4]), "–", "PER", 1)}
    assert {tuple(row) for row in found["frequent errors"].rows} == expected
    first, second = report.examples
    assert isinstance(first.reference, Marked) and isinstance(first.output, Marked)
    text = " ".join(words)
    assert first.source == first.reference.text == first.output.text == text
    marked = [(text[start:end], kind) for start, end, kind in first.output.spans]
    assert marked == [(words[0], "LOC"), (" ".join(words[2:4]), "PER"), (words[5], "LOC")]
    assert [(text[start:end], kind) for start, end, kind in first.reference.spans] == [
        (words[0], "PER"), (words[5], "LOC"),
    ]  # fmt: skip
    assert (first.correct, second.correct) == (False, True)


def test_the_page_of_answers(tiny_run: TinyRun) -> None:
    model = Model.load(tiny_run("answering"))
    evaluation = model.evaluate("test")
    report = evaluation_report(model, evaluation)
    rows = tables(report)["questions by first word"].rows
    first_words = [example["question"].split()[0].lower() for example in evaluation.examples]
    assert {row[0]: row[1] for row in rows} == {word: first_words.count(word) for word in ("who", "where")}
    for word, count, exact, _ in rows:
        right = [
            prediction["answer"] == example["answers"][0]["text"]
            for example, prediction, first in zip(evaluation.examples, evaluation.predictions, first_words, strict=True)
            if first == word
        ]
        assert exact == pytest.approx(100 * sum(right) / count)
    example = report.examples[0]
    (number,) = [n for n, item in enumerate(evaluation.examples[:1]) if item["question"] == example.source]
    for side, text in (("reference", evaluation.examples[number]["answers"][0]["text"]),
                       ("output", evaluation.predictions[number]["answer"])):  # fmt: skip
        shown = getattr(example, side)
        assert isinstance(shown, Marked)
        ((start, end, kind),) = shown.spans
        assert (shown.text[start:end], kind) == (text, side)


def test_an_answer_in_a_long_text_is_shown_with_the_text_around_it() -> None:
    text = "a" * 500 + "Rome" + "b" * 500
    shown = Marked(text, [(500, 504, "output")]).excerpt()
    ((start, end, _),) = shown.spans
    assert shown.text[start:end] == "Rome" and shown.text.startswith("… a") and shown.text.endswith("b… ")
    assert shown.text.count("a") == shown.text.count("b") == EXCERPT_CHARACTERS
    assert Marked("in Rome .", [(3, 7, "output")]).excerpt() == Marked("in Rome .", [(3, 7, "output")])


def test_the_pages_of_choices_numbers_and_trees(tiny_run: TinyRun) -> None:
    choices = tables(evaluated(tiny_run("choice")))
    (row,) = choices["accuracy by number of choices"].rows
    assert row[:2] == ["3", 24] and row[3] == pytest.approx(100 / 3)
    assert choices["positions of the choices"].labels == ["1", "2", "3"]
    model = Model.load(tiny_run("regression"))
    evaluation = model.evaluate("test")
    found = tables(evaluation_report(model, evaluation))
    labels = [example["label"] for example in evaluation.examples]
    assert [row[1] for row in found["errors by label"].rows] == [labels.count(0.0), labels.count(1.0)]
    pairs = zip(labels, evaluation.predictions, strict=True)
    worst = max(abs(item["score"] - label) for label, item in pairs)
    assert abs(found["largest errors"].rows[0][3]) == pytest.approx(worst)
    parsed = evaluated(tiny_run("parsing"))
    assert {row[0] for row in tables(parsed)["phrases"].rows} >= {"NP", "S", "VP"}
    (example, *_) = parsed.examples
    assert isinstance(example.reference, Preformatted) and "NP" in example.reference.text
    assert example.correct == (example.reference == example.output)


@pytest.mark.parametrize("kind", ["transformer", "ngram"])
def test_the_page_of_a_language_model(kind: str, tiny_run: TinyRun) -> None:
    report = evaluated(tiny_run("language", kind))
    assert len(report.examples) == 10
    for example in report.examples:
        line = example.reference
        assert isinstance(line, Shaded) and len(line.tokens) == len(line.values) and line.unit == "bits"
        assert " ".join(line.tokens).startswith(str(example.source)) and str(example.output).startswith(
            str(example.source)
        )
        assert all(value >= 0 for value in line.values)
    assert (report.examples[0].attention is None) == (kind == "ngram")


def test_the_page_of_pretraining(tiny_run: TinyRun) -> None:
    report = evaluated(tiny_run("pretraining"))
    assert all("[MASK]" in str(example.source) for example in report.examples)
    assert all("[MASK]" not in f"{example.reference}{example.output}" for example in report.examples)
    assert all(example.correct == (example.reference == example.output) for example in report.examples)


def test_a_comparison_is_on_the_page(tiny_run: TinyRun, tmp_path: Path) -> None:
    item = Comparison("accuracy", 80.0, 85.5, 5.5, 0.049, 0.25, 10.75, "100 examples")
    (table,) = comparison_table([item], "runs/a")
    assert list(table.columns)[:3] == ["metric", "runs/a", "this run"]
    assert table.rows == [["accuracy", 80.0, 85.5, "+5.50", "[+0.25, +10.75]", "0.049", "✓"]]
    assert comparison_table([Comparison("f", 1, 1, 0, 0.05, 0, 0, "")], "a")[0].rows[0][-1] == ""
    assert comparison_table([], "a") == []
    page, run = tmp_path / "new" / "page.html", tiny_run("classification")
    scores = tmp_path / "scores.json"
    result = regard("evaluate", run, "--against", run, "--report", page, "--output", scores)
    assert result.status == 0 and str(page) in result.out
    data = page_data_of(page)
    comparison = data["tables"][0]
    accuracy = data["scores"][0][1]
    assert {len(row) for row in comparison["rows"]} == {len(comparison["columns"])}
    assert comparison["title"] == "comparison" and comparison["rows"][0][:3] == ["accuracy", accuracy, accuracy]


def page_data_of(page: Path) -> dict[str, Any]:
    """The data inside a page."""
    block = page.read_text(encoding="utf-8").split('id="data">')[1].split("</script>")[0]
    values: dict[str, Any] = json.loads(block)
    return values


def test_a_page_that_cannot_be_written_is_refused_before_the_evaluation(tiny_run: TinyRun, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    scores = tmp_path / "scores.json"
    result = fails("evaluate", tiny_run("classification"), "--report", tmp_path / "file" / "a.html", "--output", scores)
    assert result.code == "unwritable" and not scores.exists()


def test_the_page_of_one_example(tiny_run: TinyRun) -> None:
    model = Model.load(tiny_run("classification"))
    page = render_inspection(model, inspect_attention(model, "a lovely film"), None, Place(2, 1))
    (block,) = re.findall(r'id="data">(.*?)</script>', page)
    data = json.loads(block)
    (example,) = data["examples"]
    assert example["source"] == "a lovely film" and data["output"][0]["names"][0] == "good"
    assert set(data["heads"]) == {f"encoder/{layer}/{head}" for layer in range(2) for head in range(2)}
    assert data["place"] == {"layer": 1, "head": 0} and "classification: a lovely film" in page


def test_the_page_of_a_large_model_has_one_layer(tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.run.page_data.MAX_NUMBERS", 10)
    model = Model.load(tiny_run("classification"))
    inspection = inspect_attention(model, "a lovely film")
    assert stored_layers(inspection, Place()) == [1] and stored_layers(inspection, Place(1, 1)) == [0]


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
