"""The doctor on recipes of understanding and pretraining: the healthy pass, and what is wrong with data is found."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from regard.run.doctor import Check, examine, reading
from regard.run.doctor.reading import entropy

MODEL = '{ kind = "transformer", d_model = 32, layers = 1, num_heads = 2, d_ff = 48, dropout = 0.1 }'
RECIPE = """
name = "small"
task = "{task}"
data = {{ train.file = "train.jsonl", valid.file = "valid.jsonl", test.file = "test.jsonl", {data} }}
text = {{ vocab_size = 200 }}
model = {model}
training = {{ max_epochs = 2, batch_examples = 8, learning_rate = 1e-3 }}
runtime = {{ device = "cpu", threads = 1 }}
"""
PRETRAINING = """
name = "small"
task = "pretraining"
data = { train.file = "train.txt", valid.file = "valid.txt", test.file = "test.txt", max_length = 24, workers = 1 }
text = { vocab_size = 200 }
model = { d_model = 32, layers = 1, num_heads = 2, d_ff = 48, max_positions = 24 }
training = { max_steps = 20, batch_tokens = 256, learning_rate = 1e-3, warmup = 2 }
runtime = { device = "cpu", threads = 1 }
"""
WORDS = ("red", "green", "blue", "cold", "warm", "small", "large", "old", "new", "tall", "dark", "light", "quick")


def example(rng: random.Random, task: str) -> dict[str, Any]:
    words = rng.choices(WORDS, k=6)
    many: dict[str, dict[str, Any]] = {
        "classification": {"text": " ".join(words), "label": "a" if words[0] < "m" else "b"},
        "regression": {"text": " ".join(words), "pair": words[0], "label": float(len(words[0]))},
        "tagging": {"words": words, "tags": ["X" if word < "m" else "Y" for word in words]},
        "answering": {"question": "first ?", "context": " ".join(words), "answers": [{"text": words[0], "start": 0}]},
        "choice": {"text": " ".join(words), "choices": [words[0], "nothing"], "label": 0},
    }
    return many[task]


def write(folder: Path, task: str = "classification", model: str = MODEL) -> Path:
    rng = random.Random(1)
    for part, count in (("train", 64), ("valid", 16), ("test", 16)):
        put(folder / f"{part}.jsonl", [example(rng, task) for _ in range(count)])
    data = "max_length = 24, workers = 1" + (", max_question = 8, stride = 8" if task == "answering" else "")
    (folder / "small.toml").write_text(RECIPE.format(task=task, model=model, data=data), encoding="utf-8")
    return folder


def put(path: Path, examples: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(each) + "\n" for each in examples), encoding="utf-8")


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def verdict(folder: Path, *overrides: str, quick: bool = True) -> dict[str, Check]:
    checks = examine(folder / "small.toml", [f"data.root={folder.as_posix()}", *overrides], quick=quick)
    return {check.name: check for check in checks}


@pytest.mark.parametrize("task", ["classification", "regression", "tagging", "answering", "choice"])
def test_a_healthy_recipe_passes_and_leaves_nothing(tmp_path: Path, task: str) -> None:
    folder = write(tmp_path, task)
    before = sorted(folder.rglob("*"))
    found = verdict(folder, quick=task not in ("classification", "tagging"))
    wrong = [check for check in found.values() if check.status in ("warn", "fail") and check.name != "labels"]
    assert not wrong, wrong
    assert found["labels"].status == ("fail" if task == "choice" else "pass"), "always the first choice is no choice"
    assert "train         64" in found["files"].finding and sorted(folder.rglob("*")) == before


def test_the_recurrent_reader_is_examined_too(tmp_path: Path) -> None:
    folder = write(tmp_path, model='{ kind = "recurrent", d_model = 32 }')
    found = verdict(folder)
    assert {check.status for check in found.values()} == {"pass", "skip"}, found
    assert "about 0.69 expected" in found["first loss"].finding


def test_labels_that_cannot_be_learnt_are_found(tmp_path: Path) -> None:
    folder = write(tmp_path)
    train = read(folder / "train.jsonl")
    put(folder / "train.jsonl", [each | ({"label": "c"} if n < 3 else {}) for n, each in enumerate(train)])
    rare = verdict(folder)["labels"]
    assert rare.status == "warn" and "1 have less than 5 examples" in rare.finding and rare.remedy.endswith(": c")
    put(folder / "train.jsonl", [each | {"label": "c" if number < 6 else "a"} for number, each in enumerate(train)])
    unknown = verdict(folder)["labels"]
    assert unknown.status == "fail" and "never learnt, in valid: b; in test: b" in unknown.finding
    for part in ("train", "valid", "test"):
        put(folder / f"{part}.jsonl", [each | {"label": "a"} for each in read(folder / f"{part}.jsonl")])
    assert "nothing to tell apart" in verdict(folder)["labels"].remedy
    put(folder / "train.jsonl", [each | {"label": "b" if number < 6 else "a"} for number, each in enumerate(train)])
    assert "always saying 'a' is right 91%" in verdict(folder)["labels"].finding


def test_what_was_learnt_is_no_test(tmp_path: Path) -> None:
    folder = write(tmp_path)
    put(folder / "test.jsonl", read(folder / "train.jsonl")[:8])
    found = verdict(folder)["unseen test"]
    assert found.status == "fail" and "100.0% of test" in found.finding
    assert verdict(folder, "data.keep_apart=true")["unseen test"].status == "pass"


def test_long_texts_and_unknown_words_are_counted(tmp_path: Path) -> None:
    folder = write(tmp_path)
    valid = read(folder / "valid.jsonl")
    put(folder / "valid.jsonl", [each | {"text": f"{each['text']} {each['text']} " * 3} for each in valid])
    lengths = verdict(folder)["lengths"]
    assert lengths.status == "warn" and "valid 100.0%" in lengths.finding and "the longest has 38" in lengths.finding
    put(folder / "valid.jsonl", [each | {"text": "これは別の文字です"} for each in valid])
    assert verdict(folder)["vocabulary"].status == "fail"


def test_a_start_that_is_not_there_ends_the_examination(tmp_path: Path) -> None:
    found = verdict(write(tmp_path), f"start_from={tmp_path / 'nowhere'}")
    assert found["start"].status == "fail" and "no such folder" in found["start"].finding
    assert found["the rest"].status == "skip"


def test_what_does_not_learn_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "OVERFIT_STEPS", 2)
    found = verdict(write(tmp_path), quick=False)
    assert found["learns by heart"].status == "fail" and found["time"].status == "pass"


def test_guessing_by_frequency_has_the_entropy_of_the_labels() -> None:
    assert entropy([0, 1, 2, 3]) == pytest.approx(1.3862943611)
    assert entropy([0, 0, 0]) == 0


def documents(folder: Path, between: str = "\n\n") -> Path:
    rng = random.Random(2)
    for part, count in (("train", 30), ("valid", 8), ("test", 8)):
        texts = ("\n".join(" ".join(rng.choices(WORDS, k=9)) for _ in range(4)) for _ in range(count))
        (folder / f"{part}.txt").write_text(between.join(texts) + "\n", encoding="utf-8")
    (folder / "small.toml").write_text(PRETRAINING, encoding="utf-8")
    return folder


def test_pretraining_is_examined(tmp_path: Path) -> None:
    folder = documents(tmp_path)
    before = sorted(folder.rglob("*"))
    found = verdict(folder, quick=False)
    assert {check.status for check in found.values()} == {"pass"}, found
    assert "train 1,080 words in 120 sentences of 30 documents" in found["files"].finding
    assert sorted(folder.rglob("*")) == before
    without = verdict(folder, "data.next_sentence=false")
    assert without["gradients"].status == "pass", "of the second question nothing is asked"


def test_documents_that_are_one_and_sentences_that_were_learnt(tmp_path: Path) -> None:
    folder = documents(tmp_path, between="\n")
    found = verdict(folder)
    assert found["files"].status == "fail" and "data.next_sentence=false" in found["files"].remedy
    (folder / "test.txt").write_text((folder / "train.txt").read_text(encoding="utf-8"), encoding="utf-8")
    assert "100.0% of test" in verdict(folder, "data.next_sentence=false")["unseen test"].finding
