"""The Triton kernels, interpreted on a CPU, compute the same as `TorchKernels` and the searches in torch."""

from pathlib import Path

import torch
from tests.interpreted import needs_triton, run_interpreted

from regard.engines.device_kernels import TorchKernels

INTERPRETED = Path(__file__).with_name("interpreted_device_kernels.py")


@needs_triton
def test_triton_kernels_equal_torch() -> None:
    assert run_interpreted(INTERPRETED).split() == [
        "top_k",
        "self_attention",
        "cross_attention",
        "linear",
        "embed",
        "add_norm",
        "copy_parents",
        "greedy",
        "beam",
    ]


def test_among_equal_logits_the_lowest_token_comes_first() -> None:
    top_k = TorchKernels().top_k(torch.tensor([[1.0, 3.0, -0.0, 3.0, 0.0, -2.0, -2.0]]), 7, (3,))
    assert top_k.tokens.tolist() == [[1, 0, 2, 4, 5, 6, 3]]
    assert top_k.logits.tolist() == [[3.0, 1.0, 0.0, 0.0, -2.0, -2.0, -torch.inf]]


def test_forbidden_tokens_count_in_the_normalisation() -> None:
    logits = torch.randn(4, 9, generator=torch.Generator().manual_seed(0))
    top_k = TorchKernels().top_k(logits, 12, (0, 5))
    torch.testing.assert_close(top_k.log_z, logits.logsumexp(-1))
    assert top_k.logits.isneginf().sum(1).tolist() == [12 - 7] * 4
