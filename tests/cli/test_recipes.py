"""regard recipes: the list of recipes, one recipe, and all settings."""

import json
import tomllib

from tests.cli.command import fails, regard

from regard.tasks.registry import TASKS, shipped_recipes


def test_the_list() -> None:
    rows = json.loads(regard("recipes", "--json").out)
    assert [row["name"] for row in rows] == [path.stem for path in shipped_recipes()]
    assert {row["task"] for row in rows} <= set(TASKS)
    assert "dates" in regard("recipes").out


def test_one_recipe() -> None:
    assert tomllib.loads(regard("recipes", "dates").out)["name"] == "dates"
    assert json.loads(regard("recipes", "dates", "--json").out)["training"]["monitor"] == "exact_match"
    assert fails("recipes", "dtaes").code == "unknown-recipe"


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
