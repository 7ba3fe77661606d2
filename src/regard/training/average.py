"""The mean of several checkpoints' weights (Vaswani et al. 2017, section 6.1): a smoother model for no training."""

from collections.abc import Sequence
from pathlib import Path

import torch

from regard.errors import UserError
from regard.training.checkpoint import read_weights
from regard.training.weights import Tensors


def average_checkpoints(paths: Sequence[Path]) -> Tensors:
    """The mean of every floating-point tensor, summed in float64; other tensors must be equal and are kept.

    One checkpoint is held in memory at a time, beside the sum.
    """
    if not paths:
        raise UserError("there is no checkpoint to average", "train first, or name at least one")
    first = read_weights(paths[0])
    sums = {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in first.items()}
    for path in paths[1:]:
        weights = read_weights(path)
        _refuse_strangers(paths[0], first, path, weights)
        for name, tensor in weights.items():
            if tensor.is_floating_point():
                sums[name] += tensor
            elif not torch.equal(tensor, first[name]):
                raise UserError(f"{path} and {paths[0]} differ in {name}, which is not a weight and has no mean")
    return {
        name: (total / len(paths)).to(first[name].dtype) if first[name].is_floating_point() else total
        for name, total in sums.items()
    }


def _refuse_strangers(first_path: Path, first: Tensors, path: Path, weights: Tensors) -> None:
    for name in sorted(first.keys() | weights.keys()):
        shapes = [tuple(tensors[name].shape) if name in tensors else None for tensors in (first, weights)]
        if shapes[0] != shapes[1]:
            raise UserError(
                f"{path} and {first_path} are not of one model: "
                f"{name} is {shapes[1] or 'absent'} and {shapes[0] or 'absent'}",
                "average checkpoints of one run",
            )
