"""Recurrent sequence to sequence: Sutskever et al. 2014, Bahdanau et al. 2014, Luong et al. 2015.

    source tokens -> embedding -> encoder -> a vector for each token, and the initial state of the decoder
    target tokens -> embedding -> decoder, with or without attention to the source -> logits of the next token

The three differ in the decoder (recurrent_decoders.py) and in its attention (attention/recurrent_attention.py).
`forward` computes a whole target, `start` and `step` the same one token at a time; a test holds the two equal.

B sentences, W hypotheses, S source, T target, E embedding, D hidden, M memory, V vocabulary.
"""

from collections.abc import Iterator
from typing import Literal, Self

import torch
from pydantic import model_validator
from torch import Tensor, nn

from regard.attention.layouts import Attentions, Padded, Tokens
from regard.attention.recurrent_attention import build_source_attention
from regard.config import Field, SettingError, Unused, unless
from regard.layers.embeddings import OutputProjection, TokenEmbedding
from regard.layers.recurrent import CELL, CELLS, CellKind, Hidden, Recurrent, RecurrentStack
from regard.messages import Message, join_messages
from regard.models.backbone import ScoreKind
from regard.models.recurrent_decoders import (
    QUERIES,
    BahdanauDecoder,
    DecoderOutput,
    InputFeedingDecoder,
    LuongDecoder,
    NoAttentionDecoder,
    RecurrentDecoderState,
    glorot,
)
from regard.models.settings import TIE, ModelSettings, Tie

# What the papers trained: Sutskever et al. 2014, section 3.4; Bahdanau et al. 2014, appendix A; Luong et al. 2015,
# section 4.1, the best single system of table 1. A backward encoder is what the first and last call reversing.
STYLES: dict[str, dict[str, str | int | float]] = {
    "plain": dict(cell="lstm", layers=4, encoder="backward", d_embedding=1000, attention="none"),
    "bahdanau": dict(cell="gru", layers=1, encoder="both", d_embedding=620, score="additive", attention="global"),
    "luong": dict(
        cell="lstm", layers=4, encoder="backward", d_embedding=1000, score="general", attention="local-p",
        query="current", input_feeding=True, dropout=0.2,
    ),
}  # fmt: skip


class RecurrentSettings(ModelSettings):
    """Settings of a recurrent model. `decoder` sets the values of its paper; each of them can be set as well."""

    kind: Literal["recurrent"] = "recurrent"
    decoder: Literal["plain", "bahdanau", "luong"] = Field(
        "bahdanau",
        description="plain: no attention (Sutskever 2014); bahdanau: attention before the state update; luong: after "
        "it; each decoder sets the defaults of its paper",
    )
    cell: CellKind = Field("gru", description=CELL)
    layers: int = Field(1, gt=0, description="number of layers in the encoder, and in the decoder")
    encoder: Literal["forward", "backward", "both"] = Field("both", description="encoder direction")
    d_model: int = Field(1000, gt=0, description="width of the hidden states, per direction")
    d_embedding: int = Field(620, gt=0, description="width of the token embeddings")
    attention: Literal["none", "global", "local-m", "local-p", "hard-gumbel", "hard-reinforce"] = Field(
        "global", description='attention to the source; none: only with `decoder = "plain"`'
    )
    score: ScoreKind = Field("additive", description="attention score function for a decoder state and a source token")
    query: Literal["previous", "current"] = Field(
        "previous",
        description="decoder state that attends: previous (before the token; default for bahdanau) or current "
        "(after the token; default for luong)",
    )
    window: int = Field(10, gt=0, description="only with local attention: source tokens on each side of the centre")
    input_feeding: bool = Field(
        False, description='only with `decoder = "luong"`: feed the attentional vector into the next step'
    )
    dropout: float = Field(
        0.0, ge=0, lt=1, description="dropout on the embeddings, between layers and before the output projection"
    )
    tie: Tie = Field("none", description=TIE)

    def no_effect(self) -> Iterator[Unused]:
        yield from unless(self.attention != "none", 'attention other than "none"', "score", "query")
        yield from unless(self.attention.startswith("local"), 'attention = "local-m" or "local-p"', "window")

    @model_validator(mode="before")
    @classmethod
    def fill_from_style(cls, values: object) -> object:
        return STYLES.get(values.get("decoder", "bahdanau"), {}) | values if isinstance(values, dict) else values

    @model_validator(mode="after")
    def check(self) -> Self:
        if (self.decoder == "plain") != (self.attention == "none"):
            instead = (
                '`attention = "none"`' if self.decoder == "plain" else '`decoder = "plain"` or `attention = "global"`'
            )
            problem = f'`decoder = "{self.decoder}"` cannot have attention {self.attention}; write {instead}'
            raise SettingError("attention", problem)
        if self.decoder == "plain" and self.encoder == "both":
            problem = '`decoder = "plain"` needs an encoder with one direction, whose last state it starts from'
            raise SettingError("encoder", f'{problem}; write `encoder = "backward"`')
        if self.decoder == "bahdanau" and self.query == "current":
            problem = 'the state of `decoder = "bahdanau"` depends on the context'
            remedy = 'write `query = "previous"`, or compare both queries with `decoder = "luong"`'
            raise SettingError("query", f"{problem}, so the context cannot depend on this state; {remedy}")
        if self.input_feeding and self.decoder != "luong":
            problem = f'`input_feeding` needs `decoder = "luong"`, not {self.decoder}'
            raise SettingError("input_feeding", f"{problem}; write `input_feeding = false`")
        if self.encoder == "both" and self.score in ("dot", "scaled_dot", "cosine") and self.attention != "none":
            wider = "the states of encoder = both are twice as wide as those of the decoder"
            problem = f'`score = "{self.score}"` needs equal sizes, but {wider}'
            raise SettingError("score", f'{problem}; write `score = "general"`, or `encoder = "backward"`')
        return self

    @property
    def has_attention(self) -> bool:
        return self.attention != "none"

    @property
    def shared_vocabulary(self) -> bool:
        return self.tie == "all"

    @property
    def summary(self) -> str:
        values = dict(self) | {"cell": self.cell.upper(), "author": self.decoder.capitalize()}
        layers = Message("recurrent, {layers} + {layers} {cell} layers, width {d_model}", **values)
        if self.attention == "none":
            return join_messages(", ", [layers, Message("no attention")])
        return join_messages(", ", [layers, Message("{author}'s decoder, {score} {attention} attention", **values)])


class CopyState(nn.Module):
    """The decoder starts with the last state of the encoder, layer by layer (Sutskever et al. 2014, section 2)."""

    def forward(self, states: list[Hidden]) -> list[Hidden]:
        return states


class Bridge(nn.Module):
    """s_0 = tanh(W_s h_1), from the backward half of a bidirectional encoder (Bahdanau et al. 2014, A.2.2).

    The backward layer ends at the first token, so its last state has read the whole source. Each layer of the decoder
    starts with the state of the encoder layer of its own level; the c of an LSTM starts in the same way.
    """

    def __init__(self, cell: str, layers: int, d_model: int) -> None:
        super().__init__()
        self.num_states = CELLS[cell].num_states
        self.weights = nn.ModuleList(glorot(d_model, self.num_states * d_model) for _ in range(layers))

    def forward(self, states: list[Hidden]) -> list[Hidden]:
        """[forward h; backward h] (B, 2 D) of each layer -> (B, D)."""
        backward = [hidden[0].chunk(2, dim=-1)[1] for hidden in states]
        return [tuple(w(h).tanh().chunk(self.num_states, dim=-1)) for w, h in zip(self.weights, backward, strict=True)]


class RecurrentModel(nn.Module):
    def __init__(self, settings: RecurrentSettings, src_vocabulary: int, tgt_vocabulary: int) -> None:
        super().__init__()
        s = self.settings = settings
        if s.tie == "all" and src_vocabulary != tgt_vocabulary:
            raise ValueError("tie = all needs one shared vocabulary")
        self.tgt_embedding = TokenEmbedding(tgt_vocabulary, s.d_embedding)
        self.src_embedding = self.tgt_embedding if s.tie == "all" else TokenEmbedding(src_vocabulary, s.d_embedding)
        self.dropout = nn.Dropout(s.dropout)
        self.encoder = Recurrent(s.cell, s.d_embedding, s.d_model, s.layers, s.encoder, s.dropout)
        self.bridge = Bridge(s.cell, s.layers, s.d_model) if s.encoder == "both" else CopyState()
        self.decoder = build_decoder(s, self.encoder.output_size)
        # A tied output matrix has rows of width E: the decoder's output is projected to it.
        width = self.decoder.width if s.tie == "none" else s.d_embedding
        same = width == self.decoder.width
        self.output_projection = nn.Identity() if same else glorot(self.decoder.width, width, bias=False)
        self.output = TokenEmbedding(tgt_vocabulary, width) if s.tie == "none" else self.tgt_embedding

    def forward(self, src: Tokens, tgt: Tokens) -> OutputProjection:
        """Source and shifted target, padded -> projection of (B, T, *) to (B, T, V), with the samples of attention."""
        output = self.decode(src, tgt)
        samples = output.attention.samples if output.attention else None
        return OutputProjection(self.project(output), self.output.weight, samples=samples)

    def decode(self, src: Tokens, tgt: Tokens) -> DecoderOutput:
        """All positions of the target, each computed from the tokens before it."""
        return self.decoder(self.dropout(self.tgt_embedding(tgt.ids)), self.start(src))

    def project(self, output: DecoderOutput) -> Tensor:
        """The input of the output matrix, (B, T, *)."""
        return self.output_projection(self.dropout(output.x))

    def start(self, src: Tokens) -> RecurrentDecoderState:
        assert isinstance(src.layout, Padded)
        lengths = src.layout.lengths
        memory, states = self.encoder(self.dropout(self.src_embedding(src.ids)), lengths)  # (B, S, M)
        # In the precision of the memory, under autocast too: rounding errors of a state add up over all tokens.
        hidden = [tuple(tensor[:, None].to(memory.dtype) for tensor in layer) for layer in self.bridge(states)]
        return self.decoder.initial_state(hidden, memory, lengths)

    def step(self, tokens: Tensor, state: RecurrentDecoderState) -> tuple[Tensor, RecurrentDecoderState]:
        output, state = self.decoder.step(self.dropout(self.tgt_embedding(tokens)), state)
        return self.output.scores(self.project(output)), state

    @torch.no_grad()
    def attentions(self, src: Tokens, tgt: Tokens) -> Attentions:
        """The attention weights of every target position, as one head of one layer (B, 1, 1, T, S)."""
        attention = self.decode(src, tgt).attention
        return Attentions(cross=None if attention is None else attention.weights[:, None, None])


def build_decoder(s: RecurrentSettings, memory_size: int) -> NoAttentionDecoder:
    stack = RecurrentStack(s.cell, s.d_embedding, s.d_model, s.layers, s.dropout)
    if s.attention == "none":
        return NoAttentionDecoder(stack)
    attention = build_source_attention(s.score, s.attention, s.d_model, memory_size, s.d_model, s.window)
    if s.decoder == "bahdanau":
        return BahdanauDecoder(stack, attention, memory_size, s.d_embedding)
    return (InputFeedingDecoder if s.input_feeding else LuongDecoder)(stack, attention, memory_size, QUERIES[s.query])
