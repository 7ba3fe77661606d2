"""Triton kernels: softmax, loss and gradient of many rows of logits in one pass.

A row is read once for log sum exp, and a second time, from the cache, to be overwritten with dL/dz. In plain torch each
operation reads and writes the whole matrix (M, V).

M positions, V vocabulary.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 4096


@triton.jit
def _survey(Z, V, BLOCK: tl.constexpr):
    """log sum exp and mean of a row."""
    top, total, mean = float("-inf"), 0.0, 0.0
    for first in range(0, V, BLOCK):
        places = first + tl.arange(0, BLOCK)
        z = tl.load(Z + places, mask=places < V, other=float("-inf")).to(tl.float32)
        new_top = tl.maximum(top, tl.max(z, 0))
        total = total * tl.exp(top - new_top) + tl.sum(tl.exp(z - new_top), 0)
        mean += tl.sum(tl.where(places < V, z, 0.0), 0) / V
        top = new_top
    return top + tl.log(total), mean


@triton.jit
def _visit(Z, LABELS, OBJECTIVE, NLL, stride, V, smoothing, ignore, BLOCK: tl.constexpr):
    """dL/dz = p - q."""
    row = tl.program_id(0).to(tl.int64)
    label = tl.load(LABELS + row)
    Z += row * stride
    lse, mean = _survey(Z, V, BLOCK)
    real = tl.where(label == ignore, 0.0, 1.0)
    nll = (lse - tl.load(Z + label).to(tl.float32)) * real
    tl.store(NLL + row, nll)
    tl.store(OBJECTIVE + row, (1.0 - smoothing) * nll + smoothing * (lse - mean) * real)
    tl.debug_barrier()  # the logit of the label is read before it is overwritten
    for first in range(0, V, BLOCK):
        places = first + tl.arange(0, BLOCK)
        z = tl.load(Z + places, mask=places < V, other=0.0).to(tl.float32)
        q = tl.where(places == label, 1.0 - smoothing, 0.0) + smoothing / V
        tl.store(Z + places, ((tl.exp(z - lse) - q) * real).to(Z.dtype.element_ty), mask=places < V)


@triton.jit
def _visit_pair(Z, LABELS, OBJECTIVE, NLL, M, stride, V, smoothing, strength, ignore, BLOCK: tl.constexpr):
    """R-Drop loss of one position, as `paired` in projected.py; overwrites both rows of Z with their gradient."""
    row = tl.program_id(0).to(tl.int64)
    label = tl.load(LABELS + row)
    ONE, TWO = Z + row * stride, Z + (M + row) * stride
    lse_one, mean_one = _survey(ONE, V, BLOCK)
    lse_two, mean_two = _survey(TWO, V, BLOCK)
    forth, back = 0.0, 0.0  # KL(p || r), KL(r || p)
    for first in range(0, V, BLOCK):
        places = first + tl.arange(0, BLOCK)
        log_p = tl.load(ONE + places, mask=places < V, other=float("-inf")).to(tl.float32) - lse_one
        log_r = tl.load(TWO + places, mask=places < V, other=float("-inf")).to(tl.float32) - lse_two
        apart = tl.where(places < V, log_p - log_r, 0.0)
        forth += tl.sum(tl.exp(log_p) * apart, 0)
        back -= tl.sum(tl.exp(log_r) * apart, 0)
    real = tl.where(label == ignore, 0.0, 0.5)
    nll = lse_one + lse_two - tl.load(ONE + label).to(tl.float32) - tl.load(TWO + label).to(tl.float32)
    uniform = lse_one + lse_two - mean_one - mean_two
    tl.store(NLL + row, nll * real)
    objective = (1.0 - smoothing) * nll + smoothing * uniform + strength * 0.5 * (forth + back)
    tl.store(OBJECTIVE + row, objective * real)
    tl.debug_barrier()
    for first in range(0, V, BLOCK):
        places = first + tl.arange(0, BLOCK)
        log_p = tl.load(ONE + places, mask=places < V, other=0.0).to(tl.float32) - lse_one
        log_r = tl.load(TWO + places, mask=places < V, other=0.0).to(tl.float32) - lse_two
        p, r, apart = tl.exp(log_p), tl.exp(log_r), log_p - log_r
        q = tl.where(places == label, 1.0 - smoothing, 0.0) + smoothing / V
        d_one = p - q + strength * 0.5 * (p * (apart - forth) + p - r)
        d_two = r - q + strength * 0.5 * (r * (-apart - back) + r - p)
        tl.store(ONE + places, (d_one * real).to(Z.dtype.element_ty), mask=places < V)
        tl.store(TWO + places, (d_two * real).to(Z.dtype.element_ty), mask=places < V)


def logits_to_gradient_(z: Tensor, labels: Tensor, smoothing: float, ignore: int) -> Tensor:
    """Turn logits z (1, M, V), a slice of a wider matrix, into dL/dz; return the sums of objective and nll, (2,)."""
    sums = torch.empty(2, len(labels), dtype=torch.float32, device=z.device)
    if len(labels):
        _visit[(len(labels),)](
            z, labels, sums[0], sums[1], z.stride(-2), z.size(-1), smoothing, ignore, BLOCK=BLOCK, num_warps=8
        )  # fmt: skip
    return sums.sum(dim=1)


def paired_logits_to_gradient_(z: Tensor, labels: Tensor, smoothing: float, strength: float, ignore: int) -> Tensor:
    """`logits_to_gradient_` for the two passes of R-Drop, z (2, M, V)."""
    sums = torch.empty(2, len(labels), dtype=torch.float32, device=z.device)
    if len(labels):
        _visit_pair[(len(labels),)](
            z, labels, sums[0], sums[1], len(labels), z.stride(-2), z.size(-1), smoothing, strength, ignore,
            BLOCK=BLOCK, num_warps=8,
        )  # fmt: skip
    return sums.sum(dim=1)
