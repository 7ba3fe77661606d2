"""The survey of the data, and the temporary run that is made of a sample."""

from pathlib import Path
from typing import Any, cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.doctor.recipes import SIZES, TASKS, dry_run, read_examples, write_examples, write_recipe

from regard.data.pairs import Pairs
from regard.doctor import sample
from regard.doctor.model import compute_loss
from regard.doctor.sample import Reservoir, Survey, elements, survey
from regard.tasks.registry import load_recipe, task_of


def read_survey(recipe: Path, **options: Any) -> Survey:
    loaded = load_recipe(recipe)
    task = task_of(loaded)
    return survey(task, task.checks.read_splits(loaded, recipe.parent), seed=1, **options)


@pytest.mark.parametrize("task", TASKS)
def test_every_example_of_every_split_is_counted(task: str, tmp_path: Path) -> None:
    result = read_survey(write_recipe(tmp_path, task))
    sentences = 4 if task == "pretraining" else 1
    assert {split: read.examples for split, read in result.splits.items()} == {
        split: sentences * size for split, size in SIZES.items()
    }
    assert result.complete


@pytest.mark.parametrize("task", TASKS)
def test_a_sample_is_read_back_as_the_examples_it_was_made_of(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample, "SAMPLE", 40)
    dry = dry_run(write_recipe(tmp_path, task), tmp_path)
    texts = [dry.task.checks.texts(dry.task.recipe.fields, example) for example in dry.survey.splits["train"].sample]
    assert [dry.task.checks.texts(dry.task.recipe.fields, example) for example in list(dry.task.read("train"))] == texts
    assert len(texts) == 40 and dry.scale == dry.survey.splits["train"].examples / 40


@pytest.mark.parametrize("task", TASKS)
def test_the_small_batch_has_a_loss(task: str, tmp_path: Path) -> None:
    dry = dry_run(write_recipe(tmp_path, task), tmp_path)
    loss = compute_loss(dry, dry.task, dry.new_model(), dry.small_batch)
    assert int(loss.count) > 0 and elements(dry.small_batch) > 0


def test_a_sample_has_the_tags_of_back_translations(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    write_examples(tmp_path / "back.jsonl", read_examples(tmp_path / "train.jsonl")[:60])
    sources = '[{file="train.jsonl"}, {file="back.jsonl", back_translated=true}]'
    dry = dry_run(recipe, tmp_path, f"data.train={sources}", "data.drop_duplicates=false")
    tag, store = dry.task.tokenizers["source"].back_translation_tag, cast(Pairs, dry.store)
    assert [bool(store.src(row)[0] == tag) for row in range(len(store))].count(True) == 60
    assert dry.small_batch.labels.any()


def test_the_small_batch_has_no_text_twice(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    train = read_examples(tmp_path / "train.jsonl")
    write_examples(tmp_path / "train.jsonl", [example | {"tgt": train[0]["tgt"]} for example in train[:50]] + train)
    labels = dry_run(recipe, tmp_path).small_batch.labels.tolist()
    assert len(labels) == 8 and len({tuple(row) for row in labels}) == 8


def test_reading_reports_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "REPORT_EVERY", 100)
    reports: list[int] = []
    read_survey(write_recipe(tmp_path), progress=lambda title, done, total: reports.append(done))
    assert reports == [100, 200]


def test_quick_reads_the_beginning_of_each_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "QUICK_SAMPLE", 20)
    loaded = load_recipe(write_recipe(tmp_path))
    task, data = task_of(loaded), loaded.data
    data = data.model_copy(update={"train": [*data.train, *data.valid]})
    splits = task.checks.read_splits(loaded.model_copy(update={"data": data}), tmp_path)
    result = survey(task, splits, seed=1, quick=True)
    train, valid = (read_examples(tmp_path / f"{split}.jsonl") for split in ("train", "valid"))
    assert result.splits["train"].sample == train[:10] + valid[:10]
    assert result.overlap["valid"] and not result.overlap["test"] and not result.complete


def test_without_dropout_the_weights_are_the_same(tmp_path: Path) -> None:
    dry = dry_run(write_recipe(tmp_path), tmp_path, "model.dropout=0.5", "model.attention_dropout=0.5")
    model, plain = dry.new_model().train(), dry.new_model(plain=True).train()
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), plain.parameters(), strict=True))

    def loss(module: torch.nn.Module) -> float:
        return float(compute_loss(dry, dry.plain_task, module, dry.small_batch).nll)

    assert loss(plain) == loss(plain) != loss(model)


@settings(max_examples=40)
@given(st.integers(1, 20), st.integers(0, 60), st.integers(0, 5), st.booleans())
def test_a_sample_has_its_size_and_its_order(size: int, stream: int, seed: int, beginning: bool) -> None:
    reservoir = Reservoir(size, seed, beginning)
    for number in range(stream):
        reservoir.offer({"number": number})
    numbers = [example["number"] for example in reservoir.in_order()]
    assert reservoir.seen == stream and len(numbers) == min(size, stream)
    assert numbers == sorted(set(numbers)) and set(numbers) <= set(range(stream))
    assert not beginning or numbers == list(range(len(numbers)))


def test_a_sample_is_uniform() -> None:
    """Each of 20 examples is among 5 in a quarter of the samples: 100 of 400, within four standard deviations."""
    counts = [0] * 20
    for seed in range(400):
        reservoir = Reservoir(5, seed)
        for number in range(20):
            reservoir.offer({"number": number})
        for example in reservoir.in_order():
            counts[example["number"]] += 1
    assert all(65 <= count <= 135 for count in counts)
