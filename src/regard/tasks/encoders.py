"""Text encoders in tasks: texts and pairs as inputs, outputs for many inputs, attention, weights of another run.

A labelled task can start from a language model:

    task = "language"            task = "classification", "tagging", ...

    kind = "transformer"    ->   kind = "transformer", causal = true, pooling = "last"     GPT, Radford et al. 2018, 3.2
    kind = "lstm", "gru"    ->   the same kind, pooling = "concat"                         ULMFiT, Howard & Ruder 2018
    kind = "bilstm"         ->   kind = "elmo"                                             ELMo, Peters et al. 2018, 3.3

GPT: the layers, positions and token embeddings are copied, and fine-tuning trains them. A language model has no segment
embeddings: they start as zeros, so that the encoder computes the hidden states of the language model. With
`training.language_loss` fine-tuning keeps predicting the next token, too.
ULMFiT: the same with a recurrent language model; all texts are read from left to right, and concat pooling keeps what
comes early. `training.layer_decay`, `training.unfreeze_epochs` and schedule = "slanted" are its fine-tuning.
ELMo: the language model is a part of the encoder and is not trained; all else starts with random weights.

O outputs of the head, T tokens.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.layouts import Tokens
from regard.config import SettingsTable
from regard.data.batch import IGNORE, Batch
from regard.data.examples import Example
from regard.data.fields import LABELLED_TEXT
from regard.data.inputs import Input, Inputs
from regard.data.planning import groups_by_length
from regard.data.records import Location
from regard.errors import UserError
from regard.files import JsonObject
from regard.layers.embeddings import OutputProjection
from regard.layers.recurrent import CELLS
from regard.losses.crossentropy import Loss
from regard.losses.projected import projected_cross_entropy
from regard.models.language_transformer import TransformerLanguageSettings
from regard.models.linear import LinearModel
from regard.models.text_encoder import (
    ElmoEncoder,
    LeftToRightEncoder,
    TextEncoder,
    TransformerEncoder,
    TransformerEncoderSettings,
)
from regard.reading import check_text
from regard.recipe import Recipe
from regard.tasks.inputs import split_columns
from regard.text.inputs import InputTokenizer
from regard.text.symbols import PAD
from regard.training.weights import weights_of
from regard.viz.report import AttentionMap
from regard.work import pack_array, recall_groups, unpack_array

MAX_TOKENS_DRAWN = 160
"""A picture of more tokens is not readable."""
ENCODER_PREFIXES = ("encoder.", "bert.")
"""Prefixes of the encoder's weights in the runs one can start from."""
TEXT_FORM = '{"text": "..."}, or with a second text {"text": "...", "pair": "..."}'
BATCH_TOKENS = 16_384
"""Tokens, padding included, of one batch of predictions."""
LANGUAGE = "language"
"""The task of language models."""
STARTS = (
    "pretraining", "classification", "regression", "tagging", "dependencies", "answering", "choice", LANGUAGE,
)  # fmt: skip
"""The tasks with an encoder from which a labelled task can start."""


@dataclass(frozen=True)
class TextEncoding:
    """How the model of a task makes vectors of texts."""

    tokenizer: InputTokenizer
    max_length: int
    """Maximum number of tokens of an input."""
    part: str
    """The name of the text encoder in the model."""
    pairs: bool | None = None
    """True if training examples have a second text, False if not; None if it is not known."""
    mask: str = ""
    """The mask in a text, for example [MASK]; "" if the model fills in none."""

    def module(self, model: nn.Module) -> TextEncoder:
        encoder = model.get_submodule(self.part)
        assert isinstance(encoder, TextEncoder)
        return encoder

    def parse(self, value: str | Mapping[str, object], where: str) -> Example:
        """The text or pair of texts to embed."""
        return parse_text(value, where, self.pairs)

    def encode(self, example: Example) -> Input:
        """The input of the encoder for a text or a pair of texts."""
        return text_input(self.tokenizer, example, self.max_length, IGNORE)


def parse_text(value: str | Mapping[str, object], where: str, pairs: bool | None = None) -> Example:
    """The example {"text", "pair"?} that a line or a dictionary means; `pairs` as in `split_pair`."""
    values = split_pair(value, where, pairs) if isinstance(value, str) else value
    if values.get("text") is None:
        raise UserError(f"{where} has no 'text'", f"write {TEXT_FORM}", code="missing-key", where=where)
    check_text(values, where)
    inputs = {key: item for key, item in values.items() if key != "label"}
    return inputs | LABELLED_TEXT.parse(inputs, Location(where))


def split_pair(line: str, where: str, pairs: bool | None) -> Example:
    """A line as a text, or as text TAB second text; if `pairs` is False, a tab is a blank in the text."""
    return {"text": line} if pairs is False else split_columns(line, ("text", "pair"), 1, where, TEXT_FORM)


def encoder_attention(
    encoder: TextEncoder, tokenizer: InputTokenizer, read: Input, per_token: bool
) -> list[AttentionMap]:
    """Attention maps of a text encoder over the tokens of one input."""
    if len(read.ids) > MAX_TOKENS_DRAWN:
        problem = f"the text has {len(read.ids)} tokens; at most {MAX_TOKENS_DRAWN} can be shown"
        raise UserError(problem, "inspect a shorter text", code="too-long", where="text")
    device = next(encoder.parameters()).device
    batch = Inputs.of([[read]], per_token).pad(np.arange(1)).to(device)
    weights = encoder.attentions(batch.source, batch["segments"]).encoder
    if weights is None:
        return []
    tokens, array = tokenizer.tokens(read.ids), weights[0].float().cpu().numpy()
    if array.shape[2] == 1 < len(tokens):
        return [AttentionMap("pooling", ["pooled"], tokens, array)]
    return [AttentionMap("encoder", tokens, tokens, array)]


def evidence_map(
    model: LinearModel, tokenizer: InputTokenizer, read: Input, labels: Sequence[str]
) -> list[AttentionMap]:
    """The tokens that speak for each class: of the evidence for a class that is positive, the share of each token."""
    batch = Inputs.of([[read]], False).pad(np.arange(1)).to(model.head.weight.device)
    evidence = model.evidence(batch.source)[:, None].clamp(min=0)  # (1, 1, O, T)
    shares = evidence / evidence.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(evidence.dtype).tiny)
    return [AttentionMap("evidence", labels or ("score",), tokenizer.tokens(read.ids), shares.cpu().numpy())]


def text_input(tokenizer: InputTokenizer, example: Example, max_length: int, label: float) -> Input:
    """[CLS] text [SEP], or [CLS] text [SEP] pair [SEP]; the longer one of two texts is shortened first."""
    pair = example.get("pair")
    second = None if pair is None else tokenizer.tokenize(pair)
    encoded = tokenizer.build_input(tokenizer.tokenize(example["text"]), second, max_length)
    return Input(encoded.ids, encoded.segments, [label], encoded.truncated_tokens)


def words_of(text: str, tokenizer: InputTokenizer) -> list[str]:
    """The words of a text as the tokenizer splits it: at blanks, and punctuation for itself."""
    tokens = tokenizer.tokenize(text)
    words = groupby(zip(tokens.words, tokens.spans, strict=True), key=lambda pair: pair[0])
    spans = ([span for _, span in word] for _, word in words)
    found = (text[word[0][0] : word[-1][1]] for word in spans)
    return [word for word in found if word]


@dataclass(frozen=True)
class Outputs:
    """The logits of some examples, one tensor (O,) or (T, O) for each of their inputs, and their summed loss."""

    logits: list[list[Tensor]]
    nll: float
    count: int


@torch.no_grad()
def run_inputs(
    model: nn.Module,
    encoded: Sequence[list[Input]],
    criterion: Callable[[Tensor, Batch], Loss],
    pooled: bool,
    per_token: bool,
    grouped: bool,
) -> Outputs:
    """Run a model, which is in evaluation mode, on the inputs of examples; inputs of similar length share a batch."""
    device = next(model.parameters()).device
    units = list(encoded) if grouped else [[item] for item in chain(*encoded)]
    logits_of: list[list[Tensor]] = [[] for _ in units]
    nll, count = 0.0, 0

    def compute(group: Sequence[int]) -> JsonObject:
        batch = Inputs.of([units[index] for index in group], per_token).pad(np.arange(len(group))).to(device)
        logits = model(batch.source, batch["segments"]).float()
        loss = criterion(logits, batch)
        return pack_array(logits.cpu().numpy()) | {"nll": float(loss.nll), "count": int(loss.count)}

    lengths, sizes = [max(len(i.ids) for i in unit) for unit in units], [len(unit) for unit in units]
    groups = list(groups_by_length(lengths, BATCH_TOKENS, sizes))

    def key(group: Sequence[int]) -> object:
        return [(item.ids, item.segments, [*map(float, item.labels)]) for index in group for item in units[index]]

    for group, outputs in recall_groups(groups, key, compute):
        nll, count = nll + outputs["nll"], count + outputs["count"]
        rows = iter(torch.from_numpy(unpack_array(outputs)))
        for index in group:
            logits_of[index] = [row if pooled else row[: len(i.ids)] for i, row in zip(units[index], rows)]  # noqa: B905
    if not grouped:
        rest = iter(logits_of)
        logits_of = [[next(rest)[0] for _ in example] for example in encoded]
    return Outputs(logits_of, nll, count)


def add_language_loss(loss: Loss, projection: OutputProjection, tokens: Tokens, weight: float) -> Loss:
    """L3 = L2 + weight L1 (Radford et al. 2018, equation 5): L2 is `loss`, and L1 the language model's loss on the same
    texts. As in their program, L1 is a mean over tokens, added once per labelled example."""
    ids, layout = tokens
    following = (layout.positions.roll(-1, -1) > 0) & layout.not_padding.roll(-1, -1)  # the next token, same text
    language = projected_cross_entropy(projection, ids.roll(-1, -1).masked_fill(~following, PAD), ignore=PAD)
    mean = language.sum / language.count.clamp(min=1)
    return Loss(loss.sum + weight * loss.count * mean, loss.count, loss.nll)


def encoder_settings(model: SettingsTable) -> SettingsTable:
    """[model] of a language model as [model] of a text encoder; empty if it cannot be one."""
    if model.get("kind") == "bilstm":
        sizes = {"language_layers": "layers", "language_width": "d_model"}
        return {"kind": "elmo"} | {name: model[other] for name, other in sizes.items() if other in model}
    if model.get("kind") in CELLS:
        unused = {"tie", "output_bias"}
        return {name: value for name, value in model.items() if name not in unused} | {"pooling": "concat"}
    if model.get("kind") != "transformer":
        return {}
    unused = {name for name, _ in TransformerLanguageSettings.model_construct(**model).no_effect()}
    names = TransformerEncoderSettings.model_fields.keys() - unused
    shared = {name: value for name, value in model.items() if name in names}
    return shared | {"causal": True, "pooling": "last"}


def start_settings(task: str, group: str, values: SettingsTable) -> SettingsTable:
    """[text] or [model] of the run that a labelled task starts from, as its own settings."""
    return encoder_settings(values) if task == LANGUAGE and group == "model" else values


def check_start(recipe: Recipe, start: Recipe, folder: Path) -> None:
    """Raise UserError if a text encoder cannot start from the language model of `folder`."""
    if start.task != LANGUAGE:
        return
    if start.model.kind not in ("transformer", "bilstm", *CELLS):
        problem = f"a text encoder cannot start from a {start.model.kind} language model ({folder})"
        remedy = f"set `start_from` to a language model with `model.kind` transformer, bilstm, {', '.join(CELLS)}"
        raise UserError(problem, remedy, code="incompatible-start", where="start_from")
    language, uses_output = start.model, bool(recipe.training.language_loss)
    tied = isinstance(language, TransformerLanguageSettings) and language.tie == "output" and not language.output_bias
    if uses_output and not tied:
        problem = f"`training.language_loss` needs the output matrix of {folder}, which a text encoder does not have"
        remedy = 'set `start_from` to a language model with model.tie = "output" and model.output_bias = false'
        raise UserError(problem, remedy, code="incompatible-start", where="training.language_loss")
    if getattr(start.data, "min_word_count", 0):
        problem = f"{folder} was trained with `data.min_word_count`, which text encoders do not support"
        remedy = "set `start_from` to a language model with data.min_word_count = 0"
        raise UserError(problem, remedy, code="incompatible-start", where="start_from")


def start_weights(task: str, encoder: TextEncoder, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights of a run of `task` by their names in the encoder; those of an output layer are left out."""
    if task != LANGUAGE:
        prefixed = ((prefix, name) for prefix in ENCODER_PREFIXES for name in weights if name.startswith(prefix))
        return {name.removeprefix(prefix): weights[name] for prefix, name in prefixed}
    if isinstance(encoder, ElmoEncoder):
        return weights_of(encoder) | {f"language.{name}": tensor for name, tensor in weights.items()}
    if isinstance(encoder, LeftToRightEncoder):
        return {name: tensor for name, tensor in weights.items() if name.startswith(("embedding.weight", "layers."))}
    assert isinstance(encoder, TransformerEncoder)
    output = {name for name in weights if name.startswith("output.") or name == "embedding.bias"}
    renamed = {name.replace("embedding.", "words.", 1) if name.startswith("embedding.") else name: tensor
               for name, tensor in weights.items() if name not in output}  # fmt: skip
    return renamed | {"segments.weight": torch.zeros_like(encoder.segments.weight, device="cpu")}
