"""The Transformer as a language model: a decoder without a source (Radford et al. 2018; Vaswani et al. 2017).

    x_t = E[w_t] + positions,    N layers in which t attends to 1 .. t,    p(w_{t+1} | w_1 .. w_t) = softmax(E x_t)

There is no state between segments: each is read alone, and every token attends to all earlier tokens of its segment, at
a cost that grows with the square of its length. An encoder layer with a causal attention pattern is all that is needed.
In generation it advances by one token, with a KV cache.

B streams or sentences, W hypotheses, T tokens, D model, V vocabulary.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention.cache import KVCache
from regard.attention.layouts import Attentions, Layout, Padded, Tokens
from regard.config import Field
from regard.layers.blocks import ACTIVATION, ActivationKind
from regard.layers.embeddings import OutputProjection, TokenEmbedding
from regard.messages import Message, join_messages
from regard.models.backbone import (
    LayerFactory,
    LayerSettings,
    PositionKind,
    TransformerBackbone,
    build_combine,
    build_positions,
    xavier,
)
from regard.models.settings import OUTPUT_BIAS, WordVectorSettings, describe_layers


class TransformerLanguageSettings(LayerSettings, WordVectorSettings):
    """Settings of a Transformer language model."""

    kind: Literal["transformer"] = "transformer"
    layers: int = Field(6, gt=0, description="number of layers")
    activation: ActivationKind = Field("gelu", description=ACTIVATION)
    norm: Literal["post", "pre"] = Field(
        "pre", description="where to normalise: post (after the residual connection) or pre (before the sublayer)"
    )
    positions: PositionKind = Field("rotary", description="position encoding")
    tie: Literal["output", "none"] = Field(
        "output", description="weight tying: output (one matrix for embedding and output) or none (two matrices)"
    )
    output_bias: bool = Field(False, description=OUTPUT_BIAS)
    begin_symbol: bool = Field(
        True,
        description="read the end symbol before a prompt, as in training; false: a prompt begins with "
        "its first token, as in GPT-2",
    )

    @property
    def has_attention(self) -> bool:
        return self.self_attention

    @property
    def summary(self) -> str:
        layers = describe_layers(self.layers, self.num_heads, self.d_model)
        return join_messages(", ", [Message("Transformer language model"), layers])


@dataclass(frozen=True)
class TransformerLanguageState:
    """State of a search: the KV cache of every layer."""

    layers: list[KVCache]

    def reorder(self, parents: Tensor) -> "TransformerLanguageState":
        return TransformerLanguageState([past.reorder(parents) for past in self.layers])

    def keep(self, sentences: Tensor) -> "TransformerLanguageState":
        return TransformerLanguageState([past.keep(sentences) for past in self.layers])


class TransformerLanguageModel(TransformerBackbone):
    """Embedding, causal layers, output projection."""

    is_stateful = False
    causal = True

    def __init__(self, settings: TransformerLanguageSettings, vocabulary: int) -> None:
        super().__init__()
        s = self.settings = settings
        self.window = s.window
        tied = s.tie == "output"
        bias = s.output_bias and tied
        self.embedding = TokenEmbedding(vocabulary, s.d_model, bias, s.embedding_scale, s.freeze_embeddings)
        self.output = self.embedding if tied else TokenEmbedding(vocabulary, s.d_model, s.output_bias)
        self.positions = build_positions(s)
        self.combine = build_combine(s)
        self.dropout = nn.Dropout(s.dropout)
        build = LayerFactory(s, self.positions)
        self.layers = build.encoder_layers(s.layers, causal=True)
        self.norm = build.final_norm()
        self.apply(xavier)

    def initial_state(self, batch_size: int) -> dict[str, Tensor]:
        """An empty state: segments are read alone."""
        return {}

    def forward(
        self, ids: Tensor, state: dict[str, Tensor] | None = None
    ) -> tuple[OutputProjection, dict[str, Tensor]]:
        """ids (B, T) -> projection of (B, T, D) to (B, T, V), and an empty state."""
        return self.output.project(self.encode(unpadded(ids))), {}

    def embed(self, tokens: Tokens, segments: Tensor | None = None) -> Tensor:
        """-> x (B, T, D)."""
        return self.embed_at(tokens.ids, tokens.layout.positions)

    def embed_at(self, ids: Tensor, positions: Tensor) -> Tensor:
        """ids (*) at these positions -> (*, D)."""
        x = self.embedding(ids)
        return self.dropout(self.combine(x, self.positions(positions).to(x.dtype)))

    def final_norm(self, x: Tensor, layout: Layout) -> Tensor:
        return self.norm(x, layout)

    def start(self, source: Tokens) -> TransformerLanguageState:
        """The state of a search; a language model has no source, only its number of sentences is used."""
        sentences, like = source.ids.size(0), self.embedding.weight
        return TransformerLanguageState([layer.attention.start(sentences, like, self.window) for layer in self.layers])

    def step(self, tokens: Tensor, state: TransformerLanguageState) -> tuple[Tensor, TransformerLanguageState]:
        x = self.embed_at(
            tokens, torch.full((1,), state.layers[0].length, dtype=torch.long, device=tokens.device)
        )  # (B, W, D)
        caches = []
        for layer, past in zip(self.layers, state.layers, strict=True):
            x, past = layer.step(x, past)
            caches.append(past)
        return self.output.scores(self.norm(x)), TransformerLanguageState(caches)

    def attentions(self, ids: Tensor) -> Attentions:
        """The attention weights of every layer and head, (B, layers, H, T, T)."""
        return Attentions(decoder=self.record_attention(unpadded(ids)))


def unpadded(ids: Tensor) -> Tokens:
    """ids (B, T) without padding, with their layout."""
    return Padded.of(ids, torch.full((ids.size(0),), ids.size(1), device=ids.device))
