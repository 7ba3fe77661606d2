"""Residual connection, dropout and layer normalisation around every sublayer, in one of two orders.

    post-norm   x <- LayerNorm(x + Dropout(Sublayer(x)))      Vaswani et al. 2017, section 3.1 and 5.4
    pre-norm    x <- x + Dropout(Sublayer(LayerNorm(x)))      Xiong et al. 2020

    LayerNorm(x) = g * (x - mean(x)) / sqrt(var(x) + eps) + b, over the D components of each token (Ba et al. 2016)

Post-norm is the paper's order and needs a warm-up. Pre-norm has an identity path from the output to the input and
trains without a warm-up; it needs a final norm at the top of the stack (`final`).

A layer calls `pre` before a sublayer and `post` after it.
"""

from torch import Tensor, nn

EPSILON = 1e-5


class PostNorm(nn.Module):
    """The paper's order: add, then normalise."""

    def __init__(self, d_model: int, dropout: float, eps: float = EPSILON) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model, eps=eps)
        self.dropout = nn.Dropout(dropout)

    def pre(self, x: Tensor) -> Tensor:
        """The input of the sublayer."""
        return x

    def post(self, x: Tensor, y: Tensor) -> Tensor:
        """The output of the layer, from its input x and the output y of the sublayer."""
        return self.norm(x + self.dropout(y)).to(y.dtype)  # in bf16 if y is: half the memory traffic

    @staticmethod
    def final(d_model: int) -> nn.Module:
        """The norm at the top of the stack."""
        return nn.Identity()


class PreNorm(nn.Module):
    """The later order: normalise, then add."""

    def __init__(self, d_model: int, dropout: float, eps: float = EPSILON) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model, eps=eps)
        self.dropout = nn.Dropout(dropout)

    def pre(self, x: Tensor) -> Tensor:
        """The input of the sublayer."""
        return self.norm(x)

    def post(self, x: Tensor, y: Tensor) -> Tensor:
        """The output of the layer, from its input x and the output y of the sublayer."""
        return x + self.dropout(y)

    @staticmethod
    def final(d_model: int) -> nn.Module:
        """The norm at the top of the stack."""
        return nn.LayerNorm(d_model, eps=EPSILON)


NORMS: dict[str, type[PostNorm] | type[PreNorm]] = {"post": PostNorm, "pre": PreNorm}
