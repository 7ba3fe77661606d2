"""The decoder of a Transformer over slots of fixed shape.

A step that is captured once and replayed (device.py) may not change its shapes. So there are B slots for T target and
S source positions. Sentences enter and leave the slots, and every slot has its own position. The step computes the same
as `Transformer.step` with fewer kernels:

- one matrix product computes query, key and value of self-attention;
- a residual connection and its norm are one kernel, and each attention is one kernel;
- keys and values are written once and never move; reordering hypotheses changes their ancestry only (`SelfKV`).

Shapes: B slots, W hypotheses a slot, N = B W rows, S source, T target, D model, H heads, K head size, V vocabulary.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention.layouts import Padded, Tokens
from regard.engines.device_kernels import DeviceSourceKV, Kernels, SelfKV
from regard.layers.blocks import Activation, DecoderLayer
from regard.layers.residual import PreNorm
from regard.models.transformer import Transformer


@dataclass(frozen=True)
class SlotShape:
    """The shape of the buffers: number of slots, hypotheses a slot, target and source positions."""

    slots: int
    width: int
    positions: int
    source: int

    def bytes(self, model: Transformer) -> int:
        """Size of the KV caches of this model."""
        s, size = model.settings, model.tgt_embedding.weight.element_size()
        return 2 * s.decoder_layers * s.d_model * size * self.slots * (self.width * self.positions + self.source)


class FusedLayer:
    """A decoder layer with one matrix for query, key and value."""

    def __init__(self, layer: DecoderLayer, norms: tuple[nn.LayerNorm, ...]) -> None:
        attention = layer.attention
        self.layer, self.norms = layer, norms
        self.projections = (attention.query, attention.key, attention.value)
        self.weight = torch.cat([linear.weight for linear in self.projections])
        self.bias = torch.cat([linear.bias for linear in self.projections])

    def reload_weights(self) -> None:
        """Copy the layer's weights into the same tensors, which the captured graphs read."""
        torch.cat([linear.weight for linear in self.projections], out=self.weight)
        torch.cat([linear.bias for linear in self.projections], out=self.bias)


class FusedDecoder:
    """All layers of a decoder, shared by the slots of every shape."""

    def __init__(self, model: Transformer) -> None:
        self.model = model
        residuals = [
            residual
            for layer in model.decoder
            for residual in (layer.attention_residual, layer.cross_attention_residual, layer.feedforward_residual)
        ]
        self.pre = isinstance(residuals[0], PreNorm)
        norms = [layer_norm(residual.norm) for residual in residuals]
        # A sublayer is followed by its own norm, or with pre-norm by the norm of the next sublayer.
        self.first = norms[0] if self.pre else nn.Identity()
        if self.pre:
            norms = [*norms[1:], layer_norm(model.decoder_norm)]
        self.layers = [FusedLayer(layer, tuple(norms[3 * i : 3 * i + 3])) for i, layer in enumerate(model.decoder)]


def layer_norm(norm: nn.Module) -> nn.LayerNorm:
    """The norm itself; kernels exist for layer norms only."""
    assert isinstance(norm, nn.LayerNorm)
    return norm


class SlotDecoder:
    """The decoder over the slots of one shape: KV caches, and a step that updates them."""

    def __init__(self, decoder: FusedDecoder, shape: SlotShape, kernels: Kernels) -> None:
        self.decoder, self.model, self.shape, self.kernels = decoder, decoder.model, shape, kernels
        weight, s = self.model.tgt_embedding.weight, self.model.settings
        heads, size = s.num_heads, s.d_model // s.num_heads
        device = weight.device

        def cache(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=weight.dtype, device=device)

        target = (shape.slots, heads, shape.positions, shape.width, size)
        source = (shape.slots, shape.source, heads, size)
        self.self_kv = [(cache(*target), cache(*target)) for _ in decoder.layers]
        self.source_kv = [(cache(*source), cache(*source)) for _ in decoder.layers]
        self.lengths = torch.ones(shape.slots, dtype=torch.int64, device=device)
        self.no_ancestry = torch.arange(shape.width, dtype=torch.int32, device=device)
        self.beam_ancestry = self.no_ancestry.expand(shape.slots, shape.positions, -1).clone()
        self.positions = self._positions()

    def reload_weights(self) -> None:
        """Copy learned positions into the same tensor."""
        self.positions.copy_(self._positions())

    def _positions(self) -> Tensor:
        """The position vectors that are added to the embeddings, (T, D)."""
        weight, s = self.model.tgt_embedding.weight, self.model.settings
        positions = torch.arange(self.shape.positions, device=weight.device)
        if s.positions == "learned":
            positions = positions.clamp(max=s.max_positions - 1)
        return self.model.positions(positions).to(weight.dtype).expand(len(positions), s.d_model).contiguous()

    def prefill(self, slots: Tensor, src: Tokens) -> None:
        """Encode sources (n, S'), padded, and store their keys and values in these slots (n,)."""
        assert isinstance(src.layout, Padded)
        memory = self.model.encode(src, src.layout.pattern(src.layout))
        for fused, (keys, values) in zip(self.decoder.layers, self.source_kv, strict=True):
            k, v = fused.layer.cross_attention.project_keys_values(memory, src.layout.positions)
            keys[slots, : src.layout.size] = k
            values[slots, : src.layout.size] = v
        self.lengths.index_copy_(0, slots, src.layout.lengths)
        self.beam_ancestry[slots] = self.no_ancestry

    def step(self, tokens: Tensor, position: Tensor) -> Tensor:
        """Newest tokens (B, W) at `position` (B,) of their slots -> logits (N, V) of the next tokens."""
        x = self.kernels.embed(tokens, position, self.model.tgt_embedding, self.positions)  # (N, D)
        z = self.decoder.first(x)
        for fused, self_kv, source_kv in zip(self.decoder.layers, self.self_kv, self.source_kv, strict=True):
            past = SelfKV(*self_kv, self.beam_ancestry, position)
            x, z = self._layer(fused, x, z, past, DeviceSourceKV(*source_kv, self.lengths))
        return self.model.output.scores(z)

    def _layer(
        self, fused: FusedLayer, x: Tensor, z: Tensor, past: SelfKV, source: DeviceSourceKV
    ) -> tuple[Tensor, Tensor]:
        """x (N, D) is the residual stream, z (N, D) the input of the next sublayer."""
        layer, (after_attention, after_cross_attention, after_feedforward) = fused.layer, fused.norms
        attention, cross_attention, feedforward = layer.attention, layer.cross_attention, layer.feedforward
        q, k, v = (self._heads(y) for y in self.kernels.linear(z, fused.weight, fused.bias).chunk(3, dim=-1))
        q, k = (attention.rotate(y, past.position[:, None]) for y in (q, k))
        y = self._linear(self.kernels.self_attention(q, k, v, past).reshape(x.shape), attention.output)
        x, z = self._add_norm(x, y, after_attention)
        q = self._heads(self._linear(z, cross_attention.query))
        y = self._linear(self.kernels.cross_attention(q, source).reshape(x.shape), cross_attention.output)
        x, z = self._add_norm(x, y, after_cross_attention)
        y = self._linear(self._linear(z, feedforward.fc1, feedforward.activation), feedforward.fc2)
        return self._add_norm(x, y, after_feedforward)

    def _linear(self, x: Tensor, linear: nn.Linear, activation: Activation | None = None) -> Tensor:
        return self.kernels.linear(x, linear.weight, linear.bias, activation)

    def _add_norm(self, x: Tensor, y: Tensor, norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
        total, normed = self.kernels.add_norm(x, y, norm)
        return (total if self.decoder.pre else normed), normed

    def _heads(self, x: Tensor) -> Tensor:
        """(N, D) -> (B, W, H, K)."""
        return x.unflatten(0, (self.shape.slots, self.shape.width)).unflatten(-1, (self.model.settings.num_heads, -1))

    def reorder(self, parents: Tensor, position: Tensor) -> None:
        """Hypothesis w continues parents[b, w] (B, W); `position` (B,) is the position of the newest tokens."""
        self.kernels.copy_parents(self.beam_ancestry, parents, position)
