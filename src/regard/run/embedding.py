"""Vectors of texts from a text encoder, as features for other programs (Devlin et al. 2018, section 5.3).

    h^0 .. h^L   the embeddings and the output of each layer, (T, D) each
    layers       some of them:  last   -2   all   -4:   1,6      numbers as in Python, 0 are the embeddings
    combine      concat: [h^a; h^b; ..]     sum: h^a + h^b + ..     mean: their mean
    pool         one vector per text: that of [CLS], the mean or the maximum over its tokens ([CLS] and [SEP] included),
                 the model's own pooling of its last layer, or the vectors of the tokens as they are

The authors' best features for tagging are the last four layers concatenated (table 7): layers = "-4:", pool = "tokens".
Sentence encoders are mostly trained with a normalised mean (Reimers and Gurevych 2019, section 3).

B inputs, T tokens, D model, E = D, or D times the number of layers if they are concatenated.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.layouts import Tokens
from regard.data.inputs import Input, Inputs
from regard.data.planning import groups_by_length
from regard.errors import UserError
from regard.files import JsonObject
from regard.models.pooling import POOLERS
from regard.models.text_encoder import TextEncoder
from regard.tasks.base import Example
from regard.tasks.encoders import BATCH_TOKENS, TextEncoding
from regard.tasks.inputs import chunk_examples, require_finite
from regard.work import pack_array, recall_groups, unpack_array

if TYPE_CHECKING:
    from regard.run.model import Model

COMBINE = ("concat", "sum", "mean")
POOL = ("cls", "mean", "max", "pooler", "tokens")
POOLER_NAMES = {"cls": "first", "mean": "mean", "max": "max"}
SLICE = re.compile(r"(-?\d{1,9})?:(-?\d{1,9})?")


@dataclass(frozen=True)
class Embedding:
    """The vector of a text (E,), or for pool = tokens one for each token (T, E)."""

    example: Example
    tokens: list[str]
    vector: npt.NDArray[np.float32]
    truncated: int = 0
    """Tokens of the text beyond the maximum length."""


@dataclass(frozen=True)
class Features:
    """Which vectors to take from a text encoder."""

    layers: str = "last"
    combine: str = "concat"
    pool: str = "mean"
    normalize: bool = False

    def __post_init__(self) -> None:
        for name, value, choices in (("combine", self.combine, COMBINE), ("pool", self.pool, POOL)):
            if value not in choices:
                raise UserError(
                    f"{name} is {value!r}", f"choose one of {', '.join(choices)}", code="invalid-option", where=name
                )
        if self.pool == "pooler" and self.layers not in ("last", "-1"):
            problem = f"the pooler reads the last layer, not {self.layers}"
            raise UserError(problem, "set `layers` to last, or `pool` to mean", code="invalid-option", where="layers")

    def __call__(self, encoder: TextEncoder, tokens: Tokens, segments: Tensor) -> Tensor:
        """(B, E), or (B, T, E) for pool = tokens."""
        states = encoder.hidden_states(tokens, segments)
        if self.pool == "pooler":
            vectors = encoder.pool(states[-1], tokens.layout).float()
        else:
            selected = [states[number].float() for number in layer_numbers(self.layers, len(states))]
            vectors = combine(selected, self.combine)
            if self.pool != "tokens":
                vectors = POOLERS[POOLER_NAMES[self.pool]](vectors.size(-1))(vectors, tokens.layout)
        return F.normalize(vectors, dim=-1) if self.normalize else vectors

    def width(self, d_model: int, layers: int) -> int:
        """E for an encoder of width D with L layers."""
        return d_model * (len(layer_numbers(self.layers, layers + 1)) if self.combine == "concat" else 1)


@torch.no_grad()
def embed(
    model: "Model", inputs: Iterable[str | Mapping[str, object]], features: Features, where: str
) -> Iterator[Embedding]:
    """Embed any number of texts, or pairs of texts, in order and in bounded memory."""
    encoding = text_encoding(model)
    encoder = encoding.module(model.model)
    if features.pool == "pooler" and any("pooler." in name for name in model.random_weights):
        problem = f"{model.run.folder} was imported without a pooler"
        raise UserError(problem, "set `pool` to mean or cls", code="missing-weights", where="pool")

    def compute(batch_inputs: Sequence[Input]) -> JsonObject:
        batch = Inputs.of([[item] for item in batch_inputs], False).pad(np.arange(len(batch_inputs)))
        batch = batch.to(model.world.device)
        return pack_array(require_finite(features(encoder, batch.source, batch["segments"])).cpu().numpy())

    parsed = (encoding.parse(value, f"{where} {number}") for number, value in enumerate(inputs, 1))
    for chunk in chunk_examples(parsed):
        encoded = [encoding.encode(example) for example in chunk]
        vectors = [np.zeros(0, np.float32) for _ in chunk]
        groups = list(groups_by_length([len(item.ids) for item in encoded], BATCH_TOKENS))

        def key(group: list[int], encoded: list[Input] = encoded) -> object:
            return [(encoded[index].ids, encoded[index].segments) for index in group]

        def compute_group(group: list[int], encoded: list[Input] = encoded) -> JsonObject:
            return compute([encoded[index] for index in group])

        for group, packed in recall_groups(groups, key, compute_group):
            for index, row in zip(group, unpack_array(packed), strict=True):
                vectors[index] = row[: len(encoded[index].ids)] if features.pool == "tokens" else row
        for example, item, vector in zip(chunk, encoded, vectors, strict=True):
            yield Embedding(example, encoding.tokenizer.tokens(item.ids), vector, item.truncated)


def text_encoding(model: "Model") -> TextEncoding:
    """How a run makes vectors of texts; a UserError if its task has no text encoder."""
    encoding = model.task.text_encoder
    if encoding is None:
        problem = f"a run of the task {model.run.recipe.task} has no text encoder: {model.run.folder}"
        remedy = "use a run of task pretraining, or of a task with labels and a text encoder"
        raise UserError(problem, remedy, code="wrong-task", where=model.run.folder)
    return encoding


def combine(states: Sequence[Tensor], how: str) -> Tensor:
    """Layers (*, D) concatenated, added, or their mean."""
    if how == "concat":
        return torch.cat(list(states), dim=-1)
    total = torch.stack(list(states)).sum(dim=0)
    return total / len(states) if how == "mean" else total


def layer_numbers(text: str, states: int) -> list[int]:
    """The numbers that "last", "-2", "all", "-4:" or "1,6" mean among this many states, in order."""
    remedy = f'write last, all, a number from 0 (the embeddings) to {states - 1}, "-4:", or several like "1,3"'
    numbers: list[int] = []
    for item in text.replace(" ", "").split(","):
        bounds = SLICE.fullmatch({"last": "-1:", "all": ":"}.get(item, item))
        if bounds is not None:
            numbers += range(states)[slice(*(None if end is None else int(end) for end in bounds.groups()))]
        elif re.fullmatch(r"-?\d{1,9}", item) and -states <= int(item) < states:
            numbers.append(range(states)[int(item)])
        else:
            raise UserError(f"there are no layers {text!r}", remedy, code="invalid-option", where="layers")
    if not numbers:
        raise UserError(f"`layers` {text!r} selects none", remedy, code="invalid-option", where="layers")
    return numbers
