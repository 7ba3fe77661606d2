"""How well a query fits a key: one number for each pair.

q (..., T, K) queries, k (..., S, K) keys -> scores (..., T, S).
"""

import math

from torch import Tensor


def dot(q: Tensor, k: Tensor) -> Tensor:
    """q^T k (Luong et al. 2015, section 3.1, "dot")."""
    return q @ k.transpose(-2, -1)


def scaled_dot(q: Tensor, k: Tensor) -> Tensor:
    """q^T k / sqrt(K) (Vaswani et al. 2017, section 3.2.1).

    If the components of q and k are independent with variance 1, their dot product has variance K; dividing by its
    standard deviation keeps the softmax away from the flat ends where its gradient vanishes.
    """
    return dot(q, k) / math.sqrt(q.size(-1))
