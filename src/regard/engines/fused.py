"""A trained Transformer laid out for decoding: the same answers, in fewer and larger operations.

    one product           for queries, keys and values; one for what all decoder layers ask of the memory
    weights transposed    once, to (in, out), the order in which the product reads them
    scales folded in      1 / sqrt(K) into the queries' weights
    a past that stays     where it was written while the search rearranges its hypotheses (prepared_past.py)
    no padding            but in the attention of the encoder, which needs rectangles

`regard.models.Transformer` is the page to read; this is that page rewritten for speed on the CPU, and tests hold the
two equal. Most weights are copied and some are shared with the model: after further training, build a
new `FusedTransformer`.

B sentences, W hypotheses, R = B * W rows, S source, D model, H heads, K head size, V vocabulary, L layers, N real
tokens; G trees of the past, which are B or R.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from regard.attention.layouts import Padded, Tokens
from regard.engines.fused_layers import (
    FusedAttention,
    FusedFeedForward,
    Linear,
    Norm,
    PositionTable,
    attend,
    split_heads,
)
from regard.engines.tree_cache import TreeKVCache
from regard.layers.blocks import DecoderLayer, EncoderLayer
from regard.models.transformer import Transformer


class CrossAttention(Protocol):
    """The memory as one layer sees it."""

    def __call__(self, attention: FusedAttention, x: Tensor) -> Tensor:
        """x (R, D) looks at the source, in the words of `attention` -> x (R, D)."""
        ...


@dataclass(frozen=True)
class SeparateKV:
    """Keys (B * H, K, S), transposed already, values (B * H, S, K) and what is added to the scores (B * H, 1, S)."""

    sentences: int
    keys: Tensor
    values: Tensor
    mask: Tensor | None

    def __call__(self, attention: FusedAttention, x: Tensor) -> Tensor:
        q = split_heads(attention.project_heads(x), self.sentences).select(0, 0)
        return attention.post(x, attend(q, self.keys, self.values, self.mask))


@dataclass(frozen=True)
class FoldedKV:
    """The keys and values of one short sentence multiplied into the matrices around them.

    (x W_q) K^T = x (W_q K^T) and (p V) W_o = p (V W_o): for S < K the products in brackets, computed once, are smaller
    than the matrices they replace, and one sentence's steps take as long as their matrices take to be read.
    """

    query_keys: Tensor  # (D, H * S)
    bias: Tensor  # (H * S)
    value_outputs: Tensor  # (H * S, D)

    @classmethod
    def of(cls, attention: FusedAttention, keys: Tensor, values: Tensor) -> "FoldedKV":
        """Keys (H, K, S) and values (H, S, K)."""
        heads = (attention.num_heads, attention.head_dim)
        query_keys = attention.project.weight.unflatten(1, heads).transpose(0, 1) @ keys  # (H, D, S)
        bias = attention.project.bias.view(*heads)[:, None] @ keys
        value_outputs = values @ attention.output.weight.unflatten(0, heads)  # (H, S, D)
        return cls(query_keys.transpose(0, 1).flatten(1), bias.flatten(), value_outputs.flatten(0, 1))

    def __call__(self, attention: FusedAttention, x: Tensor) -> Tensor:
        scores = torch.addmm(self.bias, attention.residual.pre(x), self.query_keys)
        p = torch.softmax(scores.view(x.size(0), attention.num_heads, -1), dim=-1).view(scores.shape)
        return attention.residual.post(x, torch.addmm(attention.output.bias, p, self.value_outputs))


@dataclass(frozen=True)
class SourceKV:
    """What the decoder sees of the source: keys (L, B, H, K, S), transposed already, and values (L, B, H, S, K)."""

    keys: Tensor
    values: Tensor
    mask: Tensor | None  # (B, H, 1, S), minus infinity on padding; None where there is no padding

    def keep(self, sentences: Tensor) -> "SourceKV":
        if self.keys.size(1) == 1 and len(sentences) == 1:
            return self
        mask = None if self.mask is None else self.mask.index_select(0, sentences)
        return SourceKV(self.keys.index_select(1, sentences), self.values.index_select(1, sentences), mask)

    @cached_property
    def layers(self) -> Sequence[CrossAttention]:
        mask = None if self.mask is None else self.mask.flatten(0, 1)
        pairs = zip(self.keys.flatten(1, 2), self.values.flatten(1, 2), strict=True)
        return [SeparateKV(self.keys.size(1), keys, values, mask) for keys, values in pairs]


@dataclass(frozen=True)
class FoldedSourceKV(SourceKV):
    """That of one short sentence, with its layers multiplied out."""

    layers: Sequence[CrossAttention] = ()


@dataclass(frozen=True)
class FusedState:
    """Between two steps: the source, the trees written so far, and how many tokens each hypothesis has."""

    memory: SourceKV
    cache: TreeKVCache
    length: int = 0

    def reorder(self, parents: Tensor) -> "FusedState":
        """parents (B, W): hypothesis w of sentence b continues hypothesis parents[b, w].

        Hypotheses told apart before anything is written (samples) get a tree each; later ones are branches of one.
        """
        sentences, trees = len(parents), self.cache.trees
        if not self.length:
            cache = self.cache.new_trees(parents.numel())
        elif trees == sentences:
            cache = self.cache.reorder(parents)
        else:
            first = torch.arange(0, trees, trees // sentences, device=parents.device)
            cache = self.cache.keep((first[:, None] + parents).flatten())
        return replace(self, cache=cache)

    def keep(self, sentences: Tensor) -> "FusedState":
        """Only these sentences go on."""
        trees = torch.arange(self.cache.trees, device=sentences.device).view(self.memory.keys.size(1), -1)
        cache = self.cache.keep(trees.index_select(0, sentences).flatten())
        return replace(self, memory=self.memory.keep(sentences), cache=cache)


class FusedEncoderLayer:
    """Self-attention, feed-forward."""

    def __init__(self, layer: EncoderLayer) -> None:
        attention = layer.attention
        self.attention = FusedAttention(attention, layer.attention_residual, attention.key, attention.value)
        self.feedforward = FusedFeedForward(layer.feedforward, layer.feedforward_residual)


class FusedDecoderLayer:
    """Self-attention, attention to the memory, feed-forward."""

    def __init__(self, layer: DecoderLayer) -> None:
        attention = layer.attention
        self.attention = FusedAttention(attention, layer.attention_residual, attention.key, attention.value)
        self.cross_attention = FusedAttention(layer.cross_attention, layer.cross_attention_residual)
        self.feedforward = FusedFeedForward(layer.feedforward, layer.feedforward_residual)


class FusedTransformer:
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
        self.encoder = [FusedEncoderLayer(layer) for layer in model.encoder]
        self.decoder = [FusedDecoderLayer(layer) for layer in model.decoder]
        self.encoder_norm, self.decoder_norm = Norm(model.encoder_norm), Norm(model.decoder_norm)
        cross_attention = [layer.cross_attention for layer in model.decoder]
        self.remember = Linear(*(linear for each in cross_attention for linear in (each.key, each.value)))
        self.output = model.output.weight.detach().t().contiguous()
        self.output_bias = None if model.output.bias is None else model.output.bias.detach()

    @torch.no_grad()
    def start(self, src: Tokens) -> FusedState:
        """Read the source (padded) once; every step looks back at it."""
        assert isinstance(src.layout, Padded)
        sentences, size = src.ids.shape
        real = src.layout.not_padding
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
        cache = TreeKVCache.empty(sentences, len(self.decoder), self.num_heads, self.head_dim, like=x)
        if sentences > 1 or size >= self.head_dim or mask is not None:
            return FusedState(SourceKV(keys, values, mask), cache)
        each = zip(self.decoder, keys[:, 0], values[:, 0], strict=True)
        folded = [FoldedKV.of(layer.cross_attention, *pair) for layer, *pair in each]
        return FusedState(FoldedSourceKV(keys, values, mask, folded), cache)

    def _encode(self, ids: Tensor, rows: Tensor, sentences: int, size: int, mask: Tensor | None) -> Tensor:
        """The source's real tokens ids (N,), which stand in `rows` (N,) of the padded rectangle -> memory (N, D)."""
        self.positions.ensure_positions(size)
        places = rows % size
        x = self.positions.embed(torch.embedding(self.src_embedding, ids), self.scale, places)
        padded = x.new_zeros(sentences * size, 3, self.num_heads, self.head_dim)
        mask = None if mask is None else mask.flatten(0, 1)
        for layer in self.encoder:
            qkv = layer.attention.project_heads(x)
            self.positions.apply_rotary(qkv, places)
            q, k, v = split_heads(padded.index_copy_(0, rows, qkv), sentences)
            k, v = k.transpose(2, 3).flatten(0, 1), v.flatten(0, 1)
            x = layer.attention.post(x, attend(q, k, v, mask).index_select(0, rows))
            x = layer.feedforward(x)
        return self.encoder_norm(x)

    @torch.no_grad()
    def step(self, tokens: Tensor, state: FusedState) -> tuple[Tensor, FusedState]:
        """The newest word of every hypothesis, (B, W) -> logits (B, W, V) of the next."""
        place, memory = state.length, state.memory
        self.positions.ensure_positions(place + 1)
        width = tokens.numel() // state.cache.trees
        cache = state.cache.append(width)
        cache_mask = cache.mask()
        x = self.positions.embed(torch.embedding(self.tgt_embedding, tokens.flatten()), self.scale, place)
        for layer, (keys, values, newest), cross_attention in zip(
            self.decoder, cache.layers(width), memory.layers, strict=True
        ):
            qkv = layer.attention.project_heads(x)
            self.positions.apply_rotary(qkv, place)
            parts = split_heads(qkv, cache.trees)
            newest.copy_(parts.narrow(0, 1, 2))
            x = layer.attention.post(x, attend(parts.select(0, 0), keys, values, cache_mask))
            x = layer.feedforward(cross_attention(layer.cross_attention, x))
        logits = torch.mm(self.decoder_norm(x), self.output)
        if self.output_bias is not None:
            logits += self.output_bias
        return logits.view(*tokens.shape, -1), FusedState(memory, cache, place + 1)
