"""regard demo and regard recipes: what a newcomer types first."""

import json
import shlex
from pathlib import Path

import pytest
from tests.cli.command import refused, regard

from regard.config import describe
from regard.data.builtin import NUMBERS
from regard.recipe import TranslationRecipe, load_recipe, shipped_recipes
from regard.run import Run

QUICK = (
    "training.max_steps=2",
    "training.warmup=1",
    "training.validate_every=2",
    "training.log_every=1",
    "training.batch_tokens=512",
    "model.d_model=16",
    "model.num_heads=2",
    "model.d_ff=32",
    "decoding.max_length=4",
    "text.kind=char",
    "training.monitor=loss",
    'data.train={builtin="numbers", split="valid"}',
    'data.valid={builtin="numbers", split="valid"}',
    'data.test={builtin="numbers", split="valid"}',
    "data.workers=1",
    "runtime.threads=1",
)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("demo") / "a folder"
    result = regard("demo", "dates", *QUICK, "--folder", folder)
    assert result.status == 0, result.err
    return folder, result.out


def test_the_demo_shows_curve_scores_translations_and_attention(shown: tuple[Path, str]) -> None:
    _, out = shown
    assert "training loss" in out
    assert f"on {NUMBERS['valid']:,} inputs it has never seen" in out
    assert out.count("✗") + out.count("✓") == 10
    assert "cross attention, layer 2 of 2, mean of 2 heads" in out


def test_the_demo_leaves_a_page_and_a_run(shown: tuple[Path, str]) -> None:
    folder, out = shown
    assert str(folder / "report.html") in out
    source = Run.open(folder).pairs("test")[0][0]
    assert source in (folder / "report.html").read_text(encoding="utf-8")
    assert Run.open(folder).recipe.name == "demo-dates"
    assert (folder / "evaluations" / "test-best.json").exists()


def test_what_the_demo_says_to_type_can_be_typed(shown: tuple[Path, str]) -> None:
    folder, out = shown
    echo, inspect, evaluate = (shlex.split(line) for line in out.split("next (")[1].splitlines()[1:4])
    assert echo[0] == "echo"
    assert regard(*echo[4:], stdin=echo[1]).status == 0
    assert inspect[:3] == ["regard", "inspect", str(folder)]
    assert regard(*inspect[1:]).status == 0
    assert evaluate == ["regard", "evaluate", str(folder), "--report"]


def test_the_minimal_recipe_that_the_demo_prints_is_one(shown: tuple[Path, str], tmp_path: Path) -> None:
    text = shown[1].split("<<'END'\n")[1].split("  END\n")[0]
    path = tmp_path / "my.toml"
    path.write_text("\n".join(line.removeprefix("  ") for line in text.splitlines()), encoding="utf-8")
    assert load_recipe(path).model.size == "small"


def test_an_earlier_demo_is_replaced_and_nothing_else(tmp_path: Path, trained: Path) -> None:
    folder = tmp_path / "demo"
    assert regard("demo", "dates", *QUICK, "--folder", folder).status == 0
    (folder / "old").write_text("", encoding="utf-8")
    again = regard("demo", "dates", *QUICK, "--folder", folder, "--json")
    outcome = json.loads(again.out)
    assert (outcome["step"], outcome["sentences"]) == (2, NUMBERS["valid"])
    assert "exact match" in outcome["scores"]
    assert not (folder / "old").exists()
    assert "holds another run, words" in refused("demo", "dates", "--folder", trained)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious").write_text("", encoding="utf-8")
    assert "not empty" in refused("demo", "dates", *QUICK, "--folder", tmp_path / "mine")


def test_an_unknown_demo_is_refused() -> None:
    assert "dates, numbers" in refused("demo", "poems")


def test_recipes_are_listed() -> None:
    listed = json.loads(regard("recipes", "--json").out)
    assert [row["name"] for row in listed] == [path.stem for path in shipped_recipes()]
    shown = regard("recipes").out
    for row in listed:
        assert row["name"] in shown
        assert row["about"] in shown


def test_a_recipe_is_printed_as_it_is() -> None:
    path = shipped_recipes()[0]
    assert regard("recipes", path.stem).out == path.read_text(encoding="utf-8")
    values = json.loads(regard("recipes", path.stem, "--json").out)
    assert values["name"] == load_recipe(path).name


def test_a_recipe_nearly_named_is_suggested() -> None:
    assert "did you mean dates?" in refused("recipes", "dtaes")


def test_every_setting_is_explained() -> None:
    rows = {row["setting"]: row for row in json.loads(regard("recipes", "--settings", "--json").out)}
    assert {setting.name for setting in describe(TranslationRecipe)} <= rows.keys()
    assert all(row["meaning"] and row["type"] for row in rows.values())
    assert rows["decoding.search"]["type"] == "greedy | beam | sample | mask_predict"
    assert rows["decoding.max_length"]["default"] == "not set"
    assert rows["training.tensorboard"] | {"meaning": ""} == {
        "setting": "training.tensorboard",
        "of": "",
        "type": "true | false",
        "default": "false",
        "meaning": "",
    }
    assert rows["data.train.builtin"]["type"] == "dates | numbers | trees"
    printed = regard("recipes", "--settings").out
    assert all(name in printed for name in rows)
