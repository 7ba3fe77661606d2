"""Choosing defaults from the training data, and keeping them when a run is resumed."""

from collections import Counter
from pathlib import Path

import pytest
from tests.tiny import write_recipe

from regard.errors import UserError
from regard.recipe import Corpus
from regard.run.run import Run
from regard.tasks.defaults import choose_defaults, count_words, percentile, survey, take_defaults
from regard.tasks.registry import build_recipe, load_recipe

PAIRS = [("one two", "eins zwei drei"), ("你好 world", "hallo")]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for split in ("train", "valid"):
        for side, name in enumerate(("src", "tgt")):
            text = "".join(pair[side] + "\n" for pair in PAIRS)
            (tmp_path / f"{split}.{name}").write_text(text, encoding="utf-8")
    (tmp_path / "bare.toml").write_text(
        f'name = "bare"\n[data]\nroot = "{tmp_path}"\n'
        + "".join(f'{split} = {{ src = "{split}.src", tgt = "{split}.tgt" }}\n' for split in ("train", "valid")),
        encoding="utf-8",
    )
    return tmp_path


def test_words_are_counted_between_spaces_and_by_chinese_character() -> None:
    assert count_words("one  two") == 2
    assert count_words("你好 world") == 2 + 2
    assert count_words("") == 0


def test_percentile_is_the_least_value_that_covers_the_share() -> None:
    counts = Counter({1: 90, 5: 5, 100: 5})
    assert percentile(counts, 0.9) == 1
    assert percentile(counts, 0.95) == 5
    assert percentile(counts, 0.96) == 100
    assert percentile(Counter(), 0.95) == 0


def test_survey_counts_examples_and_the_words_of_both_sides(data: Path) -> None:
    assert survey(load_recipe(data / "bare.toml")) == Corpus(examples=2, words=2 + 3 + 4 + 1, long_input=4)


def test_survey_respects_a_limit_of_examples(tmp_path: Path) -> None:
    path = write_recipe(tmp_path, "classification")
    whole = survey(load_recipe(path))
    half = survey(load_recipe(path, [f"data.limit={whole.examples // 2}"]))
    assert half.examples == whole.examples // 2
    assert half.words == whole.words * half.examples // whole.examples


def test_every_choice_is_reported_and_set(data: Path) -> None:
    recipe, lines = load_recipe(data / "bare.toml"), list[str]()
    chosen = choose_defaults(recipe, lines.append)
    values = {choice.name: choice.value for choice in recipe.choose(survey(recipe))}
    for name, value in values.items():
        group, _, key = name.partition(".")
        assert getattr(getattr(chosen, group), key) == value
    reported = {line.split(" = ")[0].strip() for line in lines if " = " in line}
    inside_size = {"model.d_model", "model.num_heads", "model.d_ff", "model.encoder_layers", "model.decoder_layers"}
    assert reported == set(values) - inside_size
    assert list(chosen.choose(Corpus(10, 10, 10))) == []
    assert chosen.model_dump(exclude={"text", "model", "training"}) == recipe.model_dump(
        exclude={"text", "model", "training"}
    )


@pytest.mark.parametrize("steps", [1, 2, 9, 10])
def test_what_is_chosen_can_be_read_again(data: Path, steps: int) -> None:
    chosen = choose_defaults(load_recipe(data / "bare.toml", [f"training.max_steps={steps}"]), lambda _: None)
    Run.create(data / "run", chosen)
    assert Run.open(data / "run").recipe == chosen and chosen.training.warmup < steps


def test_a_given_warmup_must_fit_the_chosen_schedule(data: Path) -> None:
    recipe = load_recipe(data / "bare.toml", ["training.max_steps=5", "training.warmup=5"])
    with pytest.raises(UserError) as error:
        choose_defaults(recipe, lambda _: None)
    assert error.value.where == "training.warmup"


def test_a_recipe_that_gives_all_settings_is_not_read(data: Path) -> None:
    chosen = choose_defaults(load_recipe(data / "bare.toml"), lambda _: None)
    complete = build_recipe(chosen.model_dump(exclude_none=True), "complete")
    (data / "train.src").unlink()
    assert choose_defaults(complete, lambda _: pytest.fail("read")) is complete


def test_a_resumed_run_keeps_its_choices_if_the_data_grew(data: Path) -> None:
    run = Run.create(data / "run", choose_defaults(load_recipe(data / "bare.toml"), lambda _: None))
    again = take_defaults(load_recipe(data / "bare.toml", ["training.max_steps=1000"]), run.recipe)
    assert again.training.max_steps == 1000
    assert again.model == run.recipe.model
    assert again.text == run.recipe.text
    assert again.training.warmup == run.recipe.training.warmup
    assert run.resume(again).recipe.training.max_steps == 1000


@pytest.mark.parametrize("length", [{"max_steps": 20}, {"max_epochs": 2.0}, {"max_minutes": 0.5}])
@pytest.mark.parametrize("task", ["translation", "classification"])
def test_a_run_resumed_without_a_length_keeps_the_one_it_was_given(
    tmp_path: Path, task: str, length: dict[str, float]
) -> None:
    fields = {"translation": "src,tgt", "classification": "text,label"}[task]
    (tmp_path / "train.csv").write_text(fields + "\n" + "a b,c\nd e,f\n" * 10, encoding="utf-8")
    path = tmp_path / "bare.toml"
    data = f'root = "{tmp_path}"\ntrain = {{ file = "train.csv" }}'
    path.write_text(f'name = "bare"\ntask = "{task}"\n[data]\n{data}\n', encoding="utf-8")
    ((name, value),) = length.items()
    before = choose_defaults(load_recipe(path, [f"training.{name}={value}"]), lambda _: None)
    again = take_defaults(load_recipe(path), before)
    assert getattr(again.training, name) == value
    assert again.training == before.training
    other = take_defaults(load_recipe(path, ["training.max_steps=7"]), before)
    assert other.training.max_steps == 7 and other.training.warmup < 7
