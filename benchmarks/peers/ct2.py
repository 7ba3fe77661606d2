"""CTranslate2, the C++ engine: a Transformer of random weights written in its format and translated by itself."""

import tempfile
from typing import Any

import ctranslate2
import numpy as np
from benchmarks.contender import OUTPUT, Shape
from ctranslate2.specs import TransformerSpec
from ctranslate2.specs.common_spec import Activation, LayerNormSpec, LinearSpec
from torch import Tensor

SPECIAL = ["<blank>", "<s>", "</s>"]


def random_spec(shape: Shape) -> Any:
    """The paper's post-norm Transformer with one matrix for source, target and output."""
    rng = np.random.default_rng(1)
    d_model = shape.d_model

    def random(*size: int) -> np.ndarray:
        return rng.normal(0.0, size[-1] ** -0.5, size).astype(np.float32)

    def fill(linear: LinearSpec, outputs: int, inputs: int) -> None:
        linear.weight, linear.bias = random(outputs, inputs), np.zeros(outputs, np.float32)

    def norm(spec: LayerNormSpec) -> None:
        spec.gamma, spec.beta = np.ones(d_model, np.float32), np.zeros(d_model, np.float32)

    def attention(spec: Any, crossing: bool) -> None:
        fill(spec.linear[0], d_model if crossing else 3 * d_model, d_model)
        if crossing:
            fill(spec.linear[1], 2 * d_model, d_model)
        fill(spec.linear[-1], d_model, d_model)
        norm(spec.layer_norm)

    spec = TransformerSpec.from_config(
        (shape.layers, shape.layers), shape.num_heads, pre_norm=False, activation=Activation.RELU
    )
    table = random(shape.vocabulary, d_model)
    spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight = spec.decoder.projection.weight = table
    spec.encoder.scale_embeddings = spec.decoder.scale_embeddings = True
    for stack in (spec.encoder, spec.decoder):
        for layer in stack.layer:
            attention(layer.self_attention, crossing=False)
            if stack is spec.decoder:
                attention(layer.attention, crossing=True)
            fill(layer.ffn.linear_0, shape.d_ff, d_model)
            fill(layer.ffn.linear_1, d_model, shape.d_ff)
            norm(layer.ffn.layer_norm)
    words = [*SPECIAL, *(str(number) for number in range(len(SPECIAL), shape.vocabulary))]
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    spec.config.unk_token = SPECIAL[0]
    spec.validate()
    return spec


class Float:
    """Its `translate_batch`, beginning with tokens: their texts are nobody's business here."""

    version: str = ctranslate2.__version__
    compute_type = "float32"
    model = None

    def __init__(self, shape: Shape) -> None:
        with tempfile.TemporaryDirectory() as folder:
            random_spec(shape).save(folder)
            self.translator = ctranslate2.Translator(
                folder, device="cpu", compute_type=self.compute_type, inter_threads=1, intra_threads=shape.threads
            )

    def decode(self, src: Tensor, lengths: Tensor, width: int) -> list[int]:
        rows = zip(src.tolist(), lengths.tolist(), strict=True)
        sources = [[*map(str, row[: length - 1]), SPECIAL[2]] for row, length in rows]
        found = self.translator.translate_batch(
            sources, beam_size=width, min_decoding_length=OUTPUT, max_decoding_length=OUTPUT, max_batch_size=0
        )
        return [len(each.hypotheses[0]) for each in found]


class Quantised(Float):
    """The same with weights and products in 8 bits."""

    compute_type = "int8"
