"""A Transformer that fills in any words of a translation at once (Ghazvininejad et al. 2019, "Mask-Predict").

    P(Y_mask | X, Y_obs) = product over i in Y_mask of P(y_i | X, Y_obs)

Given the source X and the words Y_obs that can be seen, all masked words are predicted together, each as if the others
were not there. The Transformer needs two changes for it:

    decoder   no causal mask: every place sees all places, before it and behind it (section 2.1)
    encoder   reads a LENGTH token before the source, and its output says how many words to write (section 2.3):
              who writes all words at once cannot wait for an end symbol

The target is Y and its end symbol. The end symbol is never masked: it tells the decoder where the text ends. Which
symbol stands in masked places is for the caller to say, as long as it never occurs in a text.

B sentences, S source, T target with its end symbol, D model, V vocabulary, L lengths; `*` is (B, T) padded or (N,)
packed, with room for B sentences.
"""

from typing import Any, Literal, NamedTuple, Self

import torch
import torch.nn.functional as F
from pydantic import model_validator
from torch import Tensor, nn

from regard.attention.layouts import Packed, Padded, RecordingPattern, Tokens
from regard.config import Field
from regard.layers.embeddings import OutputProjection, TokenEmbedding
from regard.models.attentions import Attentions
from regard.models.transformer import Transformer
from regard.models.transformer_settings import TransformerSettings

LENGTH = -1
"""The LENGTH token among the ids of a source: a number that no vocabulary has."""


class MaskedSettings(TransformerSettings):
    """The shape of the Transformer, and how long a translation may be."""

    kind: Literal["masked"] = "masked"  # type: ignore[assignment]
    max_length: int = Field(
        512, gt=1, description="longest translation, end symbol included, whose length can be predicted"
    )

    @model_validator(mode="after")
    def tell_masks_apart(self) -> Self:
        if self.positions == "none":
            raise ValueError("positions = none makes all masked words the same word; choose another kind of positions")
        return self

    @property
    def length_limit(self) -> int:
        """The LENGTH token takes one of the source's positions."""
        return self.max_length if self.positions != "learned" else min(self.max_length, self.max_positions - 1)

    @property
    def length_setting(self) -> str:
        return "max_length" if self.length_limit == self.max_length else "max_positions"

    @property
    def summary(self) -> str:
        return f"masked {super().summary}"


class LengthAwareEmbedding(nn.Module):
    """An embedding of words that knows the LENGTH token too.

    Row n of `lengths` (L, D) is what the LENGTH token must come out as to announce n words. A text of none is not
    translated, so row 0 is free to be what the LENGTH token goes in as.
    """

    def __init__(self, words: TokenEmbedding, lengths: TokenEmbedding) -> None:
        super().__init__()
        self.words, self.lengths = words, lengths

    def forward(self, ids: Tensor) -> Tensor:
        """ids (*) -> (*, D)."""
        token = self.lengths(ids.new_zeros(()))  # (D,)
        return torch.where((ids == LENGTH)[..., None], token, self.words(ids.clamp(min=0)))


class MaskedTransformer(nn.Module):
    """A Transformer whose decoder sees the whole target, and whose encoder announces the target's length."""

    def __init__(self, settings: MaskedSettings, src_vocabulary: int, tgt_vocabulary: int) -> None:
        super().__init__()
        self.settings = settings
        self.transformer = Transformer(settings, src_vocabulary, tgt_vocabulary)
        self.lengths = TokenEmbedding(settings.max_length, settings.d_model)
        self.transformer.src_embedding = LengthAwareEmbedding(self.transformer.src_embedding, self.lengths)  # type: ignore[assignment]

    def forward(self, src: Tokens, tgt: Tokens) -> tuple[OutputProjection, OutputProjection]:
        """Source and partly masked target in the same layout -> projections to the words (*, V) and to their number
        (B, L)."""
        memory, length = self.encode(src)
        x = self.decode(tgt, memory, src)
        return self.transformer.output.project(x), self.lengths.project(length)

    def encode(self, src: Tokens) -> tuple[Tensor, Tensor]:
        """-> memory (*, D), and what became of each LENGTH token (B, D)."""
        headed, words, lengths = with_length(src)
        x = self.transformer.encode(headed, headed.layout.pattern(headed.layout, window=self.settings.window))
        return x[words], x[lengths]

    def decode(self, tgt: Tokens, memory: Tensor, src: Tokens) -> Tensor:
        """-> (*, D), to be compared with each word's row of the output matrix."""
        pattern = tgt.layout.pattern(tgt.layout, window=self.settings.window)
        return self.transformer.decode(tgt, memory, pattern, tgt.layout.pattern(src.layout))

    def predict(self, tgt: Tokens, memory: Tensor, src: Tokens) -> Tensor:
        """-> logits (*, V) of the word in every place."""
        return self.transformer.output.scores(self.decode(tgt, memory, src))

    def predict_length(self, length: Tensor) -> Tensor:
        """The LENGTH token's output (B, D) -> logits (B, L) of the number of words, the end symbol not counted."""
        return self.lengths.scores(length)

    @torch.no_grad()
    def attentions(self, src: Tokens, tgt: Tokens) -> Attentions:
        """What attended to what, in a padded batch. The first place of the source is the LENGTH token: words and token
        see each other in the encoder; to the decoder it is not shown, so its weight there is 0."""
        headed, words, _ = with_length(src)
        assert isinstance(headed.layout, Padded) and isinstance(src.layout, Padded) and isinstance(tgt.layout, Padded)
        window = self.settings.window
        patterns = (
            RecordingPattern(headed.layout, headed.layout, causal=False, window=window),
            RecordingPattern(tgt.layout, tgt.layout, causal=False, window=window),
            RecordingPattern(tgt.layout, src.layout, causal=False),
        )
        memory = self.transformer.encode(headed, patterns[0])[words]
        self.transformer.decode(tgt, memory, patterns[1], patterns[2])
        encoder, decoder, cross = (torch.stack(pattern.weights, dim=1) for pattern in patterns)
        return Attentions(encoder, decoder, F.pad(cross, (1, 0)))


class SourceWithLengthToken(NamedTuple):
    """A source with the LENGTH token before every sentence, and where words and LENGTH tokens stand in it."""

    tokens: Tokens
    words: Any
    lengths: Any


def with_length(src: Tokens) -> SourceWithLengthToken:
    """Put the LENGTH token before every sentence."""
    if isinstance(src.layout, Packed):
        return packed_with_length(src.ids, src.layout)
    assert isinstance(src.layout, Padded)
    tokens = Padded.of(F.pad(src.ids, (1, 0), value=LENGTH), src.layout.lengths + 1)
    return SourceWithLengthToken(tokens, (slice(None), slice(1, None)), (slice(None), 0))


def packed_with_length(ids: Tensor, layout: Packed) -> SourceWithLengthToken:
    """The same in a stream: what stands in sentence b moves on by b + 1 places.

    Room for sentences that is not taken gets a LENGTH token too, so that the stream always grows by as much; what fills
    it up goes to the end, to one more sentence without tokens.
    """
    sentences = torch.arange(len(layout.offsets) - 1, device=ids.device)
    places = torch.arange(len(ids), device=ids.device)
    rows = layout.rows.masked_fill(places >= layout.offsets[-1], len(sentences))
    words = places + (rows + 1).clamp(max=len(sentences))
    lengths = layout.offsets[:-1] + sentences
    size = len(ids) + len(sentences)
    positions = ids.new_zeros(size).scatter(0, words, layout.positions + 1)
    owners = ids.new_zeros(size).scatter(0, words, rows).scatter(0, lengths, sentences)
    ends = F.pad((layout.offsets[1:] + sentences + 1).to(torch.int32), (1, 0))
    stream = torch.full_like(owners, LENGTH).scatter(0, words, ids)
    return SourceWithLengthToken(
        Tokens(stream, Packed(torch.cat([ends, ends[-1:]]), owners, positions)), words, lengths
    )
