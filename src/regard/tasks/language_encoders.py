"""Language models as text encoders: a labelled task starts from one.

    task = "language"            task = "classification", "tagging", ...

    kind = "transformer"    ->   kind = "transformer", causal = true, pooling = "last"     GPT, Radford et al. 2018, 3.2
    kind = "bilstm"         ->   kind = "elmo"                                             ELMo, Peters et al. 2018, 3.3

GPT: the layers, positions and token embeddings are copied, and fine-tuning trains them. A language model has no segment
embeddings: they start as zeros, so that the encoder computes the hidden states of the language model.
ELMo: the language model is a part of the encoder and is not trained; all else starts with random weights.
"""

from pathlib import Path

import torch
from torch import Tensor

from regard.config import Table
from regard.errors import UserError
from regard.models.language_transformer import TransformerLanguageSettings
from regard.models.text_encoder import ElmoEncoder, TextEncoder, TransformerEncoder, TransformerEncoderSettings
from regard.recipe import Recipe
from regard.tasks.text_inputs import encoder_weights
from regard.training.weights import weights_of

LANGUAGE = "language"
"""The task of language models."""
STARTS = (
    "pretraining", "classification", "regression", "tagging", "dependencies", "answering", "choice", LANGUAGE,
)  # fmt: skip
"""The tasks with an encoder from which a labelled task can start."""


def encoder_settings(model: Table) -> Table:
    """[model] of a language model as [model] of a text encoder; empty if it cannot be one."""
    if model.get("kind") == "bilstm":
        sizes = {"language_layers": "layers", "language_width": "d_model"}
        return {"kind": "elmo"} | {name: model[other] for name, other in sizes.items() if other in model}
    if model.get("kind") != "transformer":
        return {}
    unused = {name for name, _ in TransformerLanguageSettings.model_construct(**model).no_effect()}
    names = TransformerEncoderSettings.model_fields.keys() - unused
    shared = {name: value for name, value in model.items() if name in names}
    return shared | {"causal": True, "pooling": "last"}


def check_language_start(start: Recipe, folder: Path) -> None:
    """Raise UserError if a text encoder cannot start from the language model of `folder`."""
    if start.model.kind not in ("transformer", "bilstm"):
        raise UserError(
            f"{folder}, the run to start from, is a language model of kind {start.model.kind}",
            'start from one with model.kind = "transformer" or "bilstm"',
            code="incompatible-start",
            where="start_from",
        )
    if getattr(start.data, "unknown_below", 0):
        raise UserError(
            f"{folder}, the run to start from, replaces rare words, and a text encoder does not",
            "start from a language model without data.unknown_below",
            code="incompatible-start",
            where="start_from",
        )


def start_weights(task: str, encoder: TextEncoder, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights of a run of `task` by their names in the encoder; those of an output layer are left out."""
    if task != LANGUAGE:
        return encoder_weights(weights)
    if isinstance(encoder, ElmoEncoder):
        return weights_of(encoder) | {f"language.{name}": tensor for name, tensor in weights.items()}
    assert isinstance(encoder, TransformerEncoder)
    output = {name for name in weights if name.startswith("output.") or name == "embedding.bias"}
    renamed = {name.replace("embedding.", "words.", 1) if name.startswith("embedding.") else name: tensor
               for name, tensor in weights.items() if name not in output}  # fmt: skip
    return renamed | {"segments.weight": torch.zeros_like(encoder.segments.weight, device="cpu")}
