"""The parts of a prepared Transformer: weights laid out for the products they enter, and no modules.

A part takes rows (R, D), whatever they are rows of, and gives rows back. What the model keeps apart to be read, such as
the three projections of self-attention, stands here side by side in one matrix.

R rows, D model, H heads, K head size, G groups that attend among themselves, T queries, S keys, P positions.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.multihead import MultiHeadAttention
from regard.layers.feedforward import Activation, FeedForward
from regard.layers.positions import Learned, NoPositions, Positions, Rotary, frequencies
from regard.layers.residual import PostNorm, PreNorm

IN_PLACE: dict[Activation, Activation] = {F.relu: torch.relu_}


class Linear:
    """x W + b, with the weights of several layers side by side, in the order the product reads them: (in, out)."""

    def __init__(self, *layers: nn.Linear) -> None:
        self.weight = torch.cat([layer.weight.detach() for layer in layers]).t().contiguous()
        self.bias = torch.cat([layer.bias.detach() for layer in layers])

    def __call__(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, x, self.weight)


class Norm:
    """LayerNorm(x), or x where the model has no norm."""

    def __init__(self, module: nn.Module) -> None:
        self.enabled = isinstance(module, nn.LayerNorm)
        if isinstance(module, nn.LayerNorm):
            self.shape, self.gain, self.bias, self.eps = (
                module.normalized_shape, module.weight.detach(), module.bias.detach(), module.eps
            )  # fmt: skip

    def __call__(self, x: Tensor) -> Tensor:
        return torch.layer_norm(x, self.shape, self.gain, self.bias, self.eps) if self.enabled else x


class FusedResidual:
    """What stands around a sublayer: x <- out(x + sublayer(into(x))), where one of the two is a norm."""

    def __init__(self, residual: PostNorm | PreNorm) -> None:
        norms = Norm(residual.norm), Norm(nn.Identity())
        self.out, self.pre = norms if isinstance(residual, PostNorm) else norms[::-1]

    def post(self, x: Tensor, y: Tensor) -> Tensor:
        """y is fresh from the sublayer's last product, so the sum may take its place."""
        return self.out(y.add_(x))


class FusedFeedForward:
    """The feed-forward sublayer."""

    def __init__(self, feedforward: FeedForward, residual: PostNorm | PreNorm) -> None:
        self.widen, self.narrow, self.residual = (
            Linear(feedforward.fc1),
            Linear(feedforward.fc2),
            FusedResidual(residual),
        )
        self.activation = IN_PLACE.get(feedforward.activation, feedforward.activation)

    def __call__(self, x: Tensor) -> Tensor:
        return self.residual.post(x, self.narrow(self.activation(self.widen(self.residual.pre(x)))))


class FusedAttention:
    """An attention sublayer: queries, in self-attention keys and values beside them, and the way out."""

    def __init__(self, attention: MultiHeadAttention, residual: PostNorm | PreNorm, *beside: nn.Linear) -> None:
        self.num_heads, self.head_dim = attention.num_heads, attention.head_dim
        self.project, self.output = Linear(attention.query, *beside), Linear(attention.output)
        self.residual = FusedResidual(residual)
        queries = slice(self.num_heads * self.head_dim)
        self.project.weight[:, queries] *= self.head_dim**-0.5
        self.project.bias[queries] *= self.head_dim**-0.5

    def project_heads(self, x: Tensor) -> Tensor:
        """(R, D) -> queries, and what is beside them, (R, 1 or 3, H, K)."""
        return self.project(self.residual.pre(x)).view(x.size(0), -1, self.num_heads, self.head_dim)

    def post(self, x: Tensor, found: Tensor) -> Tensor:
        """x (R, D) and what its heads found, (R, D) -> (R, D)."""
        return self.residual.post(x, self.output(found))


def split_heads(x: Tensor, groups: int) -> Tensor:
    """(R, P, H, K) in G groups -> (P, G, H, T, K)."""
    return x.view(groups, -1, *x.shape[1:]).permute(2, 0, 3, 1, 4)


def attend(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """softmax(q keys + mask) values: q (G, H, T, K), scaled already; keys (G * H, K, S), transposed already;
    values (G * H, S, K); mask broadcastable to (G * H, T, S) -> (R, D)."""
    groups, num_heads, length, head_dim = q.shape
    q = q.reshape(-1, length, head_dim)
    scores = torch.bmm(q, keys) if mask is None else torch.baddbmm(mask, q, keys)
    found = torch.bmm(torch.softmax(scores, dim=-1), values)
    return found.view(groups, num_heads, length, head_dim).transpose(1, 2).reshape(-1, num_heads * head_dim)


class PositionTable:
    """The model's positions, computed once for as many as were ever asked for.

    `added` (P, D) goes to the embeddings; `rotations` (P, 1, 1, K / 2) rotates queries and keys:
    the pair (x_2i, x_2i+1) as a complex number, times e^(i angle). What the positions do not use is None.
    """

    def __init__(self, positions: Positions, head_dim: int, like: Tensor) -> None:
        self.positions, self.head_dim, self.like, self.size = positions, head_dim, like, 0
        self.added: Tensor | None = None
        self.rotations: Tensor | None = None

    def ensure_positions(self, size: int) -> None:
        """Know all positions before `size`."""
        if size <= self.size or isinstance(self.positions, NoPositions):
            return
        self.size = size if isinstance(self.positions, Learned) else max(64, 2 * size)
        places = torch.arange(self.size, device=self.like.device)
        if isinstance(self.positions, Rotary):
            angles = places[:, None] * frequencies(self.head_dim, places.device)
            self.rotations = torch.polar(torch.ones_like(angles), angles)[:, None, None]
        else:
            self.added = self.positions(places).to(self.like.dtype)

    def embed(self, rows: Tensor, scale: float, places: Tensor | int) -> Tensor:
        """Rows (R, D) of an embedding, scaled, and where they stand added."""
        return rows * scale if self.added is None else torch.add(self.added[places], rows, alpha=scale)

    def apply_rotary(self, x: Tensor, places: Tensor | int) -> None:
        """Rotate the first two of (R, 3, H, K), queries and keys, where they are."""
        if self.rotations is not None:
            pairs = x[:, :2].unflatten(-1, (-1, 2))
            pairs.copy_(torch.view_as_real(torch.view_as_complex(pairs.float()) * self.rotations[places]))
