"""Training on a GPU in bf16, resumed, and the process group of gloo and NCCL."""

import signal
import socket
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from tests.training.test_training_loop import at
from tests.training.toy import toy_run, toy_settings, written_metrics

from regard import runtime
from regard.runtime import RuntimeSettings, close_world, open_world

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


@pytest.mark.parametrize("variant", [{}, {"ema": 0.9, "clip": 1.0, "weight_decay": 0.01, "accumulation": 2}])
def test_training_in_bf16_resumes_after_an_interrupt(tmp_path: Path, variant: dict[str, object]) -> None:
    world = open_world(RuntimeSettings(seed=3))
    assert (world.device.type, world.precision) == ("cuda", "bf16")
    settings = toy_settings(**variant)
    whole = toy_run(tmp_path / "whole", settings, world)
    assert whole.metrics["accuracy"] == 1
    stop = at(30, lambda: signal.raise_signal(signal.SIGINT))
    assert toy_run(tmp_path / "interrupted", settings, world, before=stop).reason == "interrupted"
    assert toy_run(tmp_path / "interrupted", settings, world).metrics["accuracy"] == 1
    for one, other in zip(written_metrics(tmp_path / "whole"), written_metrics(tmp_path / "interrupted"), strict=True):
        if one["kind"] == "train":
            assert one["loss"] == pytest.approx(other["loss"], rel=1e-2)


def test_process_group_reduces_on_cpu_and_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", str(port))
    runtime._join(0, 1, torch.device("cuda", 0))
    try:
        for device in ("cpu", "cuda"):
            value = torch.ones(2, dtype=torch.float64, device=device)
            dist.all_reduce(value)
            assert value.tolist() == [1, 1]
        box = ["metrics"]
        dist.broadcast_object_list(box, src=0, device=torch.device("cpu"))
    finally:
        close_world()
