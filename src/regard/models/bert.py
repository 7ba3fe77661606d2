"""BERT: a Transformer encoder pretrained on masked tokens (Devlin et al. 2018).

    x_i = LayerNorm(E[w_i] + P[i] + S[s_i])      token, position and segment embeddings (figure 2)
    h   = L encoder layers of x                  post-norm, GELU; every token attends to every token of its input
    C   = tanh(W_p h_1 + b_p)                    one vector for the input, from its first token, [CLS]

An input is [CLS] A [SEP] or [CLS] A [SEP] B [SEP]. Two tasks pretrain the model (section 3.1); other tasks put another
layer on h or C:

    p(w_i)  = softmax(E LayerNorm(gelu(W_m h_i + b_m)) + c)      task 1: masked language modelling
    p(next) = softmax(W_n C + b_n)                               task 2: next sentence prediction

E is both the embedding and the output matrix. W_p and W_m are not in the paper but in the authors' code, and so in
every published model.

RoBERTa (Liu et al. 2019) is the same model with another tokenizer and one segment, so without S in effect. DistilBERT
(Sanh et al. 2019) has no segments and no C; the layer before its classes is C with relu in the place of tanh
(`pooler`).

The left-to-right model of table 5 is the same with a causal mask (`causal`): token i attends to tokens 1 .. i, h_i
predicts w_{i+1}, and C is from the last token, the only one that attends to all.

B inputs, T tokens, D model, V vocabulary, M masked tokens; `*` is (B, T) padded or (N,) packed.
"""

from typing import Literal, Self

import torch
from pydantic import model_validator
from torch import Tensor, nn

from regard.attention.layouts import Attentions, Layout, Packed, Padded, Tokens
from regard.attention.multihead import MultiHeadAttention
from regard.config import Field, SettingError
from regard.layers import blocks
from regard.layers.embeddings import OutputProjection
from regard.layers.norms import LayerNorm
from regard.layers.positions import Learned
from regard.layers.residual import PostNorm
from regard.messages import Message, join_messages
from regard.models.backbone import TransformerBackbone
from regard.models.settings import ModelSettings, describe_layers, fill_from_size

INIT_STD = 0.02
"""Standard deviation of all weights at the start, as in the authors' code; the paper does not give it."""
POOLER_ACTIVATIONS: dict[str, blocks.Activation] = {"tanh": torch.tanh, "relu": torch.relu}
SIZES: dict[str, dict[str, int]] = {
    "tiny": dict(layers=2, d_model=128, num_heads=2, d_ff=512),
    "mini": dict(layers=4, d_model=256, num_heads=4, d_ff=1024),
    "small": dict(layers=4, d_model=512, num_heads=8, d_ff=2048),
    "minilm": dict(layers=6, d_model=384, num_heads=12, d_ff=1536),
    "base": dict(layers=12, d_model=768, num_heads=12, d_ff=3072),
    "large": dict(layers=24, d_model=1024, num_heads=16, d_ff=4096),
}


class BertSettings(ModelSettings):
    """Settings of a BERT. `size` sets the sizes of a published model; each of them can be set as well."""

    kind: Literal["bert"] = "bert"
    size: Literal["tiny", "mini", "small", "minilm", "base", "large", "custom"] = Field(
        "base",
        description="size preset: base and large as in the paper (Devlin et al. 2018, section 3), tiny, mini and "
        "small as in Turc et al. 2019, minilm as in Wang et al. 2020 with 6 layers; custom: set the sizes yourself",
    )
    d_model: int = Field(768, gt=0, description="model size: width of the hidden states")
    num_heads: int = Field(12, gt=0, description="number of attention heads; must divide `d_model`")
    d_ff: int = Field(3072, gt=0, description="hidden width of the feed-forward layers")
    layers: int = Field(12, gt=0, description="number of layers")
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout on the embeddings and on the output of each sublayer")
    attention_dropout: float = Field(0.1, ge=0, lt=1, description="dropout on the attention weights")
    activation: blocks.ActivationKind = Field("gelu", description=blocks.ACTIVATION)
    pooler: Literal["tanh", "relu"] = Field(
        "tanh", description="activation function of the pooled vector: tanh (BERT, RoBERTa) or relu (DistilBERT)"
    )
    max_positions: int = Field(512, gt=0, description="maximum input length, including special tokens")
    segments: int = Field(2, gt=0, description="number of segment (token type) embeddings")
    causal: bool = Field(
        False,
        description="left to right: a token attends to earlier tokens only; pretraining predicts every next token, and "
        "the last token stands for the input (Devlin et al. 2018, table 5)",
    )
    epsilon: float = Field(1e-12, gt=0, description="epsilon of the layer norms")

    @model_validator(mode="before")
    @classmethod
    def fill_from_size(cls, values: object) -> object:
        return fill_from_size(values, SIZES, "base")

    @model_validator(mode="after")
    def check(self) -> Self:
        if self.d_model % self.num_heads:
            problem = f"num_heads = {self.num_heads} does not divide d_model = {self.d_model}; change one of them"
            raise SettingError("num_heads", problem)
        return self

    @property
    def length_limit(self) -> int:
        return self.max_positions

    @property
    def is_standard(self) -> bool:
        """True if this is the BERT of the paper, which other libraries can run."""
        return not self.causal and self.pooler == "tanh"

    @property
    def supports_packing(self) -> bool:
        return True

    @property
    def summary(self) -> str:
        name = Message("left-to-right BERT") if self.causal else "BERT"
        return join_messages(", ", [name, describe_layers(self.layers, self.num_heads, self.d_model)])


class Bert(TransformerBackbone):
    """The encoder and its pooled first token, or last token if it is causal."""

    def __init__(self, settings: BertSettings, vocabulary: int) -> None:
        super().__init__()
        s = self.settings = settings
        self.causal, self.pooled_tokens = s.causal, last_tokens if s.causal else first_tokens
        self.words = nn.Embedding(vocabulary, s.d_model)
        self.positions = Learned(s.d_model, s.max_positions)
        self.segments = (nn.Embedding if s.segments > 1 else OneSegment)(s.segments, s.d_model)
        self.norm = nn.LayerNorm(s.d_model, eps=s.epsilon)
        self.dropout = nn.Dropout(s.dropout)

        def residual() -> PostNorm:
            return PostNorm(LayerNorm(s.d_model, s.epsilon), s.dropout)

        self.layers = blocks.TransformerStack(
            blocks.EncoderLayer(
                MultiHeadAttention(s.d_model, s.num_heads, s.attention_dropout),
                blocks.FeedForward(s.d_model, s.d_ff, activation=blocks.ACTIVATIONS[s.activation]),
                residual,
            )
            for _ in range(s.layers)
        )
        self.pooler, self.pooler_activation = nn.Linear(s.d_model, s.d_model), POOLER_ACTIVATIONS[s.pooler]
        self.apply(truncated_normal)

    def forward(self, tokens: Tokens, segments: Tensor | None = None) -> Tensor:
        """Tokens, and the segment of each (*), 0 by default -> h (*, D)."""
        return self.encode(tokens, segments)

    def embed(self, tokens: Tokens, segments: Tensor | None = None) -> Tensor:
        """-> x (*, D)."""
        segments = torch.zeros_like(tokens.ids) if segments is None else segments
        x = self.words(tokens.ids) + self.positions(tokens.layout.positions) + self.segments(segments)  # (*, D)
        return self.dropout(self.norm(x))

    def pool(self, h: Tensor, layout: Layout) -> Tensor:
        """C = tanh(W_p h_1 + b_p), of the last token if causal: h (*, D) -> (B, D)."""
        return self.pooler_activation(self.pooler(self.pooled_tokens(h, layout)))

    def attentions(self, tokens: Tokens, segments: Tensor | None = None) -> Attentions:
        """The attention weights of every layer and head for a padded batch, (B, layers, H, T, T)."""
        return Attentions(encoder=self.record_attention(tokens, segments))


class OneSegment(nn.Embedding):
    """The segment embedding of a model with one segment: both texts of a pair are of the same one."""

    def forward(self, segments: Tensor) -> Tensor:
        return super().forward(torch.zeros_like(segments))


class BertPretraining(nn.Module):
    """BERT with the layers of its two pretraining tasks."""

    def __init__(self, settings: BertSettings, vocabulary: int) -> None:
        super().__init__()
        self.settings = settings
        self.bert = Bert(settings, vocabulary)
        self.masked = MaskedTokens(settings, vocabulary)
        self.next = nn.Linear(settings.d_model, 2)
        truncated_normal(self.next)

    def forward(self, tokens: Tokens, segments: Tensor | None, positions: Tensor) -> tuple[OutputProjection, Tensor]:
        """Partly masked tokens -> projection to (M, V) of the tokens at `positions`, and logits (B, 2) of next sentence
        prediction: "B is the next sentence", "B is not".

        positions (M,) are indices into all tokens of the batch, b T + t where it is padded. Only the masked tokens need
        logits. In a causal model they are of the next tokens.
        """
        h = self.bert(tokens, segments)  # (*, D)
        masked = h.flatten(0, -2).index_select(0, positions)  # (M, D)
        return self.masked(masked, self.bert.words.weight), self.next(self.bert.pool(h, tokens.layout))


class MaskedTokens(nn.Module):
    """Prediction of masked tokens: h (M, D) and the token embeddings E (V, D) -> projection to (M, V)."""

    def __init__(self, settings: BertSettings, vocabulary: int) -> None:
        super().__init__()
        self.dense = nn.Linear(settings.d_model, settings.d_model)
        self.activation = blocks.ACTIVATIONS[settings.activation]
        self.norm = nn.LayerNorm(settings.d_model, eps=settings.epsilon)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        truncated_normal(self.dense)

    def forward(self, h: Tensor, words: Tensor) -> OutputProjection:
        return OutputProjection(self.norm(self.activation(self.dense(h))), words, self.bias)


def first_tokens(x: Tensor, layout: Layout) -> Tensor:
    """The first token of every input: (*, D) -> (B, D). Unused capacity of a stream gives an arbitrary token."""
    if isinstance(layout, Packed):
        return x.index_select(0, layout.offsets[:-1].clamp(max=len(x) - 1))
    return x[:, 0]


def last_tokens(x: Tensor, layout: Layout) -> Tensor:
    """The last token of every input: (*, D) -> (B, D). Unused capacity of a stream gives an arbitrary token."""
    if isinstance(layout, Packed):
        return x.index_select(0, (layout.offsets[1:] - 1).clamp(min=0))
    assert isinstance(layout, Padded)
    return x[torch.arange(len(x), device=x.device), (layout.lengths - 1).clamp(min=0)]


def truncated_normal(module: nn.Module) -> None:
    """Initialise as the authors' code: weights normal, drawn again beyond two standard deviations; biases zero. This is
    `nn.init.trunc_normal_` of torch 2.13, whose numbers differ in earlier versions."""
    if isinstance(module, nn.Linear | nn.Embedding) and not module.weight.is_meta:
        weight = module.weight.data.normal_(0.0, INIT_STD)
        while (beyond := weight.abs() > weight.new_tensor(2 * INIT_STD)).any():
            weight = torch.where(beyond, torch.empty_like(weight).normal_(0.0, INIT_STD), weight)
        module.weight.data.copy_(weight)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)
