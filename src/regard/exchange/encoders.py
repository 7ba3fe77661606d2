"""Encoders that are a BERT under other names: RoBERTa and DistilBERT in folders of `transformers`.

`as_bert` renames the keys of config.json and the weights to those of BERT; bert.py reads the result.

    RoBERTa (Liu et al. 2019)        positions are counted from the id of padding + 1: the rows before are left out
                                     classes: the dense layer of the head is the pooler
    DistilBERT (Sanh et al. 2019)    no segments: one, whose vector is zero
                                     classes: pre_classifier is the pooler, with relu
"""

from collections.abc import Mapping
from dataclasses import replace

import torch

from regard.exchange import folders
from regard.exchange.bert import POOLER_ACTIVATION
from regard.exchange.folders import Config, Tensors
from regard.exchange.model_files import ModelFiles
from regard.training.weights import rename

POSITIONS, SEGMENTS = "bert.embeddings.position_embeddings.weight", "bert.embeddings.token_type_embeddings.weight"

ROBERTA_MODULES = {
    r"^roberta\.": "bert.",
    r"^(embeddings|encoder|pooler)\.": r"bert.\1.",
    r"^lm_head\.(dense|layer_norm)\b": r"cls.predictions.transform.\1",
    r"^lm_head\.": "cls.predictions.",
    r"\blayer_norm\b": "LayerNorm",
    r"^classifier\.dense\b": "bert.pooler.dense",
    r"^classifier\.out_proj\b": "classifier",
}
"""Names of modules in RoBERTa, and in BERT."""
DISTILBERT_MODULES = {
    r"^distilbert\.": "bert.",
    r"^(embeddings|transformer)\.": r"bert.\1.",
    r"\.transformer\.layer\.": ".encoder.layer.",
    r"\.attention\.q_lin\b": ".attention.self.query",
    r"\.attention\.k_lin\b": ".attention.self.key",
    r"\.attention\.v_lin\b": ".attention.self.value",
    r"\.attention\.out_lin\b": ".attention.output.dense",
    r"\.sa_layer_norm\b": ".attention.output.LayerNorm",
    r"\.ffn\.lin1\b": ".intermediate.dense",
    r"\.ffn\.lin2\b": ".output.dense",
    r"\.output_layer_norm\b": ".output.LayerNorm",
    r"^vocab_transform\b": "cls.predictions.transform.dense",
    r"^vocab_layer_norm\b": "cls.predictions.transform.LayerNorm",
    r"^vocab_projector\.weight$": "cls.predictions.decoder.weight",
    r"^vocab_projector\.bias$": "cls.predictions.bias",
    r"^pre_classifier\b": "bert.pooler.dense",
}
"""Names of modules in DistilBERT, and in BERT; replaced one after another."""
DISTILBERT_KEYS = {
    "dim": "hidden_size",
    "n_heads": "num_attention_heads",
    "hidden_dim": "intermediate_size",
    "n_layers": "num_hidden_layers",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "activation": "hidden_act",
}
"""Keys of config.json in DistilBERT, and in BERT."""
ROBERTA_FIXED = {"hidden_act": "gelu", "position_embedding_type": "absolute", "is_decoder": False}


def read_roberta(files: ModelFiles) -> ModelFiles:
    """A RoBERTa as a BERT."""
    config = files.config
    folders.check_fixed_values(config, ROBERTA_FIXED, files.config_path, "RoBERTa")
    skipped = folders.read_value(config, "pad_token_id", int, 1, files.config_path) + 1
    positions = folders.read_count(config, "max_position_embeddings", None, files.config_path) - skipped
    tensors = renamed(files.tensors, ROBERTA_MODULES)
    if POSITIONS in tensors:
        tensors[POSITIONS] = tensors[POSITIONS][skipped:]
    return replace(files, config=as_bert_config(config, "Roberta", max_position_embeddings=positions), tensors=tensors)


def read_distilbert(files: ModelFiles) -> ModelFiles:
    """A DistilBERT as a BERT."""
    config = files.config
    folders.require_keys(config, [*DISTILBERT_KEYS, "max_position_embeddings", "vocab_size"], files.config_path)
    width = folders.read_count(config, "dim", None, files.config_path)
    tensors = renamed(files.tensors, DISTILBERT_MODULES) | {SEGMENTS: torch.zeros(1, width)}
    values = {key: config[name] for name, key in DISTILBERT_KEYS.items()}
    values |= {"type_vocab_size": 1, "layer_norm_eps": 1e-12, POOLER_ACTIVATION: "relu"}
    return replace(files, config=as_bert_config(config, "DistilBert", **values), tensors=tensors)


def as_bert(files: ModelFiles) -> ModelFiles:
    """The same model with the names of BERT."""
    readers = {"bert": lambda files: files, "roberta": read_roberta, "distilbert": read_distilbert}
    return readers[files.config["model_type"]](files)


def renamed(tensors: Tensors, modules: Mapping[str, str]) -> Tensors:
    """The tensors with the names of BERT."""
    return {rename(name, modules): tensor for name, tensor in tensors.items()}


def as_bert_config(config: Config, prefix: str, **values: object) -> Config:
    """A config.json with the class and other values of a BERT."""
    classes = config.get("architectures") or []
    architectures = [f"Bert{name.removeprefix(prefix)}" if isinstance(name, str) else name for name in classes]
    return config | {"model_type": "bert", "architectures": architectures} | values
