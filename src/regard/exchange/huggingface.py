"""BERT in the folders of Hugging Face `transformers`, in and out, without that library:

    config.json                         the model's shape
    model.safetensors                   its weights
    vocab.txt, tokenizer_config.json    its pieces, and whether they have case; or tokenizer.json, which says both

Weights are called as in `BertPretraining`: `bert.` and on is the encoder, `masked.` and `next.` are its two questions.
A folder may hold the encoder alone; what it does not hold is not in the result. Shapes are the same on both sides, so
that going there and back changes no bit.
"""

import re
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from regard.errors import UserError
from regard.files import nearest_file, read_json, replacing, write_json
from regard.models.bert import SPREAD, BertPretraining
from regard.models.bert_settings import SIZES, BertSettings
from regard.text.bert import BertVocabulary

Tensors = dict[str, Tensor]

CONFIG, WEIGHTS, PICKLED = "config.json", "model.safetensors", "pytorch_model.bin"
ENTRIES, TOKENIZER, TOKENIZER_CONFIG = "vocab.txt", "tokenizer.json", "tokenizer_config.json"

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

USUAL = {
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
    r"\baround_attention\.norm\b": "attention.output.LayerNorm",
    r"\bfeedforward\.widen\b": "intermediate.dense",
    r"\bfeedforward\.narrow\b": "output.dense",
    r"\baround_feedforward\.norm\b": "output.LayerNorm",
    r"^masked\.dense\b": "cls.predictions.transform.dense",
    r"^masked\.norm\b": "cls.predictions.transform.LayerNorm",
    r"^masked\.bias\b": "cls.predictions.bias",
    r"^next\b": "cls.seq_relationship",
}
"""Our modules and theirs, replaced one line after another."""

PARTS = ("bert.pooler.", "masked.", "next.")
"""What a folder may lack as a whole."""

IMPLIED = (
    "bert.embeddings.position_ids",
    "bert.embeddings.token_type_ids",
    "cls.predictions.decoder.weight",
    "cls.predictions.decoder.bias",
)
"""What older folders hold besides: numbers from 0 on, and the words' vectors and biases once more."""


def read_bert(folder: Path) -> tuple[BertSettings, Tensors]:
    """The shape and the weights of the BERT in `folder`; the size of its vocabulary is that of `bert.words.weight`."""
    settings, vocabulary = read_config(folder / CONFIG)
    path = folder / WEIGHTS
    found = with_modern_names(read_weights(path))
    refuse_untied(found, path)
    weights, expected = {}, shapes(settings, vocabulary)
    for name, shape in expected.items():
        key = their_name(name)
        tensor = found.pop(key, None)
        if tensor is not None and tensor.shape != shape:
            raise UserError(
                f"{path}: {key} is {tuple(tensor.shape)}, and by {CONFIG} it should be {tuple(shape)}",
                "the two files are not of the same model: fetch both again",
            )
        if tensor is not None:
            weights[name] = tensor.float()
    refuse_incomplete(weights, expected, path)
    if unknown := [key for key in found if key not in IMPLIED]:
        raise UserError(
            f"{path} holds {len(unknown)} weights that BERT has not, the first is {unknown[0]}",
            "save the encoder without the layers of a task on top of it: model.base_model.save_pretrained(folder)",
        )
    return settings, weights


def write_bert(
    folder: Path, settings: BertSettings, weights: Tensors, vocabulary: BertVocabulary | None = None
) -> None:
    """Write a new folder that `transformers` reads; `weights` as `read_bert` gives them and `BertPretraining` has."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} is there already", "name a folder that does not exist yet")
    words = len(weights["bert.words.weight"])
    expected = shapes(settings, words)
    if strange := [name for name, tensor in weights.items() if tensor.shape != expected.get(name)]:
        raise ValueError(f"{strange[0]} is no weight of a BERT of these settings, or has another shape there")
    if vocabulary is not None and len(vocabulary) != words:
        raise ValueError(f"the model has {words} words, the vocabulary {len(vocabulary)}")
    theirs = {their_name(name): tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    kind = architecture(weights)
    if kind == "BertModel":
        theirs = {key.removeprefix("bert."): tensor for key, tensor in theirs.items()}
    config = {key: getattr(settings, name) for name, key in SHAPE.items()} | USUAL
    config |= {"architectures": [kind], "vocab_size": words, "initializer_range": SPREAD}
    with replacing(folder, folder=True) as place:
        write_json(place / CONFIG, config | {"pad_token_id": vocabulary.pad if vocabulary else 0})
        save_file(theirs, place / WEIGHTS, metadata={"format": "pt"})
        if vocabulary is not None:
            vocabulary.save_entries(place / ENTRIES)
            write_json(place / TOKENIZER_CONFIG, tokenizer_config(vocabulary, settings.max_positions))


def read_bert_vocabulary(folder: Path) -> BertVocabulary:
    """The pieces of the BERT in `folder`. What a tokenizer_config.json does not say is as in the uncased models."""
    if not (folder / ENTRIES).exists() and (folder / TOKENIZER).exists():
        return BertVocabulary.load(folder / TOKENIZER)
    path = folder / TOKENIZER_CONFIG
    said = read_json(path) if path.exists() else {}
    return BertVocabulary.load_entries(
        folder / ENTRIES,
        lowercase=said.get("do_lower_case", True),
        strip_accents=said.get("strip_accents"),
        split_chinese=said.get("tokenize_chinese_chars", True),
    )


def their_name(name: str) -> str:
    """bert.layers.0.feedforward.widen.bias -> bert.encoder.layer.0.intermediate.dense.bias"""
    for ours, theirs in MODULES.items():
        name = re.sub(ours, theirs, name)
    return name


def shapes(settings: BertSettings, vocabulary: int) -> dict[str, torch.Size]:
    """Of all weights of a BERT, by our names."""
    with torch.device("meta"):
        return {name: tensor.shape for name, tensor in BertPretraining(settings, vocabulary).state_dict().items()}


def read_config(path: Path) -> tuple[BertSettings, int]:
    """The shape, and the size of the vocabulary."""
    config = read_json(path)
    if not isinstance(config, dict):
        raise UserError(f"{path} holds no settings", "name a folder written by save_pretrained")
    for key, value in USUAL.items():
        if config.get(key, value) != value:
            raise UserError(
                f"{path}: {key} = {config[key]!r} is another model than BERT", f"only {key} = {value!r} can be read"
            )
    if missing := [key for key in (*SHAPE.values(), "vocab_size") if key not in {*config, SHAPE["epsilon"]}]:
        raise UserError(f"{path} does not say {', '.join(missing)}", "name a folder written by save_pretrained")
    values = {name: config[key] for name, key in SHAPE.items() if key in config}
    values["size"] = next((size for size, shape in SIZES.items() if shape.items() <= values.items()), "base")
    try:
        return BertSettings.model_validate(values), int(config["vocab_size"])
    except ValidationError as error:
        problem = error.errors()[0]
        key = SHAPE.get(str(problem["loc"][0]), "") if problem["loc"] else ""
        given = f"{key} = {problem['input']!r}: " if key else ""
        raise UserError(f"{path}: {given}{problem['msg']}", "this model cannot be read") from error


def read_weights(path: Path) -> Tensors:
    if not path.exists():
        pickled = path.with_name(PICKLED).exists()
        remedy = f"{PICKLED} can run programs when it is opened: load it with transformers and save_pretrained it again"
        raise UserError(f"{path}: no such file", remedy if pickled else nearest_file(path))
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} is damaged or cannot be read: {error}", "fetch it again") from error


def with_modern_names(tensors: Tensors) -> Tensors:
    """Norms once had a gamma and a beta, and an encoder alone goes without its `bert.`"""
    alone = not any(key.startswith("bert.") for key in tensors)
    renamed = {}
    for key, tensor in tensors.items():
        key = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", key))
        renamed[f"bert.{key}" if alone else key] = tensor
    return renamed


def refuse_untied(found: Tensors, path: Path) -> None:
    """What is written twice must be the same twice."""
    twice = {
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }
    for again, key in twice.items():
        if again in found and key in found and not torch.equal(found[again], found[key]):
            raise UserError(f"{path}: {again} differs from {key}", "a BERT whose output is not tied cannot be read")


def refuse_incomplete(weights: Tensors, expected: dict[str, torch.Size], path: Path) -> None:
    absent = [part for part in PARTS if not any(name.startswith(part) for name in weights)]
    missing = [name for name in expected if name not in weights and not name.startswith(tuple(absent))]
    if missing:
        raise UserError(
            f"{path} lacks {len(missing)} weights, the first is {their_name(missing[0])}",
            "fetch the model again, or save it again with save_pretrained",
        )


def architecture(weights: Tensors) -> str:
    """Their class for a BERT of these parts."""
    match [any(name.startswith(part) for name in weights) for part in ("masked.", "next.")]:
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
