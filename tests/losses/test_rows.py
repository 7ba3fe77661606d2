"""The kernels of loss and gradient by rows against plain torch: on a GPU as they are, on a CPU interpreted."""

import pytest
import torch
from tests.interpreted import needs_triton, patch_interpreter, run_interpreted

from regard.losses import projected

IGNORE = 0


def compare(device: str) -> None:
    """Logits that are a slice of a wider matrix; a vocabulary of less and of more than one block; ignored labels."""
    from regard.losses import rows

    for vocabulary, block, smoothing, strength in ((7, 16, 0.0, 1.0), (37, 16, 0.1, 5.0)):
        rows.BLOCK = block
        torch.manual_seed(vocabulary)
        labels = torch.tensor([3, IGNORE, vocabulary - 1, 1])
        for passes in (1, 2):
            wide = torch.randn(passes, len(labels), vocabulary + 3) * 3
            ours, wanted = wide.clone().to(device), wide.clone().double()
            z, exact = ours[..., :vocabulary], wanted[..., :vocabulary]
            if passes == 1:
                sums = rows.logits_to_gradient_(z, labels.to(device), smoothing, IGNORE)
                expected = projected.smoothed(exact, labels, smoothing, IGNORE)
            else:
                sums = rows.paired_logits_to_gradient_(z, labels.to(device), smoothing, strength, IGNORE)
                expected = projected.paired(exact, labels, smoothing, strength, IGNORE)
            torch.testing.assert_close(sums.double().cpu(), expected, rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(ours.double().cpu(), wanted, rtol=1e-5, atol=1e-5)
            assert not bool(z[:, labels == IGNORE].any()), "an ignored row has no gradient"
    assert rows.logits_to_gradient_(z[:, :0], labels[:0].to(device), 0.1, IGNORE).tolist() == [0.0, 0.0]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_rows_are_those_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.losses.rows.BLOCK", 4096)
    compare("cuda")


@needs_triton
def test_interpreted_on_a_cpu_rows_are_those_of_torch() -> None:
    run_interpreted(__file__)


if __name__ == "__main__":
    patch_interpreter()
    compare("cpu")
