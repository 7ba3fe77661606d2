"""Around every sublayer: a residual connection, dropout and layer normalisation, in one of two orders.

    post-norm   x <- LayerNorm(x + Dropout(Sublayer(x)))      Vaswani et al. 2017, section 3.1 and 5.4
    pre-norm    x <- x + Dropout(Sublayer(LayerNorm(x)))      Xiong et al. 2020

    LayerNorm(x) = g * (x - mean(x)) / sqrt(var(x) + eps) + b, over the D components of each token (Ba et al. 2016)

Post-norm is the paper's and needs a warm-up; pre-norm leaves a straight path from the output to the input, trains
without one and needs a last norm at the top of the stack, which `final` gives.
"""

from typing import Protocol

from torch import Tensor, nn

EPSILON = 1e-5


class Residual(Protocol):
    """What a layer needs: enter a sublayer with x, join its result y to x again."""

    def pre(self, x: Tensor) -> Tensor: ...

    def post(self, x: Tensor, y: Tensor) -> Tensor: ...


class PostNorm(nn.Module):
    """The paper's order: add, then normalise."""

    def __init__(self, d_model: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model, eps=EPSILON)
        self.dropout = nn.Dropout(dropout)

    def pre(self, x: Tensor) -> Tensor:
        return x

    def post(self, x: Tensor, y: Tensor) -> Tensor:
        return self.norm(x + self.dropout(y)).to(y.dtype)  # in bf16 where the sublayers are: half of what is moved

    @staticmethod
    def final(d_model: int) -> nn.Module:
        return nn.Identity()


class PreNorm(nn.Module):
    """The later order: normalise, then add."""

    def __init__(self, d_model: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model, eps=EPSILON)
        self.dropout = nn.Dropout(dropout)

    def pre(self, x: Tensor) -> Tensor:
        return self.norm(x)

    def post(self, x: Tensor, y: Tensor) -> Tensor:
        return x + self.dropout(y)

    @staticmethod
    def final(d_model: int) -> nn.Module:
        return nn.LayerNorm(d_model, eps=EPSILON)


NORMS: dict[str, type[PostNorm] | type[PreNorm]] = {"post": PostNorm, "pre": PreNorm}
