"""The doctor on a language model: a healthy recipe passes, and what is wrong with a text or its settings is found."""

import random
from pathlib import Path

import pytest

from regard.recipe import load_recipe
from regard.run.doctor import examine

RECIPE = """
name = "small"
task = "language"
data = { train.file = "train.txt", valid.file = "valid.txt", test.file = "test.txt", bptt = 10, workers = 1 }
text = { kind = "token", min_frequency = 1 }
model = { kind = "lstm", d_model = 16, layers = 1 }
training = { max_steps = 100, batch_tokens = 100, schedule = "constant", learning_rate = 1e-3 }
runtime = { device = "cpu", threads = 1 }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = random.Random(2)
    for part, lines in (("train", 100), ("valid", 20), ("test", 20)):
        text = "".join(" ".join(rng.choices(["a", "bb", "ccc", "dddd"], k=12)) + "\n" for _ in range(lines))
        (tmp_path / f"{part}.txt").write_text(text, encoding="utf-8")
    (tmp_path / "small.toml").write_text(RECIPE, encoding="utf-8")
    return tmp_path


def verdict(folder: Path, *overrides: str, quick: bool = False) -> dict[str, tuple[str, str]]:
    checks = examine(folder / "small.toml", [f"data.root={folder.as_posix()}", *overrides], quick=quick)
    return {check.name: (check.status, check.finding) for check in checks}


def test_a_healthy_recipe_passes_and_leaves_nothing(folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    found = verdict(folder)
    assert {status for status, _ in found.values()} == {"pass"}, found
    assert "train 1,300 words in 100 lines" in found["files"][1]
    assert "about 7.7 epochs" in found["epochs"][1]
    assert "1.00 tokens a word" in found["vocabulary"][1]
    assert sorted(folder.rglob("*")) == before
    quick = verdict(folder, quick=True)
    assert quick["epochs"][0] == "skip" and quick["first step"][0] == "pass"


def test_what_was_learnt_is_no_test(folder: Path) -> None:
    (folder / "test.txt").write_text((folder / "train.txt").read_text(encoding="utf-8")[:600], encoding="utf-8")
    status, finding = verdict(folder)["unseen test"]
    assert status == "fail" and "of test" in finding


def test_other_words_than_the_training_text_has_are_spelled_out(folder: Path) -> None:
    (folder / "valid.txt").write_text("quite another language\n" * 20, encoding="utf-8")
    assert verdict(folder)["vocabulary"][0] == "fail"
    status, finding = verdict(folder, "data.unknown_below=2")["vocabulary"]
    assert "100.0% <unk>" in finding and status == "fail", "a sample without a rare word has no <unk> to learn"


def test_too_few_and_too_many_epochs_are_noticed(folder: Path) -> None:
    assert verdict(folder, "training.max_steps=5")["epochs"][0] == "warn"
    assert verdict(folder, "training.max_steps=100000")["epochs"][0] == "warn"


def test_a_missing_file_ends_the_examination_and_an_n_gram_has_no_first_step(folder: Path) -> None:
    found = verdict(folder, 'model={kind="ngram"}')
    assert "first step" not in found and found["vocabulary"][0] == "pass"
    (folder / "valid.txt").unlink()
    found = verdict(folder)
    assert found["files"][0] == "fail" and found["the rest"][0] == "skip"
    assert load_recipe(folder / "small.toml").task == "language"
