"""Every recipe that comes with the toolkit is valid, says where its data is, and trains on toy text."""

import json
import random
import tomllib
from pathlib import Path
from typing import Any

import pytest

from regard.config import apply_overrides, build, read_toml
from regard.recipe import TranslationRecipe, build_recipe, load_recipe, shipped_recipes
from regard.run import Run, train

RECIPES = shipped_recipes()
EXPECTED = {"dates", "numbers", "multi30k-en-de", "tatoeba-en-de", "wmt14-en-de-base", "wmt14-en-de-big"}
WRITERS = ("ngram", "markov", "rnn", "gru", "lstm", "transformer", "lstm-bpe", "lstm-char")
EXPECTED |= {f"wikitext-2-{model}" for model in (*WRITERS, "bert", "bert-small")}
TASKS = {path: load_recipe(path).task for path in RECIPES}
TRANSLATORS = [path for path in RECIPES if TASKS[path] == "translation"]
LANGUAGE_MODELS = [path for path in RECIPES if TASKS[path] == "language"]
PRETRAINING = [path for path in RECIPES if TASKS[path] == "pretraining"]
TOYS: dict[str, dict[str, Any]] = {
    "classification": {},
    "regression": {"label": 0.5},
    "tagging": {"tags": ["B-x", "O"]},
    "answering": {"answers": "bc"},
    "choice": {"choices": ["a", "def"], "label": 1},
}
UNDERSTANDERS = [path for path in RECIPES if TASKS[path] in TOYS]

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
    assert build_recipe(tomllib.loads(recipe.to_toml()), "written") == recipe
    text = path.read_text(encoding="utf-8")
    assert f"regard train {path.stem}" in text, "it says how to run it"
    if not getattr(recipe.data.train[0], "builtin", None):
        assert "Data:" in text and "data.root=" in text, "it says where the data comes from"


@pytest.mark.parametrize("path", TRANSLATORS, ids=lambda path: path.stem)
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


@pytest.mark.parametrize("path", LANGUAGE_MODELS, ids=lambda path: path.stem)
def test_a_language_model_of_a_recipe_trains_on_toy_text(path: Path, tmp_path: Path) -> None:
    rng = random.Random(3)
    lines = [" ".join(rng.choices(["a", "bc", "def", "ghij", "ä"], k=rng.randint(0, 6))) for _ in range(60)]
    (tmp_path / "toy.txt").write_text("".join(f" {line} \n" for line in lines), encoding="utf-8")
    values = read_toml(path)
    sizes = {"d_model": 32, "d_embedding": 16, "d_ff": 32, "num_heads": 2, "layers": 1}
    values["model"] |= {name: size for name, size in sizes.items() if name in values["model"]}
    small = [setting for setting in SMALL if not setting.startswith(("model.", "data.max_length"))]
    values = apply_overrides(values, [*small, f"data.root={tmp_path.as_posix()}", "data.bptt=16"])
    values["data"] |= {part: {"file": "toy.txt"} for part in ("train", "valid", "test")}
    trained = train(build_recipe(values, str(path)), tmp_path / "run", say=lambda text: None)
    assert trained.outcome.step == (1 if values["model"]["kind"] == "ngram" else 2)
    assert trained.outcome.best is not None and trained.outcome.best < 1500
    assert Run.open(tmp_path / "run").recipe == trained.run.recipe


@pytest.mark.parametrize("path", UNDERSTANDERS, ids=lambda path: path.stem)
def test_a_reader_of_a_recipe_trains_on_toy_text(path: Path, tmp_path: Path) -> None:
    rng = random.Random(3)
    texts = [" ".join(rng.choices(["a", "def", "ghij", "ä"], k=rng.randint(1, 6))) for _ in range(12)]
    toys = [{"text": text, "words": ["a", "bc"], "question": "a", "context": f"{text} bc"} for text in texts]
    toys = [toy | TOYS[TASKS[path]] for toy in toys]
    if TASKS[path] == "classification":
        toys = [toy | {"label": "xy"[number % 2]} for number, toy in enumerate(toys)]
    lines = [json.dumps(toy) + "\n" for toy in toys]
    (tmp_path / "toy.jsonl").write_text("".join(lines), encoding="utf-8")
    values = read_toml(path)
    values["model"] = values.get("model", {"kind": "bert"}) | {"layers": 1, "d_model": 16, "num_heads": 2, "d_ff": 16}
    small = ["start_from=", "training.max_steps=2", "training.max_epochs=9", "runtime.device=cpu", "runtime.threads=1"]
    values = apply_overrides(values, [*small, f"data.root={tmp_path.as_posix()}", "data.keep_apart=false"])
    values["data"] |= {part: {"file": "toy.jsonl"} for part in ("train", "valid", "test")}
    values["data"] |= {"hold_out": 0.0, "hold_out_test": 0.0}
    trained = train(build_recipe(values, str(path)), tmp_path / "run", say=lambda text: None)
    assert trained.outcome.step == 2 and trained.outcome.best is not None
    assert Run.open(tmp_path / "run").recipe == trained.run.recipe


@pytest.mark.parametrize("path", PRETRAINING, ids=lambda path: path.stem)
def test_a_bert_of_a_recipe_trains_on_toy_text(path: Path, tmp_path: Path) -> None:
    rng = random.Random(3)
    lines = [" ".join(rng.choices(["a", "bc", "def", "ghij", "."], k=rng.randint(1, 9))) for _ in range(60)]
    text = "".join(f" = {line} = \n" if number % 6 == 0 else f" {line} \n" for number, line in enumerate(lines))
    (tmp_path / "toy.txt").write_text(text, encoding="utf-8")
    values = apply_overrides(
        read_toml(path),
        [setting for setting in SMALL if "coder_layers" not in setting] + ["model.layers=1", "data.max_length=32"],
    )
    values["data"]["root"] = tmp_path.as_posix()
    for part in ("train", "valid", "test"):
        values["data"][part]["file"] = "toy.txt"
    trained = train(build_recipe(values, str(path)), tmp_path / "run", say=lambda text: None)
    assert trained.outcome.step == 2 and trained.outcome.metrics["masked_perplexity"] < 1000
    assert Run.open(tmp_path / "run").recipe == trained.run.recipe
