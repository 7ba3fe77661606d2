"""regard recipes: the list of recipes, one recipe, and all settings."""

import json
import tomllib

from tests.cli.command import fails, regard

from regard.recipe_files import shipped_recipes
from regard.tasks.registry import TASKS


def test_the_list() -> None:
    rows = json.loads(regard("recipes", "--json").out)
    assert [row["name"] for row in rows] == [path.stem for path in shipped_recipes()]
    assert {row["task"] for row in rows} <= set(TASKS)
    listed = [line.split()[:3] for line in regard("recipes").out.splitlines()[2:-1]]
    assert listed == [[row["name"], row["task"], row["kind"]] for row in rows]


def test_one_recipe() -> None:
    assert tomllib.loads(regard("recipes", "dates").out)["name"] == "dates"
    assert json.loads(regard("recipes", "dates", "--json").out)["training"]["monitor"] == "exact_match"
    assert fails("recipes", "dtaes").code == "unknown-recipe"
    assert fails("recipes", "dates", "numbers").code == "invalid-option"


def test_all_settings() -> None:
    rows = json.loads(regard("recipes", "--settings", "--json").out)
    settings = {row["setting"] for row in rows}
    assert {"name", "data.train", "text.kind", "model.kind", "training.max_steps", "decoding.beam"} <= settings
    assert all(row["meaning"] for row in rows)
    of = {(row["setting"], row["of"]): row for row in rows}
    assert of["data.stride", "answering"]["default"] == "128"
    assert of["data.next_sentence", "pretraining"]["default"] == "true"
    assert of["data.root", ""]["type"] == "text" and of["task", ""]["default"] == '"translation"'
    by_task = {
        task: row["default"] for row in rows if row["setting"] == "training.monitor" for task in row["of"].split(", ")
    }
    assert by_task["classification"] == '"accuracy"' and by_task["translation"] == '"loss"'


def settings(*names: str) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = json.loads(regard("recipes", "--settings", *names, "--json").out)
    return rows


def test_settings_of_a_group() -> None:
    rows = settings("training")
    assert {row["setting"].partition(".")[0] for row in rows} == {"training"}
    assert {row["setting"] for row in settings("training.max_")} == {
        "training.max_steps",
        "training.max_epochs",
        "training.max_minutes",
    }


def test_settings_of_a_task_have_its_defaults_once() -> None:
    rows = settings("classification", "training")
    names = [row["setting"] for row in rows]
    assert len(names) == len(set(names)) and {row["of"] for row in rows} == {""}
    assert {row["setting"]: row["default"] for row in rows}["training.monitor"] == '"accuracy"'


def test_settings_of_a_kind_of_model() -> None:
    assert all("lstm" in row["of"] for row in settings("lstm"))
    assert not any(row["setting"].startswith("training") for row in settings("lstm"))


def test_settings_of_a_recipe_are_those_of_its_task_and_model() -> None:
    names = {row["setting"] for row in settings("wikitext-2-lstm")}
    assert {"model.weight_drop", "data.bptt", "training.max_steps"} <= names
    assert not names & {"model.num_heads", "data.src_lang"}


def test_the_kinds_of_model_are_one_setting_of_a_task() -> None:
    (row,) = settings("tagging", "model.kind")
    assert (row["default"], row["of"]) == ('"recurrent"', "")
    assert set(row["type"].split(" | ")) >= {"bert", "transformer", "recurrent"} and "bert: " in row["meaning"]


def test_unknown_names_of_settings() -> None:
    for names in (["trainig"], ["lstm", "training"], ["translation", "classification"]):
        result = fails("recipes", "--settings", *names)
        assert result.code == "invalid-option" and names[-1] in result.err


def test_settings_fit_into_80_columns() -> None:
    lines = regard("recipes", "--settings", "training").lines
    assert max(map(len, lines)) <= 80
    names = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert names == [row["setting"] for row in settings("training")]
