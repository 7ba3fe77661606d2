"""Every recipe that comes with the toolkit is valid, says where its data is, and trains on toy text."""

import random
import tomllib
from pathlib import Path

import pytest

from regard.config import apply_overrides, build, read_toml
from regard.recipe import TranslationRecipe, load_recipe, shipped_recipes
from regard.run import Run, train

RECIPES = shipped_recipes()
EXPECTED = {"dates", "numbers", "multi30k-en-de", "tatoeba-en-de", "wmt14-en-de-base", "wmt14-en-de-big"}

# What makes any recipe small without changing what it is made of.
SMALL = [
    "model.d_model=32", "model.num_heads=2", "model.d_ff=32", "model.encoder_layers=1", "model.decoder_layers=1",
    "training.max_steps=2", "training.validate_every=2", "training.batch_tokens=256", "training.warmup=1",
    "training.log_every=1", "training.accumulation=1", "data.max_length=64", "data.workers=1",
    "runtime.device=cpu", "runtime.threads=1",
]  # fmt: skip


def test_the_recipes_are_there() -> None:
    assert {path.stem for path in RECIPES} >= EXPECTED


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_is_whole_and_explains_itself(path: Path) -> None:
    recipe = load_recipe(path)
    assert recipe.name == path.stem and recipe.about
    assert build(TranslationRecipe, tomllib.loads(recipe.to_toml()), "written") == recipe
    text = path.read_text(encoding="utf-8")
    assert f"regard train {path.stem}" in text, "it says how to run it"
    if not recipe.data.train[0].builtin:
        assert "Data:" in text and "data.root=" in text, "it says where the data comes from"


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_trains_on_toy_text(path: Path, tmp_path: Path) -> None:
    rng = random.Random(3)
    for side in ("en", "de"):
        lines = [" ".join(rng.choices(["a", "bc", "def", "ghij", "ä"], k=rng.randint(2, 6))) for _ in range(40)]
        (tmp_path / f"toy.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    values = apply_overrides(read_toml(path), [*SMALL, f"data.root={tmp_path.as_posix()}"])
    for part in ("train", "valid", "test"):
        values["data"][part] = {"src": "toy.en", "tgt": "toy.de"}
    trained = train(build(TranslationRecipe, values, str(path)), tmp_path / "run", say=lambda text: None)
    assert trained.outcome.step == 2
    assert Run.open(tmp_path / "run").recipe == trained.run.recipe
