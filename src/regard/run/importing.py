"""A model of another program as a run, which can be used, judged and started from as any other.

    config.json says                the run's task
    bert, as it was pretrained      pretraining
    bert with a layer on top        classification, regression, tagging, answering or choice
    marian, pegasus                 translation

Such a run has no data: it cannot be trained on, but another can start from it. Weights that the folder does not hold, a
bare encoder's two questions for example, are drawn from the seed, and that is said.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.exchange.bert import read_bert, read_bert_tokenizer, read_finetuned, task_of
from regard.exchange.folders import CONFIG, read_config
from regard.exchange.marian import read_marian
from regard.files import replacing, write_json
from regard.models.bert import BertSettings
from regard.recipe import build_recipe
from regard.run.folder import Run
from regard.run.translation import JOINT, SRC, TGT
from regard.run.understanding import ANSWERABLE, LABELS
from regard.runtime import seed_everything
from regard.text.bert import BertTokenizer
from regard.training.progress import Progress
from regard.training.weights import Tensors, weights_of

Values = dict[str, Any]
DRAWN = "drawn"
"""Beside the progress of a checkpoint: the weights in it that mean nothing."""
LONGEST = 512
"""Tokens of an input, unless the model has room for fewer only."""


@dataclass(frozen=True)
class Imported:
    """A run made of another program's model: how many numbers its weights are, and which of them had to be drawn."""

    run: Any
    weights: int
    drawn: list[str]


@dataclass(frozen=True)
class Parts:
    """What a run is made of: settings, files by name, and weights by the names they have here."""

    values: Values
    weights: Tensors
    files: dict[str, Any]
    """Vocabularies and labels."""


def import_model(source: Path, folder: Path) -> Imported:
    """Make the run `folder` of the model in `source`, whole or not at all."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} is there already", "choose another folder with --folder FOLDER")
    if not source.is_dir():
        raise UserError(f"{source}: there is no such folder", "name one that save_pretrained wrote, or a copy of one")
    config = read_config(source / CONFIG)
    kind = str(config.get("model_type"))
    if kind not in READERS:
        raise UserError(
            f"{source / CONFIG}: model_type = {kind!r} is none of {', '.join(READERS)}", "this model cannot be read"
        )
    parts = READERS[kind](source, config)
    name = re.sub(r"[^\w.+-]", "-", folder.absolute().name)
    about = f"imported from {source.absolute().name}"
    recipe = build_recipe({"name": name, "about": about} | parts.values, str(source))
    with replacing(folder, folder=True) as place:
        run = Run.create(place, recipe)
        for file, content in parts.files.items():
            content.save(place / file) if hasattr(content, "save") else write_json(place / file, content)
        run.seal(*parts.files)
        seed_everything(recipe.runtime.seed, "weights")
        own = weights_of(run.new_model())
        drawn = [name for name in own if name not in parts.weights]
        progress = Progress(monitor=recipe.training.monitor, best_step=0)
        run.checkpoints.save(0, own | parts.weights, {}, progress.to_json() | {DRAWN: drawn})
    return Imported(Run.open(folder), sum(tensor.numel() for tensor in parts.weights.values()), drawn)


def bert_parts(source: Path, config: Values) -> Parts:
    """A pretrained BERT, or one that has learnt a task."""
    task, vocabulary = task_of(config), read_bert_tokenizer(source)
    if task is None:
        settings, weights = read_bert(source)
        words = weights["bert.words.weight"]
        data: Values = {"max_length": min(128, settings.max_positions), "next_sentence": settings.segments > 1}
        files: dict[str, Any] = {JOINT: vocabulary}
    else:
        model = read_finetuned(source)
        settings, weights, words = model.settings, model.weights, model.weights["encoder.words.weight"]
        data = {"max_length": min(LONGEST, settings.max_positions)}
        labels = list(model.labels) or ([ANSWERABLE] if task == "answering" else [])
        files = {JOINT: vocabulary} | ({LABELS: labels} if labels else {})
    if len(words) != len(vocabulary):
        raise UserError(
            f"{source}: the model has {len(words)} words, its vocabulary {len(vocabulary)}",
            "the files are not of the same model: fetch them again",
        )
    return Parts(bert_values(task or "pretraining", settings, vocabulary, data), weights, files)


def bert_values(task: str, settings: BertSettings, vocabulary: BertTokenizer, data: Values) -> Values:
    text = {
        "vocab_size": len(vocabulary),
        "lowercase": vocabulary.lowercase,
        "strip_accents": vocabulary.strip_accents,
        "split_chinese": vocabulary.split_chinese,
    }
    text = {name: value for name, value in text.items() if value is not None}
    return {"task": task, "data": data, "text": text, "model": settings.model_dump()}


def marian_parts(source: Path, config: Values) -> Parts:
    """A translator."""
    model = read_marian(source)
    src, tgt = model.tokenizers
    joint = src is tgt
    values = {
        "data": {"max_length": model.positions},
        "text": {"kind": "imported", "vocab_size": len(tgt), "joint": joint},
        "model": model.settings.model_dump(exclude_none=True),
        "decoding": {"beam": model.beam},
    }
    return Parts(values, model.weights, {JOINT: src} if joint else {SRC: src, TGT: tgt})


READERS: dict[str, Callable[[Path, Values], Parts]] = {
    "bert": bert_parts,
    "marian": marian_parts,
    "pegasus": marian_parts,
}
"""By the kind of model that a config.json names."""
