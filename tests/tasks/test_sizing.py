"""Defaults that are chosen from the amount of training data."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import UserError
from regard.recipe import Corpus, Recipe
from regard.recipe_files import shipped_recipes
from regard.tasks.registry import build_recipe, load_recipe
from regard.tasks.sizing import epochs, first_above, rounded

WORDS_PER_EXAMPLE = {
    "translation": 25, "language": 20, "pretraining": 20, "classification": 20, "tagging": 15, "dependencies": 15,
}  # fmt: skip
TASKS = list(WORDS_PER_EXAMPLE)
SIZES = [500, 5_000, 50_000, 500_000, 5_000_000]


def bare(task: str, **settings: Any) -> Recipe:
    source = {"src": "a", "tgt": "b"} if task == "translation" else {"file": "a.txt"}
    if task in ("classification", "tagging", "dependencies"):
        source = {"file": "a.jsonl"}
    return build_recipe({"name": "bare", "task": task, "data": {"train": source, "valid": source}, **settings}, "bare")


def chosen(recipe: Recipe, examples: int) -> dict[str, Any]:
    corpus = Corpus(examples, examples * WORDS_PER_EXAMPLE[recipe.task], 30)
    return {choice.name: choice.value for choice in recipe.choose(corpus)}


def test_bounds_rounding_and_epochs() -> None:
    assert [first_above(value, [(10, "a"), (20, "b")], "c") for value in (9, 10, 19, 20)] == ["a", "b", "b", "c"]
    assert [rounded(value, 100, 5000) for value in (3, 1234, 1250, 4949, 9999)] == [100, 1200, 1200, 4900, 5000]
    assert epochs(1000, 1000, 20, 0.5, 2, 50) == 20
    assert epochs(4000, 1000, 20, 0.5, 2, 50) == 10
    assert epochs(1e9, 1000, 20, 0.5, 2, 50) == 2
    assert epochs(1, 1000, 20, 0.5, 2, 50) == 50


@pytest.mark.parametrize("task", TASKS)
def test_more_data_gives_a_larger_vocabulary_and_model_and_fewer_epochs(task: str) -> None:
    values = [chosen(bare(task), examples) for examples in SIZES]
    vocabularies = [value["text.vocab_size"] for value in values]
    assert vocabularies == sorted(vocabularies)
    assert 1000 <= vocabularies[0] < vocabularies[-1] <= 32_000
    widths = [value["model.d_model"] for value in values]
    assert widths == sorted(widths)
    assert widths[0] < widths[-1]
    rates = [value["training.learning_rate"] for value in values]
    assert rates == sorted(rates, reverse=True)
    assert all(1e-4 <= rate <= 2e-3 for rate in rates)


@pytest.mark.parametrize("task", ["translation", "language", "pretraining"])
@pytest.mark.parametrize("examples", SIZES)
def test_training_in_steps_sees_every_example_and_ends(task: str, examples: int) -> None:
    value = chosen(bare(task), examples)
    steps, batch = value["training.max_steps"], value["training.batch_tokens"]
    sides = 2 if task == "translation" else 1
    passes = steps * batch / (examples * WORDS_PER_EXAMPLE[task] / sides * 1.4)
    assert passes > 2.5
    assert passes < 105 or steps == 500
    assert value["training.warmup"] == min(10_000 if task == "pretraining" else 4000, steps // 10)
    assert value["training.patience"] >= 4
    validations = steps / value["training.validate_every"]
    assert validations >= 10
    assert validations <= 21 or value["training.validate_every"] == 2000


@pytest.mark.parametrize(
    ("task", "batches"),
    [
        ("translation", [1024, 2048, 4096, 8192, 16_384]),
        ("language", [1400, 2800, 8960, 8960, 17_920]),
        ("pretraining", [4096, 4096, 8192, 8192, 32_768]),
    ],
)
def test_batches_grow_with_the_data(task: str, batches: list[int]) -> None:
    assert [chosen(bare(task), examples)["training.batch_tokens"] for examples in SIZES] == batches


@pytest.mark.parametrize("task", ["classification", "tagging", "dependencies"])
def test_labelled_tasks_count_epochs(task: str) -> None:
    passes = [chosen(bare(task), examples)["training.max_epochs"] for examples in SIZES]
    assert passes == [50.0, 20.0, 8.0, 3.0, 3.0]
    assert [chosen(bare(task), examples)["training.batch_examples"] for examples in SIZES] == [32, 32, 64, 128, 128]


def test_a_small_corpus_of_pairs_gets_a_tiny_model_and_minutes_of_steps() -> None:
    value = chosen(bare("translation"), 5000)
    assert value["model.size"] == "tiny"
    assert (value["model.encoder_layers"], value["model.d_model"], value["model.dropout"]) == (2, 128, 0.3)
    assert value["model.norm"] == "pre"
    assert value["training.schedule"] == "cosine"
    assert value["training.max_steps"] * value["training.batch_tokens"] < 6e6  # tokens


def test_a_translation_model_grows_at_100_000_and_3_million_words_per_side() -> None:
    recipe = bare("translation")
    sizes = {
        words: next(c.value for c in recipe.choose(Corpus(5000, 2 * words, 30)) if c.name == "model.size")
        for words in (99_999, 100_000, 2_999_999, 3_000_000)
    }
    assert list(sizes.values()) == ["tiny", "small", "small", "base"]


def test_long_texts_get_a_longer_input_up_to_a_limit() -> None:
    recipe = bare("classification")
    lengths = {
        words: next(c.value for c in recipe.choose(Corpus(5000, 100_000, words)) if c.name == "data.max_length")
        for words in (3, 40, 100, 5000)
    }
    assert lengths == {3: 32, 40: 64, 100: 160, 5000: 512}
    assert "data.max_length" not in chosen(bare("tagging"), 5000)


@pytest.mark.parametrize("task", TASKS)
def test_given_settings_are_not_chosen(task: str) -> None:
    names = list(chosen(bare(task), 5000))

    @given(st.sets(st.sampled_from(names), min_size=1))
    def check(kept: set[str]) -> None:
        default = bare(task)
        settings: dict[str, Any] = {}
        for name in kept - {"data.max_length", "data.bptt"}:
            group, _, key = name.partition(".")
            settings.setdefault(group, {})[key] = getattr(getattr(default, group), key)
        assert not kept - {"data.max_length", "data.bptt"} & set(chosen(bare(task, **settings), 5000))

    check()


@pytest.mark.parametrize(("kind", "chooses"), [("bpe", True), ("wordpiece", True), ("word", False), ("char", False)])
def test_only_subwords_get_a_vocabulary_size(kind: str, chooses: bool) -> None:
    assert ("text.vocab_size" in chosen(bare("language", text={"kind": kind}), 5000)) == chooses


def test_one_given_size_keeps_the_others() -> None:
    assert not [n for n in chosen(bare("translation", model={"d_model": 64}), 5000) if n.startswith("model.d")]
    assert "model.dropout" not in chosen(bare("translation", model={"size": "small"}), 5000)


def test_given_steps_set_the_warmup_and_the_validations() -> None:
    value = chosen(bare("translation", training={"max_steps": 400}), 5000)
    assert "training.max_steps" not in value
    assert "training.patience" not in value
    assert (value["training.warmup"], value["training.validate_every"]) == (40, 20)
    assert chosen(bare("translation", training={"max_steps": 10**6}), 5000)["training.warmup"] == 4000


def test_given_epochs_set_the_steps_of_the_schedule() -> None:
    value = chosen(bare("translation", training={"max_epochs": 10.0}), 5000)
    tokens = 5000 * 25 / 2 * 1.4
    assert value["training.max_steps"] == pytest.approx(11 * tokens / value["training.batch_tokens"], rel=0.05)
    assert value["training.warmup"] == value["training.max_steps"] // 10
    assert "training.patience" not in value
    assert "training.max_epochs" not in value


def test_given_steps_turn_the_epochs_of_labelled_tasks_off() -> None:
    value = chosen(bare("classification", training={"max_steps": 900}), 5000)
    assert value["training.max_epochs"] == 0
    assert "training.patience" not in value
    minutes = chosen(bare("classification", training={"max_minutes": 3.0}), 5000)
    assert minutes["training.max_epochs"] == 20
    assert "training.patience" not in minutes


@pytest.mark.parametrize(("steps", "every"), [(5, 5), (50, 10), (400, 20), (10**6, 2000)])
def test_validations_are_some_steps_apart(steps: int, every: int) -> None:
    assert chosen(bare("translation", training={"max_steps": steps}), 5000)["training.validate_every"] == every


def test_metrics_that_decode_are_validated_less_often() -> None:
    every = {
        monitor: chosen(bare("translation", training={"max_steps": 2000, "monitor": monitor}), 5000)
        for monitor in ("loss", "bleu")
    }
    assert every["loss"]["training.validate_every"] == 100
    assert every["bleu"]["training.validate_every"] == 200


def test_the_rate_follows_the_schedule() -> None:
    paper = chosen(bare("translation", training={"schedule": "paper"}), 5000)
    assert "training.learning_rate" not in paper
    given_rate = chosen(bare("translation", training={"learning_rate": 3e-4, "schedule": "cosine"}), 5000)
    assert "training.schedule" not in given_rate
    assert "model.norm" not in given_rate


@pytest.mark.parametrize("schedule", ["cosine", "linear", "constant", "inverse_sqrt"])
def test_a_given_rate_is_a_peak_rate_unless_the_schedule_is_the_papers(schedule: str) -> None:
    assert chosen(bare("translation", training={"schedule": schedule}), 5000)["training.learning_rate"] == 2e-3
    assert bare("translation", training={"schedule": schedule, "learning_rate": 0.4}).training.schedule == schedule
    with pytest.raises(UserError) as error:
        bare("translation", training={"schedule": schedule, "learning_rate": 0.5})
    assert (error.value.code, error.value.where) == ("invalid-setting", "training.learning_rate")


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_a_given_warmup_leaves_steps_to_a_schedule_that_ends(schedule: str) -> None:
    settings = {"schedule": schedule, "learning_rate": 1e-3, "max_steps": 50}
    assert bare("translation", training=settings).training.max_steps == 50  # a warm-up of its own is chosen later
    assert bare("translation", training=settings | {"warmup": 49}).training.warmup == 49
    with pytest.raises(UserError) as error:
        bare("translation", training=settings | {"warmup": 50})
    assert (error.value.code, error.value.where) == ("invalid-setting", "training.warmup")


def test_fine_tuning_keeps_the_model_and_lowers_the_rate(tmp_path: Any) -> None:
    scratch = chosen(bare("translation"), 5000)
    tuned = chosen(bare("translation", start_from=str(tmp_path / "run")), 5000)
    assert all(name.startswith("training.") for name in tuned)
    assert tuned["training.learning_rate"] == scratch["training.learning_rate"] / 4
    assert chosen(bare("classification", start_from=str(tmp_path / "run")), 5000) == {}


@pytest.mark.parametrize(("examples", "passes"), [(50, 10), (1000, 5), (100_000, 2)])
def test_fine_tuning_a_translator_takes_few_passes(examples: int, passes: int, tmp_path: Any) -> None:
    tuned = chosen(bare("translation", start_from=str(tmp_path / "run")), examples)
    tokens = tuned["training.max_steps"] * tuned["training.batch_tokens"]
    assert tuned["training.max_steps"] == 20 or round(tokens / (examples * 25 / 2 * 1.4)) == passes
    assert tuned["training.warmup"] == tuned["training.max_steps"] // 10


def test_shipped_recipes_give_all_their_settings() -> None:
    for path in shipped_recipes():
        assert not list(load_recipe(path).choose(Corpus(1, 1, 1))), path.stem
