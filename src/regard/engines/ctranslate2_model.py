"""A trained Transformer as a model of CTranslate2 (Klein et al. 2020), the inference library written in C++.

Every Transformer of ours can be written as one of theirs: either norm, every activation, all ties and positions. What
differs is where a weight lies: they keep the projections of queries, keys and values as one matrix, and positions as a
table. Words are called by their numbers, "0", "1", ..., so that nothing can be confused with a symbol of theirs.

V vocabulary, D model, P positions.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.decoding.stepper import Symbols
from regard.errors import UserError
from regard.files import replacing
from regard.layers.blocks import DecoderLayer, EncoderLayer
from regard.layers.feedforward import FeedForward
from regard.layers.positions import Learned
from regard.layers.residual import EPSILON
from regard.models.transformer import Transformer

QUANTIZATIONS = ("int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16", "float32")
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH"}
POSITIONS = 4096
"""How many positions are written down where ours have no end: a longer text is refused or cut."""


def import_ctranslate2() -> Any:
    """The package, or how to get it."""
    try:
        import ctranslate2
    except (ImportError, OSError) as error:
        raise UserError(
            f"the engine ctranslate2 needs the package ctranslate2, which cannot be imported here ({error})",
            "pip install 'regard[ctranslate2]', or choose the engine torch",
        ) from error
    return ctranslate2


def check_quantization(quantization: str) -> None:
    """Say how weights can be kept, if not like this."""
    if quantization not in QUANTIZATIONS:
        raise UserError(f"the quantization is {quantization!r}", f"write one of {', '.join(QUANTIZATIONS)}")


def write_ctranslate2(model: Transformer, symbols: Symbols, folder: Path, quantization: str = "int8") -> None:
    """Write `model` as a folder that CTranslate2 loads, whole or not at all; its weights are kept as `quantization`."""
    check_quantization(quantization)
    if not all(bool(weights.isfinite().all()) for weights in model.parameters()):  # its ReLU would hide them
        raise UserError("the model's weights are not all numbers (NaN)", "use an earlier checkpoint")
    spec = specification(model)
    for side, embedding in (("source", model.src_embedding), ("target", model.tgt_embedding)):
        getattr(spec, f"register_{side}_vocabulary")([str(number) for number in range(len(embedding.weight))])
    config = spec.config
    config.bos_token = config.decoder_start_token = str(symbols.bos)
    config.eos_token, config.unk_token = str(symbols.eos), str(symbols.pad)
    config.layer_norm_epsilon = EPSILON
    positions = None if model.settings.positions == "rotary" else len(position_table(model))
    config.add_attribute("regard", {"positions": positions, "vocabulary": len(model.tgt_embedding.weight)})
    spec.validate()
    spec.optimize(quantization=quantization)
    with replacing(folder, folder=True) as place:
        spec.save(str(place))


def specification(model: Transformer) -> Any:
    """Their description of the same model, with all weights."""
    specs, s = import_ctranslate2().specs, model.settings
    shape = dict(
        num_heads=s.num_heads,
        pre_norm=s.norm == "pre",
        activation=specs.Activation[ACTIVATIONS[s.activation]],
        rotary_dim=0 if s.positions == "rotary" else None,  # 0: all components, in neighbouring pairs
        rotary_interleave=True,
    )
    spec = specs.TransformerSpec(
        specs.TransformerEncoderSpec(s.encoder_layers, **shape),
        specs.TransformerDecoderSpec(s.decoder_layers, **shape),
    )
    spec.encoder.embeddings[0].weight = _array(model.src_embedding.weight)
    spec.decoder.embeddings.weight = _array(model.tgt_embedding.weight)
    spec.decoder.projection.weight = _array(model.output.weight)
    if model.output.bias is not None:
        spec.decoder.projection.bias = _array(model.output.bias)
    if s.positions != "rotary":
        table = _array(position_table(model))
        spec.encoder.position_encodings.encodings = spec.decoder.position_encodings.encodings = table
    if s.norm == "pre":
        _norm(spec.encoder.layer_norm, model.encoder_norm)
        _norm(spec.decoder.layer_norm, model.decoder_norm)
    for theirs, encoder_layer in zip(spec.encoder.layer, model.encoder, strict=True):
        _encoder_layer(theirs, encoder_layer)
    for theirs, decoder_layer in zip(spec.decoder.layer, model.decoder, strict=True):
        _decoder_layer(theirs, decoder_layer)
    return spec


@torch.no_grad()
def position_table(model: Transformer) -> Tensor:
    """(P, D): what is added to the embedding at each position; nothing, where positions are not told."""
    count = model.positions.table.num_embeddings if isinstance(model.positions, Learned) else POSITIONS
    device = model.output.weight.device
    return model.positions(torch.arange(count, device=device)).expand(count, model.settings.d_model)


def _encoder_layer(theirs: Any, ours: EncoderLayer) -> None:
    attention = ours.attention
    _linear(theirs.self_attention.linear[0], attention.query, attention.key, attention.value)
    _linear(theirs.self_attention.linear[1], attention.output)
    _norm(theirs.self_attention.layer_norm, ours.attention_residual.norm)
    _feedforward(theirs.ffn, ours.feedforward, ours.feedforward_residual.norm)


def _decoder_layer(theirs: Any, ours: DecoderLayer) -> None:
    attention, cross = ours.attention, ours.cross_attention
    _linear(theirs.self_attention.linear[0], attention.query, attention.key, attention.value)
    _linear(theirs.self_attention.linear[1], attention.output)
    _norm(theirs.self_attention.layer_norm, ours.attention_residual.norm)
    _linear(theirs.attention.linear[0], cross.query)
    _linear(theirs.attention.linear[1], cross.key, cross.value)
    _linear(theirs.attention.linear[2], cross.output)
    _norm(theirs.attention.layer_norm, ours.cross_attention_residual.norm)
    _feedforward(theirs.ffn, ours.feedforward, ours.feedforward_residual.norm)


def _feedforward(theirs: Any, ours: FeedForward, norm: nn.LayerNorm) -> None:
    _linear(theirs.linear_0, ours.fc1)
    _linear(theirs.linear_1, ours.fc2)
    _norm(theirs.layer_norm, norm)


def _linear(theirs: Any, *ours: nn.Linear) -> None:
    """One product for several of ours, one below the other."""
    theirs.weight = _array(torch.cat([linear.weight for linear in ours]))
    theirs.bias = _array(torch.cat([linear.bias for linear in ours]))


def _norm(theirs: Any, ours: Any) -> None:
    theirs.gamma, theirs.beta = _array(ours.weight), _array(ours.bias)


def _array(tensor: Tensor) -> Any:
    """A copy: they quantise in place."""
    return np.array(tensor.detach().float().cpu().numpy(), order="C")
