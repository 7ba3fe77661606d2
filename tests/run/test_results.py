"""Python results: short reprs, HTML for notebooks, pandas in and out, options and errors in Python's words."""

from pathlib import Path
from typing import Any

import pandas  # type: ignore[import-untyped]
import pytest
from tests.conftest import TinyRun
from tests.tiny import TASKS, recipe_values, write_recipe

from regard.decoding.settings import DecodingOptions, DecodingSettings
from regard.errors import UserError
from regard.run.model import Model, Translator, translate
from regard.run.train import train
from regard.tasks.registry import load_recipe

TEXTS = ["a lovely film by Ada in 7", "a dull book"]
EXAMPLE = {
    "src": "one two six", "text": "a lovely [MASK] film", "choices": ["film", "a"], "words": ["Ada", "reads"],
    "question": "Who ?", "context": "Ada reads .", "audio": "tones:1:3 0 3",
}  # fmt: skip


@pytest.fixture
def classifier(tiny_run: TinyRun) -> Model:
    return Model.load(tiny_run("classification"), device="cpu")


def test_the_bundled_translator_in_one_line() -> None:
    assert translate("Hello", target="de") == Translator.load().translate("Hello", target="de")
    assert translate(["Thank you."], target="fr", beam=1) == ["Merci."]
    through_english = translate("Danke.", source="de", target="fr")
    assert through_english == translate(translate("Danke.", target="en"), target="fr")


@pytest.mark.parametrize("task", TASKS)
def test_reprs_are_short_and_a_notebook_draws_everything(task: str, tiny_run: TinyRun) -> None:
    model = Model.load(tiny_run(task), device="cpu")
    prediction, evaluation = model.predict(EXAMPLE), model.evaluate("valid")
    assert str(tiny_run(task)) in repr(model) and model.task.name in repr(model) and "parameters" in repr(model)
    assert len(repr(model)) < 300 and len(repr(evaluation)) < 300 and evaluation.scores[0].name in repr(evaluation)
    pages = [prediction._repr_html_(), model.predict([EXAMPLE])._repr_html_(), evaluation._repr_html_()]
    if model.task.recipe.has_attention:
        explanation = model.explain(EXAMPLE)
        assert len(repr(explanation)) < 500 and "maps=[" in repr(explanation)
        pages.append(explanation._repr_html_())
        assert "<svg" in pages[-1]
    assert all("<table>" in page and "<script" not in page for page in pages)


def test_html_is_escaped(classifier: Model) -> None:
    page = classifier.predict("a <b>lovely</b> film & <script>alert(1)</script>")._repr_html_()
    assert "&lt;script&gt;" in page and "<script" not in page and "<b>" not in page


# ---- pandas ----------------------------------------------------------------------------------------------------------


def test_a_frame_in_and_out(classifier: Model) -> None:
    frame = pandas.DataFrame({"id": [7, 8], "text": TEXTS}, index=["x", "y"])
    result = classifier.predict(frame)
    expected = classifier.predict(TEXTS)
    assert list(result["predicted_label"]) == [item["label"] for item in expected] == ["good", "bad"]
    assert list(result["p(good)"]) == [item["probabilities"]["good"] for item in expected]
    assert list(result.index) == ["x", "y"] and list(result["id"]) == [7, 8] and "predicted_label" not in frame
    assert classifier.predict(frame["text"]) == expected
    assert len(classifier.predict(frame[:0])) == 0


def test_a_frame_is_evaluated(classifier: Model) -> None:
    frame = pandas.DataFrame({"text": TEXTS, "label": ["good", "good"]})
    evaluation = classifier.evaluate(frame)
    assert evaluation.scores[0].value == 50 and evaluation.data == "examples"
    assert classifier.evaluate(frame.to_dict("records")).scores == evaluation.scores
    assert classifier.evaluate(examples=frame, name="mine").scores == evaluation.scores


def test_cells_that_are_not_texts(classifier: Model) -> None:
    with pytest.raises(UserError) as error:
        classifier.predict(pandas.DataFrame({"text": ["a film", float("nan")]}))
    assert (error.value.code, error.value.where) == ("missing-key", "row 1")
    with pytest.raises(UserError) as error:
        classifier.predict(pandas.DataFrame({"text": ["a film", 5]}))
    assert (error.value.code, error.value.where) == ("invalid-input", "row 1")
    with pytest.raises(UserError) as error:
        classifier.predict(pandas.DataFrame({"review": ["a film"]}))
    assert (error.value.code, error.value.where) == ("missing-key", "text") and "review" in error.value.problem
    for value in (float("nan"), None, 5, pandas.NA):
        with pytest.raises(UserError) as error:
            classifier.predict(["a film", value])  # type: ignore[list-item]
        assert (error.value.code, error.value.where) == ("invalid-input", "example 2")
    with pytest.raises(UserError) as error:
        classifier.predict({"text": 5.0})
    assert error.value.code == "invalid-input"


# ---- options and arguments -------------------------------------------------------------------------------------------


def test_options_are_those_of_the_search() -> None:
    assert DecodingOptions.__annotations__.keys() == DecodingSettings.model_fields.keys()


@pytest.mark.parametrize(
    ("task", "option", "close"),
    [("classification", "topp", "top"), ("translation", "baem", "beam"), ("translation", "taget", "target")],
)
def test_an_unknown_option_names_the_nearest(task: str, option: str, close: str, tiny_run: TinyRun) -> None:
    model = Model.load(tiny_run(task), device="cpu")
    options: dict[str, Any] = {option: 2}
    with pytest.raises(UserError) as error:
        model.predict("one", **options)
    assert (error.value.code, error.value.where) == ("unsupported-option", option)
    assert f"`{close}`" in error.value.remedy and "--" not in str(error.value)


def test_python_errors_have_no_words_of_the_command_line(tiny_run: TinyRun) -> None:
    run = tiny_run("translation")
    calls: list[dict[str, Any]] = [{"quantization": "int8"}, {"engine": "onnx", "device": "cuda"}, {"device": "abacus"}]
    for options in calls:
        with pytest.raises(UserError) as error:
            Model.load(run, **options)
        assert "--" not in str(error.value)
    with pytest.raises(UserError) as error:
        Model.load()
    assert error.value.code == "missing-run"


def test_embeddings_are_a_list(classifier: Model) -> None:
    first, second = classifier.embed(TEXTS, pool="mean")
    assert (first.vector == classifier.embed(TEXTS[0], pool="mean").vector).all() and second.example["text"] == TEXTS[1]
    assert [item.example for item in classifier.stream_embeddings(iter(TEXTS))] == [first.example, second.example]


def test_recipes_and_folders_of_any_kind(tmp_path: Path) -> None:
    path = write_recipe(tmp_path, "classification", settings={"training.max_epochs": 0.5})
    values = recipe_values("classification", root=tmp_path, settings={"training.max_epochs": 0.5})
    recipe = load_recipe(values)
    assert recipe == load_recipe(path) and load_recipe(values, ["training.max_epochs=2"]).training.max_epochs == 2
    trained = train(recipe, str(tmp_path / "run"), report=lambda line: None)
    assert trained.run.folder == tmp_path / "run"
    with pytest.raises(UserError) as error:
        load_recipe({**values, "modle": {}})
    assert error.value.code == "unknown-setting"
