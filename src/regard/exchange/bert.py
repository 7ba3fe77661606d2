"""BERT in folders of Hugging Face `transformers`, read and written without that library:

    config.json                         the shape of the model
    model.safetensors                   its weights
    vocab.txt, tokenizer_config.json    its subwords and its normalisation; or tokenizer.json, which has both

Weights are named as in `BertPretraining`: `bert.` is the encoder, `masked.` and `next.` are the pretraining heads. A
folder may contain the encoder only; weights that it does not contain are not in the result. Or it contains an encoder
with the head of a task: then weights are named as in `EncoderWithHead`, `encoder.` and `head.`. Shapes are the same on
both sides, so that writing and reading changes no bit.

Two encoders are a BERT under other names; `as_bert` renames the keys of config.json and the weights to those of BERT.
RoBERTa has vocab.json and merges.txt in place of vocab.txt.

    RoBERTa (Liu et al. 2019)        positions are counted from the id of padding + 1: the rows before are left out
                                     classes: the dense layer of the head is the pooler
    DistilBERT (Sanh et al. 2019)    no segments: one, whose vector is zero
                                     classes: pre_classifier is the pooler, with relu
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from regard.exchange import folders
from regard.exchange.folders import Config, ModelFiles, Tensors
from regard.files import write_json
from regard.layers.meta import on_meta
from regard.models.bert import INIT_STD, SIZES, BertPretraining, BertSettings
from regard.models.settings import name_of_size
from regard.reading import read_json, read_text
from regard.text.bert import BertTokenizer
from regard.text.inputs import order_tokens
from regard.text.roberta import RobertaTokenizer, parse_merges
from regard.training.weights import rename

SHAPE: dict[str, str] = folders.NAMES["bert"]["settings"]
VOCAB_FILE = "vocab.txt"
VOCAB, MERGES = "vocab.json", "merges.txt"
POOLER_ACTIVATION = "pooler_activation"
"""A key that transformers does not have, for models that are read as a BERT."""
FIXED_VALUES: Config = folders.NAMES["bert"]["fixed"]
MODULES: dict[str, str] = folders.NAMES["bert"]["modules"]
POOLER, MASKED, NEXT = OPTIONAL = ("bert.pooler.", "masked.", "next.")
"""Modules that a folder may lack completely."""
ARCHITECTURES: dict[tuple[bool, ...], str] = {
    (True, True): "BertForPreTraining",
    (True, False): "BertForMaskedLM",
    (False, True): "BertForNextSentencePrediction",
    (False, False): "BertModel",
}
"""Classes of transformers for a BERT with or without each pretraining head."""
TIED: dict[str, str] = folders.NAMES["bert"]["tied"]
IMPLIED = ("bert.embeddings.position_ids", "bert.embeddings.token_type_ids", *TIED)
"""Redundant tensors of older folders: position ids, and copies of the tied word vectors and biases."""
POSITIONS, SEGMENTS = "bert.embeddings.position_embeddings.weight", "bert.embeddings.token_type_embeddings.weight"
ROBERTA_MODULES: dict[str, str] = folders.NAMES["roberta"]["modules"]
DISTILBERT_MODULES: dict[str, str] = folders.NAMES["distilbert"]["modules"]
DISTILBERT_KEYS: dict[str, str] = folders.NAMES["distilbert"]["settings"]
ROBERTA_FIXED: Config = folders.NAMES["roberta"]["fixed"]


@dataclass(frozen=True)
class BertHead:
    """The output layer of a task, as transformers has it."""

    architecture: str
    """The name of the class."""
    module: str = "classifier"
    """The name of the layer in the class."""
    pooled: bool = True
    """True if it reads the pooled vector; otherwise it reads every token."""
    named_outputs: bool = False
    """True if every output has the name of a label."""
    problem_type: str = ""
    """The value of problem_type in config.json; empty if there is none."""


SEQUENCE_CLASSIFICATION = BertHead(
    "BertForSequenceClassification", named_outputs=True, problem_type="single_label_classification"
)
SEQUENCE_REGRESSION = BertHead("BertForSequenceClassification", problem_type="regression")
TOKEN_CLASSIFICATION = BertHead("BertForTokenClassification", pooled=False, named_outputs=True)
QUESTION_ANSWERING = BertHead("BertForQuestionAnswering", "qa_outputs", pooled=False)
MULTIPLE_CHOICE = BertHead("BertForMultipleChoice")
HEADS = (
    SEQUENCE_CLASSIFICATION, SEQUENCE_REGRESSION, TOKEN_CLASSIFICATION, QUESTION_ANSWERING, MULTIPLE_CHOICE,
)  # fmt: skip
"""The heads that can be read and written; a task names its own (`Exchange.head`)."""
ANSWER_LABELS = ("answerable", "unanswerable")
"""Labels of question answering, the second one if the model may predict "no answer". transformers does not use them."""


@dataclass(frozen=True)
class FineTunedBert:
    """A BERT with the head of a task."""

    head: BertHead
    labels: tuple[str, ...]
    """The names of the outputs; for question answering, some of ANSWER_LABELS; empty if there are none."""
    settings: BertSettings
    weights: Tensors


def read_bert(model: Path | ModelFiles) -> tuple[BertSettings, Tensors]:
    """The settings and weights of the BERT in a folder. `bert.words.weight` has a row for every token."""
    files = folders.open_model(model)
    path = files.weights_path
    settings, vocab_size = read_settings(files.config, files.config_path)
    tensors = update_names(files.tensors)
    for copy, key in TIED.items():
        if copy in tensors and key in tensors and not torch.equal(tensors[copy], tensors[key]):
            remedy = "choose a model whose output weights equal its embeddings"
            raise folders.unsupported(f"{path}: {copy} differs from {key}", f"{path}:{copy}", remedy)
    weights = folders.pop_tensors(tensors, shapes(settings, vocab_size), huggingface_name, path, OPTIONAL)
    check_no_extra_weights(tensors, path)
    return settings, weights


def read_finetuned(model: Path | ModelFiles) -> FineTunedBert:
    files = folders.open_model(model)
    config, path = files.config, files.weights_path
    settings, vocab_size = read_settings(config, files.config_path)
    head = read_head(config, files.config_path)
    if head is None:
        problem = f"{files.config_path} names no class of a fine-tuned BERT"
        raise folders.unsupported(problem, f"{files.config_path}:architectures", "read it as a BERT without a head")
    tensors = update_names(files.tensors)
    bias = tensors.get(f"{head.module}.bias")
    outputs = 0 if bias is None else bias.numel()
    expected = encoder_shapes(settings, vocab_size, head)
    expected |= {"head.weight": torch.Size((outputs, settings.d_model)), "head.bias": torch.Size((outputs,))}
    weights = folders.pop_tensors(tensors, expected, partial(rename, patterns=modules(head)), path)
    check_no_extra_weights({key: tensor for key, tensor in tensors.items() if "pooler" not in key or head.pooled}, path)
    weights = {re.sub(r"^bert\.", "encoder.", name): tensor for name, tensor in weights.items()}
    labels = labels_of(config, outputs, files.config_path) if head.named_outputs or head == QUESTION_ANSWERING else ()
    if head == QUESTION_ANSWERING and labels != ANSWER_LABELS:
        labels = ANSWER_LABELS[:1]
    return FineTunedBert(head, labels, settings, weights)


def write_bert(folder: Path, settings: BertSettings, weights: Tensors, tokenizer: BertTokenizer | None = None) -> None:
    """Write a new folder that `transformers` reads; `weights` are named as in `BertPretraining`."""
    folders.require_new_folder(folder)
    vocab_size = len(weights["bert.words.weight"])
    check_shapes(weights, shapes(settings, vocab_size))
    exported = {huggingface_name(name): tensor for name, tensor in weights.items()}
    kind = ARCHITECTURES[tuple(any(name.startswith(module) for name in weights) for module in (MASKED, NEXT))]
    if kind == "BertModel":
        exported = {key.removeprefix("bert."): tensor for key, tensor in exported.items()}
    write_folder(folder, settings, {"architectures": [kind], "vocab_size": vocab_size}, exported, tokenizer)


def write_finetuned(
    folder: Path, model: FineTunedBert, tokenizer: BertTokenizer, max_length: int | None = None
) -> None:
    """Write a new folder that `transformers` reads; weights are named as in `EncoderWithHead`.

    `max_length` is the number of tokens that its tokenizer truncates texts to; default: all positions of the model.
    """
    head, settings, outputs = model.head, model.settings, len(model.weights["head.bias"])
    weights = {re.sub(r"^encoder\.", "bert.", name): tensor for name, tensor in model.weights.items()}
    weights = {name: tensor for name, tensor in weights.items() if head.pooled or not name.startswith(POOLER)}
    vocab_size = len(weights["bert.words.weight"])
    expected = encoder_shapes(settings, vocab_size, head)
    check_shapes({name: tensor for name, tensor in weights.items() if not name.startswith("head.")}, expected)
    exported = {rename(name, modules(head)): tensor for name, tensor in weights.items()}
    names = model.labels if head.named_outputs or model.labels == ANSWER_LABELS else ()
    labels = names or tuple(f"LABEL_{number}" for number in range(outputs))
    config: Config = {"architectures": [head.architecture], "vocab_size": vocab_size}
    if head != MULTIPLE_CHOICE:  # its single output has no meaning by itself
        config["id2label"] = {str(number): label for number, label in enumerate(labels)}
        config["label2id"] = {label: number for number, label in enumerate(labels)}
    config |= {"problem_type": head.problem_type} if head.problem_type else {}
    write_folder(folder, settings, config, exported, tokenizer, max_length)


def write_folder(
    folder: Path,
    settings: BertSettings,
    config: Config,
    weights: Tensors,
    tokenizer: BertTokenizer | None,
    max_length: int | None = None,
) -> None:
    if tokenizer is not None and len(tokenizer) != config["vocab_size"]:
        raise ValueError(f"the model has {config['vocab_size']} tokens, the tokenizer has {len(tokenizer)}")
    shape = {key: getattr(settings, name) for name, key in SHAPE.items()}
    shape[SHAPE["activation"]] = folders.huggingface_activation(settings.activation)
    other = {"initializer_range": INIT_STD, "pad_token_id": tokenizer.pad if tokenizer else 0}
    with folders.new_folder(folder, shape | FIXED_VALUES | config | other, weights) as path:
        if tokenizer is not None:
            tokenizer.save_vocab_txt(path / VOCAB_FILE)
            values = {
                "tokenizer_class": "BertTokenizer",
                "do_lower_case": tokenizer.lowercase,
                "strip_accents": tokenizer.strip_accents,
                "tokenize_chinese_chars": tokenizer.split_chinese,
                "model_max_length": max_length or settings.max_positions,
            }
            write_json(path / folders.TOKENIZER_CONFIG, values)


def read_head(config: Config, path: Path = Path(folders.CONFIG)) -> BertHead | None:
    """The head of a fine-tuned BERT, from its config.json; None for an encoder or a pretraining model."""
    architectures = folders.read_value(config, "architectures", list[str], [], path)
    heads = [head for head in HEADS if [head.architecture] == architectures[:1]]
    if len(heads) < 2:
        return heads[0] if heads else None
    if config.get("problem_type") == "multi_label_classification":
        problem = 'problem_type = "multi_label_classification" is not supported: one label for each text only'
        raise folders.unsupported(problem, "problem_type", "choose a model with one label per text, or a regression")
    names = folders.read_value(config, "id2label", dict[str, str], {}, path)
    single = len(names) == 1  # transformers, too, reads one output as regression
    problem_type = config.get("problem_type") or (SEQUENCE_REGRESSION.problem_type if single else "")
    return SEQUENCE_REGRESSION if problem_type == SEQUENCE_REGRESSION.problem_type else SEQUENCE_CLASSIFICATION


def labels_of(config: Config, outputs: int, path: Path) -> tuple[str, ...]:
    """The names of the outputs in order; without names, the defaults of transformers."""
    names = folders.read_value(config, "id2label", dict[str, str], {}, path)
    names = names or {str(number): f"LABEL_{number}" for number in range(outputs)}
    try:
        labels = tuple(names[str(number)] for number in range(len(names)))
    except KeyError as error:
        raise folders.damaged(f"{path}: id2label has no output {error}", f"{path}:id2label") from error
    if len(labels) != outputs or len(set(labels)) < outputs:
        problem = f"{path}: id2label has {len(set(labels))} different names, and the model has {outputs} outputs"
        raise folders.damaged(problem, f"{path}:id2label", "give every output a different name in id2label")
    return labels


def huggingface_name(name: str) -> str:
    """bert.layers.0.feedforward.fc1.bias -> bert.encoder.layer.0.intermediate.dense.bias"""
    return rename(name, MODULES)


def modules(head: BertHead) -> dict[str, str]:
    return MODULES | {r"^head\b": head.module}


def shapes(settings: BertSettings, vocab_size: int) -> dict[str, torch.Size]:
    """The shapes of all weights of a BERT, by our names."""
    with on_meta():
        return {name: tensor.shape for name, tensor in BertPretraining(settings, vocab_size).state_dict().items()}


def encoder_shapes(settings: BertSettings, vocab_size: int, head: BertHead) -> dict[str, torch.Size]:
    """The shapes of the weights of the encoder below a head, by our names."""
    unused = (MASKED, NEXT) if head.pooled else OPTIONAL
    return {name: size for name, size in shapes(settings, vocab_size).items() if not name.startswith(unused)}


def read_settings(config: Config, path: Path) -> tuple[BertSettings, int]:
    """The settings of the model, and the size of its vocabulary."""
    folders.check_fixed_values(config, FIXED_VALUES, path, "BERT")
    folders.require_keys(config, [key for key in (*SHAPE.values(), "vocab_size") if key != SHAPE["epsilon"]], path)
    values = {name: config[key] for name, key in SHAPE.items() if key in config}
    values |= {
        "activation": folders.activation_name(values["activation"]),
        "pooler": config.get(POOLER_ACTIVATION, "tanh"),
    }
    values["size"] = name_of_size(values, SIZES)
    with folders.reading_settings(path, SHAPE):
        return BertSettings.model_validate(values), folders.read_count(config, "vocab_size", None, path)


def update_names(tensors: Tensors) -> Tensors:
    """Rename the gamma and beta of old norms, and add the prefix `bert.` that an encoder alone does not have."""
    bare = not any(key.startswith("bert.") for key in tensors)
    renamed = {}
    for key, tensor in tensors.items():
        key = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", key))
        renamed[f"bert.{key}" if bare else key] = tensor
    return renamed


def check_no_extra_weights(tensors: Tensors, path: Path) -> None:
    remedy = "save the encoder without the head of a task: model.base_model.save_pretrained(folder)"
    folders.refuse_weights((key for key in tensors if key not in IMPLIED), path, remedy)


def check_shapes(weights: Tensors, expected: Mapping[str, torch.Size]) -> None:
    if wrong := [name for name, tensor in weights.items() if tensor.shape != expected.get(name)]:
        raise ValueError(f"{wrong[0]} is not a weight of a BERT with these settings, or has another shape")


def as_bert(files: ModelFiles) -> ModelFiles:
    """The same model with the names of BERT."""
    config, path, kind = files.config, files.config_path, files.config["model_type"]
    if kind == "bert":
        return files
    modules = {"roberta": ROBERTA_MODULES, "distilbert": DISTILBERT_MODULES}[kind]
    tensors = {rename(name, modules): tensor for name, tensor in files.tensors.items()}
    if kind == "roberta":
        folders.check_fixed_values(config, ROBERTA_FIXED, path, "RoBERTa")
        skipped = folders.read_value(config, "pad_token_id", int, 1, path) + 1
        values: Config = {
            "max_position_embeddings": folders.read_count(config, "max_position_embeddings", None, path) - skipped
        }
        if POSITIONS in tensors:
            tensors[POSITIONS] = tensors[POSITIONS][skipped:]
    else:
        folders.require_keys(config, [*DISTILBERT_KEYS, "max_position_embeddings", "vocab_size"], path)
        tensors[SEGMENTS] = torch.zeros(1, folders.read_count(config, "dim", None, path))
        values = {key: config[name] for name, key in DISTILBERT_KEYS.items()}
        values |= {"type_vocab_size": 1, "layer_norm_eps": 1e-12, POOLER_ACTIVATION: "relu"}
    prefix, classes = {"roberta": "Roberta", "distilbert": "DistilBert"}[kind], config.get("architectures") or []
    architectures = [f"Bert{name.removeprefix(prefix)}" if isinstance(name, str) else name for name in classes]
    return replace(
        files, config=config | {"model_type": "bert", "architectures": architectures} | values, tensors=tensors
    )


def read_bert_tokenizer(folder: Path) -> BertTokenizer:
    """The tokenizer of the BERT in `folder`. The defaults of tokenizer_config.json are those of the uncased models."""
    if not (folder / VOCAB_FILE).exists() and (folder / folders.TOKENIZER).exists():
        return BertTokenizer.load(folder / folders.TOKENIZER)
    path = folder / folders.TOKENIZER_CONFIG
    config = folders.read_config(path) if path.exists() else {}
    accents = config.get("strip_accents")
    return BertTokenizer.load_vocab_txt(
        folder / VOCAB_FILE,
        lowercase=folders.read_value(config, "do_lower_case", bool, True, path),
        strip_accents=None if accents is None else folders.read_value(config, "strip_accents", bool, False, path),
        split_chinese=folders.read_value(config, "tokenize_chinese_chars", bool, True, path),
    )


def read_roberta_tokenizer(folder: Path) -> RobertaTokenizer:
    path = folders.find_tokenizer(folder, VOCAB, MERGES)
    try:
        if path.name == folders.TOKENIZER:
            return RobertaTokenizer.from_json(read_text(path))
        settings = folder / folders.TOKENIZER_CONFIG
        config = folders.read_config(settings) if settings.exists() else {}
        prefix = folders.read_value(config, "add_prefix_space", bool, False, settings)
        return RobertaTokenizer(order_tokens(read_json(path, dict[str, int])), read_merges(folder / MERGES), prefix)
    except (ValueError, AttributeError, TypeError) as error:
        raise folders.damaged(f"{path} is damaged or is not a tokenizer of RoBERTa: {error}", path) from error


def read_merges(path: Path) -> list[tuple[str, str]]:
    """A merges.txt: two tokens a line, after a line with the version."""
    lines = read_text(path).split("\n")
    return parse_merges(line for line in lines if line and not line.startswith("#version"))
