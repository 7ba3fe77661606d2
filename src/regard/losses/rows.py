"""The softmax of many rows of scores, its loss and its gradient in one visit: what cross-entropy costs at a large V.

Row by row: the scores are read once to find log sum exp, and a second time, from the cache, to be overwritten with
p - q. In plain torch each of the operations below would read and write the whole matrix (M, V) again.

M positions, V vocabulary.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 4096


@triton.jit
def _visit(Z, LABELS, OBJECTIVE, NLL, V, smoothing, ignore, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    label = tl.load(LABELS + row)
    top, total, mean = float("-inf"), 0.0, 0.0
    for first in range(0, V, BLOCK):
        places = first + tl.arange(0, BLOCK)
        z = tl.load(Z + row * V + places, mask=places < V, other=float("-inf")).to(tl.float32)
        new_top = tl.maximum(top, tl.max(z, 0))
        total = total * tl.exp(top - new_top) + tl.sum(tl.exp(z - new_top), 0)
        mean += tl.sum(tl.where(places < V, z, 0.0), 0) / V
        top = new_top
    lse = top + tl.log(total)
    real = tl.where(label == ignore, 0.0, 1.0)
    nll = (lse - tl.load(Z + row * V + label).to(tl.float32)) * real
    tl.store(NLL + row, nll)
    tl.store(OBJECTIVE + row, (1.0 - smoothing) * nll + smoothing * (lse - mean) * real)
    tl.debug_barrier()  # the label's score is read before it is overwritten
    for first in range(0, V, BLOCK):
        places = first + tl.arange(0, BLOCK)
        z = tl.load(Z + row * V + places, mask=places < V, other=0.0).to(tl.float32)
        q = tl.where(places == label, 1.0 - smoothing, 0.0) + smoothing / V
        tl.store(Z + row * V + places, ((tl.exp(z - lse) - q) * real).to(Z.dtype.element_ty), mask=places < V)


def visit_rows(z: Tensor, labels: Tensor, smoothing: float, ignore: int) -> tuple[Tensor, Tensor]:
    """Scores z (M, V), contiguous, become dL/dz; returned are the objective and the negative log-likelihood, summed."""
    found = torch.empty(2, len(z), dtype=torch.float32, device=z.device)
    if len(z):
        _visit[(len(z),)](z, labels, found[0], found[1], z.size(1), smoothing, ignore, BLOCK=BLOCK, num_warps=8)
    objective, nll = found.sum(dim=1)
    return objective, nll
