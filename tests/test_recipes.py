"""Every recipe that comes with regard is valid, says where its data is, and trains on generated text."""

import random
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.system.helpers import train_quietly
from tests.tiny import TREES, recipe_values, write_jsonl

from regard import recipe_files
from regard.config import SettingsTable
from regard.data.settings import PairDataSettings
from regard.errors import UserError
from regard.reading import read_toml
from regard.recipe_files import shipped_recipes
from regard.run.run import Run
from regard.tasks.registry import build_recipe, load_recipe

RECIPES = shipped_recipes()
LANGUAGE_MODELS = ("ngram", "markov", "rnn", "gru", "lstm", "transformer", "lstm-bpe", "lstm-char")
EXPECTED = {
    "dates", "numbers", "multi30k-en-de", "tatoeba-en-de", "wmt14-en-de-base", "wmt14-en-de-big",
    "wmt14-en-fr-base", "wmt14-en-fr-big",
    *(f"wikitext-2-{model}" for model in (*LANGUAGE_MODELS, "bert", "bert-small")),
}  # fmt: skip
SPLITS = ("train", "valid", "test")
WORDS = ["a", "bc", "def", "ghij", "ä"]
LABELS: dict[str, SettingsTable] = {
    "regression": {"label": 0.5},
    "tagging": {"tags": ["B-x", "O"]},
    "dependencies": {"heads": [2, 0], "relations": ["det", "root"]},
    "answering": {"answers": "bc"},
    "choice": {"choices": ["a", "def"], "label": 1},
}
MODEL_SIZES: dict[str, SettingsTable] = {"recurrent": {}, "lstm": {}, "elmo": {"language_width": 8}}
"""Sizes of encoders that have no attention heads."""
SMALL_TRAINING = {
    "max_steps": 2, "validate_every": 2, "batch_tokens": 256, "warmup": 1, "log_every": 1, "accumulation": 1,
}  # fmt: skip


def random_lines(count: int, min_words: int, max_words: int) -> list[str]:
    rng = random.Random(3)
    return [" ".join(rng.choices(WORDS, k=rng.randint(min_words, max_words))) for _ in range(count)]


def write_pairs(values: SettingsTable, folder: Path) -> None:
    for language, lines in (("en", random_lines(40, 2, 6)), ("de", random_lines(40, 3, 5))):
        (folder / f"small.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    values["model"] |= {"d_model": 32, "num_heads": 2, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 1}
    values["training"] |= SMALL_TRAINING
    pairs: SettingsTable = {split: {"src": "small.en", "tgt": "small.de"} for split in SPLITS}
    values["data"] |= pairs | {"max_length": 64, "hold_out": 0.0}
    values.get("text", {}).pop("tokenizer_from", None)
    values.pop("start_from", None)


def write_trees(values: SettingsTable, folder: Path) -> None:
    (folder / "small.ptb").write_text(TREES * 10, encoding="utf-8")
    values["model"] |= {"d_model": 32, "num_heads": 2, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 1}
    values["training"] |= SMALL_TRAINING
    values["data"] |= {split: {"file": "small.ptb"} for split in SPLITS} | {"max_length": 64}


def write_lines(values: SettingsTable, folder: Path) -> None:
    lines = random_lines(60, 0, 6)
    (folder / "small.txt").write_text("".join(f" {line} \n" for line in lines), encoding="utf-8")
    sizes = {"d_model": 32, "d_embedding": 16, "d_ff": 32, "num_heads": 2, "layers": 1}
    values["model"] |= {name: size for name, size in sizes.items() if name in values["model"]}
    values["training"] |= {} if values["model"]["kind"] == "ngram" else SMALL_TRAINING
    values["data"] |= {split: {"file": "small.txt"} for split in SPLITS} | {"bptt": 16}


def write_documents(values: SettingsTable, folder: Path) -> None:
    lines = enumerate(random_lines(60, 1, 9))
    text = "".join(f" = {line} = \n" if number % 6 == 0 else f" {line} \n" for number, line in lines)
    (folder / "small.txt").write_text(text, encoding="utf-8")
    values["model"] |= {"d_model": 32, "num_heads": 2, "d_ff": 32, "layers": 1}
    values["training"] |= SMALL_TRAINING
    values.pop("start_from", None)
    train = values["data"]["train"]
    source = (train if isinstance(train, dict) else {"boundary": "heading"}) | {"file": "small.txt"}
    values["data"] |= dict.fromkeys(SPLITS, source) | {"max_length": 32, "hold_out": 0.0}


def write_labelled(values: SettingsTable, folder: Path) -> None:
    examples = [
        {"text": text, "words": ["a", "bc"], "question": "a", "context": f"{text} bc", "label": "xy"[number % 2]}
        | LABELS.get(values["task"], {})
        for number, text in enumerate(random_lines(12, 1, 6))
    ]
    write_jsonl(folder / "small.jsonl", examples)
    values.pop("start_from", None)
    kind = values["model"].get("kind", "bert")
    sizes = {"layers": 1, "d_model": 16} | MODEL_SIZES.get(kind, {"num_heads": 2, "d_ff": 16})
    values["model"] = {"kind": kind} | values["model"] | ({} if kind == "linear" else sizes)
    values["training"] |= {"max_steps": 2, "max_epochs": 9.0}
    values["data"] |= {split: {"file": "small.jsonl"} for split in SPLITS}
    values["data"] |= {"exclude_overlap": False, "hold_out": 0.0, "hold_out_test": 0.0}


def write_tones(values: SettingsTable, folder: Path) -> None:
    rows = [{"audio": f"tones:{number}:{number}", "text": "one two"} for number in range(9)]
    write_jsonl(folder / "small.jsonl", rows)
    values["model"] |= {"d_model": 16, "num_heads": 2, "d_ff": 16, "encoder_layers": 1}
    values["training"] |= SMALL_TRAINING
    values["data"] |= {split: {"file": "small.jsonl", "format": "examples"} for split in SPLITS}


WRITERS: dict[str, Callable[[SettingsTable, Path], None]] = {
    "translation": write_pairs,
    "parsing": write_trees,
    "language": write_lines,
    "pretraining": write_documents,
    "recognition": write_tones,
}


def small_values(path: Path, folder: Path) -> SettingsTable:
    """The values of a recipe with a small model, two steps, and generated data in `folder`."""
    values: dict[str, Any] = {"task": "translation", "model": {}, "training": {}, "runtime": {}} | read_toml(path)
    WRITERS.get(values["task"], write_labelled)(values, folder)
    values["data"] |= {"root": folder.as_posix(), "workers": 1}
    values["runtime"] |= {"device": "cpu", "threads": 1}
    return values


def test_recipes_exist() -> None:
    assert {path.stem for path in RECIPES} >= EXPECTED


def test_recipes_are_valid_and_documented() -> None:
    for path in RECIPES:
        recipe, text = load_recipe(path), path.read_text(encoding="utf-8")
        assert recipe.name == path.stem and recipe.about, path.stem
        assert build_recipe(tomllib.loads(recipe.to_toml()), "written") == recipe, path.stem
        assert f"regard train {path.stem}" in text, f"{path.stem}: the command"
        if not recipe.data.train[0].builtin:
            assert "Data:" in text and "data.root=" in text, f"{path.stem}: the origin of the data"


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipe_trains_on_generated_text(path: Path, tmp_path: Path) -> None:
    recipe = build_recipe(small_values(path, tmp_path), str(path))
    trained = train_quietly(recipe, tmp_path / "run")
    outcome = trained.outcome
    assert outcome.step == (1 if recipe.model.kind == "ngram" else 2)
    assert outcome.best is not None
    for name in ("perplexity", "masked_perplexity"):
        assert outcome.metrics.get(name, 1.0) < 1500
    assert Run.open(tmp_path / "run").recipe == trained.run.recipe


def test_recipes_of_an_installed_package_are_inside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "lib" / "site-packages" / "regard"
    monkeypatch.setattr(recipe_files, "__file__", str(package / "recipe_files.py"))
    assert shipped_recipes() == []
    (package / "recipes").mkdir(parents=True)
    for name in ("b.toml", "a.toml", "notes.txt"):
        (package / "recipes" / name).touch()
    assert shipped_recipes() == [package / "recipes" / "a.toml", package / "recipes" / "b.toml"]
    source = package.parents[1] / "recipes"
    source.mkdir()
    assert len(shipped_recipes()) == 2, "a folder without recipes is not the source tree"
    (source / "c.toml").touch()
    assert shipped_recipes() == [source / "c.toml"]


def test_recipes_are_in_the_order_of_their_names() -> None:
    names = [path.stem for path in shipped_recipes()]
    assert names == sorted(names) and names.index("ag-news") + 1 == names.index("ag-news-bert")


@pytest.mark.parametrize(
    ("source", "code", "suggested"),
    [
        ("my.tml", "unknown-recipe", ["my.toml"]),
        ("my", "unknown-recipe", ["my.toml"]),
        ("myy.toml", "missing-file", ["my.toml"]),
        ("dtaes", "unknown-recipe", ["dates"]),
        ("dates.tml", "unknown-recipe", ["dates"]),
        ("other/dtaes", "unknown-recipe", []),
        ("wikitext-2-lstm-chars", "unknown-recipe", ["wikitext-2-lstm-char", "wikitext-2-lstm", "wikitext-2-lstm-bpe"]),
        ("x" * 200, "unknown-recipe", []),
    ],
)
def test_an_unknown_recipe_names_similar_ones(
    source: str, code: str, suggested: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my.toml").touch()
    Path("my.toml.txt").touch()
    Path("dtaes.toml").mkdir()
    with pytest.raises(UserError) as error:
        recipe_files.find_recipe(source)
    assert (error.value.code, error.value.where) == (code, source)
    names = re.findall(r"[\w.-]+(?= or |\?$)", str(error.value.remedy))
    assert names == suggested
    assert len(str(error.value)) < 200 + len(source)


def test_a_file_goes_before_a_shipped_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert recipe_files.find_recipe("dates").parent.name == "recipes"
    Path("dates").touch()
    assert recipe_files.find_recipe("dates") == Path("dates")


@pytest.mark.parametrize(
    "task", ["translation", "parsing", "language", "pretraining", "classification", "tagging", "dependencies"]
)
def test_a_written_recipe_has_no_settings_of_other_tasks(task: str, tmp_path: Path) -> None:
    recipe = build_recipe(recipe_values(task, "", tmp_path), "test")
    written = tomllib.loads(recipe.to_toml())
    others = {key for key, _ in recipe.no_effect()}
    assert others, "every task lacks some settings of training"
    for key in others:
        group, _, name = key.rpartition(".")
        assert name not in written[group], key
    settings = {name for split in ("train", "valid") for source in written["data"][split] for name in source}
    assert settings <= {"file", "src", "tgt", "format"}
    assert build_recipe(written, "written") == recipe


def test_earlier_names_are_read_and_new_ones_written(tmp_path: Path) -> None:
    source = {"file": str(tmp_path / "a.tsv")}
    values: SettingsTable = {"name": "x", "data": {"train": source, "variations": 0.5}, "model": {"kind": "masked"}}
    recipe = build_recipe(values, "test")
    assert 'kind = "mask-predict"' in recipe.to_toml() and "typing_noise = 0.5" in recipe.to_toml()
    assert recipe.is_given("data.typing_noise") and "variations" not in recipe.to_toml()
    last = build_recipe(values | {"data": {**values["data"], "typing_noise": 0.25}}, "test")
    assert isinstance(last.data, PairDataSettings) and last.data.typing_noise == 0.25
    settings = {"data": {"limit": 3, "exclude_overlap": True}, "model": {"kind": "mask-predict"}, "name": "x"}
    earlier = recipe_files.earlier_names(settings)
    assert earlier == {"data": {"limit": 3, "keep_apart": True}, "model": {"kind": "masked"}, "name": "x"}
    assert recipe_files.current_names(earlier) == settings
