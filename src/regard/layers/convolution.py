"""Gated convolutions, with attention in every decoder layer (Gehring et al. 2017).

    v_i = GLU(W [x_(i-p); ...; x_(i-p+k-1)] + b),    GLU([a; b]) = a * sigmoid(b)       section 3.2; Dauphin et al. 2016

A layer reads k tokens, a stack of n layers n (k - 1) + 1; all positions are computed at once. In the encoder a window
is centred on its token, p = (k - 1) / 2; in the decoder it ends there, p = k - 1, because no position may depend on
later ones. The gate sigmoid(b) scales a, and a itself gives the gradient a linear path. Then every decoder layer
attends to the source (section 3.3, equations 1 and 2):

    d_i = W_d v_i + b_d + g_i        the query: output of the layer, and embedding of the last token
    a_ij = softmax_j(d_i . z_j)      the weights, with the encoder's output z as keys
    c_i = sum_j a_ij (z_j + e_j)     the context: tokens in context (z) and their embeddings (e)

so that a layer knows the attention of the layer below: multi-step attention. With c_i projected to D,

    encoder layer    z_i <- z_i (+) v_i
    decoder layer    h_i <- h_i (+) (v_i (+) W_c c_i)      x (+) y = sqrt(1/2) (x + y)

(c_i is added to v_i before the residual connection, as in the authors' code; their text adds it last, which would
scale the residual path twice in every layer.) There is no layer norm; scaling keeps the variance constant (section
3.4): by (+), by multiplying c_i by S sqrt(1/S) as if it were a mean of S vectors, and by the variance of the initial
weights (section 3.5).

B sentences, W hypotheses, S source, T target, D model, E embedding, k kernel; `*` is (B, T) or (B, W).
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.layouts import AttentionPattern, Padded


def windows(x: Tensor, kernel: int, before: int) -> Tensor:
    """(B, T, D) -> (B, T, k D): windows of k positions, from i - before on; zeros beyond the ends.

    In a row of concatenated vectors, a window is the k D numbers from i D on: a convolution is one matrix product.
    """
    size = x.size(-1)
    return F.pad(x, (0, 0, before, kernel - 1 - before)).flatten(1).unfold(1, kernel * size, size)


def scaled_sum(x: Tensor, y: Tensor) -> Tensor:
    """sqrt(1/2) (x + y): the sum of two independent vectors, with the variance of one of them (section 3.4)."""
    return (x + y) * math.sqrt(0.5)


def with_gradient_times(x: Tensor, factor: float) -> Tensor:
    """x, with its gradient multiplied by `factor`."""
    return x.detach() + (x - x.detach()) * factor


class NormalizedLinear(nn.Module):
    """A linear map whose rows have a direction and a length (Salimans & Kingma 2016, equation 2):

        y = W x + b,    w_o = m_o v_o / |v_o|

    A gradient step along v_o only rotates the row; m_o is learned separately. W starts as N(0, s / n) with n inputs and
    s = `variance`: s = 1 keeps the variance of x, s = 4 compensates a gate, and dropout needs a smaller s (section
    3.5).
    """

    def __init__(self, inputs: int, outputs: int, variance: float = 1.0) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.randn(outputs, inputs) * math.sqrt(variance / inputs))
        self.magnitude = nn.Parameter(self.direction.detach().norm(dim=1))
        self.bias = nn.Parameter(torch.zeros(outputs))

    @property
    def weight(self) -> Tensor:
        return torch._weight_norm(self.direction, self.magnitude[:, None], 0)  # m v / |v| by rows, fused

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


class GatedConvolution(nn.Module):
    """Gated convolution over windows of k that start `before` positions earlier: (B, T, D) -> (B, T, D)."""

    def __init__(self, d_model: int, kernel: int, before: int, dropout: float) -> None:
        super().__init__()
        self.kernel, self.before = kernel, before
        self.linear = NormalizedLinear(kernel * d_model, 2 * d_model, variance=4 * (1 - dropout))

    def forward(self, x: Tensor) -> Tensor:
        return self.gated(windows(x, self.kernel, self.before))

    def gated(self, window: Tensor) -> Tensor:
        """Windows (*, k D) -> (*, D)."""
        return F.glu(self.linear(window))


class ConvolutionalEncoderLayer(nn.Module):
    """Encoder layer: a gated convolution around every token."""

    def __init__(self, d_model: int, kernel: int, dropout: float) -> None:
        super().__init__()
        self.convolution = GatedConvolution(d_model, kernel, (kernel - 1) // 2, dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        """x (B, S, D); padding (B, S, 1), which is read as zeros, as beyond the ends."""
        return scaled_sum(x, self.convolution(self.dropout(x.masked_fill(padding, 0.0))))


@dataclass(frozen=True)
class SourceKeyValues:
    """Keys z_j and values z_j + e_j of the source, of one head, (B, S, 1, E) each; the same for all layers."""

    keys: Tensor
    values: Tensor

    @classmethod
    def of(cls, z: Tensor, e: Tensor, layout: Padded) -> "SourceKeyValues":
        """z, e (B, S, E), scaled once for all layers: keys by sqrt(E), because attention patterns divide by it and this
        paper does not; values by S sqrt(1/S) = sqrt(S) with S of each sentence."""
        values = scaled_sum(z, e) * layout.lengths.sqrt()[:, None, None]
        return cls((z * math.sqrt(z.size(-1)))[:, :, None], values.to(z.dtype)[:, :, None])

    def keep(self, sentences: Tensor) -> "SourceKeyValues":
        return SourceKeyValues(self.keys.index_select(0, sentences), self.values.index_select(0, sentences))


class MultiStepAttention(nn.Module):
    """Attention of one layer: x (*, D) and the token embeddings g (*, E) -> x and c, added."""

    def __init__(self, d_model: int, d_embedding: int) -> None:
        super().__init__()
        self.query = NormalizedLinear(d_model, d_embedding)
        self.output = NormalizedLinear(d_embedding, d_model)

    def forward(self, x: Tensor, g: Tensor, memory: SourceKeyValues, pattern: AttentionPattern) -> Tensor:
        d = scaled_sum(self.query(x), g).to(x.dtype)
        c = pattern.attend(d[:, :, None], memory.keys, memory.values, 0.0).flatten(-2)
        return scaled_sum(x, self.output(c))


class ConvolutionalDecoderLayer(nn.Module):
    """Decoder layer: a gated convolution over the last tokens, then attention to the source."""

    def __init__(self, d_model: int, d_embedding: int, kernel: int, dropout: float) -> None:
        super().__init__()
        self.d_model = d_model
        self.convolution = GatedConvolution(d_model, kernel, kernel - 1, dropout)
        self.attention = MultiStepAttention(d_model, d_embedding)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, g: Tensor, memory: SourceKeyValues, pattern: AttentionPattern) -> Tensor:
        """x (B, T, D), g (B, T, E) -> (B, T, D)."""
        return scaled_sum(x, self.attention(self.convolution(self.dropout(x)), g, memory, pattern))

    def start(self, like: Tensor, sentences: int) -> Tensor:
        """The inputs before the first token: (B, 1, k - 1, D) zeros."""
        return like.new_zeros(sentences, 1, self.convolution.kernel - 1, self.d_model)

    def step(
        self, x: Tensor, past: Tensor, g: Tensor, memory: SourceKeyValues, pattern: AttentionPattern
    ) -> tuple[Tensor, Tensor]:
        """Advance by one position: x (B, W, D), g (B, W, E) and the k - 1 earlier inputs, (B, W, k - 1, D), of which
        the oldest is dropped. In attention, W hypotheses are like a sentence of W tokens."""
        window = torch.cat([past, self.dropout(x)[:, :, None]], dim=2)
        y = self.attention(self.convolution.gated(window.flatten(2)), g, memory, pattern)
        return scaled_sum(x, y), window[:, :, 1:]
