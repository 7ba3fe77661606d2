"""Translation models in folders of Hugging Face `transformers`, read and written without that library.

Marian (Junczys-Dowmunt et al. 2018) is the Transformer of the paper, and most translation models of transformers are
of this kind. Pegasus (Zhang et al. 2020) is the same with pre-norm and a final norm in encoder and decoder. So a model
with `norm = "post"` is written as Marian, one with `norm = "pre"` as Pegasus. Three things differ:

    positions   ours are pairs, sin cos sin cos ..; theirs are all sines, then all cosines. The components of a vector
                have no fixed order, so all weights that read or write vectors are permuted:
                    theirs[.., j] = ours[.., p(j)],    p = 0, 2, 4 .. D - 2, 1, 3, 5 .. D - 1
    bias        they add a bias to the logit of each token; ours do so if model.output_bias is set
    token ids   their special tokens have any ids, ours have 0, 1 and 2 (see marian_tokenizers.py)

All other shapes are the same on both sides, so that writing and reading changes no bit.

Shapes: D model, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import torch
from torch import Tensor

from regard.exchange import folders
from regard.exchange.folders import Config, ModelFiles, Tensors
from regard.exchange.marian_tokenizers import read_tokenizers, write_tokenizers
from regard.files import write_json
from regard.layers.meta import on_meta
from regard.layers.positions import sinusoid
from regard.models.settings import name_of_size
from regard.models.transformer import SIZES, Transformer, TransformerSettings
from regard.text.symbols import BOS, EOS, PAD
from regard.text.tokenizer import Tokenizer
from regard.training.weights import rename

V = TypeVar("V")
GENERATION = "generation_config.json"
POSITIONS = 1024
"""Maximum number of positions in the exported settings; ours have no limit."""
NEVER_BIAS = -1e3
"""The output bias of a token that may only occur in the input: its probability becomes 0."""
ARCHITECTURES = {"marian": "MarianMTModel", "pegasus": "PegasusForConditionalGeneration"}
NORMS: dict[str, Literal["post", "pre"]] = {"marian": "post", "pegasus": "pre"}
SHAPE: dict[str, str] = folders.NAMES["marian"]["settings"]
"""Our settings, and the keys of config.json. The decoder has its own keys for heads and inner width."""
SAME_IN_DECODER = {"encoder_attention_heads": "decoder_attention_heads", "encoder_ffn_dim": "decoder_ffn_dim"}
FIXED_VALUES: Config = folders.NAMES["marian"]["fixed"]
EXPORTABLE = {
    "positions": "sinusoidal", "relative_positions": "none", "combine": "add", "score": "scaled_dot", "window": 0,
    "head_dim": None,
    "norm_kind": "layer", "residual": True, "self_attention": True, "share_qk": False, "scale_embeddings": True,
    "gated": False, "bias": True, "decoder_layer": "attention",
}  # fmt: skip
"""Our settings that have only one value in Marian and Pegasus."""
MODULES: dict[str, str] = folders.NAMES["marian"]["modules"]
SHARED, SRC, TGT, OUT = (
    "model.shared.weight",
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
)
BIAS = "final_logits_bias"
POSITION_TABLES = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
"""Tables of sinusoids. They are written, because transformers reports weights that a file lacks; reading skips them."""


@dataclass(frozen=True)
class MarianModel:
    """A translation model that was read: weights are named as in `Transformer`, tied weights occur once."""

    settings: TransformerSettings
    weights: Tensors
    tokenizers: tuple[Tokenizer, Tokenizer]
    positions: int
    beam: int


def read_marian(model: Path | ModelFiles) -> MarianModel:
    """The translation model in a folder. Both tokenizers are the same object if one file serves both sides."""
    files = folders.open_model(model)
    folder, path, config, tensors = files.folder, files.config_path, files.config, dict(files.tensors)
    settings, text = read_settings(config, path), read_tokenizers(folder, config)
    matrices, bias = read_matrices(config, tensors, files.weights_path)
    scale = 1.0 if config.get("scale_embedding", False) else settings.d_model**-0.5
    rows = torch.tensor(text.src_rows), torch.tensor(text.tgt_rows)
    order = sines_first(settings.d_model).argsort()
    columns = zip(matrices, (rows[0], rows[1], rows[1]), strict=True)
    embeddings = [matrix[ids][:, order] for matrix, ids in columns]
    weights = {"src_embedding.weight": embeddings[0] * scale, "tgt_embedding.weight": embeddings[1] * scale}
    weights["output.weight"] = embeddings[2]
    bias = bias[rows[1]].index_fill(0, torch.tensor(text.duplicates, dtype=torch.long), NEVER_BIAS)
    settings = settings.model_copy(update={"output_bias": bool(bias.any())})
    if settings.output_bias:
        weights["output.bias" if settings.tie == "none" else "tgt_embedding.bias"] = bias
    for name in {"all": ("src_embedding", "output"), "output": ("output",), "none": ()}[settings.tie]:
        del weights[f"{name}.weight"]
    weights |= read_layers(settings, tensors, files.weights_path)
    positions = folders.read_count(config, "max_position_embeddings", POSITIONS, path)
    return MarianModel(settings, weights, text.tokenizers, positions, default_beam(folder, config))


def write_marian(
    folder: Path,
    settings: TransformerSettings,
    weights: Tensors,
    tokenizers: tuple[Tokenizer, Tokenizer],
    beam: int = 4,
    alpha: float = 1.0,
) -> None:
    """Write a new folder that `transformers` reads as MarianMTModel or PegasusForConditionalGeneration.

    `beam` and `alpha` are the defaults of its search. transformers divides log P by |Y|^alpha, our search divides it by
    ((5 + |Y|) / 6)^alpha: with alpha = 0 both give the same result.
    """
    check_exportable(settings)
    kind = "marian" if settings.norm == "post" else "pegasus"
    for name, shape in shapes(settings, len(tokenizers[0]), len(tokenizers[1])).items():
        if name in weights and weights[name].shape != shape:
            raise ValueError(f"{name} has another shape than in a Transformer with these settings and tokenizers")
    order = sines_first(settings.d_model)
    exported = {huggingface_name(name): permute(name, tensor, order) for name, tensor in layers(weights).items()}
    embeddings = {SHARED: "tgt_embedding"} if settings.tie == "all" else {SRC: "src_embedding", TGT: "tgt_embedding"}
    embeddings |= {OUT: "output"} if settings.tie == "none" else {}
    exported |= {key: weights[f"{name}.weight"][:, order] for key, name in embeddings.items()}
    exported |= {name: sinusoid_table(POSITIONS, settings.d_model) for name in POSITION_TABLES}
    zeros = torch.zeros(len(tokenizers[1]))
    exported[BIAS] = weights.get("output.bias", weights.get("tgt_embedding.bias", zeros))[None]
    symbols = dict(pad_token_id=PAD, bos_token_id=BOS, eos_token_id=EOS, decoder_start_token_id=BOS)
    config = build_config(settings, kind) | symbols
    config |= dict(vocab_size=len(tokenizers[0]), decoder_vocab_size=len(tokenizers[1]))
    search: Config = dict(num_beams=beam, max_length=POSITIONS // 2, bad_words_ids=[[PAD], [BOS]])
    search |= {"length_penalty": alpha} if beam > 1 else {}  # transformers warns of a setting without effect
    with folders.new_folder(folder, config, exported) as path:
        write_json(path / GENERATION, symbols | search)
        write_tokenizers(path, tokenizers, POSITIONS)


def check_exportable(settings: TransformerSettings) -> None:
    """Raise an error for a setting that neither Marian nor Pegasus has."""
    for name, value in EXPORTABLE.items():
        if getattr(settings, name) != value:
            supported = f"model.{name} = {value!r}" if value is not None else f"no model.{name}"
            problem = f"transformers has no translation model with model.{name} = {getattr(settings, name)!r}"
            remedy = f"train with {supported}, or export to ctranslate2, which supports more Transformers"
            raise folders.unsupported(problem, f"model.{name}", remedy)
    if not settings.d_ff:
        problem = "transformers has no translation model without feed-forward layers (model.d_ff = 0)"
        raise folders.unsupported(problem, "model.d_ff", "train with a larger model.d_ff")
    if settings.norm == "pre" and settings.tie != "all":
        problem = f'a model with model.norm = "pre" is written as Pegasus, which has no model.tie = "{settings.tie}"'
        remedy = 'train with model.tie = "all" or model.norm = "post", or export to ctranslate2'
        raise folders.unsupported(problem, "model.tie", remedy)


def build_config(settings: TransformerSettings, kind: str) -> Config:
    """The content of config.json without vocabulary and special tokens."""
    config: Config = {key: getattr(settings, name) for name, key in SHAPE.items()}
    config[SHAPE["activation"]] = folders.huggingface_activation(settings.activation)
    config |= {exported: config[key] for key, exported in SAME_IN_DECODER.items()}
    config |= {"normalize_before": kind == "pegasus", "add_final_layer_norm": kind == "pegasus"} | FIXED_VALUES
    return config | {
        "model_type": kind,
        "architectures": [ARCHITECTURES[kind]],
        "is_encoder_decoder": True,
        "scale_embedding": True,
        "max_position_embeddings": POSITIONS,
        "share_encoder_decoder_embeddings": settings.tie == "all",
        "tie_word_embeddings": settings.tie != "none",
        "forced_eos_token_id": None,
    }


def read_settings(config: Config, path: Path) -> TransformerSettings:
    """The settings of the model without the output bias, which depends on the weights."""
    kind = str(config.get("model_type"))
    if kind not in ARCHITECTURES:
        problem = f"{path}: model_type = {kind!r} is not one of {', '.join(ARCHITECTURES)}"
        raise folders.unsupported(problem, f"{path}:model_type", "choose a model of these types")
    norms = {"normalize_before": kind == "pegasus", "add_final_layer_norm": kind == "pegasus"}
    folders.check_fixed_values(config, FIXED_VALUES | norms, path, kind)
    folders.require_keys(config, [*SHAPE.values(), *SAME_IN_DECODER.values(), "vocab_size"], path)
    if different := [key for key, decoder_key in SAME_IN_DECODER.items() if config[key] != config[decoder_key]]:
        key, decoder_key = different[0], SAME_IN_DECODER[different[0]]
        problem = f"{path}: {key} = {config[key]} differs from {decoder_key} = {config[decoder_key]}"
        raise folders.unsupported(problem, f"{path}:{decoder_key}", "choose a model with equal values")
    values = {name: config[key] for name, key in SHAPE.items()}
    values["activation"] = folders.activation_name(values["activation"])
    shared, tied = config.get("share_encoder_decoder_embeddings", True), config.get("tie_word_embeddings", True)
    tie = ("all" if shared else "output") if tied and config.get("scale_embedding", False) else "none"
    size = name_of_size(values, SIZES)
    with folders.reading_settings(path, SHAPE):
        return TransformerSettings.model_validate(values | {"norm": NORMS[kind], "tie": tie, "size": size})


def read_matrices(config: Config, tensors: Tensors, path: Path) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
    """The matrices of source, target and output, some of which may be the same, and the output bias (V,)."""
    file = path.with_name(folders.CONFIG)
    width, src = folders.read_count(config, "d_model", None, file), folders.read_count(config, "vocab_size", None, file)
    shared, tied = config.get("share_encoder_decoder_embeddings", True), config.get("tie_word_embeddings", True)
    tgt = src if shared else folders.read_count(config, "decoder_vocab_size", src, file)
    if shared:
        matrix = read_tied_matrix(tensors, (SHARED, SRC, TGT, *([OUT] if tied else ())), (src, width), path)
        matrices = matrix, matrix, matrix if tied else read_tied_matrix(tensors, (OUT,), (src, width), path)
    else:
        target = read_tied_matrix(tensors, (TGT, *([OUT] if tied else ())), (tgt, width), path)
        output = target if tied else read_tied_matrix(tensors, (OUT,), (tgt, width), path)
        matrices = read_tied_matrix(tensors, (SRC,), (src, width), path), target, output
    bias = folders.pop_tensor(tensors, BIAS, torch.Size((1, tgt)), path)
    return matrices, torch.zeros(tgt) if bias is None else bias[0]


def read_tied_matrix(tensors: Tensors, names: Sequence[str], shape: tuple[int, int], path: Path) -> Tensor:
    """A tied matrix, which may be saved under several names and must be equal under all of them."""
    copies = {
        name: tensor
        for name in names
        if (tensor := folders.pop_tensor(tensors, name, torch.Size(shape), path)) is not None
    }
    folders.require_weights([] if copies else [names[0]], path)
    (first, tensor), *others = copies.items()
    for name, copy in others:
        if not torch.equal(tensor, copy):
            problem = f"{path}: {first} differs from {name}, but {folders.CONFIG} says that they are tied"
            raise folders.damaged(problem, f"{path}:{name}")
    return tensor


def read_layers(settings: TransformerSettings, tensors: Tensors, path: Path) -> Tensors:
    """The weights of all layers by our names. Raises an error for other weights and for learned positions."""
    order = sines_first(settings.d_model).argsort()
    weights = folders.pop_tensors(tensors, layers(shapes(settings, 1, 1)), huggingface_name, path)
    for name in POSITION_TABLES:
        table = tensors.pop(name, None)
        if table is not None and not torch.allclose(table.float(), sinusoid_table(*table.shape), atol=2e-3):
            problem = f"{path}: the positions {name} are learned"
            raise folders.unsupported(problem, f"{path}:{name}", "choose a model with sinusoidal positions")
    folders.refuse_weights(tensors, path, "save the model again with save_pretrained")
    return {name: permute(name, tensor, order) for name, tensor in weights.items()}


def sinusoid_table(positions: int, d_model: int) -> Tensor:
    """The sinusoids (P, D) of transformers."""
    return sinusoid(torch.arange(positions), d_model)[:, sines_first(d_model)]


def sines_first(d_model: int) -> Tensor:
    """The permutation p: first the components with a sine, then those with a cosine."""
    return torch.arange(d_model).view(-1, 2).t().flatten()


def permute(name: str, tensor: Tensor, order: Tensor) -> Tensor:
    """Permute the vectors that a weight reads or writes; inside a sublayer the order does not change."""
    module, _, kind = name.rpartition(".")
    if module.endswith(("norm", "attention.output", "fc2")):
        return tensor[order]
    return tensor[:, order] if kind == "weight" else tensor


def layers(weights: dict[str, V]) -> dict[str, V]:
    """The weights of all layers, without embeddings and output."""
    return {name: value for name, value in weights.items() if name.startswith(("encoder", "decoder"))}


def huggingface_name(name: str) -> str:
    """encoder.0.attention.query.weight -> model.encoder.layers.0.self_attn.q_proj.weight"""
    return rename(name, MODULES)


def shapes(settings: TransformerSettings, src: int, tgt: int) -> dict[str, torch.Size]:
    with on_meta():
        sizes = (max(src, tgt), max(src, tgt)) if settings.tie == "all" else (src, tgt)
        return {name: tensor.shape for name, tensor in Transformer(settings, *sizes).state_dict().items()}


def default_beam(folder: Path, config: Config) -> int:
    """The default beam size of the model; older folders have it in config.json."""
    path = folder / GENERATION
    generation = folders.read_config(path) if path.exists() else config
    return folders.read_count(
        generation, "num_beams", folders.read_count(config, "num_beams", 4, folder / folders.CONFIG), path
    )
