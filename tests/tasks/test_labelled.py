"""What training of a labelled task stores, and what a run reads again."""

from pathlib import Path
from typing import Any

import pytest
from tests.tiny import labelled_examples, recipe_values, write_data

from regard.tasks.registry import TASKS, build_recipe


@pytest.mark.parametrize(
    ("task", "inputs", "labels"),
    [
        ("classification", ("text",), ("bad", "good")),
        ("regression", ("text", "pair"), ()),
        ("tagging", ("words",), ("B-LOC", "B-PER", "O")),
        ("choice", ("text", "choices"), ()),
    ],
)
def test_a_run_keeps_the_names_of_labels_and_inputs_and_finds_its_splits(
    task: str, inputs: tuple[str, ...], labels: tuple[str, ...], tmp_path: Path
) -> None:
    write_data(tmp_path, task)
    recipe: Any = build_recipe(recipe_values(task, root=tmp_path), "tiny")
    said: list[str] = []
    prepared: Any = TASKS[task].prepare(recipe, tmp_path / "run", None, said.append)
    assert prepared.trained_inputs == inputs and prepared.labels == labels and said
    again: Any = type(prepared).load(recipe, tmp_path / "run")
    assert (again.trained_inputs, again.labels) == (inputs, labels)
    for split, examples in labelled_examples(task).items():
        read = list(getattr(again.splits, split))
        assert read == list(getattr(prepared.splits, split))
        assert all(example in examples for example in read) and len(read) > 10
