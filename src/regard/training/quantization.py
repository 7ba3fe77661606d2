"""Weights as 8-bit integers: a quarter of the size on disk. They become 32-bit numbers again when they are read.

Every matrix W (rows, columns) is stored as integers with one scale per row:

    s_i = max_j |W_ij| / 127        Q_ij = round(W_ij / s_i)        W'_ij = s_i Q_ij        |W'_ij - W_ij| <= s_i / 2

Vectors (biases, norms) are few and stay as they are. A checkpoint holds `NAME` as int8 and `NAME:scale`.
"""

import torch

from regard.training.weights import Tensors

SCALE = ":scale"
LARGEST = 127


def quantize(weights: Tensors) -> Tensors:
    """Weights with every floating-point matrix as int8, and its scales."""
    result: Tensors = {}
    for name, tensor in weights.items():
        if tensor.dim() < 2 or not tensor.is_floating_point():
            result[name] = tensor
            continue
        rows = tensor.float().flatten(1)
        scale = rows.abs().amax(1).clamp(min=torch.finfo(torch.float32).tiny) / LARGEST
        result[name] = (rows / scale[:, None]).round().to(torch.int8).view(tensor.shape)
        result[name + SCALE] = scale
    return result


def dequantize(weights: Tensors) -> Tensors:
    """Weights as they were before `quantize`, up to rounding; others are not changed."""
    scales = {name.removesuffix(SCALE): tensor for name, tensor in weights.items() if name.endswith(SCALE)}
    if not scales:
        return weights
    return {
        name: tensor.float() * scales[name].view(-1, *[1] * (tensor.dim() - 1)) if name in scales else tensor
        for name, tensor in weights.items()
        if not name.endswith(SCALE)
    }
