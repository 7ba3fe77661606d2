"""T5 (Raffel et al. 2020) in folders of Hugging Face `transformers`, as a translation model.

It is our Transformer with other parts: pre-norm with RMS norms, no biases, scores that are dot products without a
scale, and positions that are buckets of distances. T5 1.1 has gated feed-forward layers as well.

    embeddings   E of the tokens; logits E x / sqrt(D) in T5, with the same E. Ours are sqrt(D) E' and E' x, with
                 E' = E / sqrt(D). In T5 1.1 the output matrix is another one, and nothing is scaled.
    token ids    theirs are <pad> = 0, </s> = 1, <unk> = 2; <pad> also begins a translation. Ours are 0, 1 and 2 for
                 padding, beginning and end, so the rows are reordered as those of Marian (marian_tokenizers.py).

D model, V vocabulary.
"""

import base64
from pathlib import Path

import torch

from regard.exchange import folders
from regard.exchange.folders import Config, ModelFiles, Tensors
from regard.exchange.marian import NEVER_BIAS, MarianModel, default_beam, layers, shapes
from regard.exchange.marian_tokenizers import duplicates, read_start, reorder_tokens
from regard.exchange.sentencepiece import SentencePieceModel, read_sentencepiece
from regard.models.settings import name_of_size
from regard.models.transformer import SIZES, TransformerSettings
from regard.reading import parse_json, read_text
from regard.text.sentencepiece import SentencePieceTokenizer, assemble
from regard.training.weights import rename

SPM = "spiece.model"
SYMBOLS = ("<pad>", "</s>", "<unk>")
MAX_LENGTH = 512
"""The longest texts of T5's training; the model has no limit."""
SHAPE: dict[str, str] = folders.NAMES["t5"]["settings"]
FIXED_VALUES: Config = folders.NAMES["t5"]["fixed"]
OUR_VALUES: Config = folders.NAMES["t5"]["ours"]
MODULES: dict[str, str] = folders.NAMES["t5"]["modules"]
FIRST = {False: {"fc1": "wi"}, True: {"fc1": "wi_0", "gate": "wi_1"}}
"""The first layers of the feed-forward network, without and with a gate."""
UNUSED = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
"""A table in older folders that no model uses."""
TABLES = {"both": "encoder", "causal": "decoder"}
"""Tables of distances: ours, and the stack whose first layer has theirs."""


def read_t5(files: ModelFiles) -> MarianModel:
    config, path = files.config, files.config_path
    settings, tensors = read_settings(config, path), dict(files.tensors)
    size = folders.read_count(config, "vocab_size", None, path)
    tokenizer, rows = read_tokenizer(files.folder, config, size)
    settings, weights = read_embeddings(settings, config, tensors, size, files.weights_path)
    weights = {name: tensor[torch.tensor(rows)] for name, tensor in weights.items()}
    bias = torch.zeros(len(rows))
    bias[duplicates(rows)] = NEVER_BIAS
    weights["output.bias" if settings.tie == "none" else "tgt_embedding.bias"] = bias
    weights |= read_layers(settings, tensors, files.weights_path)
    length = folders.read_count(config, "n_positions", MAX_LENGTH, path)
    return MarianModel(settings, weights, (tokenizer, tokenizer), length, default_beam(files.folder, config))


def read_settings(config: Config, path: Path) -> TransformerSettings:
    """The settings of the model without those of the embeddings, which depend on the weights."""
    folders.check_fixed_values(config, FIXED_VALUES, path, "T5")
    folders.require_keys(config, [key for key in (*SHAPE.values(), "vocab_size") if key != "feed_forward_proj"], path)
    values = {name: config[key] for name, key in SHAPE.items() if key in config} | OUR_VALUES
    kind = folders.read_value(config, "feed_forward_proj", str, "relu", path)
    activation = "gelu_new" if kind == "gated-gelu" else kind.removeprefix("gated-")
    values |= {
        "activation": folders.activation_name(activation),
        "gated": kind.startswith("gated-"),
        "output_bias": True,
    }
    values["decoder_layers"] = config.get("num_decoder_layers") or config["num_layers"]
    values["max_distance"] = config.get("relative_attention_max_distance", 128)
    values["size"] = name_of_size(values, SIZES)
    with folders.reading_settings(path, SHAPE):
        return TransformerSettings.model_validate(values)


def read_embeddings(
    settings: TransformerSettings, config: Config, tensors: Tensors, size: int, path: Path
) -> tuple[TransformerSettings, Tensors]:
    """The settings with those of the embeddings, and the matrices (V, D) in their order of rows."""
    shape = torch.Size((size, settings.d_model))
    matrix = folders.pop_tensor(tensors, "shared.weight", shape, path)
    for name in ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"):
        copy = folders.pop_tensor(tensors, name, shape, path)
        matrix = copy if matrix is None else matrix
    if matrix is None:
        folders.require_weights(["shared.weight"], path)
        raise AssertionError
    output = folders.pop_tensor(tensors, "lm_head.weight", shape, path)
    scaled = config.get("scale_decoder_outputs", config.get("tie_word_embeddings", True)) is not False
    factor = settings.d_model**-0.5 if scaled else 1.0
    if output is None or torch.equal(output, matrix):
        tied = settings.model_copy(update={"tie": "all", "scale_embeddings": scaled})
        return tied, {"tgt_embedding.weight": matrix * factor}
    separate = settings.model_copy(update={"tie": "none", "scale_embeddings": False})
    matrices = {"src_embedding.weight": matrix, "tgt_embedding.weight": matrix, "output.weight": output * factor}
    return separate, matrices


def read_layers(settings: TransformerSettings, tensors: Tensors, path: Path) -> Tensors:
    """The weights of all layers and the tables of distances by our names."""
    expected = {name: shape for name, shape in layers(shapes(settings, 1, 1)).items() if "position_bias" not in name}
    names = {name: huggingface_name(name, settings.gated) for name in expected}
    table = torch.Size((settings.buckets, settings.num_heads))
    for ours, theirs in TABLES.items():
        name = f"positions.tables.{ours}.table"
        expected[name], names[name] = table, f"{theirs}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    weights = folders.pop_tensors(tensors, expected, names.__getitem__, path)
    tensors.pop(UNUSED, None)
    folders.refuse_weights(tensors, path, "only T5ForConditionalGeneration can be read")
    return weights


def huggingface_name(name: str, gated: bool) -> str:
    """encoder.0.attention.query.weight -> encoder.block.0.layer.0.SelfAttention.q.weight"""
    for ours, theirs in FIRST[gated].items():
        name = name.replace(f"feedforward.{ours}.", f"feedforward.DenseReluDense.{theirs}.")
    return rename(name, MODULES).replace(".feedforward.", ".")


def read_tokenizer(folder: Path, config: Config, size: int) -> tuple[SentencePieceTokenizer, list[int]]:
    """The tokenizer in our order, and the matrix row of each of its tokens."""
    path = folders.find_tokenizer(folder, SPM)
    try:
        tokens, model = read_pieces(path, size)
        if len(tokens) > size or tuple(tokens[: len(SYMBOLS)]) != SYMBOLS:
            raise ValueError(f"its first tokens are not {', '.join(SYMBOLS)}, or it has more than {size}")
        tokens += [f"<unused_{number}>" for number in range(len(tokens), size)]
        ids = {token: number for number, token in enumerate(tokens)}
        ours, rows = reorder_tokens(ids, [model], read_start(config, size, folder / "config.json"))
        return assemble(ours, model.scores, model.characters, model.prefix, model.tidy), rows
    except (ValueError, AttributeError, TypeError, LookupError) as error:
        raise folders.damaged(f"{path} is damaged or is not a tokenizer of T5: {error}", path) from error


def read_pieces(path: Path, size: int) -> tuple[list[str], SentencePieceModel]:
    """The tokens by id, and what segments a text; the tokens <extra_id_N> cannot occur in a text."""
    if path.name == SPM:
        model = read_sentencepiece(path)
        tokens = [text for text, _, _ in model.pieces]
        extra = min(100, size - len(tokens))
        return tokens + [f"<extra_id_{number}>" for number in reversed(range(extra))], model
    content = parse_json(read_text(path))
    if content["model"].get("type") != "Unigram" or content["model"].get("byte_fallback"):
        raise ValueError("it is not a unigram model without bytes")
    special = {token["content"] for token in content.get("added_tokens", ())} | set(SYMBOLS)
    entries: list[tuple[str, float]] = content["model"]["vocab"]
    pieces = [(text, float(score), 3 if text in special else 1) for text, score in entries]
    return [text for text, _ in entries], SentencePieceModel(
        pieces, character_map(content.get("normalizer")), True, True
    )


def character_map(normalizer: Config | None) -> bytes:
    """The normalisation table of SentencePiece in a tokenizer.json; empty if it has none."""
    steps = [normalizer] if normalizer else []
    while steps:
        step = steps.pop(0)
        if step.get("type") == "Precompiled":
            return base64.b64decode(step.get("precompiled_charsmap") or "")
        steps += step.get("normalizers", [])
    return b""
