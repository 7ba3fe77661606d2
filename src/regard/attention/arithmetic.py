"""The arithmetic of one attention head, step by step, with the numbers of a trained model.

    x           input of the layer; queries come from it, keys and values from a memory (x itself in self-attention)
    q, k, v     x W^Q, m W^K, m W^V, of one head; rotated by their positions if positions are rotary
    p_ij        q_i . k_j                          or, with an additive score, v . tanh(q_i + k_j)
    e_ij        p_ij scale + b_ij                  scale = 1 / sqrt(K); b: a bias by distance (relative, ALiBi)
    a_i         softmax(e_i) over the keys that the mask allows
    z_i         sum_j a_ij v_j + c_i               c: values by distance (relative positions)

`record_attention` keeps the inputs and the output of every attention module while a model runs; modules do not know of
it, and outputs do not change. `AttentionCall.head` and `SourceAttentionCalls.head` compute the steps again from these
inputs; tests compare each with what the model itself computed.

The attention of a recurrent decoder (recurrent_attention.py) has no projection of its values, and other ways from
scores to weights: the one largest score (hard attention), or a window and a Gaussian (local attention), the factor g:

    a_ij = softmax(e_i)_j g_ij

T queries, S keys, H heads, K head size, A hidden size of an additive score, D model.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import recurrent_attention as recurrent
from regard.attention.attend import masked_softmax, to_float32
from regard.attention.layouts import PaddedPattern
from regard.attention.multihead import MultiHeadAttention
from regard.attention.recurrent_attention import AttentionOutput, SourceAttention, SourceMemory, one_hot_argmax
from regard.attention.scores import dot, tanh_score
from regard.attention.scoring import Additive, Concat, Cosine, Dot, General, ScaledDot, Scoring


@dataclass(frozen=True)
class HeadArithmetic:
    """All steps of one head over one sentence.

    `vector` is v of an additive score, whose queries and keys (., A) are added; None if they are multiplied.
    `bias` b, `factor` g and `value_bias` c are None where a model has none. `hard` is True if the one key with the
    largest score gets all the weight.
    """

    queries: Tensor  # (T, K) or (T, A)
    keys: Tensor  # (S, K) or (S, A)
    values: Tensor  # (S, K)
    vector: Tensor | None  # (A,)
    products: Tensor  # (T, S): p
    scale: float
    bias: Tensor | None  # (T, S): b
    scores: Tensor  # (T, S): e
    mask: Tensor  # (T, S), True: may attend
    factor: Tensor | None  # (T, S): g
    hard: bool
    weights: Tensor  # (T, S): a
    value_bias: Tensor | None  # (T, K): c
    outputs: Tensor  # (T, K): z


@dataclass(frozen=True)
class ScoreParts:
    """A score as queries and keys that are multiplied, or added in a tanh, and a scale; `other` is any other score."""

    queries: Tensor
    keys: Tensor
    vector: Tensor | None
    scale: float
    other: Scoring | None = None

    def products(self) -> Tensor:
        """(..., T, S)."""
        if self.other is not None:
            return self.other(self.queries, self.keys)
        if self.vector is None:
            return dot(self.queries, self.keys)
        return tanh_score(self.queries, self.keys, self.vector)


def score_parts(scoring: Scoring | None, q: Tensor, prepared: Tensor) -> ScoreParts:
    """The parts of a score of queries and prepared keys (scoring.py); None is the scaled dot product."""
    match scoring:
        case None | ScaledDot():
            return ScoreParts(q, prepared, None, 1 / math.sqrt(q.size(-1)))
        case Additive():
            return ScoreParts(nn.functional.linear(q, scoring.query), prepared, scoring.vector, 1.0)
        case Concat():
            weight = scoring.weight[:, : scoring.query_dim]
            return ScoreParts(nn.functional.linear(q, weight), prepared, scoring.vector, 1.0)
        case Cosine():
            return ScoreParts(nn.functional.normalize(q, dim=-1), prepared, None, float(scoring.log_sharpness.exp()))
        case Dot() | General():  # whose keys are prepared as W k
            return ScoreParts(q, prepared, None, 1.0)
    return ScoreParts(q, prepared, None, 1.0, scoring)


@dataclass(frozen=True)
class AttentionCall:
    """One call of multi-head attention on a padded batch: its inputs and its output (B, T, D)."""

    module: MultiHeadAttention
    x: Tensor
    memory: Tensor
    pattern: PaddedPattern
    output: Tensor

    @property
    def num_heads(self) -> int:
        return self.module.num_heads

    @torch.no_grad()
    def head(self, head: int, sentence: int = 0) -> HeadArithmetic:
        """The steps of a head, for one sentence of the batch."""
        module, pattern = self.module, self.pattern
        q = module.rotate(module.heads(module.query(self.x)), pattern.queries.positions)
        prepared, v = module.project_keys_values(self.memory, pattern.keys.positions)
        q, prepared, v = (tensor[sentence, :, head] for tensor in (q, prepared, v))  # (T, K), (S, K), (S, K)
        scored = module.scored_attention
        parts = score_parts(None if scored is None else scored.scoring, q, prepared)
        products = parts.products()
        scores = products * parts.scale
        mask = pattern.mask.expand(len(self.x), 1, -1, -1)[sentence, 0].expand_as(scores)
        position_bias = None if scored is None else scored.position_bias
        bias = value_bias = None
        if position_bias is not None:
            every = q.expand(self.num_heads, -1, -1)  # a bias may differ between heads: it sees all of them
            bias = position_bias.scores(every, pattern.distances).expand(self.num_heads, -1, -1)[head]
            scores = scores + bias
        weights = masked_softmax(scores, mask)
        outputs = weights @ v
        if position_bias is not None:
            every = weights.expand(self.num_heads, -1, -1)
            value_bias = position_bias.values(every, pattern.distances)
            value_bias = value_bias.expand(self.num_heads, *outputs.shape)[head]
            outputs = outputs + value_bias
        return HeadArithmetic(
            parts.queries, parts.keys, v, parts.vector, products, parts.scale, bias, scores, mask, None, False, weights,
            value_bias, outputs,
        )  # fmt: skip

    def weights(self) -> Tensor:
        """(H, T, S) of the first sentence."""
        return torch.stack([self.head(head).weights for head in range(self.num_heads)])


@dataclass(frozen=True)
class SourceAttentionCalls:
    """The calls of a recurrent decoder's attention, in order: all queries at once, or one after another."""

    module: SourceAttention
    calls: list[tuple[Tensor, SourceMemory, int | Tensor, AttentionOutput]] = field(default_factory=list)
    num_heads: int = 1

    @torch.no_grad()
    def head(self, head: int = 0, sentence: int = 0) -> HeadArithmetic:
        """The steps of the only head, for one sentence of the batch."""
        pieces = [self._one(sentence, *call[:3]) for call in self.calls]

        def joined(name: str) -> Any:
            first = getattr(pieces[0], name)
            return None if first is None else torch.cat([getattr(piece, name) for piece in pieces])

        rows = {
            name: joined(name) for name in ("queries", "products", "scores", "mask", "factor", "weights", "outputs")
        }
        first = pieces[0]
        return HeadArithmetic(
            rows["queries"], first.keys, first.values, first.vector, rows["products"], first.scale, None,
            rows["scores"], rows["mask"], rows["factor"], first.hard, rows["weights"], None, rows["outputs"],
        )  # fmt: skip

    def _one(self, sentence: int, query: Tensor, memory: SourceMemory, positions: int | Tensor) -> HeadArithmetic:
        """The steps of one call: query (B, W, Q)."""
        kind, layout = self.module.kind, memory.layout
        parts = score_parts(self.module.scoring, query[sentence], memory.keys[sentence])
        products = parts.products()
        scores = to_float32(products * parts.scale)
        mask, factor = layout.not_padding[:, None], None
        if isinstance(kind, recurrent.LocalM):
            mask = recurrent.local_window(recurrent.monotonic_positions(layout, positions), layout, kind.window)
        elif isinstance(kind, recurrent.LocalP):
            centres = recurrent.predicted_positions(query, layout, kind.weight, kind.vector)
            mask = recurrent.local_window(centres, layout, kind.window)
            factor = recurrent.gaussian(centres, layout, kind.window / 2)[sentence]
        mask = mask[sentence].expand_as(scores)
        hard = isinstance(kind, recurrent.HardGumbel | recurrent.HardReinforce)
        weights = one_hot_argmax(scores.masked_fill(~mask, -torch.inf)) if hard else masked_softmax(scores, mask)
        weights = weights if factor is None else weights * factor
        values = memory.values[sentence]
        return HeadArithmetic(
            parts.queries, parts.keys, values, parts.vector, products, parts.scale, None, scores, mask, factor, hard,
            weights, None, weights.to(values.dtype) @ values,
        )  # fmt: skip

    def weights(self) -> Tensor:
        """(1, T, S) of the first sentence."""
        return self.head().weights[None]


Call = AttentionCall | SourceAttentionCalls


@contextmanager
def record_attention(model: nn.Module) -> Iterator[list[Call]]:
    """Keep the calls of all attention modules of a model, in order, until the end of the block."""
    calls: list[Call] = []

    def keep(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if isinstance(module, MultiHeadAttention):
            x, memory, pattern = inputs
            calls.append(AttentionCall(module, x, memory, pattern, output))
        elif isinstance(module, SourceAttention):
            of_module = [call for call in calls if call.module is module]
            if not of_module:
                of_module = [SourceAttentionCalls(module)]
                calls.append(of_module[0])
            assert isinstance(of_module[0], SourceAttentionCalls)
            of_module[0].calls.append((*inputs, output))

    hooks = [
        module.register_forward_hook(keep)
        for module in model.modules()
        if isinstance(module, MultiHeadAttention | SourceAttention)
    ]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def stacks(calls: list[Call]) -> list[list[Call]]:
    """The calls as stacks of layers: the layers of an encoder share one pattern, and so do those of a decoder."""
    groups: dict[int, list[Call]] = {}
    for call in calls:
        groups.setdefault(id(call.pattern if isinstance(call, AttentionCall) else call), []).append(call)
    return list(groups.values())
