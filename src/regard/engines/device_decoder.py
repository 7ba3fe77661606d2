"""The decoder of a Transformer in slots of fixed shape: the same step, whatever stands in them.

A step that is to be recorded once and replayed (device.py) may not change its shapes. So there are B slots with room
for T target and S source positions; sentences enter and leave them, and every slot has its own position. This is the
readable `Transformer.step` again in fewer kernels, with equal results:

- query, key and value of self-attention are one matrix product;
- a residual connection and its norm are one kernel, as is each attention;
- keys and values are written once and stay; reordering hypotheses changes the family tree alone (`kernels.SelfKV`).

B slots, W hypotheses a slot, N = B W rows, S source, T target, D model, H heads, K head size, V vocabulary.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.layouts import Padded, Tokens
from regard.engines.device_kernels import Kernels, SelfKV, SourceKV
from regard.layers.blocks import DecoderLayer
from regard.layers.residual import PreNorm
from regard.models.transformer import Transformer


@dataclass(frozen=True)
class SlotShape:
    """How much fits: a step recorded for it can serve whatever fits."""

    slots: int
    width: int
    positions: int
    source: int

    def bytes(self, model: Transformer) -> int:
        """What the caches take for this model."""
        s, size = model.settings, model.tgt_embedding.weight.element_size()
        return 2 * s.decoder_layers * s.d_model * size * self.slots * (self.width * self.positions + self.source)


class FusedLayer:
    """A decoder layer as it is, with the matrices of query, key and value one above the other."""

    def __init__(self, layer: DecoderLayer, norms: tuple[nn.LayerNorm, ...]) -> None:
        attention = layer.attention
        parts = (attention.query, attention.key, attention.value)
        self.layer, self.norms, self.parts = layer, norms, parts
        self.weight = torch.cat([part.weight for part in parts])
        self.bias = torch.cat([part.bias for part in parts])

    def reload_weights(self) -> None:
        """Take the layer's weights anew, into the same tensors: a recorded step reads them there."""
        torch.cat([part.weight for part in self.parts], out=self.weight)
        torch.cat([part.bias for part in self.parts], out=self.bias)


class FusedDecoder:
    """All layers of a decoder; shared by the slots of every room."""

    def __init__(self, model: Transformer) -> None:
        self.model = model
        around = [
            residual
            for layer in model.decoder
            for residual in (layer.attention_residual, layer.cross_attention_residual, layer.feedforward_residual)
        ]
        self.pre = isinstance(around[0], PreNorm)
        norms = [residual.norm for residual in around]
        # After a sublayer comes its own norm, or, where norms come first, that of the next sublayer.
        self.first = norms[0] if self.pre else nn.Identity()
        if self.pre:
            assert isinstance(model.decoder_norm, nn.LayerNorm)
            norms = [*norms[1:], model.decoder_norm]
        self.layers = [FusedLayer(layer, tuple(norms[3 * i : 3 * i + 3])) for i, layer in enumerate(model.decoder)]


class SlotDecoder:
    """The decoder over the slots of one room: buffers that live as long as it does, and a step that changes them."""

    def __init__(self, decoder: FusedDecoder, shape: SlotShape, kernels: Kernels) -> None:
        self.decoder, self.model, self.shape, self.kernels = decoder, decoder.model, shape, kernels
        weight, s = self.model.tgt_embedding.weight, self.model.settings
        heads, size = s.num_heads, s.d_model // s.num_heads
        device = weight.device

        def cache(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=weight.dtype, device=device)

        past_shape = (shape.slots, heads, shape.positions, shape.width, size)
        self.past = [(cache(*past_shape), cache(*past_shape)) for _ in decoder.layers]
        self.memory = [
            (cache(shape.slots, shape.source, heads, size), cache(shape.slots, shape.source, heads, size))
            for _ in decoder.layers
        ]
        self.lengths = torch.ones(shape.slots, dtype=torch.int64, device=device)
        self.own = torch.arange(shape.width, dtype=torch.int32, device=device)
        self.beam_ancestry = self.own.expand(shape.slots, shape.positions, -1).clone()
        self.positions = self._positions()

    def reload_weights(self) -> None:
        """Take learned positions anew, into the same tensor."""
        self.positions.copy_(self._positions())

    def _positions(self) -> Tensor:
        """What is added to the embeddings at each place, (T, D)."""
        weight, s = self.model.tgt_embedding.weight, self.model.settings
        known = torch.arange(self.shape.positions, device=weight.device)
        if s.positions == "learned":
            known = known.clamp(max=s.max_positions - 1)
        return self.model.positions(known).to(weight.dtype).expand(len(known), s.d_model).contiguous()

    def prefill(self, slots: Tensor, src: Tokens) -> None:
        """New sentences (n,) take these slots: read their sources, padded (n, S')."""
        assert isinstance(src.layout, Padded)
        memory = self.model.encode(src, src.layout.pattern(src.layout))
        for stacked, (keys, values) in zip(self.decoder.layers, self.memory, strict=True):
            k, v = stacked.layer.cross_attention.project_keys_values(memory, src.layout.positions)
            keys[slots, : src.layout.size] = k
            values[slots, : src.layout.size] = v
        self.lengths.index_copy_(0, slots, src.layout.lengths)
        self.beam_ancestry[slots] = self.own

    def step(self, tokens: Tensor, position: Tensor) -> Tensor:
        """The newest tokens (B, W), which stand at `position` (B,) of their slots -> logits (N, V) of the next."""
        embedded = self.model.tgt_embedding(tokens) + self.positions[position][:, None]
        x = embedded.flatten(0, 1)
        z = self.decoder.first(x)
        for index, stacked in enumerate(self.decoder.layers):
            past = SelfKV(*self.past[index], self.beam_ancestry, position)
            x, z = self._layer(stacked, x, z, past, SourceKV(*self.memory[index], self.lengths))
        return self.model.output.scores(z)

    def _layer(
        self, stacked: FusedLayer, x: Tensor, z: Tensor, past: SelfKV, memory: SourceKV
    ) -> tuple[Tensor, Tensor]:
        """x (N, D) is what residual connections carry, z (N, D) what the next sublayer reads."""
        layer, (after_attention, after_cross_attention, after_feedforward) = stacked.layer, stacked.norms
        q, k, v = (self._heads(part) for part in F.linear(z, stacked.weight, stacked.bias).chunk(3, dim=-1))
        q, k = (layer.attention.rotate(part, past.position[:, None]) for part in (q, k))
        y = layer.attention.output(self.kernels.self_attention(q, k, v, past).reshape(x.shape))
        x, z = self._join(x, y, after_attention)
        y = self.kernels.cross_attention(self._heads(layer.cross_attention.query(z)), memory).reshape(x.shape)
        x, z = self._join(x, layer.cross_attention.output(y), after_cross_attention)
        return self._join(x, layer.feedforward(z), after_feedforward)

    def _join(self, x: Tensor, y: Tensor, norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
        total, normed = self.kernels.add_norm(x, y, norm)
        return (total if self.decoder.pre else normed), normed

    def _heads(self, x: Tensor) -> Tensor:
        """(N, D) -> (B, W, H, K)."""
        return x.unflatten(0, (self.shape.slots, self.shape.width)).unflatten(-1, (self.model.settings.num_heads, -1))

    def follow(self, parents: Tensor, position: Tensor) -> None:
        """Hypothesis w goes on from parents[b, w] (B, W); `position` (B,) is where the step before this wrote."""
        self.kernels.copy_parents(self.beam_ancestry, parents, position)
