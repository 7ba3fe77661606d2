"""A Transformer that predicts any masked tokens of a translation at once (Ghazvininejad et al. 2019, "Mask-Predict").

    P(Y_mask | X, Y_obs) = product over i in Y_mask of P(y_i | X, Y_obs)

Given the source X and the observed tokens Y_obs, all masked tokens are predicted together and independently. The
Transformer needs two changes:

    decoder   no causal mask: every position attends to all positions (section 2.1)
    encoder   a LENGTH token before the source; its output predicts the number of target tokens (section 2.3), because
              a model that predicts all tokens at once cannot wait for an end symbol

The target is Y and its end symbol. The end symbol is never masked: it tells the decoder where the text ends. The caller
chooses the symbol of masked positions; it must not occur in a text.

B sentences, S source, T target with its end symbol, D model, V vocabulary, L lengths; `*` is (B, T) padded or (N,)
packed, with space for B sentences.
"""

from typing import Literal, NamedTuple, Self

import torch
import torch.nn.functional as F
from pydantic import model_validator
from torch import Tensor, nn

from regard.attention.layouts import Attentions, Packed, Padded, RecordingPattern, Tokens
from regard.config import Field, SettingError
from regard.layers.embeddings import OutputProjection, TokenEmbedding
from regard.messages import Message
from regard.models.transformer import Transformer, TransformerSettings

Index = Tensor | tuple[slice, slice | int]
LENGTH = -1
"""The id of the LENGTH token in a source; no vocabulary has it."""


class MaskedSettings(TransformerSettings):
    """Settings of a masked Transformer."""

    kind: Literal["mask-predict"] = "mask-predict"  # type: ignore[assignment]
    max_length: int = Field(512, gt=1, description="maximum length of a translation, including the end symbol")

    @model_validator(mode="after")
    def check_positions(self) -> Self:
        if self.positions == "none":
            problem = "positions = none gives all masked tokens the same prediction; choose a different value"
            raise SettingError("positions", problem)
        if self.decoder_layer != "attention":
            problem = 'a masked decoder reads the whole target, which only attention can; write "attention"'
            raise SettingError("decoder_layer", problem)
        return self

    @property
    def supports_packing(self) -> bool:
        """Not with batch norm: in a stream the unused capacity has LENGTH tokens too (`packed_with_length`)."""
        return super().supports_packing and self.norm_kind != "batch"

    @property
    def length_limit(self) -> int:
        """`max_length`; learned positions also hold the LENGTH token."""
        return self.max_length if self.positions != "learned" else min(self.max_length, self.max_positions - 1)

    @property
    def length_setting(self) -> str:
        return "max_length" if self.length_limit == self.max_length else "max_positions"

    @property
    def summary(self) -> str:
        return Message("masked {model}", model=super().summary)


class LengthAwareEmbedding(nn.Module):
    """A token embedding that also embeds the LENGTH token.

    Row n of `lengths` (L, D) is the output vector of a length of n tokens. No text has a length of 0, so row 0 is the
    embedding of the LENGTH token.
    """

    def __init__(self, words: TokenEmbedding, lengths: TokenEmbedding) -> None:
        super().__init__()
        self.words, self.lengths = words, lengths

    def forward(self, ids: Tensor) -> Tensor:
        """ids (*) -> (*, D)."""
        token = self.lengths(ids.new_zeros(()))  # (D,)
        return torch.where((ids == LENGTH)[..., None], token, self.words(ids.clamp(min=0)))


class MaskedTransformer(nn.Module):
    """A Transformer whose decoder attends to the whole target and whose encoder predicts the length of the target."""

    def __init__(self, settings: MaskedSettings, src_vocabulary: int, tgt_vocabulary: int) -> None:
        super().__init__()
        self.settings = settings
        self.transformer = Transformer(settings, src_vocabulary, tgt_vocabulary)
        self.lengths = TokenEmbedding(settings.max_length, settings.d_model, scale=settings.embedding_scale)
        self.transformer.src_embedding = LengthAwareEmbedding(self.transformer.src_embedding, self.lengths)  # type: ignore[assignment]

    def forward(self, src: Tokens, tgt: Tokens) -> tuple[OutputProjection, OutputProjection]:
        """Source and partly masked target in the same layout -> projections to the tokens (*, V) and to their number
        (B, L)."""
        memory, length = self.encode(src)
        x = self.decode(tgt, memory, src)
        return self.transformer.output.project(x), self.lengths.project(length)

    def encode(self, src: Tokens) -> tuple[Tensor, Tensor]:
        """-> memory (*, D), and the output of each LENGTH token (B, D)."""
        headed, words, lengths = with_length(src)
        x = self.transformer.encode(headed, headed.layout.pattern(headed.layout, window=self.settings.window))
        return x[words], x[lengths]

    def decode(self, tgt: Tokens, memory: Tensor, src: Tokens) -> Tensor:
        """-> hidden states (*, D), the input of the output projection."""
        pattern = tgt.layout.pattern(tgt.layout, window=self.settings.window)
        return self.transformer.decode(tgt, memory, pattern, tgt.layout.pattern(src.layout))

    def predict(self, tgt: Tokens, memory: Tensor, src: Tokens) -> Tensor:
        """-> logits (*, V) of every position."""
        return self.transformer.output.scores(self.decode(tgt, memory, src))

    def predict_length(self, length: Tensor) -> Tensor:
        """The LENGTH token's output (B, D) -> logits (B, L) of the number of tokens without the end symbol."""
        return self.lengths.scores(length)

    @torch.no_grad()
    def attentions(self, src: Tokens, tgt: Tokens) -> Attentions:
        """The attention weights for a padded batch. The first source position is the LENGTH token; the decoder does not
        attend to it, so its weight there is 0."""
        headed, words, _ = with_length(src)
        assert isinstance(headed.layout, Padded) and isinstance(src.layout, Padded) and isinstance(tgt.layout, Padded)
        window = self.settings.window
        encoder = RecordingPattern(headed.layout, headed.layout, causal=False, window=window)
        decoder = RecordingPattern(tgt.layout, tgt.layout, causal=False, window=window)
        cross = RecordingPattern(tgt.layout, src.layout, causal=False)
        memory = self.transformer.encode(headed, encoder)[words]
        self.transformer.decode(tgt, memory, decoder, cross)
        return Attentions(encoder.stacked_or_none(), decoder.stacked_or_none(), F.pad(cross.stacked(), (1, 0)))


class SourceWithLengthToken(NamedTuple):
    """A source with the LENGTH token before every sentence, and the indices of tokens and LENGTH tokens in it."""

    tokens: Tokens
    words: Index
    lengths: Index


def with_length(src: Tokens) -> SourceWithLengthToken:
    """Insert the LENGTH token before every sentence."""
    if isinstance(src.layout, Packed):
        return packed_with_length(src.ids, src.layout)
    assert isinstance(src.layout, Padded)
    tokens = Padded.of(F.pad(src.ids, (1, 0), value=LENGTH), src.layout.lengths + 1)
    return SourceWithLengthToken(tokens, (slice(None), slice(1, None)), (slice(None), 0))


def packed_with_length(ids: Tensor, layout: Packed) -> SourceWithLengthToken:
    """Insert the LENGTH tokens into a stream: the tokens of sentence b move by b + 1 positions.

    Unused capacity for sentences gets a LENGTH token too, so that the stream always grows by the same number; the
    padding moves to the end, to one more sentence without tokens.
    """
    sentences = torch.arange(len(layout.offsets) - 1, device=ids.device)
    indices = torch.arange(len(ids), device=ids.device)
    rows = layout.rows.masked_fill(indices >= layout.offsets[-1], len(sentences))
    words = indices + (rows + 1).clamp(max=len(sentences))
    lengths = layout.offsets[:-1] + sentences
    size = len(ids) + len(sentences)
    positions = ids.new_zeros(size).scatter(0, words, layout.positions + 1)
    owners = ids.new_zeros(size).scatter(0, words, rows).scatter(0, lengths, sentences)
    ends = F.pad((layout.offsets[1:] + sentences + 1).to(torch.int32), (1, 0))
    stream = torch.full_like(owners, LENGTH).scatter(0, words, ids)
    return SourceWithLengthToken(
        Tokens(stream, Packed(torch.cat([ends, ends[-1:]]), owners, positions)), words, lengths
    )
