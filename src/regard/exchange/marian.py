"""Translators in the folders of Hugging Face `transformers`, in and out, without that library.

Marian (Junczys-Dowmunt et al. 2018) is the Transformer as the paper has it, and most translators one finds there are of
this kind; Pegasus (Zhang et al. 2020) is the same with the norms before the sublayers and one at either end. So ours
with `norm = "post"` is written as the one, with `norm = "pre"` as the other. Three things differ:

    positions   ours stand in pairs, sin cos sin cos ..; theirs are all sines, then all cosines. The components of a
                vector have no order of their own, so all that reads or writes vectors is ordered anew:
                    theirs[.., j] = ours[.., p(j)],    p = 0, 2, 4 .. D - 2, 1, 3, 5 .. D - 1
    bias        they add a number of its own to each word's score, ours do so where model.output_bias says so
    numbers     the symbols of theirs have any numbers, ours 0, 1 and 2 (see marian_text.py)

Shapes are otherwise the same on both sides, so that going there and back changes no bit.

D model, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from regard.errors import UserError
from regard.exchange.folders import (
    CONFIG,
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
    require_weights,
)
from regard.exchange.marian_tokenizers import read_vocabularies, write_vocabularies
from regard.files import read_json, write_json
from regard.layers.positions import sinusoid
from regard.models.transformer import Transformer
from regard.models.transformer_settings import SIZES, TransformerSettings
from regard.text import BOS, EOS, PAD, Vocabulary

GENERATION = "generation_config.json"
POSITIONS = 1024
"""How many positions are written down, where ours have no end."""
NEVER_BIAS = -1e4
"""The bias of a number that is only there to be read: nothing is left of its probability."""

KINDS = {"marian": "MarianMTModel", "pegasus": "PegasusForConditionalGeneration"}
NORMS: dict[str, Literal["post", "pre"]] = {"marian": "post", "pegasus": "pre"}

SHAPE = {
    "d_model": "d_model",
    "num_heads": "encoder_attention_heads",
    "d_ff": "encoder_ffn_dim",
    "encoder_layers": "encoder_layers",
    "decoder_layers": "decoder_layers",
    "dropout": "dropout",
    "attention_dropout": "attention_dropout",
    "activation_dropout": "activation_dropout",
    "activation": "activation_function",
}
"""Our settings and their keys; heads and inner width of the decoder have keys of their own."""

ALIKE = {"encoder_attention_heads": "decoder_attention_heads", "encoder_ffn_dim": "decoder_ffn_dim"}
FIXED_VALUES = {"normalize_embedding": False, "static_position_embeddings": True, "is_decoder": False}
EXPRESSIBLE = {"positions": "sinusoidal", "combine": "add", "score": "scaled_dot", "window": 0, "head_dim": None}
"""Our settings for which they have one value alone."""

MODULES = {
    r"^(encoder|decoder)\.(\d+)": r"model.\1.layers.\2",
    r"^(encoder|decoder)_norm\b": r"model.\1.layer_norm",
    r"\.attention\.": ".self_attn.",
    r"\.cross_attention\.": ".encoder_attn.",
    r"_attn\.(q|k|v)(uery|ey|alue)\b": r"_attn.\1_proj",
    r"_attn\.output\b": "_attn.out_proj",
    r"\battention_residual\.norm\b": "self_attn_layer_norm",
    r"\bcross_attention_residual\.norm\b": "encoder_attn_layer_norm",
    r"\bfeedforward_residual\.norm\b": "final_layer_norm",
    r"\bfeedforward\.fc1\b": "fc1",
    r"\bfeedforward\.fc2\b": "fc2",
}
"""Our modules and theirs, replaced one line after another."""

SHARED, SRC, TGT, OUT = (
    "model.shared.weight",
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
)
BIAS = "final_logits_bias"


@dataclass(frozen=True)
class MarianModel:
    """A translator of theirs as one of ours: weights as `Transformer` names them, what is tied once."""

    settings: TransformerSettings
    weights: Tensors
    vocabularies: tuple[Vocabulary, Vocabulary]
    positions: int
    beam: int


def read_marian(folder: Path) -> MarianModel:
    """The translator in `folder`; its vocabularies are one and the same where one file serves both sides."""
    path = folder / CONFIG
    config = read_config(path)
    settings, found = read_settings(config, path), read_weights(folder / WEIGHTS)
    numbering = read_vocabularies(folder, config)
    matrices, bias = read_matrices(config, found, folder / WEIGHTS)
    scale = 1.0 if config.get("scale_embedding", False) else settings.d_model**-0.5
    rows = torch.tensor(numbering.src_rows), torch.tensor(numbering.tgt_rows)
    order = sines_first(settings.d_model).argsort()
    words = [matrix[those][:, order] for matrix, those in zip(matrices, (rows[0], rows[1], rows[1]), strict=True)]
    weights = {"src_embedding.weight": words[0] * scale, "tgt_embedding.weight": words[1] * scale}
    weights["output.weight"] = words[2]
    bias = bias[rows[1]].index_fill(0, torch.tensor(numbering.duplicates, dtype=torch.long), NEVER_BIAS)
    settings = settings.model_copy(update={"output_bias": bool(bias.any())})
    if settings.output_bias:
        weights["output.bias" if settings.tie == "none" else "tgt_embedding.bias"] = bias
    for name in {"all": ("src_embedding", "output"), "output": ("output",), "none": ()}[settings.tie]:
        del weights[f"{name}.weight"]
    weights |= read_layers(settings, found, folder / WEIGHTS)
    positions = int(config.get("max_position_embeddings", POSITIONS))
    return MarianModel(settings, weights, numbering.vocabularies, positions, default_beam(folder, config))


def write_marian(
    folder: Path,
    settings: TransformerSettings,
    weights: Tensors,
    vocabularies: tuple[Vocabulary, Vocabulary],
    beam: int = 4,
    alpha: float = 1.0,
) -> None:
    """Write a new folder that `transformers` reads as MarianMTModel or PegasusForConditionalGeneration.

    `beam` and `alpha` are what their search begins with. They divide log P by |Y|^alpha, ours divides it by
    ((5 + |Y|) / 6)^alpha: with alpha = 0 both find the same.
    """
    check_exportable(settings)
    kind = "marian" if settings.norm == "post" else "pegasus"
    for name, shape in shapes(settings, len(vocabularies[0]), len(vocabularies[1])).items():
        if name in weights and weights[name].shape != shape:
            raise ValueError(f"{name} has another shape than a Transformer of these settings and vocabularies")
    order = sines_first(settings.d_model)
    theirs = {huggingface_name(name): permute(name, tensor, order) for name, tensor in layers(weights).items()}
    words = {SHARED: "tgt_embedding"} if settings.tie == "all" else {SRC: "src_embedding", TGT: "tgt_embedding"}
    words |= {OUT: "output"} if settings.tie == "none" else {}
    theirs |= {key: weights[f"{name}.weight"][:, order] for key, name in words.items()}
    zeros = torch.zeros(len(vocabularies[1]))
    theirs[BIAS] = weights.get("output.bias", weights.get("tgt_embedding.bias", zeros))[None]
    symbols = dict(pad_token_id=PAD, bos_token_id=BOS, eos_token_id=EOS, decoder_start_token_id=BOS)
    config = build_config(settings, kind) | symbols
    config |= dict(vocab_size=len(vocabularies[0]), decoder_vocab_size=len(vocabularies[1]))
    search = dict(num_beams=beam, length_penalty=alpha, max_length=POSITIONS // 2, bad_words_ids=[[PAD], [BOS]])
    with new_folder(folder, config, theirs) as place:
        write_json(place / GENERATION, symbols | search)
        write_vocabularies(place, vocabularies, POSITIONS)


def check_exportable(settings: TransformerSettings) -> None:
    """Name what of a Transformer neither Marian nor Pegasus has."""
    for name, value in EXPRESSIBLE.items():
        if getattr(settings, name) != value:
            wanted = f"model.{name} = {value!r}" if value is not None else f"no model.{name}"
            raise UserError(
                f"no model of transformers has model.{name} = {getattr(settings, name)!r}",
                f"train with {wanted}, or export to ctranslate2, which has more kinds of Transformers",
            )
    if settings.norm == "pre" and settings.tie != "all":
        raise UserError(
            f'a model with model.norm = "pre" is written as Pegasus, which has no model.tie = "{settings.tie}"',
            'train with model.tie = "all" or model.norm = "post", or export to ctranslate2',
        )


def build_config(settings: TransformerSettings, kind: str) -> Config:
    config: Config = {key: getattr(settings, name) for name, key in SHAPE.items()}
    config |= {theirs: config[key] for key, theirs in ALIKE.items()}
    config |= {"normalize_before": kind == "pegasus", "add_final_layer_norm": kind == "pegasus"} | FIXED_VALUES
    return config | {
        "model_type": kind,
        "architectures": [KINDS[kind]],
        "is_encoder_decoder": True,
        "scale_embedding": True,
        "max_position_embeddings": POSITIONS,
        "share_encoder_decoder_embeddings": settings.tie == "all",
        "tie_word_embeddings": settings.tie != "none",
        "forced_eos_token_id": None,
    }


def read_settings(config: Config, path: Path) -> TransformerSettings:
    """The shape, without the bias, of which the weights decide."""
    kind = config.get("model_type")
    if kind not in KINDS:
        raise UserError(f"{path}: model_type = {kind!r} is none of {', '.join(KINDS)}", "this model cannot be read")
    before = {"normalize_before": kind == "pegasus", "add_final_layer_norm": kind == "pegasus"}
    check_fixed_values(config, FIXED_VALUES | before, path, kind)
    require_keys(config, [*SHAPE.values(), *ALIKE.values(), "vocab_size"], path)
    if unlike := [key for key, other in ALIKE.items() if config[key] != config[other]]:
        key, other = unlike[0], ALIKE[unlike[0]]
        raise UserError(
            f"{path}: {key} = {config[key]} and {other} = {config[other]}", "only a model with both alike can be read"
        )
    values = {name: config[key] for name, key in SHAPE.items()}
    values["activation"] = {"swish": "silu"}.get(values["activation"], values["activation"])
    shared, tied = config.get("share_encoder_decoder_embeddings", True), config.get("tie_word_embeddings", True)
    tie = ("all" if shared else "output") if tied and config.get("scale_embedding", False) else "none"
    size = next((size for size, shape in SIZES.items() if shape.items() <= values.items()), "base")
    with reading_settings(path, SHAPE):
        return TransformerSettings.model_validate(values | {"norm": NORMS[kind], "tie": tie, "size": size})


def read_matrices(config: Config, found: Tensors, path: Path) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
    """The matrices of source, target and output, whatever of them is one, and the bias (V,) of the output."""
    width, src = int(config["d_model"]), int(config["vocab_size"])
    shared, tied = config.get("share_encoder_decoder_embeddings", True), config.get("tie_word_embeddings", True)
    tgt = src if shared else int(config.get("decoder_vocab_size") or src)
    if shared:
        read = read_tied_matrix(found, (SHARED, SRC, TGT, *([OUT] if tied else ())), (src, width), path)
        matrices = read, read, read if tied else read_tied_matrix(found, (OUT,), (src, width), path)
    else:
        target = read_tied_matrix(found, (TGT, *([OUT] if tied else ())), (tgt, width), path)
        output = target if tied else read_tied_matrix(found, (OUT,), (tgt, width), path)
        matrices = read_tied_matrix(found, (SRC,), (src, width), path), target, output
    bias = pop_tensor(found, BIAS, torch.Size((1, tgt)), path)
    return matrices, torch.zeros(tgt) if bias is None else bias[0]


def read_tied_matrix(found: Tensors, names: Sequence[str], shape: tuple[int, int], path: Path) -> Tensor:
    """The matrix that may stand under several names, and must be the same under all of them."""
    there = {name: tensor for name in names if (tensor := pop_tensor(found, name, torch.Size(shape), path)) is not None}
    require_weights([] if there else [names[0]], path)
    (first, tensor), *others = there.items()
    for name, other in others:
        if not torch.equal(tensor, other):
            raise UserError(f"{path}: {first} differs from {name}, which are one by {CONFIG}", "fetch both again")
    return tensor


def read_layers(settings: TransformerSettings, found: Tensors, path: Path) -> Tensors:
    """The weights of all layers by our names; what is left over is refused, positions that are no sinusoids too."""
    order = sines_first(settings.d_model).argsort()
    weights: dict[str, Tensor | None] = {}
    for name, shape in layers(shapes(settings, 1, 1)).items():
        tensor = pop_tensor(found, huggingface_name(name), shape, path)
        weights[name] = None if tensor is None else permute(name, tensor, order)
    require_weights([huggingface_name(name) for name, tensor in weights.items() if tensor is None], path)
    for side in ("encoder", "decoder"):
        table = found.pop(f"model.{side}.embed_positions.weight", None)
        if table is not None and not is_sinusoidal(table):
            raise UserError(f"{path}: the positions of the {side} are learnt", "this model cannot be read")
    if found:
        raise UserError(
            f"{path} holds {len(found)} weights that a translator has not, the first is {next(iter(found))}",
            "save the model again with save_pretrained",
        )
    return {name: tensor for name, tensor in weights.items() if tensor is not None}


def is_sinusoidal(table: Tensor) -> bool:
    """Whether a table of positions (P, D) is the one they compute."""
    expected = sinusoid(torch.arange(len(table)), table.size(1))[:, sines_first(table.size(1))]
    return torch.allclose(table.float(), expected, atol=2e-3)


def sines_first(d_model: int) -> Tensor:
    """p: of the components of a vector of ours, first those with a sine, then those with a cosine."""
    return torch.arange(d_model).view(-1, 2).t().flatten()


def permute(name: str, tensor: Tensor, order: Tensor) -> Tensor:
    """A weight with the components of the vectors it reads or writes in another order; inside a sublayer they stay."""
    module, _, kind = name.rpartition(".")
    if module.endswith(("norm", "attention.output", "fc2")):
        return tensor[order]
    return tensor[:, order] if kind == "weight" else tensor


def layers(named: dict[str, Any]) -> dict[str, Any]:
    """All but words."""
    return {name: value for name, value in named.items() if name.startswith(("encoder", "decoder"))}


def huggingface_name(name: str) -> str:
    """encoder.0.attention.query.weight -> model.encoder.layers.0.self_attn.q_proj.weight"""
    return rename_weight(name, MODULES)


def shapes(settings: TransformerSettings, src: int, tgt: int) -> dict[str, torch.Size]:
    """Of all weights of a Transformer."""
    with torch.device("meta"):
        sizes = (max(src, tgt), max(src, tgt)) if settings.tie == "all" else (src, tgt)
        return {name: tensor.shape for name, tensor in Transformer(settings, *sizes).state_dict().items()}


def default_beam(folder: Path, config: Config) -> int:
    """The width of the beam that a model came with; older folders say it in their config.json."""
    path = folder / GENERATION
    said = read_json(path) if path.exists() else config
    return int(said.get("num_beams") or config.get("num_beams") or 4)
