"""Residual connection, dropout and norm around every sublayer, in one of two orders, and the same without the residual.

    post-norm      x <- Norm(x + Dropout(Sublayer(x)))      Vaswani et al. 2017, section 3.1 and 5.4
    pre-norm       x <- x + Dropout(Sublayer(Norm(x)))      Xiong et al. 2020

    no residual    x <- Norm(Dropout(Sublayer(x))),   x <- Dropout(Sublayer(Norm(x)))

Norm is a layer norm in both papers; norms.py has others. Post-norm is the paper's order and needs a warm-up. Pre-norm
has an identity path from the output to the input and trains without a warm-up; it needs a final norm at the top of the
stack (`final`). Without the residual connection there is no such path: every layer must pass on all that later ones
need.

A layer calls `pre` before a sublayer and `post` after it, with the layout of the batch (None in a step of a search).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

from torch import Tensor, nn

from regard.attention.layouts import Layout
from regard.kernels import kernels_available
from regard.layers.norms import LayerNorm, NoNorm


class Residual(nn.Module, ABC):
    """Base: the norm and the dropout around a sublayer."""

    def __init__(self, norm: nn.Module, dropout: float) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = nn.Dropout(dropout)
        self.has_kernels = type(norm) is LayerNorm and kernels_available()

    @abstractmethod
    def pre(self, x: Tensor, layout: Layout | None = None) -> Tensor:
        """The input of the sublayer."""

    @abstractmethod
    def post(self, x: Tensor, y: Tensor, layout: Layout | None = None) -> Tensor:
        """The output of the layer, from its input x and the output y of the sublayer."""

    @staticmethod
    @abstractmethod
    def final(norm: Callable[[], nn.Module]) -> nn.Module:
        """The norm at the top of the stack; `norm` builds one."""

    def is_fused(self, x: Tensor) -> bool:
        """True if the kernels in row_kernels.py compute this: in training on a GPU, with a layer norm."""
        return self.has_kernels and self.training and x.is_cuda


class PostNorm(Residual):
    """The paper's order: add, then normalise."""

    def pre(self, x: Tensor, layout: Layout | None = None) -> Tensor:
        return x

    def post(self, x: Tensor, y: Tensor, layout: Layout | None = None) -> Tensor:
        if self.is_fused(x):
            from regard.layers.row_kernels import add_norm

            return add_norm(x, y, self.norm, self.dropout.p)
        return self.norm(x + self.dropout(y), layout).to(y.dtype)  # in bf16 if y is: half the memory traffic

    @staticmethod
    def final(norm: Callable[[], nn.Module]) -> nn.Module:
        return NoNorm()


class PreNorm(Residual):
    """The later order: normalise, then add."""

    def pre(self, x: Tensor, layout: Layout | None = None) -> Tensor:
        if self.is_fused(x):
            from regard.layers.row_kernels import add_norm

            return add_norm(x, None, self.norm, 0.0)
        return self.norm(x, layout)

    def post(self, x: Tensor, y: Tensor, layout: Layout | None = None) -> Tensor:
        if self.is_fused(x) and self.dropout.p:
            from regard.layers.row_kernels import dropped_sum

            return dropped_sum(x, y, self.dropout.p)
        return x + self.dropout(y)

    @staticmethod
    def final(norm: Callable[[], nn.Module]) -> nn.Module:
        return norm()


class PostNormOnly(PostNorm):
    """Post-norm without the residual connection: the sublayer replaces its input."""

    def post(self, x: Tensor, y: Tensor, layout: Layout | None = None) -> Tensor:
        return self.norm(self.dropout(y), layout).to(y.dtype)


class PreNormOnly(PreNorm):
    """Pre-norm without the residual connection: the sublayer replaces its input."""

    def post(self, x: Tensor, y: Tensor, layout: Layout | None = None) -> Tensor:
        return self.dropout(y)


class NoSublayer(Residual):
    """No sublayer: the output of the layer is its input."""

    def __init__(self) -> None:
        super().__init__(NoNorm(), 0.0)

    def pre(self, x: Tensor, layout: Layout | None = None) -> Tensor:
        return x

    def post(self, x: Tensor, y: Tensor, layout: Layout | None = None) -> Tensor:
        return x

    @staticmethod
    def final(norm: Callable[[], nn.Module]) -> nn.Module:
        return NoNorm()


RESIDUALS: dict[tuple[str, bool], type[Residual]] = {
    ("post", True): PostNorm,
    ("pre", True): PreNorm,
    ("post", False): PostNormOnly,
    ("pre", False): PreNormOnly,
}
"""By the settings `model.norm` and `model.residual`."""
