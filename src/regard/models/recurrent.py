"""Recurrent sequence to sequence: from Sutskever et al. 2014 over Bahdanau et al. 2014 to Luong et al. 2015.

    source words -> embedding -> encoder -> a vector for each word, and the state the decoder begins with
    target words -> embedding -> decoder, with or without looking at the source -> scores of the next word

What sets the three apart is the decoder (recurrent_decoders.py), which is a part, as is the look it takes at the source
(attention/glance.py). `forward` writes a whole target, `start` and `step` the same one word at a time; a test holds the
two equal.

B sentences, W hypotheses, S source, T target, E embedding, D hidden, M memory, V vocabulary.
"""

import torch
from torch import Tensor, nn

from regard.attention.layouts import Padded, Tokens
from regard.attention.recurrent_attention import build_source_attention
from regard.layers.embeddings import OutputProjection, TokenEmbedding
from regard.layers.recurrent import CELLS, Hidden, Recurrent, RecurrentStack
from regard.models.attentions import Attentions
from regard.models.recurrent_decoders import (
    BahdanauDecoder,
    DecoderOutput,
    InputFeedingDecoder,
    LuongDecoder,
    NoAttentionDecoder,
    RecurrentDecoderState,
    glorot,
)
from regard.models.recurrent_settings import RecurrentSettings

__all__ = ["RecurrentDecoderState", "RecurrentModel", "RecurrentSettings"]


class CopyState(nn.Module):
    """The decoder goes on from where the encoder stopped, layer by layer (Sutskever et al. 2014, section 2)."""

    def forward(self, kept: list[Hidden]) -> list[Hidden]:
        return kept


class Bridge(nn.Module):
    """s_0 = tanh(W_s h_1), from the leftward half of an encoder that read both ways (Bahdanau et al. 2014, A.2.2).

    The leftward layer ends at the first word, so its last state has read the whole source and the beginning last.
    Each layer of the decoder begins with that of its own level; an LSTM's c is begun in the same way.
    """

    def __init__(self, cell: str, layers: int, d_model: int) -> None:
        super().__init__()
        self.kept = CELLS[cell].kept
        self.weights = nn.ModuleList(glorot(d_model, self.kept * d_model) for _ in range(layers))

    def forward(self, kept: list[Hidden]) -> list[Hidden]:
        """(h_rightward; h_leftward) (B, 2 D) of each layer -> (B, D)."""
        backward_layer = [hidden[0].chunk(2, dim=-1)[1] for hidden in kept]
        return [tuple(w(h).tanh().chunk(self.kept, dim=-1)) for w, h in zip(self.weights, backward_layer, strict=True)]


class RecurrentModel(nn.Module):
    """Encoder, decoder and the matrices between words and vectors."""

    def __init__(self, settings: RecurrentSettings, src_vocabulary: int, tgt_vocabulary: int) -> None:
        super().__init__()
        s = self.settings = settings
        if s.tie == "all" and src_vocabulary != tgt_vocabulary:
            raise ValueError("tie = all needs one joint vocabulary")
        self.tgt_embedding = TokenEmbedding(tgt_vocabulary, s.d_embedding)
        self.src_embedding = self.tgt_embedding if s.tie == "all" else TokenEmbedding(src_vocabulary, s.d_embedding)
        self.dropout = nn.Dropout(s.dropout)
        self.encoder = Recurrent(s.cell, s.d_embedding, s.d_model, s.layers, s.encoder, s.dropout)
        self.bridge = Bridge(s.cell, s.layers, s.d_model) if s.encoder == "both" else CopyState()
        self.decoder = decoder(s, self.encoder.output_size)
        # A tied matrix has rows of width E: what words are read from is brought to it.
        width = self.decoder.width if s.tie == "none" else s.d_embedding
        self.output_projection = (
            nn.Identity() if width == self.decoder.width else glorot(self.decoder.width, width, bias=False)
        )
        self.output = TokenEmbedding(tgt_vocabulary, width) if s.tie == "none" else self.tgt_embedding

    def forward(self, src: Tokens, tgt: Tokens) -> OutputProjection:
        """Source and shifted target, padded -> projection of (B, T, *) to (B, T, V), with the samples of attention."""
        output = self.write(src, tgt)
        samples = output.attention.samples if output.attention else None
        return OutputProjection(self.last(output), self.output.weight, samples=samples)

    def write(self, src: Tokens, tgt: Tokens) -> DecoderOutput:
        """Every position of the target, each knowing the words before it."""
        return self.decoder(self.dropout(self.tgt_embedding(tgt.ids)), self.start(src))

    def last(self, written: DecoderOutput) -> Tensor:
        """To be compared with each word's row of the output matrix."""
        return self.output_projection(self.dropout(written.x))

    def start(self, src: Tokens) -> RecurrentDecoderState:
        """Read the source; nothing is written yet."""
        assert isinstance(src.layout, Padded)
        lengths = src.layout.lengths
        memory, kept = self.encoder(self.dropout(self.src_embedding(src.ids)), lengths)
        # In the memory's precision under autocast too: a state is added to at every word and must not lose the small.
        hidden = [tuple(part[:, None].to(memory.dtype) for part in layer) for layer in self.bridge(kept)]
        return self.decoder.initial_state(hidden, memory, lengths)

    def step(self, tokens: Tensor, state: RecurrentDecoderState) -> tuple[Tensor, RecurrentDecoderState]:
        """The newest word of every hypothesis, (B, W) -> logits (B, W, V) of the next."""
        written, state = self.decoder.step(self.dropout(self.tgt_embedding(tokens)), state)
        return self.output.scores(self.last(written)), state

    @torch.no_grad()
    def attentions(self, src: Tokens, tgt: Tokens) -> Attentions:
        """Where each word of the target looked, as the one head of one layer (B, 1, 1, T, S)."""
        attention = self.write(src, tgt).attention
        return Attentions(cross=None if attention is None else attention.weights[:, None, None])


def decoder(s: RecurrentSettings, memory_size: int) -> NoAttentionDecoder:
    """The decoder the settings name."""
    stack = RecurrentStack(s.cell, s.d_embedding, s.d_model, s.layers, s.dropout)
    if s.attention == "none":
        return NoAttentionDecoder(stack)
    source_attention = build_source_attention(s.score, s.attention, s.d_model, memory_size, s.d_model, s.window)
    if s.decoder == "bahdanau":
        return BahdanauDecoder(stack, source_attention, memory_size, s.d_embedding)
    return (InputFeedingDecoder if s.input_feeding else LuongDecoder)(stack, source_attention, memory_size)
