"""A trained Transformer laid out for decoding: the same answers, in fewer and larger operations.

    one product           for queries, keys and values; one for what all decoder layers ask of the memory
    weights transposed    once, to (in, out), the order in which the product reads them
    scales folded in      1 / sqrt(K) into the queries' weights
    a past that stays     where it was written while the search rearranges its hypotheses (prepared_past.py)
    no padding            but in the attention of the encoder, which needs rectangles

`regard.models.Transformer` is the page to read; this is that page rewritten for speed on the CPU, and tests hold the
two equal. Most weights are copied and some are shared with the model: train it further, and make another `Prepared`.

B sentences, W hypotheses, R = B * W rows, S source, D model, H heads, K head size, V vocabulary, L layers, N real
tokens; G trees of the past, which are B or R.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from regard.attention import Padded, Tokens
from regard.engines.prepared_parts import Linear, Looking, Norm, PositionTable, Thinking, attend, by_heads
from regard.engines.prepared_past import Past
from regard.layers.blocks import DecoderLayer, EncoderLayer
from regard.models import Transformer


class Crossing(Protocol):
    """The memory as one layer sees it."""

    def __call__(self, looking: Looking, x: Tensor) -> Tensor:
        """x (R, D) looks at the source, in the words of `looking` -> x (R, D)."""
        ...


@dataclass(frozen=True)
class Apart:
    """Keys (B * H, K, S), transposed already, values (B * H, S, K) and what is added to the scores (B * H, 1, S)."""

    sentences: int
    keys: Tensor
    values: Tensor
    mask: Tensor | None

    def __call__(self, looking: Looking, x: Tensor) -> Tensor:
        q = by_heads(looking.ask(x), self.sentences).select(0, 0)
        return looking.join(x, attend(q, self.keys, self.values, self.mask))


@dataclass(frozen=True)
class Absorbed:
    """The keys and values of one short sentence multiplied into the matrices around them.

    (x W_q) K^T = x (W_q K^T) and (p V) W_o = p (V W_o): for S < K the products in brackets, computed once, are smaller
    than the matrices they replace, and one sentence's steps take as long as their matrices take to be read.
    """

    asks: Tensor  # (D, H * S)
    bias: Tensor  # (H * S)
    gives: Tensor  # (H * S, D)

    @classmethod
    def of(cls, looking: Looking, keys: Tensor, values: Tensor) -> "Absorbed":
        """Keys (H, K, S) and values (H, S, K)."""
        heads = (looking.num_heads, looking.head_dim)
        asks = looking.project.weight.unflatten(1, heads).transpose(0, 1) @ keys  # (H, D, S)
        bias = looking.project.bias.view(*heads)[:, None] @ keys
        gives = values @ looking.output.weight.unflatten(0, heads)  # (H, S, D)
        return cls(asks.transpose(0, 1).flatten(1), bias.flatten(), gives.flatten(0, 1))

    def __call__(self, looking: Looking, x: Tensor) -> Tensor:
        scores = torch.addmm(self.bias, looking.around.into(x), self.asks)
        p = torch.softmax(scores.view(x.size(0), looking.num_heads, -1), dim=-1).view(scores.shape)
        return looking.around.join(x, torch.addmm(looking.output.bias, p, self.gives))


@dataclass(frozen=True)
class Memory:
    """What the decoder sees of the source: keys (L, B, H, K, S), transposed already, and values (L, B, H, S, K)."""

    keys: Tensor
    values: Tensor
    mask: Tensor | None  # (B, H, 1, S), minus infinity on padding; None where there is no padding

    def keep(self, sentences: Tensor) -> "Memory":
        if self.keys.size(1) == 1 and len(sentences) == 1:
            return self
        mask = None if self.mask is None else self.mask.index_select(0, sentences)
        return Memory(self.keys.index_select(1, sentences), self.values.index_select(1, sentences), mask)

    @cached_property
    def layers(self) -> Sequence[Crossing]:
        mask = None if self.mask is None else self.mask.flatten(0, 1)
        pairs = zip(self.keys.flatten(1, 2), self.values.flatten(1, 2), strict=True)
        return [Apart(self.keys.size(1), keys, values, mask) for keys, values in pairs]


@dataclass(frozen=True)
class ShortMemory(Memory):
    """That of one short sentence, with its layers multiplied out."""

    layers: Sequence[Crossing] = ()


@dataclass(frozen=True)
class PreparedState:
    """Between two steps: the source, the trees written so far, and how many tokens each hypothesis has."""

    memory: Memory
    past: Past
    length: int = 0

    def reorder(self, parents: Tensor) -> "PreparedState":
        """parents (B, W): hypothesis w of sentence b continues hypothesis parents[b, w].

        Hypotheses told apart before anything is written (samples) get a tree each; later ones are branches of one.
        """
        sentences, trees = len(parents), self.past.trees
        if not self.length:
            past = self.past.planted(parents.numel())
        elif trees == sentences:
            past = self.past.reorder(parents)
        else:
            first = torch.arange(0, trees, trees // sentences, device=parents.device)
            past = self.past.keep((first[:, None] + parents).flatten())
        return replace(self, past=past)

    def keep(self, sentences: Tensor) -> "PreparedState":
        """Only these sentences go on."""
        trees = torch.arange(self.past.trees, device=sentences.device).view(self.memory.keys.size(1), -1)
        past = self.past.keep(trees.index_select(0, sentences).flatten())
        return replace(self, memory=self.memory.keep(sentences), past=past)


class PreparedEncoderLayer:
    """Self-attention, feed-forward."""

    def __init__(self, layer: EncoderLayer) -> None:
        attention = layer.attention
        self.attention = Looking(attention, layer.around_attention, attention.key, attention.value)
        self.feedforward = Thinking(layer.feedforward, layer.around_feedforward)


class PreparedDecoderLayer:
    """Self-attention, attention to the memory, feed-forward."""

    def __init__(self, layer: DecoderLayer) -> None:
        attention = layer.attention
        self.attention = Looking(attention, layer.around_attention, attention.key, attention.value)
        self.cross_attention = Looking(layer.cross_attention, layer.around_cross_attention)
        self.feedforward = Thinking(layer.feedforward, layer.around_feedforward)


class Prepared:
    """A stepper made from a `Transformer`; any search, constraint or ensemble takes it in the model's place."""

    @torch.no_grad()
    def __init__(self, model: Transformer) -> None:
        self.num_heads, self.head_dim = model.settings.num_heads, model.settings.d_model // model.settings.num_heads
        self.scale = model.src_embedding.scale
        self.src_embedding, self.tgt_embedding = (
            model.src_embedding.weight.detach(),
            model.tgt_embedding.weight.detach(),
        )
        self.positions = PositionTable(model.positions, self.head_dim, like=self.tgt_embedding)
        self.encoder = [PreparedEncoderLayer(layer) for layer in model.encoder]
        self.decoder = [PreparedDecoderLayer(layer) for layer in model.decoder]
        self.encoder_norm, self.decoder_norm = Norm(model.encoder_norm), Norm(model.decoder_norm)
        crossing = [layer.cross_attention for layer in model.decoder]
        self.remember = Linear(*(linear for each in crossing for linear in (each.key, each.value)))
        self.output = model.output.weight.detach().t().contiguous()
        self.output_bias = None if model.output.bias is None else model.output.bias.detach()

    @torch.no_grad()
    def start(self, src: Tokens) -> PreparedState:
        """Read the source (padded) once; every step looks back at it."""
        assert isinstance(src.layout, Padded)
        sentences, size = src.ids.shape
        real = src.layout.real
        mask = None
        if not bool(real.all()):
            # A source without a word shows the zeros that fill it up, and attention to it gives zeros.
            hidden = ~real & real.any(dim=1, keepdim=True)
            mask = torch.zeros_like(real, dtype=self.output.dtype).masked_fill_(hidden, -torch.inf)
            mask = mask[:, None, None].expand(-1, self.num_heads, -1, -1).contiguous()
        rows = real.flatten().nonzero()[:, 0]
        x = self._encode(src.ids.flatten()[rows], rows, sentences, size, mask)
        padded = x.new_zeros(sentences * size, self.remember.bias.numel()).index_copy_(0, rows, self.remember(x))
        parts = padded.view(sentences, size, len(self.decoder), 2, self.num_heads, self.head_dim)
        keys = parts[:, :, :, 0].permute(2, 0, 3, 4, 1).contiguous()
        values = parts[:, :, :, 1].permute(2, 0, 3, 1, 4).contiguous()
        past = Past.empty(sentences, len(self.decoder), self.num_heads, self.head_dim, like=x)
        if sentences > 1 or size >= self.head_dim or mask is not None:
            return PreparedState(Memory(keys, values, mask), past)
        each = zip(self.decoder, keys[:, 0], values[:, 0], strict=True)
        absorbed = [Absorbed.of(layer.cross_attention, *pair) for layer, *pair in each]
        return PreparedState(ShortMemory(keys, values, mask, absorbed), past)

    def _encode(self, ids: Tensor, rows: Tensor, sentences: int, size: int, mask: Tensor | None) -> Tensor:
        """The source's real tokens ids (N,), which stand in `rows` (N,) of the padded rectangle -> memory (N, D)."""
        self.positions.reach(size)
        places = rows % size
        x = self.positions.embed(torch.embedding(self.src_embedding, ids), self.scale, places)
        padded = x.new_zeros(sentences * size, 3, self.num_heads, self.head_dim)
        mask = None if mask is None else mask.flatten(0, 1)
        for layer in self.encoder:
            qkv = layer.attention.ask(x)
            self.positions.turn(qkv, places)
            q, k, v = by_heads(padded.index_copy_(0, rows, qkv), sentences)
            k, v = k.transpose(2, 3).flatten(0, 1), v.flatten(0, 1)
            x = layer.attention.join(x, attend(q, k, v, mask).index_select(0, rows))
            x = layer.feedforward(x)
        return self.encoder_norm(x)

    @torch.no_grad()
    def step(self, tokens: Tensor, state: PreparedState) -> tuple[Tensor, PreparedState]:
        """The newest word of every hypothesis, (B, W) -> logits (B, W, V) of the next."""
        place, memory = state.length, state.memory
        self.positions.reach(place + 1)
        width = tokens.numel() // state.past.trees
        past = state.past.grown(width)
        past_mask = past.mask()
        x = self.positions.embed(torch.embedding(self.tgt_embedding, tokens.flatten()), self.scale, place)
        for layer, (keys, values, newest), crossing in zip(
            self.decoder, past.layers(width), memory.layers, strict=True
        ):
            qkv = layer.attention.ask(x)
            self.positions.turn(qkv, place)
            parts = by_heads(qkv, past.trees)
            newest.copy_(parts.narrow(0, 1, 2))
            x = layer.attention.join(x, attend(parts.select(0, 0), keys, values, past_mask))
            x = layer.feedforward(crossing(layer.cross_attention, x))
        logits = torch.mm(self.decoder_norm(x), self.output)
        if self.output_bias is not None:
            logits += self.output_bias
        return logits.view(*tokens.shape, -1), PreparedState(memory, past, place + 1)
