"""Runs of understanding that lack something: training text, labels, and labels in one part only."""

import json
import shutil
from pathlib import Path

from tests.cli.command import refused, regard


def test_a_test_that_is_named_is_scored_without_the_training_text(classifier: Path, ground: Path) -> None:
    hidden = ground / "classification.train.jsonl"
    before = regard("evaluate", classifier, "--json").out
    hidden.rename(ground / "hidden")
    try:
        after = regard("evaluate", classifier, "--json").out
    finally:
        (ground / "hidden").rename(hidden)
    assert json.loads(before)["scores"] == json.loads(after)["scores"]


def test_labels_that_are_gone_are_missed(classifier: Path, answerer: Path, tmp_path: Path) -> None:
    for run in (classifier, answerer):
        copy = Path(shutil.copytree(run, tmp_path / run.name))
        (copy / "labels.json").unlink()
        assert "labels.json: no such file" in refused("predict", copy, '{"text": "a", "question": "a", "context": "a"}')


def test_labels_of_valid_that_nobody_learns_are_named_and_the_bound_that_held_is_doubled(tmp_path: Path) -> None:
    examples = [{"text": f"text {number}", "label": "ab"[number % 2]} for number in range(8)]
    for part, more in (("train", []), ("valid", [{"text": "q", "label": "zebra"}])):
        lines = [json.dumps(each) + "\n" for each in examples + more]
        (tmp_path / f"{part}.jsonl").write_text("".join(lines), encoding="utf-8")
    recipe = tmp_path / "small.toml"
    recipe.write_text(
        'name = "small"\ntask = "classification"\n'
        'data = { train.file = "train.jsonl", valid.file = "valid.jsonl" }\n'
        "model = { d_model = 16, num_heads = 2, d_ff = 16, layers = 1 }\n"
        "training = { max_epochs = 4, batch_examples = 4 }\n"
        'runtime = { device = "cpu", threads = 1 }\n',
        encoding="utf-8",
    )
    done = regard("train", recipe, f"data.root={tmp_path}", "-o", tmp_path / "one", "training.max_steps=2")
    assert "valid has labels that train has not, which count as wrong: zebra" in done.err
    assert "training.max_steps=4" in done.out
    assert "training.max_epochs=8" in regard("train", recipe, f"data.root={tmp_path}", "-o", tmp_path / "two").out
