"""Tiny recipes, data and runs of every task and model kind, for all tests.

write_recipe(folder, "classification")        data and a recipe in a folder -> the path of the recipe
write_recipe(folder, "translation", "recurrent", {"training.max_steps": 2})
train_run(folder, "tagging")                  train it with `regard train` -> the folder of the run

The data are generated: the same files every time. What a run learns is simple enough for a minute on one core.
"""

import base64
import json
import random
import wave
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.examples import Example
from regard.data.inputs import Input
from regard.data.tones import record_tones, transcript
from regard.recipe import to_toml
from regard.tasks.labelled import Labelled

Table = dict[str, Any]
Settings = Mapping[str, object]

WORDS = {"one": "eins", "two": "zwei", "three": "drei", "four": "vier", "five": "fünf", "six": "sechs"}
POSITIVE, NEGATIVE = ("lovely", "fine", "great"), ("dull", "awful", "poor")
THINGS = ("film", "book", "song", "play")
NAMES, CITIES = ("Ada", "Bob", "Eve", "Max"), ("Rome", "Oslo", "Lima", "Bonn")
TREES = """(ROOT (S (NP (DT the) (NN cat)) (VP (VBD slept)) (. .)))
(ROOT (S (NP (NNP Ada)) (VP (VBD saw) (NP (DT the) (NN cat))) (. .)))
(ROOT (S (NP (PRP It)) (VP (VBZ 's) (NP (-LRB- -LRB-) (NN fun) (-RRB- -RRB-))) (. .)))
"""
SPLIT_SIZES = {"train": 160, "valid": 24, "test": 24}
TEST_SENTENCES = 10
VALID_SENTENCES = 10

# ---- models ----------------------------------------------------------------------------------------------------------

SEQUENCE_MODELS: dict[str, Table] = {
    "transformer": {
        "kind": "transformer", "size": "tiny", "d_model": 32, "num_heads": 2, "d_ff": 64, "encoder_layers": 1,
        "decoder_layers": 2, "norm": "pre", "dropout": 0.0,
    },
    "recurrent": {"kind": "recurrent", "d_model": 32, "d_embedding": 32, "layers": 1, "dropout": 0.0},
    "convolutional": {"kind": "convolutional", "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0},
    "mask-predict": {
        "kind": "mask-predict", "size": "tiny", "d_model": 32, "num_heads": 2, "d_ff": 64, "encoder_layers": 1,
        "decoder_layers": 1, "dropout": 0.0,
    },
}  # fmt: skip
LANGUAGE_MODELS: dict[str, Table] = {
    "lstm": {
        "kind": "lstm", "d_model": 24, "layers": 1, "input_dropout": 0.0, "output_dropout": 0.1, "word_dropout": 0.0,
    },
    "gru": {
        "kind": "gru", "d_model": 24, "layers": 1, "input_dropout": 0.0, "output_dropout": 0.1, "word_dropout": 0.0,
    },
    "transformer": {"kind": "transformer", "d_model": 24, "num_heads": 2, "d_ff": 48, "layers": 1, "dropout": 0.0},
    "ngram": {"kind": "ngram", "order": 3},
}  # fmt: skip
ENCODERS: dict[str, Table] = {
    "transformer": {
        "kind": "transformer", "d_model": 32, "num_heads": 2, "d_ff": 64, "layers": 2, "dropout": 0.0,
        "attention_dropout": 0.0,
    },
    "bert": {
        "kind": "bert", "size": "tiny", "d_model": 32, "num_heads": 2, "d_ff": 64, "layers": 2, "max_positions": 40,
        "dropout": 0.0, "attention_dropout": 0.0,
    },
    "recurrent": {"kind": "recurrent", "d_model": 32, "layers": 2, "dropout": 0.0},
}  # fmt: skip

FRAME_MODELS: dict[str, Table] = {
    "attention": {
        "kind": "attention", "size": "custom", "d_model": 32, "num_heads": 2, "d_ff": 64, "encoder_layers": 1,
        "decoder_layers": 1, "norm": "pre", "dropout": 0.0,
    },
    "ctc": {
        "kind": "ctc", "d_model": 32, "num_heads": 2, "d_ff": 64, "encoder_layers": 1, "norm": "pre", "dropout": 0.0,
    },
}  # fmt: skip

# ---- recipes ---------------------------------------------------------------------------------------------------------

RUNTIME: Table = {"device": "cpu", "threads": 1}


def split_files(pattern: str) -> Table:
    return {split: {"file": pattern.format(split)} for split in SPLIT_SIZES}


TRANSLATION: Table = {
    "about": "number words, English to German",
    "data": {
        **{split: {"src": f"{split}.src", "tgt": f"{split}.tgt"} for split in SPLIT_SIZES},
        "max_length": 16, "workers": 1,
    },
    "text": {"kind": "word", "vocab_size": 300},
    "training": {
        "max_steps": 240, "batch_tokens": 256, "schedule": "inverse_sqrt", "learning_rate": 6e-3, "warmup": 20,
        "validate_every": 120, "log_every": 20, "monitor": "exact_match", "label_smoothing": 0.0,
    },
    "decoding": {"search": "greedy", "extra_length": 4},
}  # fmt: skip
PARSING: Table = {
    "data": {**{split: {"file": "trees.ptb"} for split in SPLIT_SIZES}, "max_length": 64, "workers": 1},
    "text": {"kind": "word", "min_frequency": 1},
    "training": {
        "max_steps": 120, "batch_tokens": 128, "schedule": "cosine", "learning_rate": 1e-2, "warmup": 10,
        "label_smoothing": 0.0, "validate_every": 120,
    },
    "decoding": {"beam": 2, "extra_length": 30},
}  # fmt: skip
LANGUAGE: Table = {
    "data": {**split_files("{}.txt"), "single_blanks": True, "min_word_count": 2, "bptt": 12, "workers": 1},
    "text": {"kind": "token", "min_frequency": 1},
    "training": {
        "max_steps": 100, "batch_tokens": 192, "schedule": "cosine", "learning_rate": 2e-2, "warmup": 5, "clip": 1.0,
        "validate_every": 50, "monitor": "word_perplexity",
    },
}  # fmt: skip
PRETRAINING: Table = {
    "data": {**split_files("documents.{}.txt"), "max_length": 32, "workers": 1},
    "text": {"vocab_size": 200, "lowercase": False},
    "training": {
        "max_steps": 40, "batch_tokens": 512, "learning_rate": 4e-3, "warmup": 5, "validate_every": 20,
    },
}  # fmt: skip
LABELLED: Table = {
    "data": {"max_length": 32, "workers": 1},
    "text": {"vocab_size": 200, "lowercase": False},
    "training": {"max_epochs": 12.0, "batch_examples": 16, "learning_rate": 4e-3},
}
RECOGNITION: Table = {
    "data": {**split_files("recordings.{}.tsv"), "sample_rate": 8000, "bands": 16, "workers": 1},
    "text": {"kind": "word", "vocab_size": 300},
    "training": {
        "max_steps": 60, "batch_tokens": 4096, "batch_examples": 16, "schedule": "cosine", "learning_rate": 6e-3,
        "warmup": 10, "validate_every": 30, "log_every": 10,
    },
    "decoding": {"search": "greedy"},
}  # fmt: skip

TASKS: dict[str, tuple[Table, dict[str, Table]]] = {
    "translation": (TRANSLATION, SEQUENCE_MODELS),
    "parsing": (PARSING, SEQUENCE_MODELS),
    "language": (LANGUAGE, LANGUAGE_MODELS),
    "pretraining": (PRETRAINING, {"bert": ENCODERS["bert"]}),
    "classification": (LABELLED, ENCODERS | {"linear": {"kind": "linear"}}),
    "regression": (LABELLED, ENCODERS | {"linear": {"kind": "linear"}}),
    "tagging": (LABELLED, ENCODERS),
    "dependencies": (LABELLED, ENCODERS),
    "answering": (LABELLED, ENCODERS),
    "choice": (LABELLED, ENCODERS),
    "recognition": (RECOGNITION, FRAME_MODELS),
}
"""The settings and the models of each task; the first model is the default."""


def recipe_values(task: str, kind: str = "", root: Path | str = ".", settings: Settings | None = None) -> Table:
    """The values of a tiny recipe; `settings` changes some of them by full name, for example "training.max_steps"."""
    base, models = TASKS[task]
    model = models[kind or next(iter(models))]
    values: Table = json.loads(json.dumps({"name": task, "task": task, **base, "model": model, "runtime": RUNTIME}))
    values["data"] |= {"root": Path(root).as_posix()} | DATA.get(task, {})
    if kind == "mask-predict":
        values["decoding"] = {"search": "mask_predict"}
    if kind == "ngram":  # it is counted: settings of training have no effect
        values["training"] = {"monitor": values["training"]["monitor"]}
    for name, value in (settings or {}).items():
        *groups, last = name.split(".")
        table = values
        for group in groups:
            table = table.setdefault(group, {})
        table[last] = value
    return values


def write_recipe(folder: Path, task: str, kind: str = "", settings: Settings | None = None) -> Path:
    """Write generated data and a recipe into a folder; return the path of the recipe."""
    folder.mkdir(parents=True, exist_ok=True)
    write_data(folder, task)
    path = folder / f"{'-'.join(filter(None, (task, kind)))}.toml"
    path.write_text(to_toml(recipe_values(task, kind, folder, settings)) + "\n", encoding="utf-8")
    return path


def train_run(folder: Path, task: str, kind: str = "", settings: Settings | None = None) -> Path:
    """Write data and a recipe, train it with the command line, and return the folder of the run."""
    from tests.cli.command import regard

    recipe = write_recipe(folder, task, kind, settings)
    run = folder / "runs" / recipe.stem
    result = regard("train", recipe, "--folder", run)
    assert result.status == 0, result.err
    return run


# ---- data ------------------------------------------------------------------------------------------------------------


def translate_words(line: str) -> str:
    """The German of a line of number words."""
    return " ".join(WORDS[word] for word in line.split())


def number_sentences() -> list[str]:
    """All sentences of three number words, in a fixed irregular order."""
    names = list(WORDS)
    lines = [" ".join((names[i % 6], names[i // 6 % 6], names[i // 36])) for i in range(216)]
    return [lines[i * 125 % 216] for i in range(216)]


def train_sentences() -> list[str]:
    return number_sentences()[: -VALID_SENTENCES - TEST_SENTENCES]


def write_pairs(folder: Path) -> None:
    """train, valid and test, .src and .tgt."""
    lines = number_sentences()
    valid, test = lines[-VALID_SENTENCES - TEST_SENTENCES : -TEST_SENTENCES], lines[-TEST_SENTENCES:]
    for split, sentences in (("train", train_sentences()), ("valid", valid), ("test", test)):
        (folder / f"{split}.src").write_text("".join(f"{line}\n" for line in sentences), encoding="utf-8")
        targets = "".join(f"{translate_words(line)}\n" for line in sentences)
        (folder / f"{split}.tgt").write_text(targets, encoding="utf-8")


def write_trees(folder: Path) -> None:
    (folder / "trees.ptb").write_text(TREES, encoding="utf-8")


def write_lines(folder: Path) -> None:
    """Sentences of a few words; the word in the last line but one of each file occurs once."""
    rng = random.Random(1)
    for split, count in (("train", 300), ("valid", 30), ("test", 30)):
        text = ""
        for _ in range(count):
            subject, verb, thing = (
                rng.choice(words) for words in (["cat", "dog", "king"], ["sees", "likes"], ["sea", "house"])
            )
            text += f" the {subject} {verb} the {thing} . \n"
        (folder / f"{split}.txt").write_text(text + f" {split} \n \n", encoding="utf-8")


def write_documents(folder: Path) -> None:
    rng = random.Random(3)
    for split, count in (("train", 60), ("valid", 10), ("test", 10)):
        documents = ("\n".join(classification_example(rng)["text"] + " ." for _ in range(4)) for _ in range(count))
        (folder / f"documents.{split}.txt").write_text("\n\n".join(documents) + "\n", encoding="utf-8")


def classification_example(rng: random.Random) -> Table:
    positive = rng.random() < 0.5
    adjective = rng.choice(POSITIVE if positive else NEGATIVE)
    text = f"a {adjective} {rng.choice(THINGS)} by {rng.choice(NAMES)} in {rng.randrange(999)}"
    return {"text": text, "label": "good" if positive else "bad"}


def regression_example(rng: random.Random) -> Table:
    first, second = rng.choice(THINGS), rng.choice(THINGS)
    return {"text": f"a {first}", "pair": f"the {second}", "label": float(first == second)}


def tagging_example(rng: random.Random) -> Table:
    name, city = rng.choice(NAMES), rng.choice(CITIES)
    words = [name, "reads", str(rng.randrange(999)), rng.choice(THINGS), "in", city, "."]
    return {"words": words, "tags": ["B-PER", "O", "O", "O", "O", "B-LOC", "O"]}


def dependencies_example(rng: random.Random) -> Table:
    words = [rng.choice(NAMES), "reads", "the", rng.choice(THINGS), "in", rng.choice(CITIES), "."]
    return {
        "words": words,
        "heads": [2, 0, 4, 2, 6, 2, 2],
        "relations": ["nsubj", "root", "det", "obj", "case", "obl:loc", "punct"],
    }


def answering_example(rng: random.Random) -> Table:
    name, city = rng.choice(NAMES), rng.choice(CITIES)
    context = f"{name} lives in {city} ."
    who = rng.random() < 0.5
    answer = name if who else city
    question = "Who lives there ?" if who else "Where is the house ?"
    return {"question": question, "context": context, "answers": [{"text": answer, "start": context.index(answer)}]}


def choice_example(rng: random.Random) -> Table:
    thing, label = rng.choice(THINGS), rng.randrange(3)
    choices = rng.sample([other for other in THINGS if other != thing], 2)
    choices.insert(label, thing)
    return {"text": f"the {thing} is the", "choices": choices, "label": label}


EXAMPLES: dict[str, Callable[[random.Random], Table]] = {
    "classification": classification_example,
    "regression": regression_example,
    "tagging": tagging_example,
    "dependencies": dependencies_example,
    "answering": answering_example,
    "choice": choice_example,
}
DATA: dict[str, Table] = {task: split_files(f"{task}.{{}}.jsonl") for task in EXAMPLES}
DATA["answering"] |= {"max_question": 8, "stride": 8}


def labelled_examples(task: str) -> dict[str, list[Table]]:
    """Generated examples of a labelled task, by split."""
    rng = random.Random(5)
    return {split: [EXAMPLES[task](rng) for _ in range(count)] for split, count in SPLIT_SIZES.items()}


def write_labelled(folder: Path, task: str) -> None:
    for split, examples in labelled_examples(task).items():
        write_jsonl(folder / f"{task}.{split}.jsonl", examples)


def write_jsonl(path: Path, values: list[Table]) -> None:
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")


def write_wav(path: Path, samples: NDArray[np.float32], rate: int = 8000) -> Path:
    """Write samples between -1 and 1 as 16-bit mono."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        file.writeframes((samples * 32767).round().astype("<i2").tobytes())
    return path


def write_recordings(folder: Path) -> None:
    """Recordings of one or two digits, as WAV files, and a table for each split."""
    for split, first, count in (("train", 0, 60), ("valid", 100, 8), ("test", 200, 8)):
        rows = ["audio\ttext"]
        for number in range(first, first + count):
            digits = " ".join(str(number)[-1 - number % 2 :])
            write_wav(folder / "wav" / f"{number}.wav", record_tones(f"tones:{number}:{digits}", 8000))
            rows.append(f"wav/{number}.wav\t{transcript(digits)}")
        (folder / f"recordings.{split}.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")


WRITERS: dict[str, Callable[[Path], None]] = {
    "translation": write_pairs,
    "parsing": write_trees,
    "language": write_lines,
    "pretraining": write_documents,
    "recognition": write_recordings,
}


def write_data(folder: Path, task: str) -> None:
    """Write the generated data of a task."""
    WRITERS[task](folder) if task in WRITERS else write_labelled(folder, task)


def all_kinds() -> Iterator[tuple[str, str]]:
    """Every task with each of its model kinds; parsing has no masked model."""
    for task, (_, models) in TASKS.items():
        yield from ((task, kind) for kind in models if (task, kind) != ("parsing", "mask-predict"))


def unpack_array(packed: Mapping[str, Any]) -> NDArray[np.float32]:
    """The array that `pack_array` wrote for a page."""
    return np.frombuffer(base64.b64decode(packed["floats"]), dtype="<f4").reshape(packed["shape"])


def training_inputs(task: Labelled[Any], examples: Iterable[Example]) -> Iterator[Sequence[Input]]:
    """Encoded examples of a labelled task; inputs that are not compared with each other are examples of their own."""
    for example in examples:
        inputs = task.encode(example)
        yield from [inputs] if task.grouped_inputs else ([item] for item in inputs)
