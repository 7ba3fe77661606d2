"""A Transformer that fills in any words of a translation at once (Ghazvininejad et al. 2019, "Mask-Predict").

    P(Y_mask | X, Y_obs) = product over i in Y_mask of P(y_i | X, Y_obs)

Given the source X and the words Y_obs that can be seen, all masked words are predicted together, each as if the others
were not there. The Transformer needs two changes for it:

    decoder   no causal mask: every place sees all places, before it and behind it (section 2.1)
    encoder   reads a LENGTH token before the source, and its output says how many words to write (section 2.3):
              who writes all words at once cannot wait for an end symbol

The target is Y and its end symbol. The end symbol is never masked: it tells the decoder where the text ends. Which
symbol stands in masked places is for the caller to say, as long as it never occurs in a text.

B sentences, S source, T target with its end symbol, D model, V vocabulary, L lengths.
"""

from typing import Any, Literal, Self

import torch
import torch.nn.functional as F
from pydantic import model_validator
from torch import Tensor, nn

from regard.attention import Padded, Tokens, Watched
from regard.config import Field
from regard.layers.embeddings import TokenEmbedding
from regard.models.attentions import Attentions
from regard.models.transformer import Transformer, TransformerSettings


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
    def longest(self) -> int:
        """The LENGTH token takes one of the source's positions."""
        return self.max_length if self.positions != "learned" else min(self.max_length, self.max_positions - 1)

    @property
    def packs(self) -> bool:
        return False

    @property
    def summary(self) -> str:
        return f"masked {super().summary}"


class LengthFirst(nn.Module):
    """An embedding that puts the LENGTH token before the words.

    Row n of `lengths` (L, D) is what the LENGTH token must come out as to announce n words. No text has none, so row 0
    is free to be the LENGTH token itself.
    """

    def __init__(self, words: TokenEmbedding, lengths: TokenEmbedding) -> None:
        super().__init__()
        self.words, self.lengths = words, lengths

    def forward(self, ids: Tensor) -> Tensor:
        """ids (B, S) -> (B, 1 + S, D)."""
        return torch.cat([self.lengths(torch.zeros_like(ids[:, :1])), self.words(ids)], dim=1)


class MaskedTransformer(nn.Module):
    """A Transformer whose decoder sees the whole target, and whose encoder announces the target's length."""

    def __init__(self, settings: MaskedSettings, src_vocabulary: int, tgt_vocabulary: int) -> None:
        super().__init__()
        self.settings = settings
        self.transformer = Transformer(settings, src_vocabulary, tgt_vocabulary)
        self.lengths = TokenEmbedding(settings.max_length, settings.d_model)
        self.transformer.src_embedding = LengthFirst(self.transformer.src_embedding, self.lengths)  # type: ignore[assignment]

    def forward(
        self, src: Tokens, tgt: Tokens, read_out: Any = F.linear, read_length: Any = F.linear
    ) -> tuple[Any, Any]:
        """Source and partly masked target, padded -> logits of the words (B, T, V) and of their number (B, L).

        Or what `read_out` makes of (B, T, D), (V, D) and `read_length` of (B, D), (L, D).
        """
        memory, length = self.encode(src)
        x = self.decode(tgt, memory, src)
        return read_out(x, self.transformer.output.weight), read_length(length, self.lengths.weight)

    def encode(self, src: Tokens) -> tuple[Tensor, Tensor]:
        """-> memory (B, S, D), and what became of the LENGTH token (B, D)."""
        headed = with_length(src)
        x = self.transformer.encode(headed, headed.layout.sees(headed.layout, window=self.settings.window))
        return x[:, 1:], x[:, 0]

    def decode(self, tgt: Tokens, memory: Tensor, src: Tokens) -> Tensor:
        """-> (B, T, D), to be compared with each word's row of the output matrix."""
        sight = tgt.layout.sees(tgt.layout, window=self.settings.window)
        return self.transformer.decode(tgt, memory, sight, tgt.layout.sees(src.layout))

    def predict(self, tgt: Tokens, memory: Tensor, src: Tokens) -> Tensor:
        """-> logits (B, T, V) of the word in every place."""
        return self.transformer.output.scores(self.decode(tgt, memory, src))

    def predict_length(self, length: Tensor) -> Tensor:
        """The LENGTH token's output (B, D) -> logits (B, L) of the number of words, the end symbol not counted."""
        return self.lengths.scores(length)

    @torch.no_grad()
    def attentions(self, src: Tokens, tgt: Tokens) -> Attentions:
        """What attended to what, in a padded batch. The first place of the source is the LENGTH token: words and token
        see each other in the encoder; to the decoder it is not shown, so its weight there is 0."""
        headed = with_length(src)
        assert isinstance(headed.layout, Padded) and isinstance(src.layout, Padded) and isinstance(tgt.layout, Padded)
        window = self.settings.window
        sights = (
            Watched(headed.layout, headed.layout, causal=False, window=window),
            Watched(tgt.layout, tgt.layout, causal=False, window=window),
            Watched(tgt.layout, src.layout, causal=False),
        )
        memory = self.transformer.encode(headed, sights[0])[:, 1:]
        self.transformer.decode(tgt, memory, sights[1], sights[2])
        encoder, decoder, cross = (torch.stack(sight.weights, dim=1) for sight in sights)
        return Attentions(encoder, decoder, F.pad(cross, (1, 0)))


def with_length(src: Tokens) -> Tokens:
    """The source with one more place at its beginning, which `LengthFirst` fills."""
    assert isinstance(src.layout, Padded), "the LENGTH token is put before padded sentences"
    return Tokens(src.ids, Padded(src.layout.lengths + 1, src.layout.size + 1))
