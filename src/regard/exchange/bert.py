"""BERT in the folders of Hugging Face `transformers`, in and out, without that library:

    config.json                         the model's shape
    model.safetensors                   its weights
    vocab.txt, tokenizer_config.json    its pieces, and whether they have case; or tokenizer.json, which says both

Weights are called as in `BertPretraining`: `bert.` and on is the encoder, `masked.` and `next.` are its two questions.
A folder may hold the encoder alone; what it does not hold is not in the result. Or it holds one with a layer of a task
on top: then its weights are called as in `EncoderWithHead`, `encoder.` and `head.`. Shapes are the same on both sides,
so that going there and back changes no bit.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from regard.errors import UserError
from regard.exchange.folders import (
    CONFIG,
    TOKENIZER,
    TOKENIZER_CONFIG,
    WEIGHTS,
    Config,
    Tensors,
    check_fixed_values,
    new_folder,
    pop_tensor,
    read_config,
    read_weights,
    reading_settings,
    rename_weight,
    require_keys,
    require_new_folder,
    require_weights,
)
from regard.files import read_json, write_json
from regard.models.bert import SPREAD, BertPretraining
from regard.models.bert_settings import SIZES, BertSettings
from regard.text.bert import BertVocabulary

VOCAB_FILE = "vocab.txt"

SHAPE = {
    "d_model": "hidden_size",
    "num_heads": "num_attention_heads",
    "d_ff": "intermediate_size",
    "layers": "num_hidden_layers",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "activation": "hidden_act",
    "max_positions": "max_position_embeddings",
    "segments": "type_vocab_size",
    "epsilon": "layer_norm_eps",
}
"""Our settings and their keys."""

FIXED_VALUES = {
    "model_type": "bert",
    "is_decoder": False,
    "add_cross_attention": False,
    "position_embedding_type": "absolute",
    "tie_word_embeddings": True,
}
"""Their keys for which there is one value that is BERT, and it need not be written."""

MODULES = {
    r"^bert\.words\b": "bert.embeddings.word_embeddings",
    r"^bert\.positions\.table\b": "bert.embeddings.position_embeddings",
    r"^bert\.segments\b": "bert.embeddings.token_type_embeddings",
    r"^bert\.norm\b": "bert.embeddings.LayerNorm",
    r"^bert\.pooler\b": "bert.pooler.dense",
    r"^bert\.layers\b": "bert.encoder.layer",
    r"\battention\.(query|key|value)\b": r"attention.self.\1",
    r"\.attention\.output\b": ".attention.output.dense",
    r"\battention_residual\.norm\b": "attention.output.LayerNorm",
    r"\bfeedforward\.fc1\b": "intermediate.dense",
    r"\bfeedforward\.fc2\b": "output.dense",
    r"\bfeedforward_residual\.norm\b": "output.LayerNorm",
    r"^masked\.dense\b": "cls.predictions.transform.dense",
    r"^masked\.norm\b": "cls.predictions.transform.LayerNorm",
    r"^masked\.bias\b": "cls.predictions.bias",
    r"^next\b": "cls.seq_relationship",
}
"""Our modules and theirs, replaced one line after another."""

POOLER, MASKED, NEXT = PARTS = ("bert.pooler.", "masked.", "next.")
"""What a folder may lack as a whole."""

IMPLIED = (
    "bert.embeddings.position_ids",
    "bert.embeddings.token_type_ids",
    "cls.predictions.decoder.weight",
    "cls.predictions.decoder.bias",
)
"""What older folders hold besides: numbers from 0 on, and the words' vectors and biases once more."""


@dataclass(frozen=True)
class Head:
    """The layer of a task: their class, what they call it there, and whether it reads the pooled vector."""

    architecture: str
    module: str = "classifier"
    pooled: bool = True


HEADS = {
    "classification": Head("BertForSequenceClassification"),
    "regression": Head("BertForSequenceClassification"),
    "tagging": Head("BertForTokenClassification", pooled=False),
    "answering": Head("BertForQuestionAnswering", "qa_outputs", pooled=False),
    "choice": Head("BertForMultipleChoice"),
}
"""Our tasks and theirs."""

LABELLED_TASKS = ("classification", "tagging")
ANSWER_LABELS = ("answerable", "unanswerable")
"""What the outputs of a model are called that may say that a question has no answer: their names are not used there."""
"""Tasks whose outputs have names."""


@dataclass(frozen=True)
class FineTunedBert:
    """A BERT that has learnt a task; `labels` are the names of its outputs, none where they have none."""

    task: str
    labels: tuple[str, ...]
    settings: BertSettings
    weights: Tensors


def read_bert(folder: Path) -> tuple[BertSettings, Tensors]:
    """The shape and the weights of the BERT in `folder`; the size of its vocabulary is that of `bert.words.weight`."""
    config, path = read_config(folder / CONFIG), folder / WEIGHTS
    settings, vocabulary = read_settings(config, folder / CONFIG)
    found = update_names(read_weights(path))
    check_tied(found, path)
    weights = collect_weights(found, shapes(settings, vocabulary), MODULES, PARTS, path)
    check_no_extra_weights(found, path)
    return settings, weights


def read_finetuned(folder: Path) -> FineTunedBert:
    """The BERT with a task's layer on top in `folder`; `task_of` says which task that is."""
    config, path = read_config(folder / CONFIG), folder / WEIGHTS
    settings, vocabulary = read_settings(config, folder / CONFIG)
    task = task_of(config)
    if task is None:
        raise UserError(f"{folder / CONFIG} names no task that BERT is fine-tuned to", "read it as a bare BERT")
    head, found = HEADS[task], update_names(read_weights(path))
    outputs = len(found.get(f"{head.module}.bias", ()))
    expected = encoder_shapes(settings, vocabulary, head)
    expected |= {"head.weight": torch.Size((outputs, settings.d_model)), "head.bias": torch.Size((outputs,))}
    weights = collect_weights(found, expected, modules(head), (), path)
    check_no_extra_weights({key: tensor for key, tensor in found.items() if "pooler" not in key or head.pooled}, path)
    weights = {re.sub(r"^bert\.", "encoder.", name): tensor for name, tensor in weights.items()}
    labels = labels_of(config, outputs, folder) if task in (*LABELLED_TASKS, "answering") else ()
    return FineTunedBert(task, labels if task in LABELLED_TASKS or labels == ANSWER_LABELS else (), settings, weights)


def write_bert(
    folder: Path, settings: BertSettings, weights: Tensors, vocabulary: BertVocabulary | None = None
) -> None:
    """Write a new folder that `transformers` reads; `weights` as `read_bert` gives them and `BertPretraining` has."""
    require_new_folder(folder)
    words = len(weights["bert.words.weight"])
    check_shapes(weights, shapes(settings, words))
    theirs = {huggingface_name(name): tensor for name, tensor in weights.items()}
    kind = architecture(weights)
    if kind == "BertModel":
        theirs = {key.removeprefix("bert."): tensor for key, tensor in theirs.items()}
    write_folder(folder, settings, {"architectures": [kind], "vocab_size": words}, theirs, vocabulary)


def write_finetuned(folder: Path, model: FineTunedBert, vocabulary: BertVocabulary) -> None:
    """Write a new folder that `transformers` reads; weights are named as in `EncoderWithHead`."""
    head, settings, outputs = HEADS[model.task], model.settings, len(model.weights["head.bias"])
    weights = {re.sub(r"^encoder\.", "bert.", name): tensor for name, tensor in model.weights.items()}
    weights = {name: tensor for name, tensor in weights.items() if head.pooled or not name.startswith(POOLER)}
    words = len(weights["bert.words.weight"])
    expected = encoder_shapes(settings, words, head)
    check_shapes({name: tensor for name, tensor in weights.items() if not name.startswith("head.")}, expected)
    theirs = {rename_weight(name, modules(head)): tensor for name, tensor in weights.items()}
    named = model.labels if model.task in LABELLED_TASKS or model.labels == ANSWER_LABELS else ()
    labels = named or tuple(f"LABEL_{number}" for number in range(outputs))
    config: Config = {"architectures": [head.architecture], "vocab_size": words}
    if model.task != "choice":  # whose one output says nothing by itself
        config["id2label"] = {str(number): label for number, label in enumerate(labels)}
        config["label2id"] = {label: number for number, label in enumerate(labels)}
    kinds = {"classification": "single_label_classification", "regression": "regression"}
    config |= {"problem_type": kinds[model.task]} if model.task in kinds else {}
    write_folder(folder, settings, config, theirs, vocabulary)


def write_folder(
    folder: Path, settings: BertSettings, config: Config, weights: Tensors, vocabulary: BertVocabulary | None
) -> None:
    """What is written for every BERT."""
    if vocabulary is not None and len(vocabulary) != config["vocab_size"]:
        raise ValueError(f"the model has {config['vocab_size']} words, the vocabulary {len(vocabulary)}")
    shape = {key: getattr(settings, name) for name, key in SHAPE.items()}
    kind = {"initializer_range": SPREAD, "pad_token_id": vocabulary.pad if vocabulary else 0}
    with new_folder(folder, shape | FIXED_VALUES | config | kind, weights) as place:
        if vocabulary is not None:
            vocabulary.save_entries(place / VOCAB_FILE)
            write_json(place / TOKENIZER_CONFIG, tokenizer_config(vocabulary, settings.max_positions))


def read_bert_vocabulary(folder: Path) -> BertVocabulary:
    """The pieces of the BERT in `folder`. What a tokenizer_config.json does not say is as in the uncased models."""
    if not (folder / VOCAB_FILE).exists() and (folder / TOKENIZER).exists():
        return BertVocabulary.load(folder / TOKENIZER)
    path = folder / TOKENIZER_CONFIG
    said = read_json(path) if path.exists() else {}
    return BertVocabulary.load_entries(
        folder / VOCAB_FILE,
        lowercase=said.get("do_lower_case", True),
        strip_accents=said.get("strip_accents"),
        split_chinese=said.get("tokenize_chinese_chars", True),
    )


def task_of(config: Config) -> str | None:
    """The task a BERT was fine-tuned to, by what a config.json says; None for an encoder and its own two questions."""
    kinds = config.get("architectures") or [""]
    tasks = [task for task, head in HEADS.items() if head.architecture == kinds[0]]
    if len(tasks) < 2:
        return tasks[0] if tasks else None
    if config.get("problem_type") == "multi_label_classification":
        raise UserError(
            'problem_type = "multi_label_classification": several classes at once',
            "models that say one class, or one number, can be read",
        )
    alone = len(config.get("id2label", "  ")) == 1  # one output alone is a number, there as well
    return "regression" if config.get("problem_type", "regression" if alone else "") == "regression" else tasks[0]


def labels_of(config: Config, outputs: int, folder: Path) -> tuple[str, ...]:
    """The names of the outputs, in their order; where none are written they have the ones that are usual there."""
    named = config.get("id2label") or {str(number): f"LABEL_{number}" for number in range(outputs)}
    try:
        labels = tuple(str(named[str(number)]) for number in range(len(named)))
    except KeyError as error:
        raise UserError(f"{folder / CONFIG}: id2label names no output {error}", "fetch the model again") from error
    if len(labels) != outputs or len(set(labels)) < outputs:
        raise UserError(
            f"{folder / CONFIG}: id2label has {len(set(labels))} names, and the model {outputs} outputs",
            "give every output a name of its own there",
        )
    return labels


def huggingface_name(name: str) -> str:
    """bert.layers.0.feedforward.fc1.bias -> bert.encoder.layer.0.intermediate.dense.bias"""
    return rename_weight(name, MODULES)


def modules(head: Head) -> dict[str, str]:
    """The same table for a BERT with a head."""
    return MODULES | {r"^head\b": head.module}


def shapes(settings: BertSettings, vocabulary: int) -> dict[str, torch.Size]:
    """Of all weights of a BERT, by our names."""
    with torch.device("meta"):
        return {name: tensor.shape for name, tensor in BertPretraining(settings, vocabulary).state_dict().items()}


def encoder_shapes(settings: BertSettings, vocabulary: int, head: Head) -> dict[str, torch.Size]:
    """Of the weights of the encoder that stand below a head."""
    absent = (MASKED, NEXT) if head.pooled else PARTS
    return {name: size for name, size in shapes(settings, vocabulary).items() if not name.startswith(absent)}


def read_settings(config: Config, path: Path) -> tuple[BertSettings, int]:
    """The shape, and the size of the vocabulary."""
    check_fixed_values(config, FIXED_VALUES, path, "BERT")
    require_keys(config, [key for key in (*SHAPE.values(), "vocab_size") if key != SHAPE["epsilon"]], path)
    values = {name: config[key] for name, key in SHAPE.items() if key in config}
    values["size"] = next((size for size, shape in SIZES.items() if shape.items() <= values.items()), "base")
    with reading_settings(path, SHAPE):
        return BertSettings.model_validate(values), int(config["vocab_size"])


def update_names(tensors: Tensors) -> Tensors:
    """Norms once had a gamma and a beta, and an encoder alone goes without its `bert.`"""
    alone = not any(key.startswith("bert.") for key in tensors)
    named = {}
    for key, tensor in tensors.items():
        key = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", key))
        named[f"bert.{key}" if alone else key] = tensor
    return named


def collect_weights(
    found: Tensors, expected: Mapping[str, torch.Size], names: Mapping[str, str], parts: tuple[str, ...], path: Path
) -> Tensors:
    """Take the expected weights out of what was found; one of the `parts` may be missing as a whole."""
    taken = {name: pop_tensor(found, rename_weight(name, names), shape, path) for name, shape in expected.items()}
    weights = {name: tensor for name, tensor in taken.items() if tensor is not None}
    absent = tuple(part for part in parts if not any(name.startswith(part) for name in weights))
    missing = [name for name in expected if name not in weights and not name.startswith(absent)]
    require_weights([rename_weight(name, names) for name in missing], path)
    return weights


def check_no_extra_weights(found: Tensors, path: Path) -> None:
    """What is left over must be known to mean nothing."""
    if unknown := [key for key in found if key not in IMPLIED]:
        raise UserError(
            f"{path} holds {len(unknown)} weights that BERT has not, the first is {unknown[0]}",
            "save the encoder without the layers of a task on top of it: model.base_model.save_pretrained(folder)",
        )


def check_tied(found: Tensors, path: Path) -> None:
    """What is written twice must be the same twice."""
    twice = {
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }
    for again, key in twice.items():
        if again in found and key in found and not torch.equal(found[again], found[key]):
            raise UserError(f"{path}: {again} differs from {key}", "a BERT whose output is not tied cannot be read")


def check_shapes(weights: Tensors, expected: Mapping[str, torch.Size]) -> None:
    """Weights that are to be written are those of the settings they are written with."""
    if strange := [name for name, tensor in weights.items() if tensor.shape != expected.get(name)]:
        raise ValueError(f"{strange[0]} is no weight of a BERT of these settings, or has another shape there")


def architecture(weights: Tensors) -> str:
    """Their class for a BERT of these parts."""
    match [any(name.startswith(part) for name in weights) for part in (MASKED, NEXT)]:
        case [True, True]:
            return "BertForPreTraining"
        case [True, False]:
            return "BertForMaskedLM"
        case [False, True]:
            return "BertForNextSentencePrediction"
    return "BertModel"


def tokenizer_config(vocabulary: BertVocabulary, longest: int) -> dict[str, Any]:
    return {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": vocabulary.lowercase,
        "strip_accents": vocabulary.strip_accents,
        "tokenize_chinese_chars": vocabulary.split_chinese,
        "model_max_length": longest,
    }
