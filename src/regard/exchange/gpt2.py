"""GPT-2 (Radford et al. 2019) in folders of Hugging Face `transformers`, as a language model.

It is our Transformer language model with learned positions, pre-norm and GELU by tanh. Four things differ:

    matrices     theirs are stored as (in, out), ours as (out, in); query, key and value are one matrix of theirs
    embeddings   they are not multiplied by sqrt(D)
    token ids    <|endoftext|> has the last id, ours has EOS = 2; padding and beginning do not exist. Our id n is row
                 rows[n] of theirs; padding and beginning have the row of the end and a bias that makes them impossible
    prompts      they begin with their first token, not after the end of another text (model.begin_symbol = false)

D model, V vocabulary.
"""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from tokenizers import Tokenizer as HuggingFaceTokenizer
from tokenizers import decoders, models, pre_tokenizers

from regard.exchange import folders
from regard.exchange.bert import MERGES, VOCAB, read_merges
from regard.exchange.folders import Config, ModelFiles, Tensors
from regard.exchange.marian import NEVER_BIAS
from regard.layers.meta import on_meta
from regard.models.language_transformer import TransformerLanguageModel, TransformerLanguageSettings
from regard.reading import parse_json, read_json, read_text
from regard.text.inputs import order_tokens
from regard.text.roberta import Merge, parse_merges
from regard.text.subword import SubwordTokenizer
from regard.text.symbols import BOS, EOS, PAD, SPECIALS
from regard.training.weights import rename

END, BIAS = "<|endoftext|>", "embedding.bias"
SHAPE: dict[str, str] = folders.NAMES["gpt2"]["settings"]
FIXED_VALUES: Config = folders.NAMES["gpt2"]["fixed"]
OUR_VALUES: Config = folders.NAMES["gpt2"]["ours"]
MODULES: dict[str, str] = folders.NAMES["gpt2"]["modules"]
CONSTANT = (".attn.bias", ".attn.masked_bias")
"""Masks in older folders."""


@dataclass(frozen=True)
class Gpt2:
    """A GPT-2 that was read: weights are named as in `TransformerLanguageModel`."""

    settings: TransformerLanguageSettings
    weights: Tensors
    tokenizer: SubwordTokenizer


def read_gpt2(files: ModelFiles) -> Gpt2:
    settings, size = read_settings(files.config, files.config_path)
    tokenizer, rows = read_tokenizer(files.folder, size)
    path, tensors = files.weights_path, update_names(files.tensors, settings.layers)
    with on_meta():
        expected = {name: x.shape for name, x in TransformerLanguageModel(settings, size).state_dict().items()}
    expected = {name: shape for name, shape in expected.items() if not name.startswith(("output.", BIAS))}
    weights = folders.pop_tensors(tensors, expected, partial(rename, patterns=MODULES), path)
    weights["embedding.weight"] = weights["embedding.weight"][torch.tensor(rows)]
    weights[BIAS] = torch.zeros(len(rows)).index_fill(0, torch.tensor([PAD, BOS]), NEVER_BIAS)
    extra = (key for key in tensors if not key.endswith(CONSTANT) and key != "lm_head.weight")
    folders.refuse_weights(extra, path, "only language models can be read, without another output layer")
    return Gpt2(settings, weights, tokenizer)


def read_settings(config: Config, path: Path) -> tuple[TransformerLanguageSettings, int]:
    """The settings of the model, and the size of its vocabulary."""
    folders.check_fixed_values(config, FIXED_VALUES, path, "GPT-2")
    folders.require_keys(config, [*SHAPE.values(), "vocab_size"], path)
    values = {name: config[key] for name, key in SHAPE.items()} | OUR_VALUES
    values["activation"] = folders.activation_name(values["activation"])
    values["d_ff"] = folders.read_count(config, "n_inner", 4 * folders.read_count(config, "n_embd", None, path), path)
    with folders.reading_settings(path, SHAPE):
        return TransformerLanguageSettings.model_validate(values), folders.read_count(config, "vocab_size", None, path)


def update_names(tensors: Tensors, layers: int) -> Tensors:
    """Weights without the prefix of the whole model, transposed, and with query, key and value by themselves."""
    tensors = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    for name in [name for name in tensors if ".c_" in name and name.endswith(".weight") and tensors[name].dim() == 2]:
        tensors[name] = tensors[name].t().contiguous()
    for layer in range(layers):
        for kind in ("weight", "bias"):
            joined = tensors.pop(f"h.{layer}.attn.c_attn.{kind}", None)
            if joined is not None:
                names = (f"h.{layer}.attention.{part}.{kind}" for part in ("query", "key", "value"))
                tensors |= dict(zip(names, joined.chunk(3), strict=False))
    return tensors


def read_tokenizer(folder: Path, size: int) -> tuple[SubwordTokenizer, list[int]]:
    """The tokenizer in our order, and the matrix row of each of its tokens."""
    path = folders.find_tokenizer(folder, VOCAB, MERGES)
    try:
        tokens, merges = read_tokens(path)
        unused = [f"<|unused{number}|>" for number in range(len(tokens), size)]
        end, others = tokens.index(END), [*tokens, *unused]
        if len(others) != size:
            raise ValueError(f"it has {len(others)} tokens, and the model has {size}")
        rows = [end, end, end, *(row for row in range(size) if row != end)]
        return SubwordTokenizer(assemble([*SPECIALS, *(others[row] for row in rows[EOS + 1 :])], merges)), rows
    except (ValueError, AttributeError, TypeError) as error:
        raise folders.damaged(f"{path} is damaged or is not a tokenizer of GPT-2: {error}", path) from error


def read_tokens(path: Path) -> tuple[list[str], list[Merge]]:
    """The tokens by id and the merges, from vocab.json and merges.txt or from tokenizer.json."""
    if path.name == VOCAB:
        return order_tokens(read_json(path, dict[str, int])), read_merges(path.with_name(MERGES))
    content = parse_json(read_text(path))
    model, splitter = (content.get(key) or {} for key in ("model", "pre_tokenizer"))
    if model.get("type") != "BPE" or splitter.get("type") != "ByteLevel" or splitter.get("add_prefix_space"):
        raise ValueError(f"it is {model.get('type')} with {json.dumps(splitter)[:80]}, not byte pair encoding of bytes")
    added = {token.get("content"): token.get("id") for token in content.get("added_tokens", ())}
    return order_tokens(model.get("vocab", {}) | added), parse_merges(model.get("merges", ()))


def assemble(entries: list[str], merges: list[Merge]) -> HuggingFaceTokenizer:
    """The `tokenizers.Tokenizer` of these tokens."""
    ids = {entry: index for index, entry in enumerate(entries)}
    tokenizer = HuggingFaceTokenizer(models.BPE(vocab=ids, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer
