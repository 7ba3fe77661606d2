"""The equations of a Transformer encoder on the variables of tape.py: the same text for values, gradients and tangents.

    attention    softmax(Q K^T / sqrt(K)) V                                   Vaswani et al. 2017, equation 1
    layer norm   g (x - mean(x)) / sqrt(var(x) + eps) + b                     Ba et al. 2016
    sublayers    x = norm(x + attention(x)), x = norm(x + W_2 relu(W_1 x))    post-norm, as in the paper
    loss         - mean_i log softmax(W_o h_i + b_o)[label i]

B sentences, T tokens, D model, H heads, K = D / H head size, F feed-forward, V vocabulary, C classes.
"""

import numpy as np
import numpy.typing as npt

from regard.groundwork.tape import Array, Variable

EPSILON = 1e-5
Ids = npt.NDArray[np.int64]
Weights = dict[str, Variable]


def log_softmax(x: Variable) -> Variable:
    """log(exp(x_i) / sum_j exp(x_j)); the maximum is a constant that cancels, and keeps exp from overflowing."""
    shifted = x - x.value.max(axis=-1, keepdims=True)
    return shifted - shifted.exp().sum(-1).log()


def softmax(x: Variable) -> Variable:
    return log_softmax(x).exp()


def attention(q: Variable, k: Variable, v: Variable) -> Variable:
    """q (..., T, K), k and v (..., S, K) -> (..., T, K)."""
    axes = (*range(len(k.shape) - 2), -1 % len(k.shape), -2 % len(k.shape))
    return softmax(q @ k.transpose(*axes) / np.sqrt(q.shape[-1])) @ v


def layer_norm(x: Variable, gain: Variable, bias: Variable) -> Variable:
    """x (*, D), gain and bias (D,)."""
    centred = x - x.mean(-1)
    return centred * ((centred**2.0).mean(-1) + EPSILON) ** -0.5 * gain + bias


def multi_head(x: Variable, w: Weights, name: str, heads: int) -> Variable:
    """Self-attention of x (B, T, D) in H heads."""
    B, T, D = x.shape
    q, k, v = (
        (x @ w[f"{name}.{part}"]).reshape(B, T, heads, D // heads).transpose(0, 2, 1, 3) for part in ("q", "k", "v")
    )  # (B, H, T, K)
    return attention(q, k, v).transpose(0, 2, 1, 3).reshape(B, T, D) @ w[f"{name}.o"]


def encoder(ids: Ids, w: Weights, layers: int, heads: int) -> Variable:
    """Token ids (B, T) -> h (B, T, D)."""
    x = w["words"][ids] + w["positions"]
    for layer in range(layers):
        attended = x + multi_head(x, w, f"{layer}", heads)
        x = layer_norm(attended, w[f"{layer}.gain_1"], w[f"{layer}.bias_1"])
        fed = (x @ w[f"{layer}.up"] + w[f"{layer}.up_bias"]).relu() @ w[f"{layer}.down"] + w[f"{layer}.down_bias"]
        x = layer_norm(x + fed, w[f"{layer}.gain_2"], w[f"{layer}.bias_2"])
    return x


def cross_entropy(logits: Variable, labels: Ids) -> Variable:
    """The mean of -log p(label): logits (N, C), labels (N,)."""
    return -log_softmax(logits)[np.arange(len(labels)), labels].mean()


def tagging_loss(ids: Ids, labels: Ids, w: Weights, layers: int, heads: int) -> Variable:
    """The loss of a Transformer that gives each of the tokens (B, T) one of C labels (B, T)."""
    h = encoder(ids, w, layers, heads)
    logits = h.reshape(-1, h.shape[-1]) @ w["output"] + w["output_bias"]
    return cross_entropy(logits, labels.reshape(-1))


def new_weights(vocabulary: int, length: int, width: int, inner: int, classes: int, layers: int) -> dict[str, Array]:
    """Random weights of `tagging_loss`, always the same."""
    random = np.random.default_rng(0)
    shapes: dict[str, tuple[int, ...]] = {"words": (vocabulary, width), "positions": (length, width)}
    for n in range(layers):
        shapes |= {f"{n}.{part}": (width, width) for part in ("q", "k", "v", "o")}
        shapes |= {f"{n}.up": (width, inner), f"{n}.up_bias": (inner,), f"{n}.down": (inner, width)}
        shapes |= {f"{n}.{part}": (width,) for part in ("down_bias", "gain_1", "bias_1", "gain_2", "bias_2")}
    shapes |= {"output": (width, classes), "output_bias": (classes,)}
    return {name: random.normal(size=shape) / np.sqrt(shape[0]) for name, shape in shapes.items()}
