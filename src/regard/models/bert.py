"""BERT: a Transformer's encoder that has learnt to fill gaps (Devlin et al. 2018).

    x_i = LayerNorm(E[w_i] + P[i] + S[s_i])      the word, its place, and which of two texts it is of (figure 2)
    h   = L encoder layers of x                  post-norm, GELU; every token sees every token of its input
    C   = tanh(W_p h_1 + b_p)                    one vector for the input, from its first token, [CLS]

An input is [CLS] A [SEP] or [CLS] A [SEP] B [SEP]. Two questions about it teach the model (section 3.1); whoever has
others puts their own layer on top of h or C instead:

    p(w_i)  = softmax(E LayerNorm(gelu(W_m h_i + b_m)) + c)      task 1: which word stood behind a mask?
    p(next) = softmax(W_n C + b_n)                               task 2: does B come after A in the text?

A word's row of E is both what it goes in as and what must come out for it. W_p and W_m are not in the paper but in the
authors' program, and so in every model that was published.

B inputs, T tokens, D model, V vocabulary, M masked words; `*` is (B, T) padded or (N,) packed.
"""

from collections.abc import Sequence
from functools import partial
from itertools import accumulate

import torch
from torch import Tensor, nn

from regard.attention.layouts import AttentionPattern, Layout, Packed, Padded, RecordingPattern, Tokens
from regard.attention.multihead import MultiHeadAttention
from regard.layers.blocks import EncoderLayer
from regard.layers.embeddings import OutputProjection
from regard.layers.feedforward import ACTIVATIONS, FeedForward
from regard.layers.positions import Learned
from regard.layers.residual import PostNorm
from regard.models.attentions import Attentions
from regard.models.bert_settings import BertSettings

__all__ = ["Bert", "BertPretraining", "BertSettings", "MaskedWords"]

SPREAD = 0.02
"""Standard deviation of all weights at the beginning, as in the authors' program; the paper does not say."""


class Bert(nn.Module):
    """The encoder and its pooled first token."""

    def __init__(self, settings: BertSettings, vocabulary: int) -> None:
        super().__init__()
        s = self.settings = settings
        self.words = nn.Embedding(vocabulary, s.d_model)
        self.positions = Learned(s.d_model, s.max_positions)
        self.segments = nn.Embedding(s.segments, s.d_model)
        self.norm = nn.LayerNorm(s.d_model, eps=s.epsilon)
        self.dropout = nn.Dropout(s.dropout)
        self.layers: Sequence[EncoderLayer] = nn.ModuleList(  # type: ignore[assignment]
            EncoderLayer(
                MultiHeadAttention(s.d_model, s.num_heads, s.attention_dropout),
                FeedForward(s.d_model, s.d_ff, activation=ACTIVATIONS[s.activation]),
                partial(post_norm, s),
            )
            for _ in range(s.layers)
        )
        self.pooler = nn.Linear(s.d_model, s.d_model)
        self.apply(truncated_normal)

    def forward(self, tokens: Tokens, segments: Tensor | None = None) -> Tensor:
        """Tokens, and which text each is of (*), the first if it is not said -> h (*, D)."""
        x, pattern = self.embed(tokens, segments), tokens.layout.pattern(tokens.layout)
        for layer in self.layers:
            x = layer(x, pattern)
        return x

    def embed(self, tokens: Tokens, segments: Tensor | None = None) -> Tensor:
        """-> x (*, D)."""
        segments = torch.zeros_like(tokens.ids) if segments is None else segments
        x = self.words(tokens.ids) + self.positions(tokens.layout.positions) + self.segments(segments)
        return self.dropout(self.norm(x))

    def pool(self, h: Tensor, layout: Layout) -> Tensor:
        """C = tanh(W_p h_1 + b_p): h (*, D) -> (B, D)."""
        return torch.tanh(self.pooler(first_tokens(h, layout)))

    def hidden_states(
        self, tokens: Tokens, segments: Tensor | None = None, pattern: AttentionPattern | None = None
    ) -> list[Tensor]:
        """x and what each layer made of it, (*, D) each; another sight, to watch or restrict, can be handed in."""
        seen = pattern or tokens.layout.pattern(tokens.layout)
        return list(accumulate(self.layers, lambda x, layer: layer(x, seen), initial=self.embed(tokens, segments)))

    @torch.no_grad()
    def attentions(self, tokens: Tokens, segments: Tensor | None = None) -> Attentions:
        """What attended to what: the weights of every layer and head for a padded batch."""
        assert isinstance(tokens.layout, Padded)
        pattern = RecordingPattern(tokens.layout, tokens.layout, causal=False)
        self.hidden_states(tokens, segments, pattern)
        return Attentions(encoder=torch.stack(pattern.weights, dim=1))


class BertPretraining(nn.Module):
    """BERT and its two questions."""

    def __init__(self, settings: BertSettings, vocabulary: int) -> None:
        super().__init__()
        self.settings = settings
        self.bert = Bert(settings, vocabulary)
        self.masked = MaskedWords(settings, vocabulary)
        self.next = nn.Linear(settings.d_model, 2)
        truncated_normal(self.next)

    def forward(self, tokens: Tokens, segments: Tensor | None, positions: Tensor) -> tuple[OutputProjection, Tensor]:
        """Partly masked tokens -> projection to (M, V) of the tokens at `positions`, and logits (B, 2) of next
        sentence prediction: "B is the next sentence", "B is not".

        positions (M,) are indices into all tokens of the batch, b T + t where it is padded. Only the masked tokens need
        logits.
        """
        h = self.bert(tokens, segments)
        masked = h.flatten(0, -2).index_select(0, positions)
        return self.masked(masked, self.bert.words.weight), self.next(self.bert.pool(h, tokens.layout))


class MaskedWords(nn.Module):
    """Prediction of masked tokens: h (M, D) and the word embeddings E (V, D) -> projection to (M, V)."""

    def __init__(self, settings: BertSettings, vocabulary: int) -> None:
        super().__init__()
        self.dense = nn.Linear(settings.d_model, settings.d_model)
        self.activation = ACTIVATIONS[settings.activation]
        self.norm = nn.LayerNorm(settings.d_model, eps=settings.epsilon)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        truncated_normal(self.dense)

    def forward(self, h: Tensor, words: Tensor) -> OutputProjection:
        return OutputProjection(self.norm(self.activation(self.dense(h))), words, self.bias)


def first_tokens(x: Tensor, layout: Layout) -> Tensor:
    """The first token of every input: (*, D) -> (B, D). Room in a stream that no input takes gives some other token."""
    if isinstance(layout, Packed):
        return x.index_select(0, layout.offsets[:-1].clamp(max=len(x) - 1))
    return x[:, 0]


def post_norm(settings: BertSettings) -> PostNorm:
    """Add, then normalise, with BERT's own epsilon."""
    around = PostNorm(settings.d_model, settings.dropout)
    around.norm = nn.LayerNorm(settings.d_model, eps=settings.epsilon)
    return around


def truncated_normal(module: nn.Module) -> None:
    """Weights normal, none beyond two standard deviations, biases zero: as the authors' program begins."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.trunc_normal_(module.weight, std=SPREAD, a=-2 * SPREAD, b=2 * SPREAD)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)
