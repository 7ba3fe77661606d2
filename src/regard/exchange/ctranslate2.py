"""A Transformer as a model of CTranslate2 (Klein et al. 2020), an inference library in C++.

Every standard Transformer can be written: pre- or post-norm, every activation, all ties and positions. Only the layout
of the weights differs: CTranslate2 has one matrix for queries, keys and values, and a table of positions. Tokens are
named by their ids, "0", "1", ..., so that no token can be confused with a special symbol of CTranslate2.

Shapes: V vocabulary, D model, P positions.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from pydantic import BaseModel
from torch import Tensor, nn

from regard.decoding.stepper import Symbols
from regard.errors import UserError
from regard.exchange.folders import Config, require_quantization
from regard.files import replacing
from regard.layers.blocks import DecoderLayer, EncoderLayer
from regard.layers.norms import EPSILON
from regard.layers.positions import Learned
from regard.models.transformer import Transformer
from regard.reading import check_type, read_json

if TYPE_CHECKING:
    from ctranslate2.specs import TransformerSpec
    from ctranslate2.specs.model_spec import LayerSpec

QUANTIZATIONS = ("int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16", "float32")
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "silu": "SWISH"}
MAX_POSITIONS = 4096
"""Number of positions in the table if the model has no limit. Longer sources are refused, longer outputs truncated."""


class ModelInfo(BaseModel):
    """The facts about a model that the engine needs, saved in its config.json."""

    positions: int | None
    """Number of positions, None without a limit."""
    vocabulary: int
    """Size of the target vocabulary."""


def import_ctranslate2() -> "TransformerSpec":
    """The package ctranslate2, or an error that says how to install it."""
    try:
        import ctranslate2
    except (ImportError, OSError) as error:
        problem = f"the engine ctranslate2 needs the package ctranslate2, which cannot be imported ({error})"
        remedy = "pip install 'regard[ctranslate2]', or choose the engine torch"
        raise UserError(problem, remedy, code="missing-package", where="ctranslate2") from error
    return ctranslate2


def write_ctranslate2(model: Transformer, symbols: Symbols, folder: Path, quantization: str = "int8") -> None:
    """Write `model` as a folder that CTranslate2 loads, completely or not at all, with quantized weights."""
    require_quantization(quantization, QUANTIZATIONS)
    if not all(bool(weights.isfinite().all()) for weights in model.parameters()):  # CTranslate2's ReLU would hide NaN
        problem = "the model's weights are not all numbers (NaN)"
        raise UserError(problem, "use an earlier checkpoint", code="not-finite", where="model")
    spec = build_spec(model)
    for side, embedding in (("source", model.src_embedding), ("target", model.tgt_embedding)):
        getattr(spec, f"register_{side}_vocabulary")([str(token) for token in range(len(embedding.weight))])
    config = spec.config
    config.bos_token = config.decoder_start_token = str(symbols.bos)
    config.eos_token, config.unk_token = str(symbols.eos), str(symbols.pad)
    config.layer_norm_epsilon = EPSILON
    positions = None if model.settings.positions == "rotary" else len(position_table(model))
    info = ModelInfo(positions=positions, vocabulary=len(model.tgt_embedding.weight))
    config.add_attribute("regard", info.model_dump())
    spec.validate()
    spec.optimize(quantization=quantization)
    with replacing(folder, folder=True) as path:
        spec.save(str(path))


def read_model_info(folder: Path) -> ModelInfo:
    """The facts that `write_ctranslate2` saved about a model."""
    path = folder / "config.json"
    return check_type(read_json(path, Config).get("regard"), ModelInfo, f"{path}:regard")


def build_spec(model: Transformer) -> "TransformerSpec":
    specs, s = import_ctranslate2().specs, model.settings
    options = dict(
        num_heads=s.num_heads,
        pre_norm=s.norm == "pre",
        activation=specs.Activation[ACTIVATIONS[s.activation]],
        rotary_dim=0 if s.positions == "rotary" else None,  # 0: all components, in neighbouring pairs
        rotary_interleave=True,
    )
    spec = specs.TransformerSpec(
        specs.TransformerEncoderSpec(s.encoder_layers, **options),
        specs.TransformerDecoderSpec(s.decoder_layers, **options),
    )
    spec.encoder.scale_embeddings = spec.decoder.scale_embeddings = s.scale_embeddings
    spec.encoder.embeddings[0].weight = _array(model.src_embedding.weight)
    spec.decoder.embeddings.weight = _array(model.tgt_embedding.weight)
    spec.decoder.projection.weight = _array(model.output.weight)
    if model.output.bias is not None:
        spec.decoder.projection.bias = _array(model.output.bias)
    if s.positions != "rotary":
        table = _array(position_table(model))
        spec.encoder.position_encodings.encodings = spec.decoder.position_encodings.encodings = table
    if s.norm == "pre":
        _set_norm(spec.encoder.layer_norm, model.encoder_norm)
        _set_norm(spec.decoder.layer_norm, model.decoder_norm)
    layer_specs, layers = [*spec.encoder.layer, *spec.decoder.layer], [*model.encoder, *model.decoder]
    for layer_spec, layer in zip(layer_specs, layers, strict=True):
        _set_layer(layer_spec, layer)
    return spec


@torch.no_grad()
def position_table(model: Transformer) -> Tensor:
    """(P, D): the vectors that are added to the embeddings; zeros for a model without position vectors."""
    count = model.positions.table.num_embeddings if isinstance(model.positions, Learned) else MAX_POSITIONS
    device = model.output.weight.device
    return model.positions(torch.arange(count, device=device)).expand(count, model.settings.d_model)


def _set_layer(spec: "LayerSpec", layer: EncoderLayer | DecoderLayer) -> None:
    attention, feedforward = layer.attention, layer.feedforward
    _set_linear(spec.self_attention.linear[0], attention.query, attention.key, attention.value)
    _set_linear(spec.self_attention.linear[1], attention.output)
    _set_norm(spec.self_attention.layer_norm, layer.attention_residual.norm)
    if isinstance(layer, DecoderLayer):
        cross = layer.cross_attention
        _set_linear(spec.attention.linear[0], cross.query)
        _set_linear(spec.attention.linear[1], cross.key, cross.value)
        _set_linear(spec.attention.linear[2], cross.output)
        _set_norm(spec.attention.layer_norm, layer.cross_attention_residual.norm)
    _set_linear(spec.ffn.linear_0, feedforward.fc1)
    _set_linear(spec.ffn.linear_1, feedforward.fc2)
    _set_norm(spec.ffn.layer_norm, layer.feedforward_residual.norm)


def _set_linear(spec: "LayerSpec", *layers: nn.Linear) -> None:
    """Set one linear layer to several, concatenated along their outputs."""
    spec.weight = _array(torch.cat([layer.weight for layer in layers]))
    spec.bias = _array(torch.cat([layer.bias for layer in layers]))


def _set_norm(spec: "LayerSpec", norm: nn.Module) -> None:
    assert isinstance(norm, nn.LayerNorm)
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _array(tensor: Tensor) -> np.ndarray:
    """A copy, because CTranslate2 quantizes in place."""
    return np.array(tensor.detach().float().cpu().numpy(), order="C")
