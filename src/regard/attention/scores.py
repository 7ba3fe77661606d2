"""Attention scores: one number for each pair of query and key.

    dot          q^T k                           Luong et al. 2015, section 3.1
    scaled dot   q^T k / sqrt(K)                 Vaswani et al. 2017, equation 1
    general      q^T W k                         Luong et al. 2015, section 3.1
    additive     v^T tanh(W q + U k)             Bahdanau et al. 2015, section A.1.2
    concat       v^T tanh(W [q; k])              Luong et al. 2015, section 3.1
    cosine       q^T k / (|q| |k|)               Graves et al. 2014, equation 6

These are the equations; the modules that hold W, U and v are in scoring.py.

q (..., T, Q) queries, k (..., S, K) keys -> scores (..., T, S); Q = K where they are multiplied with each other.
A hidden size, if there is a hidden layer.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def dot(q: Tensor, k: Tensor) -> Tensor:
    """q^T k (Luong et al. 2015, section 3.1, "dot")."""
    return q @ k.transpose(-2, -1)


def scaled_dot(q: Tensor, k: Tensor) -> Tensor:
    """q^T k / sqrt(K) (Vaswani et al. 2017, section 3.2.1).

    If the components of q and k are independent with variance 1, their dot product has variance K; dividing by its
    standard deviation keeps the softmax out of the range where its gradient vanishes.
    """
    return dot(q, k) / math.sqrt(q.size(-1))


def general(q: Tensor, k: Tensor, w: Tensor) -> Tensor:
    """q^T W k with W (Q, K) (Luong et al. 2015, section 3.1, "general").

    W learns which component of a query belongs to which of a key, so the two may differ in size and in meaning.
    """
    return dot(q, F.linear(k, w))


def additive(q: Tensor, k: Tensor, w: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """v^T tanh(W q + U k) with W (A, Q), U (A, K), v (A,) (Bahdanau et al. 2015, section A.1.2).

    A small feed-forward network scores each pair. Its matrix products are computed once for each query and each key;
    only the tanh is computed for every pair.
    """
    return tanh_score(F.linear(q, w), F.linear(k, u), v)


def tanh_score(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """v^T tanh(q + k) where query (..., T, A) and key (..., S, A) are projected to the hidden size already."""
    return torch.tanh(q[..., :, None, :] + k[..., None, :, :]) @ v


def concat(q: Tensor, k: Tensor, w: Tensor, v: Tensor) -> Tensor:
    """v^T tanh(W [q; k]) with W (A, Q + K), v (A,) (Luong et al. 2015, section 3.1, "concat").

    The left columns of W multiply the query, the right ones the key: W [q; k] = W_q q + W_k k. So this is the additive
    score with its two matrices written as one; no pair has to be concatenated.
    """
    w_q, w_k = w.split([q.size(-1), k.size(-1)], dim=1)
    return additive(q, k, w_q, w_k, v)


def cosine(q: Tensor, k: Tensor) -> Tensor:
    """q^T k / (|q| |k|), between -1 and 1 (Graves et al. 2014, "Neural Turing Machines", equation 6).

    Only directions count: a long key gets no higher score. A vector of length 0 scores 0.
    """
    return dot(F.normalize(q, dim=-1), F.normalize(k, dim=-1))
