"""Norms: they bring the components of the hidden states to mean 0 and variance 1, then multiply by g and add b.

    y = g * (x - mean(x)) / sqrt(var(x) + eps) + b        g, b (D,) are learned

The kinds differ in what mean and variance are computed over:

    layer      the D components of one token               Ba et al. 2016; the Transformer's
    batch      all tokens of the batch, by component       Ioffe & Szegedy 2015
    rms        as layer, but with mean = 0 and b = 0       Zhang & Sennrich 2019; T5's
    none       y = x
    sequence   all tokens and components of a sentence     not for a causal model: see `SequenceLayerNorm`

With batch norm the output of a token depends on the other sentences of its batch. In evaluation mean and variance are
moving averages of those in training, so that an output does not depend on the batch. They are computed over tokens,
never over padding, so a norm takes the layout of the batch too.

N tokens of the batch without padding, D model; `*` is (B, T) padded or (N,) packed.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.layouts import Layout, Packed

EPSILON = 1e-5


class LayerNorm(nn.LayerNorm):
    """Layer norm: mean and variance over the components of each token."""

    def __init__(self, d_model: int, eps: float = EPSILON) -> None:
        super().__init__(d_model, eps=eps)

    def forward(self, x: Tensor, layout: Layout | None = None) -> Tensor:
        """x (*, D) -> (*, D); tokens do not depend on each other, so the layout is not used."""
        return super().forward(x)


class RMSNorm(nn.Module):
    """Root mean square norm: y = g * x / sqrt(mean(x^2) + eps), the layer norm without mean and bias."""

    def __init__(self, d_model: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Tensor, layout: Layout | None = None) -> Tensor:
        """x (*, D) -> (*, D), in float32; tokens do not depend on each other, so the layout is not used."""
        x = x.to(self.weight.dtype)
        return x * (x.square().mean(dim=-1, keepdim=True) + self.eps).rsqrt() * self.weight


class BatchNorm(nn.Module):
    """Batch norm: mean and variance of each component over all tokens of the batch (Ioffe & Szegedy 2015).

        training      mean = 1/N sum_i x_i,   var = 1/N sum_i (x_i - mean)^2        over the N tokens
                      running_mean <- (1 - m) running_mean + m mean                 m = `momentum`
                      running_var  <- (1 - m) running_var  + m N / (N - 1) var
        evaluation    mean = running_mean,   var = running_var

    It is torch.nn.BatchNorm1d over the tokens of a batch, without padding. With gradient accumulation a micro-batch is
    a batch.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, d_model: int, eps: float = EPSILON, momentum: float = 0.1) -> None:
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_var", torch.ones(d_model))

    def forward(self, x: Tensor, layout: Layout | None = None) -> Tensor:
        """x (*, D) -> (*, D), in float32; without a layout every row is a token."""
        x = x.to(self.weight.dtype)
        mean, var = self.statistics(x, layout) if self.training else (self.running_mean, self.running_var)
        return (x - mean) * (var + self.eps).rsqrt() * self.weight + self.bias

    def statistics(self, x: Tensor, layout: Layout | None) -> tuple[Tensor, Tensor]:
        """Mean and variance (D,) over the tokens of x; the running ones move towards them."""
        every = tuple(range(x.dim() - 1))
        tokens = x.new_ones(x.shape[:-1]) if layout is None else layout.not_padding.to(x.dtype)
        tokens = tokens[..., None]  # (*, 1): 1 at tokens, 0 at padding
        count = tokens.sum()
        mean = (x * tokens).sum(every) / count
        var = ((x - mean).square() * tokens).sum(every) / count
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(var * count / (count - 1).clamp(min=1), self.momentum)
        return mean, var


class NoNorm(nn.Module):
    """No norm: the input itself."""

    def __init__(self, d_model: int = 0, eps: float = EPSILON) -> None:
        super().__init__()

    def forward(self, x: Tensor, layout: Layout | None = None) -> Tensor:
        return x


class SequenceLayerNorm(nn.LayerNorm):
    """Layer norm over all tokens and components of a sentence: mean and variance over (T, D).

    Layer norm of images is over a whole example; in the Transformer it is over one token. With this one every token
    depends on every other, later ones included: a causal model sees the future. It exists to show this, and cannot
    advance by one position.
    """

    def __init__(self, d_model: int, eps: float = EPSILON) -> None:
        super().__init__(d_model, eps=eps)

    def forward(self, x: Tensor, layout: Layout | None = None) -> Tensor:
        """x (*, D) -> (*, D); without a layout every row of (B, T, D) is a sentence of T tokens."""
        mean = self.mean_of_sentence(x, layout)
        var = self.mean_of_sentence((x - mean).square(), layout)
        return (x - mean) * (var + self.eps).rsqrt() * self.weight + self.bias

    def mean_of_sentence(self, x: Tensor, layout: Layout | None) -> Tensor:
        """x (*, D) -> the mean over tokens and components of its sentence at each token, (*, 1) or (B, 1, 1)."""
        values = x.mean(dim=-1, keepdim=True)  # (*, 1)
        if layout is None:
            return values.mean(dim=1, keepdim=True)
        tokens = layout.not_padding[..., None].to(x.dtype)
        if not isinstance(layout, Packed):
            return (values * tokens).sum(1, keepdim=True) / tokens.sum(1, keepdim=True)
        sums = x.new_zeros(len(layout.offsets), 1).index_add(0, layout.rows, values * tokens)
        counts = x.new_zeros(len(layout.offsets), 1).index_add(0, layout.rows, tokens)
        return F.embedding(layout.rows, sums / counts.clamp(min=1))


NORMS: dict[str, Callable[[int], nn.Module]] = {
    "layer": LayerNorm, "rms": RMSNorm, "batch": BatchNorm, "none": NoNorm,
}  # fmt: skip
"""The norms of `model.norm_kind`, which are built from d_model."""
