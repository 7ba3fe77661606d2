"""The Transformer as a language model: its decoder alone, without a source (Radford et al. 2018; Vaswani et al. 2017).

    x_t = E[w_t] + positions,    N layers in which t looks at 1 .. t,    p(w_{t+1} | w_1 .. w_t) = softmax(E x_t)

Nothing is squeezed into a state: every word of the stretch stays there to be looked at, at a price that grows with
the square of its length. Stretches are read apart from each other. An encoder layer under a causal sight is all that
is needed; to generate, it advances by one word with the keys and values of the past kept.

B columns or sentences, W hypotheses, T tokens, D model, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention.cache import KVCache
from regard.attention.layouts import AttentionPattern, Padded, RecordingPattern, Tokens
from regard.config import Field
from regard.layers.blocks import EncoderLayer
from regard.layers.embeddings import OutputProjection, TokenEmbedding
from regard.layers.positions import Concatenated
from regard.layers.residual import NORMS
from regard.models.attentions import Attentions
from regard.models.transformer import positions, stack, xavier
from regard.models.transformer_settings import LayerSettings


class TransformerLanguageSettings(LayerSettings):
    """The shape of a Transformer that only writes."""

    kind: Literal["transformer"] = "transformer"
    layers: int = Field(6, gt=0, description="layers")
    activation: Literal["relu", "gelu", "silu"] = Field("gelu", description="bend of the feed-forward layers")
    norm: Literal["post", "pre"] = Field("pre", description="layer norm after the residual or before")
    positions: Literal["sinusoidal", "learned", "rotary", "relative", "alibi", "none"] = Field(
        "rotary", description="kind of positions"
    )
    tie: Literal["output", "none"] = Field("output", description="one matrix reads and writes words, or two")

    @property
    def summary(self) -> str:
        return f"Transformer language model, {self.layers} layers of {self.num_heads} heads, width {self.d_model}"


class CausalLayer(EncoderLayer):
    """Every word looks at itself and those before it, then thinks for itself; also one word at a time."""

    def step(self, x: Tensor, past: KVCache) -> tuple[Tensor, KVCache]:
        """One word further: x (B, W, D)."""
        y, past = self.attention.step(self.attention_residual.pre(x), past)
        x = self.attention_residual.post(x, y)
        y = self.feedforward_residual.pre(x)
        return self.feedforward_residual.post(x, self.feedforward(y)), past


@dataclass(frozen=True)
class TransformerLanguageState:
    """Between two steps: the keys and values of every layer."""

    layers: list[KVCache]

    def reorder(self, parents: Tensor) -> "TransformerLanguageState":
        """parents (B, W): hypothesis w of sentence b continues hypothesis parents[b, w]."""
        return TransformerLanguageState([past.reorder(parents) for past in self.layers])

    def keep(self, sentences: Tensor) -> "TransformerLanguageState":
        """Only these sentences go on."""
        return TransformerLanguageState([past.keep(sentences) for past in self.layers])


class TransformerLanguageModel(nn.Module):
    """Embedding, causal layers, tied output."""

    is_stateful = False

    def __init__(self, settings: TransformerLanguageSettings, vocabulary: int) -> None:
        super().__init__()
        s = self.settings = settings
        self.embedding = TokenEmbedding(vocabulary, s.d_model)
        self.output = self.embedding if s.tie == "output" else TokenEmbedding(vocabulary, s.d_model)
        self.positions = positions(s)
        self.combine = Concatenated(s.d_model) if s.combine == "concat" else torch.add
        self.dropout = nn.Dropout(s.dropout)
        self.layers: Sequence[CausalLayer] = stack(CausalLayer, s, s.layers, self.positions)
        self.norm = NORMS[s.norm].final(s.d_model)
        self.apply(xavier)

    def initial_state(self, columns: int) -> dict[str, Tensor]:
        """Nothing is carried from stretch to stretch."""
        return {}

    def forward(
        self, ids: Tensor, state: dict[str, Tensor] | None = None
    ) -> tuple[OutputProjection, dict[str, Tensor]]:
        """ids (B, T) -> projection of (B, T, D) to (B, T, V), and an empty state."""
        layout = full(ids)
        x = self.read(ids, layout.pattern(layout, causal=True, window=self.settings.window))
        return self.output.project(x), {}

    def read(self, ids: Tensor, pattern: AttentionPattern) -> Tensor:
        """-> (B, T, D), to be compared with each word's row of the output matrix."""
        x = self.embed(ids, pattern.queries.positions)
        for layer in self.layers:
            x = layer(x, pattern)
        return self.norm(x)

    def embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        x = self.embedding(ids)
        return self.dropout(self.combine(x, self.positions(positions).to(x.dtype)))

    def start(self, source: Tokens) -> TransformerLanguageState:
        """A language model has no source: of it only the number of sentences is taken."""
        sentences, like = source.ids.size(0), self.embedding.weight
        return TransformerLanguageState(
            [layer.attention.start(sentences, like, self.settings.window) for layer in self.layers]
        )

    def step(self, tokens: Tensor, state: TransformerLanguageState) -> tuple[Tensor, TransformerLanguageState]:
        """The newest word of every hypothesis, (B, W) -> logits (B, W, V) of the next."""
        x = self.embed(tokens, torch.full((1,), state.layers[0].length, device=tokens.device))
        pasts = []
        for layer, past in zip(self.layers, state.layers, strict=True):
            x, past = layer.step(x, past)
            pasts.append(past)
        return self.output.scores(self.norm(x)), TransformerLanguageState(pasts)

    @torch.no_grad()
    def attentions(self, ids: Tensor) -> Attentions:
        """What attended to what: the weights of every layer and head, (B, layers, H, T, T)."""
        pattern = RecordingPattern(full(ids), full(ids), causal=True, window=self.settings.window)
        self.read(ids, pattern)
        return Attentions(decoder=torch.stack(pattern.weights, dim=1))


def full(ids: Tensor) -> Padded:
    """A rectangle without padding."""
    return Padded(torch.full((ids.size(0),), ids.size(1), device=ids.device), ids.size(1))
