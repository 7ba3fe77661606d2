"""A trained Transformer with fused weights for fast decoding on a CPU: the same results in fewer, larger operations.

    one product           for queries, keys and values; one for the keys and values of all cross-attentions
    packed weights        in the order in which the product of oneDNN reads them; for few rows transposed, (in, out)
    folded scale          1 / sqrt(K) is part of the query weights
    tree KV cache         keys and values stay where they are while a beam search reorders hypotheses (tree_cache.py)
    no padding            except in the encoder's attention, which needs rectangles

`models.transformer.Transformer` is the reference, and tests compare the two. Most weights are copied, some are shared
with the model: after further training, build a new `FusedTransformer`.

Shapes: B sentences, W hypotheses, R rows of any kind (B * W in a step), S source, D model, H heads, K head size,
V vocabulary, L layers, N source tokens without padding, T queries, P positions; G groups that attend among themselves
(trees of the cache: B or R).
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.layouts import Padded, Tokens
from regard.attention.multihead import MultiHeadAttention
from regard.engines.tree_cache import TreeKVCache
from regard.layers.blocks import Activation, DecoderLayer, EncoderLayer, FeedForward
from regard.layers.embeddings import TokenEmbedding
from regard.layers.norms import NoNorm
from regard.layers.positions import Learned, NoPositions, Positions, Rotary, angles
from regard.layers.residual import PostNorm, Residual
from regard.models.transformer import Transformer

FEW_ROWS = 4
"""With fewer rows the product of MKL is faster: oneDNN needs about 10 microseconds to begin one."""


def has_packed_product() -> bool:
    """True if torch has oneDNN's product with packed weights, which torch.compile uses too. MKL, torch's default for
    float32, has less than half of its speed on an AMD processor (docs/ledger.md)."""
    is_x86 = torch.backends.cpu.get_cpu_capability().startswith("AVX")
    operators = ("_linear_pointwise", "_reorder_linear_weight")
    return is_x86 and torch.backends.mkldnn.is_available() and all(hasattr(torch.ops.mkldnn, o) for o in operators)


class Linear:
    """x W + b with the weights of several layers side by side, transposed to (in, out)."""

    def __init__(self, *layers: nn.Linear | TokenEmbedding) -> None:
        self.weight = torch.cat([layer.weight.detach() for layer in layers]).t().contiguous()
        biases = [layer.weight.new_zeros(len(layer.weight)) if layer.bias is None else layer.bias for layer in layers]
        self.bias = torch.cat(biases).detach()
        is_packed = self.weight.dtype == torch.float32 and has_packed_product()
        self.few_rows = FEW_ROWS if is_packed else sys.maxsize

    @cached_property
    def packed(self) -> Tensor:
        """The weights in oneDNN's own order, made at the first product with many rows."""
        return torch.ops.mkldnn._reorder_linear_weight(self.weight.t().contiguous())

    def __call__(self, x: Tensor) -> Tensor:
        if x.size(0) >= self.few_rows:
            return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")
        return torch.addmm(self.bias, x, self.weight)

    def relu(self, x: Tensor) -> Tensor:
        """max(0, x W + b)."""
        if x.size(0) >= self.few_rows:
            return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "relu", [], "")
        return torch.relu_(self(x))

    def add(self, x: Tensor, other: Tensor) -> Tensor:
        """x W + b + other."""
        if x.size(0) >= self.few_rows:
            return torch.ops.mkldnn._linear_pointwise.binary(x, other, self.packed, self.bias, "add")
        return self(x).add_(other)


class Norm:
    """LayerNorm(x), or x for no norm; other norms are not implemented."""

    def __init__(self, module: nn.Module) -> None:
        if not isinstance(module, nn.LayerNorm | NoNorm):
            raise TypeError(f"the fused Transformer has layer norms, not {type(module).__name__}")
        self.enabled = isinstance(module, nn.LayerNorm)
        if isinstance(module, nn.LayerNorm):
            self.shape, self.gain, self.bias, self.eps = (
                module.normalized_shape, module.weight.detach(), module.bias.detach(), module.eps
            )  # fmt: skip

    def __call__(self, x: Tensor) -> Tensor:
        return torch.layer_norm(x, self.shape, self.gain, self.bias, self.eps) if self.enabled else x


class FusedResidual:
    """A residual connection: x <- post_norm(x + sublayer(pre_norm(x))), where one of the norms is the identity."""

    def __init__(self, residual: Residual) -> None:
        norms = Norm(residual.norm), Norm(NoNorm())
        self.post_norm, self.pre_norm = norms if isinstance(residual, PostNorm) else norms[::-1]

    def add(self, x: Tensor, sublayer: Linear, y: Tensor) -> Tensor:
        """post_norm(x + y W + b), where the product is the last one of the sublayer."""
        return self.post_norm(sublayer.add(y, x))


class FusedFeedForward:
    """The feed-forward sublayer with its residual connection."""

    def __init__(self, feedforward: FeedForward, residual: Residual) -> None:
        self.fc1, self.fc2, self.residual = Linear(feedforward.fc1), Linear(feedforward.fc2), FusedResidual(residual)
        activation, fc1 = feedforward.activation, self.fc1
        self.hidden: Activation = fc1.relu if activation is F.relu else lambda x: activation(fc1(x))

    def __call__(self, x: Tensor) -> Tensor:
        return self.residual.add(x, self.fc2, self.hidden(self.residual.pre_norm(x)))


class FusedAttention:
    """An attention sublayer: one projection for queries and, in self-attention, keys and values; output; residual."""

    def __init__(self, attention: MultiHeadAttention, residual: Residual, *keys_values: nn.Linear) -> None:
        self.num_heads, self.head_dim = attention.num_heads, attention.head_dim
        self.projection, self.output = Linear(attention.query, *keys_values), Linear(attention.output)
        self.residual = FusedResidual(residual)
        queries = slice(self.num_heads * self.head_dim)
        for weight in (self.projection.weight, self.projection.bias):
            weight[..., queries] *= self.head_dim**-0.5

    def project(self, x: Tensor) -> Tensor:
        """(R, D) -> queries, or queries, keys and values, (R, 1 or 3, H, K)."""
        return self.projection(self.residual.pre_norm(x)).view(x.size(0), -1, self.num_heads, self.head_dim)

    def add_output(self, x: Tensor, context: Tensor) -> Tensor:
        """x (R, D) and the context vectors of its heads (R, D) -> (R, D)."""
        return self.residual.add(x, self.output, context)


def split_heads(x: Tensor, groups: int) -> Tensor:
    """(R, n, H, K) in G groups -> (n, G, H, T, K)."""
    return x.view(groups, -1, *x.shape[1:]).permute(2, 0, 3, 1, 4)


def attend(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """softmax(q keys + mask) values: scaled q (G, H, T, K), transposed keys (G * H, K, S), values (G * H, S, K), mask
    broadcastable to (G * H, T, S) -> (R, D)."""
    groups, num_heads, length, head_dim = q.shape
    q = q.reshape(-1, length, head_dim)
    scores = torch.bmm(q, keys) if mask is None else torch.baddbmm(mask, q, keys)
    context = torch.bmm(torch.softmax(scores, dim=-1), values)
    return context.view(groups, num_heads, length, head_dim).transpose(1, 2).reshape(-1, num_heads * head_dim)


class PositionTable:
    """The position vectors of a model, computed once and extended if needed.

    `added` (P, D) is added to the embeddings. `rotations` (P, 1, 1, K / 2) rotates queries and keys: the pair
    (x_2i, x_2i+1) as a complex number, times e^(i angle). Each is None if the model does not use it.
    """

    def __init__(self, positions: Positions, head_dim: int, like: Tensor) -> None:
        self.positions, self.head_dim, self.like, self.size = positions, head_dim, like, 0
        self.added: Tensor | None = None
        self.rotations: Tensor | None = None

    def ensure_positions(self, size: int) -> None:
        """Compute all positions below `size`."""
        if size <= self.size or isinstance(self.positions, NoPositions):
            return
        self.size = size if isinstance(self.positions, Learned) else max(64, 2 * size)
        positions = torch.arange(self.size, device=self.like.device)
        if isinstance(self.positions, Rotary):
            turned = angles(positions, self.head_dim)
            self.rotations = torch.polar(torch.ones_like(turned), turned)[:, None, None]
        else:
            self.added = self.positions(positions).to(self.like.dtype)

    def embed(self, rows: Tensor, scale: float, positions: Tensor | int) -> Tensor:
        """Rows (R, D) of an embedding, scaled, plus the position vectors."""
        return rows * scale if self.added is None else torch.add(self.added[positions], rows, alpha=scale)

    def apply_rotary(self, x: Tensor, positions: Tensor | int) -> None:
        """Rotate queries and keys, the first two of (R, 3, H, K), in place."""
        if self.rotations is not None:
            pairs = x[:, :2].unflatten(-1, (-1, 2))
            pairs.copy_(torch.view_as_real(torch.view_as_complex(pairs.float()) * self.rotations[positions]))


class CrossAttention(Protocol):
    """Cross-attention of one layer to a fixed source."""

    def __call__(self, attention: FusedAttention, x: Tensor) -> Tensor:
        """x (R, D) -> x (R, D) after the cross-attention sublayer."""


@dataclass(frozen=True)
class SeparateKV:
    """Cross-attention with transposed keys (B * H, K, S), values (B * H, S, K) and mask (B * H, 1, S)."""

    sentences: int
    keys: Tensor
    values: Tensor
    mask: Tensor | None

    def __call__(self, attention: FusedAttention, x: Tensor) -> Tensor:
        q = split_heads(attention.project(x), self.sentences).select(0, 0)
        return attention.add_output(x, attend(q, self.keys, self.values, self.mask))


@dataclass(frozen=True)
class FoldedKV:
    """Cross-attention to one short sentence, with its keys and values multiplied into the weights.

    (x W_q) K^T = x (W_q K^T) and (p V) W_o = p (V W_o): for S < K the products in brackets, computed once, are smaller
    than the matrices they replace. The time of a step with one sentence is the time to read its matrices.
    """

    query_keys: Tensor  # (D, H * S)
    bias: Tensor  # (H * S)
    value_outputs: Tensor  # (H * S, D)

    @classmethod
    def of(cls, attention: FusedAttention, keys: Tensor, values: Tensor) -> "FoldedKV":
        """Keys (H, K, S) and values (H, S, K)."""
        heads = (attention.num_heads, attention.head_dim)
        query_keys = attention.projection.weight.unflatten(1, heads).transpose(0, 1) @ keys  # (H, D, S)
        bias = attention.projection.bias.view(*heads)[:, None] @ keys
        value_outputs = values @ attention.output.weight.unflatten(0, heads)  # (H, S, D)
        return cls(query_keys.transpose(0, 1).flatten(1), bias.flatten(), value_outputs.flatten(0, 1))

    def __call__(self, attention: FusedAttention, x: Tensor) -> Tensor:
        scores = torch.addmm(self.bias, attention.residual.pre_norm(x), self.query_keys)
        p = torch.softmax(scores.view(x.size(0), attention.num_heads, -1), dim=-1).view(scores.shape)
        return attention.residual.post_norm(torch.addmm(attention.output.bias, p, self.value_outputs).add_(x))


@dataclass(frozen=True)
class SourceKV:
    """Keys (L, B, H, K, S), transposed, and values (L, B, H, S, K) of the source for all decoder layers."""

    keys: Tensor
    values: Tensor
    mask: Tensor | None  # (B, H, 1, S), minus infinity for padding; None without padding

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
    """The source of one short sentence, with keys and values folded into the weights of every layer."""

    layers: Sequence[CrossAttention] = ()


@dataclass(frozen=True)
class FusedState:
    """The state between two steps: source, KV cache, and the number of tokens of each hypothesis."""

    memory: SourceKV
    cache: TreeKVCache
    length: int = 0

    def reorder(self, parents: Tensor) -> "FusedState":
        """`parents` (B, W): hypothesis w of sentence b continues parents[b, w].

        Hypotheses that differ from the first token on (samples) get one tree each; others are branches of one tree.
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
        trees = torch.arange(self.cache.trees, device=sentences.device).view(self.memory.keys.size(1), -1)
        cache = self.cache.keep(trees.index_select(0, sentences).flatten())
        return replace(self, memory=self.memory.keep(sentences), cache=cache)


class FusedEncoderLayer:
    """Self-attention, feed-forward network."""

    def __init__(self, layer: EncoderLayer) -> None:
        attention = layer.attention
        self.attention = FusedAttention(attention, layer.attention_residual, attention.key, attention.value)
        self.feedforward = FusedFeedForward(layer.feedforward, layer.feedforward_residual)


class FusedDecoderLayer:
    """Self-attention, cross-attention, feed-forward network."""

    def __init__(self, layer: DecoderLayer) -> None:
        attention = layer.attention
        self.attention = FusedAttention(attention, layer.attention_residual, attention.key, attention.value)
        self.cross_attention = FusedAttention(layer.cross_attention, layer.cross_attention_residual)
        self.feedforward = FusedFeedForward(layer.feedforward, layer.feedforward_residual)


class FusedTransformer:
    """A stepper that replaces a `Transformer` in any search or ensemble."""

    @torch.no_grad()
    def __init__(self, model: Transformer) -> None:
        self.num_heads, self.head_dim = model.settings.num_heads, model.settings.d_model // model.settings.num_heads
        self.scale = model.src_embedding.scale
        self.src_embedding = model.src_embedding.weight.detach()
        self.tgt_embedding = model.tgt_embedding.weight.detach()
        self.positions = PositionTable(model.positions, self.head_dim, like=self.tgt_embedding)
        self.encoder = [FusedEncoderLayer(layer) for layer in model.encoder]
        self.decoder = [FusedDecoderLayer(layer) for layer in model.decoder]
        self.encoder_norm, self.decoder_norm = Norm(model.encoder_norm), Norm(model.decoder_norm)
        attentions = [layer.cross_attention for layer in model.decoder]
        self.source_projection = Linear(*(linear for layer in attentions for linear in (layer.key, layer.value)))
        self.output = Linear(model.output)

    @torch.no_grad()
    def start(self, src: Tokens) -> FusedState:
        """Encode the source (padded) and compute its keys and values for all decoder layers."""
        assert isinstance(src.layout, Padded)
        sentences, size = src.ids.shape
        not_padding = src.layout.not_padding
        mask = None
        if not bool(not_padding.all()):
            # A source without tokens attends to its padding, which is zeros: its context vectors are zeros.
            hidden = ~not_padding & not_padding.any(dim=1, keepdim=True)
            mask = torch.zeros_like(not_padding, dtype=self.output.weight.dtype).masked_fill_(hidden, -torch.inf)
            mask = mask[:, None, None].expand(-1, self.num_heads, -1, -1).contiguous()
        rows = not_padding.flatten().nonzero()[:, 0]
        x = self._encode(src.ids.flatten()[rows], rows, sentences, size, mask)  # (N, D)
        projected = self.source_projection(x)
        padded = x.new_zeros(sentences * size, projected.size(1)).index_copy_(0, rows, projected)
        keys_values = padded.view(sentences, size, len(self.decoder), 2, self.num_heads, self.head_dim)
        keys = keys_values[:, :, :, 0].permute(2, 0, 3, 4, 1).contiguous()  # (L, B, H, K, S)
        values = keys_values[:, :, :, 1].permute(2, 0, 3, 1, 4).contiguous()  # (L, B, H, S, K)
        cache = TreeKVCache.empty(sentences, len(self.decoder), self.num_heads, self.head_dim, like=x)
        if sentences > 1 or size >= self.head_dim or mask is not None:
            return FusedState(SourceKV(keys, values, mask), cache)
        columns = zip(self.decoder, keys[:, 0], values[:, 0], strict=True)
        folded = [FoldedKV.of(layer.cross_attention, k, v) for layer, k, v in columns]
        return FusedState(FoldedSourceKV(keys, values, mask, folded), cache)

    def _encode(self, ids: Tensor, rows: Tensor, sentences: int, size: int, mask: Tensor | None) -> Tensor:
        """Token ids (N,) without padding, from `rows` (N,) of the padded rectangle -> memory (N, D)."""
        self.positions.ensure_positions(size)
        positions = rows % size
        x = self.positions.embed(torch.embedding(self.src_embedding, ids), self.scale, positions)
        padded = x.new_zeros(sentences * size, 3, self.num_heads, self.head_dim)
        mask = None if mask is None else mask.flatten(0, 1)
        for layer in self.encoder:
            qkv = layer.attention.project(x)
            self.positions.apply_rotary(qkv, positions)
            q, k, v = split_heads(padded.index_copy_(0, rows, qkv), sentences)  # (B, H, S, K) each
            k, v = k.transpose(2, 3).flatten(0, 1), v.flatten(0, 1)
            x = layer.attention.add_output(x, attend(q, k, v, mask).index_select(0, rows))
            x = layer.feedforward(x)
        return self.encoder_norm(x)

    @torch.no_grad()
    def step(self, tokens: Tensor, state: FusedState) -> tuple[Tensor, FusedState]:
        """Newest tokens (B, W) -> logits (B, W, V) of the next tokens."""
        logits, cache = self.decode(tokens, state.memory, state.cache, state.length, state.length + 1)
        return logits, FusedState(state.memory, cache, state.length + 1)

    def decode(
        self, tokens: Tensor, memory: SourceKV, cache: TreeKVCache, positions: Tensor | int, size: int
    ) -> tuple[Tensor, TreeKVCache]:
        """One step: `positions` is the position of all tokens (B, W), or of each (R,); all are below `size`."""
        self.positions.ensure_positions(size)
        width = tokens.numel() // cache.trees
        cache = cache.append(width)
        mask = cache.mask()
        x = self.positions.embed(torch.embedding(self.tgt_embedding, tokens.flatten()), self.scale, positions)  # (R, D)
        for layer, (keys, values, newest), cross_attention in zip(
            self.decoder, cache.layers(width), memory.layers, strict=True
        ):
            qkv = layer.attention.project(x)
            self.positions.apply_rotary(qkv, positions)
            heads = split_heads(qkv, cache.trees)  # (3, G, H, T, K)
            newest.copy_(heads.narrow(0, 1, 2))
            x = layer.attention.add_output(x, attend(heads.select(0, 0), keys, values, mask))
            x = layer.feedforward(cross_attention(layer.cross_attention, x))
        return self.output(self.decoder_norm(x)).view(*tokens.shape, -1), cache
