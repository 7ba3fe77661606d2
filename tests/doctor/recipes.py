"""Small recipes of every task, in good order, with their data."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.tiny import recipe_values

from regard.doctor.check import Check, CheckProgress
from regard.doctor.examine import examine
from regard.doctor.sample import DryRun, prepare, survey
from regard.recipe import to_toml
from regard.runtime import open_world
from regard.tasks.registry import load_recipe, task_of

ENGLISH = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
GERMAN = ["null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"]
WORDS = ["red", "green", "blue", "cold", "warm", "small", "large", "old", "new", "tall", "dark", "light", "quick"]
LABELLED = ("classification", "regression", "tagging", "dependencies", "answering", "choice")
TASKS = ("translation", "masked", "parsing", "language", "pretraining", *LABELLED)

SIZES = {"train": 200, "valid": 20, "test": 20}
SUFFIXES = {"parsing": "ptb", "language": "txt", "pretraining": "txt"}
PAIRS: dict[str, object] = {
    "text": {"vocab_size": 320},
    "data.max_length": 32,
    "training.max_steps": 100,
    "training.warmup": 10,
}
FINE_TUNING: dict[str, object] = {"training.max_epochs": 2.0, "training.batch_examples": 8, "data.max_length": 24}
SETTINGS: dict[str, dict[str, object]] = {
    "translation": PAIRS | {"model.decoder_layers": 1},
    "masked": PAIRS,
    "parsing": {"model.decoder_layers": 1, "data.max_length": 128, "training.batch_tokens": 1024},
    "language": {
        "data.bptt": 10, "data.min_word_count": 0, "training.batch_tokens": 100, "training.schedule": "constant",
        "training.learning_rate": 1e-3, "training.warmup": 0,
    },
    "pretraining": {
        "data.max_length": 24, "training.max_steps": 60, "training.batch_tokens": 256, "training.warmup": 6,
    },
}  # fmt: skip
SETTINGS |= dict.fromkeys(LABELLED, FINE_TUNING)


def write_recipe(folder: Path, task: str = "translation") -> Path:
    """A recipe without defects and its data: splits that differ, and labels that can be learnt."""
    folder.mkdir(parents=True, exist_ok=True)
    rng, suffix = random.Random(7), SUFFIXES.get(task, "jsonl")
    seen: set[str] = set()
    for split, size in SIZES.items():
        examples: list[Any] = []
        while len(examples) < size:
            example = make_example(rng, task)
            if (key := str(example)) not in seen:
                seen.add(key)
                examples.append(example)
        write_examples(folder / f"{split}.{suffix}", examples)
    name, kind = ("translation", "mask-predict") if task == "masked" else (task, "")
    files = {f"data.{split}": {"file": f"{split}.{suffix}"} for split in SIZES}
    path = folder / "small.toml"
    path.write_text(to_toml(recipe_values(name, kind, folder, SETTINGS[task] | files)), encoding="utf-8")
    return path


def make_example(rng: random.Random, task: str) -> Any:
    """A random example; a text for tasks on running text."""
    words = rng.choices(WORDS, k=9)
    line = " ".join(words)
    match task:
        case "translation" | "masked":
            digits = rng.choices(range(10), k=rng.randint(4, 9))
            return {"src": " ".join(ENGLISH[d] for d in digits), "tgt": " ".join(GERMAN[d] for d in digits)}
        case "parsing":
            return "(TOP (S " + " ".join(f"({'NP' if word < 'm' else 'VP'} (X {word}))" for word in words[:5]) + "))"
        case "language":
            return line
        case "pretraining":
            return "\n".join(" ".join(rng.choices(WORDS, k=9)) for _ in range(4)) + "\n"
        case "classification":
            return {"text": line, "label": "a" if words[0] < "m" else "b"}
        case "regression":
            return {"text": line, "pair": words[0], "label": float(len(words[0]))}
        case "tagging":
            return {"words": words, "tags": ["X" if word < "m" else "Y" for word in words]}
        case "dependencies":
            heads = [0, *(1 if word < "m" else number for number, word in enumerate(words[1:], 1))]
            return {"words": words, "heads": heads, "relations": ["root", *("X" if h == 1 else "Y" for h in heads[1:])]}
        case "answering":
            return {"question": "first ?", "context": line, "answers": [{"text": words[0], "start": 0}]}
        case _:
            first = rng.random() < 0.5
            choices = [words[0], "nothing"] if first else ["nothing", words[0]]
            return {"text": line, "choices": choices, "label": 0 if first else 1}


def write_examples(path: Path, examples: Sequence[Any]) -> None:
    lines = (item if isinstance(item, str) else json.dumps(item, ensure_ascii=False) for item in examples)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def read_examples(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def run_checks(
    recipe: Path, *overrides: str, quick: bool = True, until: str = "", progress: CheckProgress | None = None
) -> dict[str, Check]:
    """The results by name, up to the check `until`."""
    results = {}
    for check in examine(recipe, overrides, quick=quick, folder=recipe.parent / "run", progress=progress):
        results[check.name] = check
        if check.name == until:
            break
    return results


def statuses(results: dict[str, Check]) -> dict[str, str]:
    return {name: check.status for name, check in results.items()}


def dry_run(recipe: Path, temporary: Path, *overrides: str, quick: bool = False) -> DryRun:
    """The temporary run as `examine` prepares it."""
    loaded = load_recipe(recipe, overrides)
    task = task_of(loaded)
    surveyed = survey(task, task.checks.read_splits(loaded, temporary), seed=1, quick=quick)
    return prepare(loaded, open_world(loaded.runtime), surveyed, temporary / "dry")
