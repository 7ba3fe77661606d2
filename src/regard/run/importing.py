"""A model of another library as a run, which can be used, evaluated and started from like any other.

    config.json                              task of the run
    bert, roberta, distilbert, pretrained    pretraining
    the same with an output layer            classification, regression, tagging, answering or choice
    gpt2                                     language
    marian, pegasus, t5                      translation
    no config.json, but Marian's own file    translation
    a CTranslate2 folder, an Argos package   translation

The run has no data: it cannot be resumed, but another run can start from it. Weights that the folder does not have, for
example the pretraining heads of a bare encoder, are filled with random values; the checkpoint names them.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from regard.config import SettingsTable
from regard.errors import UserError
from regard.exchange import bert
from regard.exchange.ctranslate2_reader import (
    FILE,
    PACKAGE,
    CTranslate2Model,
    find_ctranslate2,
    open_package,
    read_ctranslate2,
)
from regard.exchange.folders import CONFIG, ModelFiles, open_model, read_config, require_new_folder
from regard.exchange.gpt2 import read_gpt2
from regard.exchange.marian import MarianModel, read_marian
from regard.exchange.marian_binary import MARIAN_ENDINGS, find_marian_file, languages_of, read_marian_binary
from regard.exchange.t5 import read_t5
from regard.files import replacing, write_json
from regard.run.run import Run
from regard.runtime import seed_everything
from regard.tasks.labelled import LABELS, TOKENIZER
from regard.tasks.registry import all_tasks, build_recipe
from regard.tasks.seq2seq import JOINT, SRC, TGT
from regard.text.bert import BertTokenizer
from regard.text.tokenizer import Tokenizer
from regard.training.progress import RANDOM_WEIGHTS, TrainingProgress
from regard.training.weights import Tensors, weights_of

PRETRAINING_LENGTH, MAX_LENGTH = 128, 512
"""data.max_length of pretraining and of labelled tasks, if the model has this many positions."""

MAX_NAMED = 3


@dataclass(frozen=True)
class Imported:
    """A run made from a model of another library."""

    run: Run
    weights: int
    """Number of weights that were read."""
    random_weights: list[str]
    """Names of the weights that were filled with random values."""


@dataclass(frozen=True)
class RunContent:
    """The content of a new run."""

    values: SettingsTable
    """Its recipe."""
    weights: Tensors
    tokenizers: Mapping[str, Tokenizer]
    """By file name."""
    labels: tuple[str, ...] = ()


def import_model(source: str | Path, folder: str | Path, allow_pickle: bool = False) -> Imported:
    """Make the run `folder` from the model in `source`, completely or not at all. `source` is a folder, or the file of
    weights in it. With `allow_pickle` the tensors of a pytorch_model.bin are read if there are no others."""
    source, folder = Path(source), Path(folder)
    require_new_folder(folder)
    if not source.exists():
        remedy = "choose a folder written by `save_pretrained`, or a copy"
        raise UserError(f"{source}: no such folder", remedy, code="missing-folder", where=source)
    content = read_content(source, allow_pickle)
    name = re.sub(r"[^\w.+-]", "-", folder.absolute().name)
    about = f"imported from {source.absolute().name}"
    recipe = build_recipe({"name": name, "about": about} | content.values, str(source))
    with replacing(folder, folder=True) as temporary:
        run = Run.create(temporary, recipe)
        for file, tokenizer in content.tokenizers.items():
            tokenizer.save(temporary / file)
        if content.labels:
            write_json(temporary / LABELS, list(content.labels))
        run.write_manifest()
        seed_everything(recipe.runtime.seed, "weights")
        weights = weights_of(run.task.new_model())
        random_weights = [name for name in weights if name not in content.weights]
        progress = TrainingProgress(monitor=recipe.training.monitor, best_step=0).to_json() | {
            RANDOM_WEIGHTS: random_weights
        }
        run.checkpoints.save(0, weights | content.weights, {}, progress)
    return Imported(Run.open(folder), sum(tensor.numel() for tensor in content.weights.values()), random_weights)


def read_content(source: Path, allow_pickle: bool) -> RunContent:
    """What is read from a folder, or from a file of weights with what is beside it, by its kind of model."""
    if source.suffix == PACKAGE and source.is_file():
        with open_package(source) as folder:
            return read_content(folder, allow_pickle)
    weights, source = (source, source.parent) if source.is_file() else (None, source)
    if (weights is None or weights.name == FILE) and (found := find_ctranslate2(source)) is not None:
        return ctranslate2_run(read_ctranslate2(found))
    marian = weights or find_marian_file(source)
    if marian is not None and marian.suffix in MARIAN_ENDINGS and not (source / CONFIG).exists():
        return with_languages(translation_run(read_marian_binary(marian)), *languages_of(marian))
    inner = sorted(path.parent for path in source.glob(f"*/{CONFIG}"))
    if inner and not (source / CONFIG).exists():
        problem = f"{source} is not a model: it has no {CONFIG}"
        remedy = f"it contains models; did you mean {' or '.join(map(str, inner[:MAX_NAMED]))}?"
        raise UserError(problem, remedy, code="missing-file", where=source / CONFIG)
    kind = str(read_config(source / CONFIG).get("model_type"))
    if kind not in READERS:
        problem = f"{source / CONFIG}: model_type = {kind!r} is not supported"
        remedy = f"choose a model with one of these types: {', '.join(READERS)}"
        raise UserError(problem, remedy, code="unsupported-model", where=source / CONFIG)
    return READERS[kind](open_model(source, allow_pickle, weights))


def read_bert_run(files: ModelFiles) -> RunContent:
    """A pretrained BERT, RoBERTa or DistilBERT, or one with the output layer of a task."""
    source, is_roberta = files.folder, files.config.get("model_type") == "roberta"
    tokenizer = bert.read_roberta_tokenizer(source) if is_roberta else bert.read_bert_tokenizer(source)
    files = bert.as_bert(files)
    head = bert.read_head(files.config, files.config_path)
    labels: tuple[str, ...] = ()
    if head is None:
        task = "pretraining"
        settings, weights = bert.read_bert(files)
        embeddings = weights["bert.words.weight"]
        data: SettingsTable = {
            "max_length": min(PRETRAINING_LENGTH, settings.max_positions),
            "next_sentence": settings.segments > 1,
        }
    else:
        exchanges = {name: task.exchange for name, task in all_tasks().items()}
        task = next(name for name, exchange in exchanges.items() if exchange is not None and exchange.head == head)
        model = bert.read_finetuned(files)
        settings, weights, labels = model.settings, model.weights, model.labels
        embeddings = weights["encoder.words.weight"]
        data = {"max_length": min(MAX_LENGTH, settings.max_positions)}
    if len(embeddings) != len(tokenizer):
        problem = f"{source}: the model has {len(embeddings)} tokens, its vocabulary {len(tokenizer)}"
        remedy = "download all files again: they are from different models"
        raise UserError(problem, remedy, code="damaged-model", where=source)
    text: SettingsTable = {"vocab_size": len(tokenizer)}
    if isinstance(tokenizer, BertTokenizer):
        names = ("lowercase", "strip_accents", "split_chinese")
        text |= {name: value for name in names if (value := getattr(tokenizer, name)) is not None}
    else:
        text["kind"] = "imported"
    values: SettingsTable = {"task": task, "data": data, "text": text, "model": settings.model_dump()}
    return RunContent(values, weights, {TOKENIZER: tokenizer}, labels)


def read_gpt2_run(files: ModelFiles) -> RunContent:
    """A language model."""
    model = read_gpt2(files)
    values: SettingsTable = {
        "task": "language",
        "data": {"bptt": model.settings.max_positions},
        "text": {"kind": "imported", "vocab_size": len(model.tokenizer)},
        "model": model.settings.model_dump(exclude_none=True),
    }
    return RunContent(values, model.weights, {TOKENIZER: model.tokenizer})


def translation_run(model: MarianModel) -> RunContent:
    src, tgt = model.tokenizers
    joint = src is tgt
    values: SettingsTable = {
        "data": {"max_length": model.positions},
        "text": {"kind": "imported", "vocab_size": len(tgt), "joint": joint},
        "model": model.settings.model_dump(exclude_none=True),
        "decoding": {"beam": model.beam},
    }
    return RunContent(values, model.weights, {JOINT: src} if joint else {SRC: src, TGT: tgt})


def ctranslate2_run(model: CTranslate2Model) -> RunContent:
    content = with_languages(translation_run(model), *model.languages)
    text = content.values["text"] | {"source_end": model.source_end}
    return replace(content, values=content.values | {"text": text})


def with_languages(content: RunContent, src: str, tgt: str) -> RunContent:
    """The run of a model of two languages, which may be unknown."""
    data = content.values["data"] | ({"src_lang": src, "tgt_lang": tgt} if src and tgt else {})
    return replace(content, values=content.values | {"data": data})


READERS: dict[str, Callable[[ModelFiles], RunContent]] = {
    "bert": read_bert_run,
    "roberta": read_bert_run,
    "distilbert": read_bert_run,
    "gpt2": read_gpt2_run,
    "marian": lambda files: translation_run(read_marian(files)),
    "pegasus": lambda files: translation_run(read_marian(files)),
    "t5": lambda files: translation_run(read_t5(files)),
}
"""By model_type in config.json."""
