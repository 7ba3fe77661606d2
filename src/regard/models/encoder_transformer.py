"""A Transformer's encoder as a reader: every token of an input sees every other (Vaswani et al. 2017, section 3.1).

    x_i = sqrt(D) (E[w_i] + S[s_i]) + positions      the word, and which of two texts it is of
    h   = L encoder layers of x                      a last norm where the layers have theirs before
    s   = pooled h                                   reader_pooling.py

What sets it apart from BERT (bert.py) is that it is made to begin from nothing on what little labelled text there is:
norms come first, so that it needs no long warm-up, all tokens speak for the input, not the first alone, and positions,
scores and windows are parts, as in a translator.

B inputs, T tokens, D model, V vocabulary, H heads; `*` is (B, T) padded or (N,) packed.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention.layouts import AttentionPattern, Layout, Padded, RecordingPattern, Tokens
from regard.config import Field
from regard.layers.blocks import EncoderLayer
from regard.layers.embeddings import TokenEmbedding
from regard.layers.positions import Concatenated
from regard.layers.residual import NORMS
from regard.models.attentions import Attentions
from regard.models.pooling import POOLERS, Pooling
from regard.models.transformer import positions, stack, xavier
from regard.models.transformer_settings import LayerSettings


class TransformerEncoderSettings(LayerSettings):
    """The shape of a Transformer that only reads."""

    kind: Literal["transformer"] = "transformer"
    layers: int = Field(4, gt=0, description="layers")
    d_model: int = Field(256, gt=0, description="width of every token's vector")
    num_heads: int = Field(4, gt=0, description="attention heads; must divide d_model unless head_dim is given")
    d_ff: int = Field(1024, gt=0, description="inner width of the feed-forward layers")
    activation: Literal["relu", "gelu", "silu"] = Field("gelu", description="bend of the feed-forward layers")
    norm: Literal["post", "pre"] = Field("pre", description="layer norm after the residual or before")
    max_positions: int = Field(512, gt=0, description="longest input with learned positions, special symbols included")
    pooling: Pooling = Field("mean", description="how the tokens' vectors become one for the whole input")
    segments: int = Field(2, gt=0, description="texts of one input that are told apart")

    @property
    def supports_packing(self) -> bool:
        """The kernel for packed batches knows scaled dot products; windows and any width of heads are fine with it."""
        return self.score == "scaled_dot" and self.positions not in ("relative", "alibi")

    @property
    def summary(self) -> str:
        layers = f"{self.layers} layers of {self.num_heads} heads, width {self.d_model}"
        return ", ".join([f"Transformer reader, {layers}, {self.pooling} pooling", *self.variations])


class TransformerEncoder(nn.Module):
    """Embeddings, layers that see all tokens, pooling."""

    def __init__(self, settings: TransformerEncoderSettings, vocabulary: int) -> None:
        super().__init__()
        s = self.settings = settings
        self.words = TokenEmbedding(vocabulary, s.d_model)
        self.segments = TokenEmbedding(s.segments, s.d_model)
        self.positions = positions(s)
        self.combine = Concatenated(s.d_model) if s.combine == "concat" else torch.add
        self.dropout = nn.Dropout(s.dropout)
        self.layers: Sequence[EncoderLayer] = stack(EncoderLayer, s, s.layers, self.positions)
        self.norm = NORMS[s.norm].final(s.d_model)
        self.pooler = POOLERS[s.pooling](s.d_model)
        self.apply(xavier)

    def forward(self, tokens: Tokens, segments: Tensor | None = None) -> Tensor:
        """Tokens, and which text each is of (*), the first if it is not said -> h (*, D)."""
        return self.hidden_states(tokens, segments)[-1]

    def embed(self, tokens: Tokens, segments: Tensor | None = None) -> Tensor:
        """-> x (*, D)."""
        x = self.words(tokens.ids) + self.segments(torch.zeros_like(tokens.ids) if segments is None else segments)
        return self.dropout(self.combine(x, self.positions(tokens.layout.positions).to(x.dtype)))

    def pool(self, h: Tensor, layout: Layout) -> Tensor:
        """h (*, D) -> s (B, D)."""
        return self.pooler(h, layout)

    def hidden_states(
        self, tokens: Tokens, segments: Tensor | None = None, pattern: AttentionPattern | None = None
    ) -> list[Tensor]:
        """x and what each layer made of it, (*, D) each; another sight, to watch or restrict, can be handed in."""
        seen = pattern or tokens.layout.pattern(tokens.layout, window=self.settings.window)
        *below, top = accumulate(self.layers, lambda x, layer: layer(x, seen), initial=self.embed(tokens, segments))
        return [*below, self.norm(top)]

    @torch.no_grad()
    def attentions(self, tokens: Tokens, segments: Tensor | None = None) -> Attentions:
        """What attended to what: the weights of every layer and head for a padded batch, (B, layers, H, T, T)."""
        assert isinstance(tokens.layout, Padded)
        pattern = RecordingPattern(tokens.layout, tokens.layout, causal=False, window=self.settings.window)
        self.hidden_states(tokens, segments, pattern)
        return Attentions(encoder=torch.stack(pattern.weights, dim=1))
