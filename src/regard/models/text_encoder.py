"""Text encoders with a head: a linear layer on the hidden states of a text (Devlin et al. 2018, section 3.2, figure 4).

    o   = W dropout(s) + b      pooled: one output for the input, from its vector s: a class, a number, a choice
    o_i = W dropout(h_i) + b    one output for each token: its tag, or whether an answer starts or ends there

The encoders:

    bert           pretrained; x_i = token + position + segment embedding                     bert.py
    transformer    x_i = sqrt(D) (E[w_i] + S[s_i]) + positions; h = L encoder layers of x     Vaswani et al. 2017, 3.1
    recurrent      h_i = [forward h_i; backward h_i] of L layers of x                         Yang et al. 2016, 2.2
    lstm, gru ...  h_i of L layers from left to right, as a recurrent language model          Howard & Ruder 2018
    elmo           the same, x_i = features of a frozen language model                        Peters et al. 2018

The Transformer here differs from BERT in what suits training from scratch on little labelled text: pre-norm layers need
no long warm-up, all tokens are pooled and not the first alone, and positions, scores and windows are parts, as in
translation. Pooling is in pooling.py.

With a causal mask (`causal`) and the last token pooled, the Transformer is the encoder of GPT (Radford et al. 2018):
token i attends to tokens 1 .. i, as in a causal language model, and fine-tuning can start from the weights of one.

B inputs, T tokens, D model, V vocabulary; `*` is (B, T) padded or (N,) packed.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Annotated, Literal, Self

import torch
from pydantic import Tag, model_validator
from torch import Tensor, nn

from regard.attention.layouts import Attentions, Layout, Padded, Tokens
from regard.config import Field, SettingError, Unused, by_kind, unless
from regard.layers.blocks import ACTIVATION, ActivationKind
from regard.layers.embeddings import OutputProjection, TokenEmbedding
from regard.layers.recurrent import CELL, CELLS, CellKind, Recurrent
from regard.messages import Count, Message, find_message, join_messages
from regard.models import backbone
from regard.models.bert import Bert, BertSettings, truncated_normal
from regard.models.language_bidirectional import (
    BidirectionalLanguageModel,
    BidirectionalLanguageSettings,
    WeightedLayers,
)
from regard.models.language_recurrent import RecurrentLanguageSettings, RecurrentReader, locked_dropout
from regard.models.linear import LinearSettings
from regard.models.pooling import POOLERS, AttentivePooler, Pooler, Pooling
from regard.models.settings import ModelSettings, WordVectorSettings, describe_layers
from regard.plugins import Registry


class TransformerEncoderSettings(backbone.LayerSettings, WordVectorSettings):
    """Settings of a Transformer encoder."""

    kind: Literal["transformer"] = "transformer"
    layers: int = Field(4, gt=0, description="number of layers")
    d_model: int = Field(256, gt=0, description="model size: width of the hidden states")
    num_heads: int = Field(
        4, gt=0, description="number of attention heads; must divide `d_model` unless `head_dim` is set"
    )
    d_ff: int = Field(1024, ge=0, description="hidden width of the feed-forward layers; 0: no feed-forward layers")
    activation: ActivationKind = Field("gelu", description=ACTIVATION)
    norm: Literal["post", "pre"] = Field(
        "pre", description="where to normalise: post (after the residual connection) or pre (before the sublayer)"
    )
    max_positions: int = Field(
        512, gt=0, description="only with learned positions: maximum length including special tokens"
    )
    pooling: Pooling = Field("mean", description="how to combine all token vectors into one vector")
    segments: int = Field(2, gt=0, description="number of segment (token type) embeddings")
    causal: bool = Field(
        False, description='a token attends to earlier tokens only, as in GPT; for classes, set `pooling = "last"`'
    )

    @model_validator(mode="after")
    def check_pooling(self) -> Self:
        if self.causal and self.pooling == "first":
            raise SettingError("pooling", 'the first token of a causal encoder sees no other token; write "last"')
        return self

    @property
    def supports_packing(self) -> bool:
        return self.fits_kernel

    @property
    def has_attention(self) -> bool:
        return self.self_attention

    @property
    def summary(self) -> str:
        name = Message("causal Transformer encoder") if self.causal else Message("Transformer encoder")
        layers = describe_layers(self.layers, self.num_heads, self.d_model)
        return join_messages(", ", [name, layers, find_message(f"{self.pooling} pooling"), *self.variations])


class TransformerEncoder(backbone.TransformerBackbone):
    """Token and segment embeddings, Transformer layers, pooling."""

    def __init__(self, settings: TransformerEncoderSettings, vocabulary: int) -> None:
        super().__init__()
        s = self.settings = settings
        self.window, self.causal = s.window, s.causal
        self.words = TokenEmbedding(vocabulary, s.d_model, scale=s.embedding_scale, frozen=s.freeze_embeddings)
        self.segments = TokenEmbedding(s.segments, s.d_model, scale=s.embedding_scale)
        self.positions = backbone.build_positions(s)
        self.combine = backbone.build_combine(s)
        self.dropout = nn.Dropout(s.dropout)
        build = backbone.LayerFactory(s, self.positions)
        self.layers = build.encoder_layers(s.layers, s.causal)
        self.norm = build.final_norm()
        self.pooler = POOLERS[s.pooling](s.d_model)
        self.apply(backbone.xavier)

    def forward(self, tokens: Tokens, segments: Tensor | None = None) -> Tensor:
        """Tokens, and the segment of each (*), 0 by default -> h (*, D)."""
        return self.encode(tokens, segments)

    def embed(self, tokens: Tokens, segments: Tensor | None = None) -> Tensor:
        """-> x (*, D)."""
        x = self.words(tokens.ids) + self.segments(torch.zeros_like(tokens.ids) if segments is None else segments)
        return self.dropout(self.combine(x, self.positions(tokens.layout.positions).to(x.dtype)))

    def final_norm(self, x: Tensor, layout: Layout) -> Tensor:
        return self.norm(x, layout)

    def pool(self, h: Tensor, layout: Layout) -> Tensor:
        """h (*, D) -> s (B, D)."""
        return self.pooler(h, layout)

    def attentions(self, tokens: Tokens, segments: Tensor | None = None) -> Attentions:
        """The attention weights of every layer and head for a padded batch, (B, layers, H, T, T)."""
        return Attentions(encoder=self.record_attention(tokens, segments))


class RecurrentBackboneSettings(ModelSettings):
    """Settings of all recurrent encoders."""

    cell: CellKind = Field("lstm", description=CELL)
    layers: int = Field(1, gt=0, description="number of recurrent layers, each bidirectional")
    d_model: int = Field(256, gt=0, description="width of the hidden states, half per direction")
    dropout: float = Field(0.3, ge=0, lt=1, description="dropout on the inputs and between layers")
    pooling: Pooling = Field("attention", description="how to combine all token vectors into one vector")

    @model_validator(mode="after")
    def check(self) -> Self:
        if self.d_model % 2:
            raise SettingError("d_model", f"d_model = {self.d_model} is odd, but each direction takes half of it")
        return self

    @property
    def has_attention(self) -> bool:
        return self.pooling == "attention"

    @property
    def layers_summary(self) -> str:
        values = {"layers": Count(self.layers), "cell": self.cell.upper(), "width": self.d_model}
        layers = Message("{layers:bidirectional {cell} layer}, width {width}", **values)
        return join_messages(", ", [layers, find_message(f"{self.pooling} pooling")])


class RecurrentEncoderSettings(RecurrentBackboneSettings, WordVectorSettings):
    """Settings of a bidirectional recurrent encoder."""

    kind: Literal["recurrent"] = "recurrent"
    segments: int = Field(2, gt=0, description="number of segment (token type) embeddings")

    @property
    def summary(self) -> str:
        return Message("recurrent encoder, {layers}", layers=self.layers_summary)


class RecurrentBackbone(nn.Module, ABC):
    """Base of recurrent encoders: inputs, bidirectional recurrent layers, pooling (Yang et al. 2016, section 2.2).

    Information passes between tokens through a state of fixed size, so it fades with their distance. Attentive pooling
    still sees every token, and its weights show which ones count.
    """

    rnn: Recurrent
    pooler: Pooler

    @abstractmethod
    def embed(self, tokens: Tokens, segments: Tensor | None = None) -> Tensor:
        """Padded tokens, and the segment of each (B, T), 0 by default -> x (B, T, I)."""

    def forward(self, tokens: Tokens, segments: Tensor | None = None) -> Tensor:
        """Padded tokens, and the segment of each (B, T), 0 by default -> h (B, T, D)."""
        assert isinstance(tokens.layout, Padded)
        return self.rnn(self.embed(tokens, segments), tokens.layout.lengths)[0]

    def pool(self, h: Tensor, layout: Layout) -> Tensor:
        """h (B, T, D) -> s (B, D)."""
        return self.pooler(h, layout)

    def hidden_states(self, tokens: Tokens, segments: Tensor | None = None) -> list[Tensor]:
        """The embeddings and the output of every layer, (B, T, D) each."""
        assert isinstance(tokens.layout, Padded)
        states = [self.embed(tokens, segments)]
        for number, layer in enumerate(self.rnn.layers):
            x = self.rnn.dropout(states[-1]) if number else states[-1]
            states.append(layer(x, tokens.layout.lengths)[0])
        return states

    @torch.no_grad()
    def attentions(self, tokens: Tokens, segments: Tensor | None = None) -> Attentions:
        """The weights of attentive pooling, as the one query of one head of one layer (B, 1, 1, 1, T)."""
        if not isinstance(self.pooler, AttentivePooler):
            return Attentions()
        weights = self.pooler.weights(self(tokens, segments), tokens.layout)  # (B, T)
        return Attentions(encoder=weights[:, None, None, None])


class RecurrentEncoder(RecurrentBackbone):
    """A recurrent encoder of token and segment embeddings."""

    def __init__(self, settings: RecurrentEncoderSettings, vocabulary: int) -> None:
        super().__init__()
        s = self.settings = settings
        self.words = TokenEmbedding(vocabulary, s.d_model, frozen=s.freeze_embeddings)
        self.segments = TokenEmbedding(s.segments, s.d_model)
        self.dropout = nn.Dropout(s.dropout)
        self.rnn = Recurrent(s.cell, s.d_model, s.d_model // 2, s.layers, "both", s.dropout)
        self.pooler = POOLERS[s.pooling](s.d_model)

    def embed(self, tokens: Tokens, segments: Tensor | None = None) -> Tensor:
        """-> x (B, T, D)."""
        segments = torch.zeros_like(tokens.ids) if segments is None else segments
        return self.dropout(self.words(tokens.ids) + self.segments(segments))


class LeftToRightSettings(RecurrentLanguageSettings):
    """Settings of the layers of a recurrent language model as a text encoder; its kind is that of the cell."""

    pooling: Pooling = Field("concat", description="how to combine all token vectors into one vector")

    def no_effect(self) -> Iterator[Unused]:
        yield from super().no_effect()
        yield from unless(False, 'task = "language"', "tie", "output_bias")

    @property
    def has_attention(self) -> bool:
        return self.pooling == "attention"

    @property
    def summary(self) -> str:
        values = {"layers": Count(self.layers), "cell": self.kind.upper(), "width": self.d_model}
        layers = Message("{layers:{cell} layer} from left to right, width {width}", **values)
        return join_messages(", ", [layers, find_message(f"{self.pooling} pooling")])


class LeftToRightEncoder(RecurrentReader, RecurrentBackbone):
    """The layers of a recurrent language model (ULMFiT, Howard & Ruder 2018); it has no segment embeddings."""

    settings: LeftToRightSettings

    def __init__(self, settings: LeftToRightSettings, vocabulary: int) -> None:
        super().__init__(settings, vocabulary)
        self.pooler = POOLERS[settings.pooling](settings.d_model)

    def embed(self, tokens: Tokens, segments: Tensor | None = None) -> Tensor:
        """-> x (B, T, E)."""
        return self.embedding(tokens.ids)

    def forward(self, tokens: Tokens, segments: Tensor | None = None) -> Tensor:
        """Padded tokens -> h (B, T, D); no token depends on the padding after it."""
        return locked_dropout(self.hidden_states(tokens)[-1], self.settings.output_dropout, self.training)

    def hidden_states(self, tokens: Tokens, segments: Tensor | None = None) -> list[Tensor]:
        return self.read(tokens.ids)[0]


class ElmoEncoderSettings(RecurrentBackboneSettings):
    """Settings of a recurrent encoder on features of a bidirectional language model, which `start_from` names."""

    kind: Literal["elmo"] = "elmo"
    language_layers: int = Field(2, gt=0, description="number of layers in the language model")
    language_width: int = Field(512, gt=0, description="`d_model` of the language model")

    @property
    def summary(self) -> str:
        return Message("recurrent encoder on features of a language model, {layers}", layers=self.layers_summary)


class ElmoEncoder(RecurrentBackbone):
    """A recurrent encoder of the weighted layers of a frozen language model; it has no segment embeddings."""

    def __init__(self, settings: ElmoEncoderSettings, vocabulary: int) -> None:
        super().__init__()
        s = self.settings = settings
        language = BidirectionalLanguageSettings(d_model=s.language_width, layers=s.language_layers)
        self.language = BidirectionalLanguageModel(language, vocabulary).requires_grad_(False)
        self.mix = WeightedLayers(s.language_layers + 1)
        self.dropout = nn.Dropout(s.dropout)
        self.rnn = Recurrent(s.cell, 2 * s.language_width, s.d_model // 2, s.layers, "both", s.dropout)
        self.pooler = POOLERS[s.pooling](s.d_model)

    def embed(self, tokens: Tokens, segments: Tensor | None = None) -> Tensor:
        """-> ELMo_i (B, T, 2 D of the language model)."""
        assert isinstance(tokens.layout, Padded)
        return self.dropout(self.mix(self.language.features(tokens.ids, tokens.layout.lengths)))


_Encoders = (
    Annotated[BertSettings, Tag("bert")]
    | Annotated[TransformerEncoderSettings, Tag("transformer")]
    | Annotated[RecurrentEncoderSettings, Tag("recurrent")]
    | Annotated[ElmoEncoderSettings, Tag("elmo")]
    | Annotated[LeftToRightSettings, Tag("rnn")]
    | Annotated[LeftToRightSettings, Tag("gru")]
    | Annotated[LeftToRightSettings, Tag("lstm")]
    | Annotated[LeftToRightSettings, Tag("rnn-sigmoid")]
    | Annotated[LeftToRightSettings, Tag("gru-cho")]
    | Annotated[LeftToRightSettings, Tag("flstm")]
    | Annotated[LeftToRightSettings, Tag("glstm-2")]
    | Annotated[LeftToRightSettings, Tag("glstm-4")]
    | Annotated[LeftToRightSettings, Tag("glstm-8")]
)
EncoderSettings = Annotated[_Encoders, by_kind("transformer")]
TextModelSettings = Annotated[_Encoders | Annotated[LinearSettings, Tag("linear")], by_kind("transformer")]
"""The model of a class or number for a text: a text encoder, or a linear model without one."""
TextEncoder = Bert | TransformerEncoder | RecurrentEncoder | ElmoEncoder | LeftToRightEncoder
"""A module with `forward` (h of all tokens), `pool` (one vector for the input), `hidden_states` and `attentions`."""
TEXT_ENCODERS: Registry[Callable[..., TextEncoder]] = Registry(
    "text encoder",
    {
        "bert": Bert,
        "transformer": TransformerEncoder,
        "recurrent": RecurrentEncoder,
        "elmo": ElmoEncoder,
        **dict.fromkeys(CELLS, LeftToRightEncoder),
    },
)
"""The encoder of each kind: `Encoder(settings, vocabulary size)`."""


def build_encoder(settings: ModelSettings, vocabulary: int) -> TextEncoder:
    """Build the encoder of these settings, with new weights, for a vocabulary of this size."""
    return TEXT_ENCODERS[settings.kind](settings, vocabulary)


class EncoderModel(nn.Module):
    """Base of the models with a text encoder and a head."""

    encoder: TextEncoder
    dropout: nn.Dropout
    head: nn.Module

    def layer_groups(self) -> list[list[nn.Parameter]]:
        """All parameters, from the output to the input: head and pooling, the layers from the last, the rest."""
        encoder = self.encoder
        tops = [self.head, encoder.pooler, *([encoder.norm] if isinstance(encoder, TransformerEncoder) else [])]
        stack = list(encoder.get_submodule("rnn.layers" if hasattr(encoder, "rnn") else "layers").children())
        groups = [[p for part in tops for p in part.parameters()], *(list(layer.parameters()) for layer in stack[::-1])]
        named = {id(parameter) for group in groups for parameter in group}
        return [*groups, [parameter for parameter in self.parameters() if id(parameter) not in named]]


class EncoderWithHead(EncoderModel):
    """A text encoder and a linear layer: one output for the input if `pooled`, otherwise one for each token."""

    head: nn.Linear

    def __init__(self, encoder: TextEncoder, outputs: int, pooled: bool, dropout: float) -> None:
        super().__init__()
        self.encoder, self.pooled = encoder, pooled
        self.dropout = nn.Dropout(dropout)
        parts = getattr(encoder.pooler, "parts", 1) if pooled else 1
        self.head = nn.Linear(parts * encoder.settings.d_model, outputs)
        truncated_normal(self.head)
        # An unused pooler must not require a gradient: distributed training waits for the gradients of all parameters.
        encoder.pooler.requires_grad_(pooled)

    def forward(
        self, tokens: Tokens, segments: Tensor | None = None, language: bool = False
    ) -> Tensor | tuple[Tensor, OutputProjection]:
        """Tokens, and the segment of each (*), 0 by default -> o: (B, outputs) if pooled, otherwise (*, outputs).

        With `language`, also the projection of h to the vocabulary by the token embeddings: a causal language model.
        """
        h = self.encoder(tokens, segments)  # (*, D)
        o = self.head(self.dropout(self.encoder.pool(h, tokens.layout) if self.pooled else h))
        if not language:
            return o
        assert isinstance(self.encoder, TransformerEncoder)
        return o, self.encoder.words.project(h)
