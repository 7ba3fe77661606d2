"""Model in Python: one input gives one prediction, several give a list, a stream gives them one by one."""

import json
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
import torch
from tests.conftest import TinyRun

import regard
from regard.errors import UserError
from regard.run.model import Input, Model, Translator
from regard.tasks.operations import input_keys

TEXT = "a lovely film by Ada in 7"


def test_a_text_or_a_dictionary_is_one_example(tiny_run: TinyRun) -> None:
    model = Model.load(tiny_run("classification"), device="cpu")
    one = model.predict(TEXT)
    assert one["label"] == "good" and model.predict({"text": TEXT}) == one
    assert model.predict([TEXT]) == [one] and model.predict((TEXT,)) == [one]
    assert [item["label"] for item in model.predict(iter([TEXT, "a dull book"]))] == ["good", "bad"]
    assert model.predict([]) == []
    assert len(model.predict("a b")) == len(one), "not one prediction for each character"


def test_a_stream_reads_no_more_than_it_needs(tiny_run: TinyRun) -> None:
    model, read = Model.load(tiny_run("classification"), device="cpu"), []

    def endless() -> Iterator[str]:
        while True:
            read.append(TEXT)
            yield TEXT

    first = list(islice(model.stream(endless()), 3))
    assert [item["label"] for item in first] == ["good"] * 3 and len(read) < 2000
    with pytest.raises(UserError) as error:
        model.stream([], beam=2)
    assert (error.value.code, error.value.where) == ("unsupported-option", "beam"), "before anything is read"


def test_examples_without_text_have_empty_predictions(tiny_run: TinyRun) -> None:
    for task, blank, key in (
        ("classification", {"text": " "}, "label"),
        ("regression", {"text": "", "pair": "\t"}, "score"),
        ("choice", {"text": "", "choices": ["", " "]}, "label"),
        ("answering", {"question": "", "context": " "}, "answer"),
    ):
        model = Model.load(tiny_run(task), device="cpu")
        text: Input = {"text": "the film", "choices": ["film", "a"], "question": "Who ?", "context": "Ada reads ."}
        alone, inputs = model.predict(text), ["", blank, text, "  ", text, blank, ""]
        predictions = model.predict(inputs)
        assert [item[key] is None for item in predictions] == [True, True, False, True, False, True, True]
        assert all(item.keys() == alone.keys() for item in predictions)
        assert predictions[2][key] == pytest.approx(predictions[4][key])  # rows of a batch may be rounded differently
        assert model.predict("")[key] is None
        assert len(list(model.stream_pairs(inputs))) == len(inputs)
        with pytest.raises(UserError) as error:
            model.explain(" ")
        assert error.value.code == "blank-input"


def test_an_empty_prediction_is_not_shared(tiny_run: TinyRun) -> None:
    model = Model.load(tiny_run("classification"), device="cpu")
    model.predict("")["probabilities"]["good"] = 1.0
    assert model.predict("") == {"label": None, "probability": None, "probabilities": {}}


def test_blank_lines_of_tasks_that_write(tiny_run: TinyRun) -> None:
    translator = Translator.load(tiny_run("translation"), device="cpu")
    assert translator.translate(["", "one two six", " "]) == ["", "eins zwei sechs", " "]
    assert translator.translate("one two six") == "eins zwei sechs"
    assert Model.load(tiny_run("tagging"), device="cpu").predict("")["tags"] == []


@pytest.mark.parametrize("task", ["classification", "regression", "tagging", "answering", "choice", "pretraining"])
def test_outputs_that_are_not_finite_are_no_prediction(tiny_run: TinyRun, task: str) -> None:
    example: Input = {
        "text": "a [MASK] film", "pair": "a film", "choices": ["film", "a"], "words": ["Ada", "reads"],
        "question": "Who ?", "context": "Ada reads .",
    }  # fmt: skip
    model = Model.load(tiny_run(task), device="cpu")
    assert model.predict(example)
    with torch.no_grad():
        for parameter in model.model.parameters():
            parameter.fill_(3e38)  # finite, but sums of products are not
    with pytest.raises(UserError) as error:
        model.predict(example)
    assert error.value.code == "not-finite"
    with pytest.raises(UserError) as error:
        list(model.embed(["a film"]))
    assert error.value.code == "not-finite"


def moved(run: Path, folder: Path, recorded: bool) -> Model:
    """A run whose data is not there, with or without the record of its inputs."""
    copy = Path(shutil.copytree(run, folder / run.parent.parent.name / str(recorded)))
    recipe = copy / "recipe.toml"
    root = str(run.parents[1])
    assert root in recipe.read_text(encoding="utf-8")
    recipe.write_text(recipe.read_text(encoding="utf-8").replace(root, str(folder / "none")), encoding="utf-8")
    if not recorded:  # as an earlier version left it
        (copy / "manifest.json").unlink()
        (copy / "inputs.json").unlink()
    return Model.load(copy, device="cpu")


def keys(model: Model) -> list[set[str]]:
    """The inputs that a line with a tab means, and those that a person is asked for."""
    return [set(model.task.parse("a\tb")), set(input_keys(model.task))]


def test_a_run_without_its_data_knows_if_it_reads_pairs(tiny_run: TinyRun, tmp_path: Path) -> None:
    single, pairs = tiny_run("classification"), tiny_run("regression")
    assert json.loads((single / "inputs.json").read_text(encoding="utf-8")) == ["text"]
    assert json.loads((pairs / "inputs.json").read_text(encoding="utf-8")) == ["text", "pair"]
    one, both = {"text"}, {"text", "pair"}
    assert keys(moved(single, tmp_path, recorded=True)) == [one, one]
    assert keys(moved(pairs, tmp_path, recorded=True)) == [both, both]
    assert keys(moved(single, tmp_path, recorded=False)) == [both, one], "not known: as documented for pairs"
    for run, inputs in ((single, one), (pairs, both)):
        copy = Path(shutil.copytree(run, tmp_path / f"old-{run.parents[1].name}"))
        task = Model.load(copy, device="cpu").task
        (copy / "inputs.json").unlink()
        older = type(task).load(task.recipe, copy)
        assert set(older.parse("a\tb")) == inputs, "an older run reads its first training example"


def test_progress_of_predictions_in_python(tiny_run: TinyRun, capsys: pytest.CaptureFixture[str]) -> None:
    calls: list[tuple[int, int | None]] = []

    def note(done: int, total: int | None) -> None:
        calls.append((done, total))

    classifier, translator = Model.load(tiny_run("classification")), Translator.load(tiny_run("translation"))
    texts = ["a fine film", "", "a dull film"]
    assert classifier.predict(texts, progress=note) == classifier.predict(texts)
    watched, vectors = classifier.embed(texts, progress=note), classifier.embed(texts)
    assert [item.vector.tolist() for item in watched] == [item.vector.tolist() for item in vectors]
    assert translator.translate(["one two", "six"], progress=note) == translator.translate(["one two", "six"])
    assert [call for call in calls if call[0] == call[1]] == [(3, 3), (3, 3), (2, 2)]
    calls.clear()
    classifier.predict(iter(texts), progress=note)
    evaluation = classifier.evaluate(progress=note)
    count = len(evaluation.examples)
    assert (3, None) in calls and calls[-1] == (count, count)
    classifier.predict(texts, progress=True)
    assert capsys.readouterr().err == "", "on a terminal, or after ten seconds"


def test_work_in_progress_names_the_version_of_the_code(tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the installed one, which may be older or missing if the code runs from a folder."""
    monkeypatch.setattr("importlib.metadata.distribution", None)
    model = Model.load(tiny_run("classification"), device="cpu")
    assert model.made_from()["version"] == regard.__version__
