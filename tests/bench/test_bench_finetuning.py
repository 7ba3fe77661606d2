"""The benchmark of fine-tuning: both models have the same inputs, and are trained on the same examples."""

import argparse
import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks.finetuning import Theirs, compare
from transformers import BertConfig, BertModel

from regard.attention.layouts import Padded
from regard.run.importing import import_model
from regard.text.bert import SPECIALS, BertTokenizer

WORDS = ["river", "stone", "cloud", "window", "paper", "garden", "music", "winter", "table", "silver"]
CUES = {"animal": ["dog", "cat", "horse"], "plant": ["tree", "rose", "grass"], "tool": ["hammer", "saw", "nail"]}
ENTRIES = [*SPECIALS, *WORDS, *(word for words in CUES.values() for word in words)]
RECIPE = """
name = "small"
task = "{task}"
[data]
root = "{root}"
train = {{ file = "train.jsonl" }}
hold_out = 0.1
test = {{ file = "test.jsonl" }}
max_length = 24
[model]
kind = "bert"
[training]
max_epochs = 1
batch_examples = 8
learning_rate = 1e-3
[runtime]
device = "cpu"
threads = 1
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small BERT of transformers, and the same as a run."""
    folder = tmp_path_factory.mktemp("bench")
    torch.manual_seed(1)
    shape = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
    BertModel(BertConfig(vocab_size=len(ENTRIES), max_position_embeddings=64, **shape)).save_pretrained(folder / "hf")
    BertTokenizer(ENTRIES).save(folder / "hf" / "tokenizer.json")
    import_model(folder / "hf", folder / "run")
    return folder


def example(task: str, rng: random.Random) -> dict[str, Any]:
    words = rng.choices(WORDS, k=rng.randint(3, 6))
    label = rng.choice(list(CUES))
    cue = rng.choice(CUES[label])
    match task:
        case "classification":
            return {"text": " ".join([*words, cue]), "label": label}
        case "tagging":
            return {"words": [*words, cue], "tags": ["O"] * len(words) + [f"B-{label}"]}
        case "choice":
            return {"text": " ".join([*words, cue]), "choices": [words[0], cue, words[1]], "label": 1}
    text = " ".join([*words, cue])
    return {"question": "cloud", "context": text, "answers": [{"text": cue, "start": len(text) - len(cue)}]}


@pytest.mark.parametrize("task", ["classification", "tagging", "answering", "choice"])
def test_both_models_are_trained_and_scored(folder: Path, tmp_path: Path, task: str) -> None:
    for part, count in (("train", 60), ("test", 12)):
        rng = random.Random(part)
        lines = [json.dumps(example(task, rng)) + "\n" for _ in range(count)]
        (tmp_path / f"{part}.jsonl").write_text("".join(lines), encoding="utf-8")
    recipe = tmp_path / "small.toml"
    windows = "max_length = 24\nmax_question = 4\nstride = 8" if task == "answering" else "max_length = 24"
    text = RECIPE.format(task=task, root=tmp_path.as_posix()).replace("max_length = 24", windows)
    recipe.write_text(text, encoding="utf-8")
    given = argparse.Namespace(settings=[], start=str(folder / "run"), folder=folder / "hf", examples=0)
    found = compare(str(recipe), given, seed=1, max_steps=4)
    assert found["steps"] == 4 and found["ours_s"] > 0 and found["theirs_s"] > 0
    assert 0 <= found["ours"] <= 100 and 0 <= found["theirs"] <= 100


def test_transformers_gives_logits_in_our_shapes(folder: Path) -> None:
    tokens = Padded.of(torch.randint(0, len(ENTRIES), (3, 7)), torch.tensor([7, 4, 5]))
    shapes = {"classification": (3, 5), "tagging": (3, 7, 5), "answering": (3, 7, 2), "choice": (3, 1)}
    for task, shape in shapes.items():
        assert Theirs(folder / "hf", task, 5)(tokens, torch.zeros(3, 7, dtype=torch.long)).shape == shape
