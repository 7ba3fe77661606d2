"""Real processes: killed at any moment and resumed to the bit; spread over two, one of which dies and is restarted."""

import contextlib
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.training.toy import toy_run, toy_settings, written_metrics

from regard.training.checkpoint import Checkpoints, read_weights

ROOT = Path(__file__).parents[2]


def environment(**extra: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1", **extra}


def kill_after(folder: Path, step: int, *overrides: str) -> None:
    """Start the run as a process of its own and SIGKILL it once its log has passed `step`, wherever it then is."""
    command = [sys.executable, "-m", "tests.training.toy", str(folder), *overrides]
    process = subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    metrics = folder / "metrics.jsonl"
    while not metrics.exists() or len(metrics.read_text().splitlines()) < step:  # a line every step
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.02)
            break
    process.kill()
    said, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL, said


def test_killed_and_resumed_to_the_bit(tmp_path: Path) -> None:
    values = {"max_steps": 120, "log_every": 1, "validate_every": 10, "ema": 0.9}
    kill_after(tmp_path / "killed", random.Random(11).randrange(20, 60), *(f"{k}={v}" for k, v in values.items()))
    good, _ = Checkpoints(tmp_path / "killed" / "checkpoints").newest_undamaged()
    assert good is not None
    settings = toy_settings(**values)
    assert toy_run(tmp_path / "killed", settings).step == toy_run(tmp_path / "whole", settings).step == 120
    assert written_metrics(tmp_path / "whole") == written_metrics(tmp_path / "killed")
    ends = [read_weights(Checkpoints(tmp_path / name / "checkpoints").resolve("last")) for name in ("whole", "killed")]
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


@pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="needs gloo")
@pytest.mark.parametrize(("parallel", "dies"), [("replicate", "0:3"), ("shard", "1:2")])
def test_two_processes_are_one_even_when_one_of_them_dies_and_is_restarted(
    tmp_path: Path, parallel: str, dies: str
) -> None:
    """One process with four micro-batches a step and two with two see the same parts, dropout included. One is killed
    while it writes the checkpoint of step 40."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1"]
    command = [*launch, "-m", "tests.training.toy", str(tmp_path / "two"), "max_steps=60", "accumulation=2"]
    result = subprocess.run(
        command,
        cwd=ROOT,
        env=environment(TOY_DIES=dies, TOY_PARALLEL=parallel),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0 and "max_steps 60" in result.stdout, result.stderr
    assert "resuming after step 20" in result.stderr
    toy_run(tmp_path / "one", toy_settings(max_steps=60, accumulation=4))
    ends = [read_weights(Checkpoints(tmp_path / name / "checkpoints").resolve("last")) for name in ("one", "two")]
    torch.testing.assert_close(ends[0], ends[1], rtol=1e-4, atol=1e-5)
    for one, two in zip(written_metrics(tmp_path / "one"), written_metrics(tmp_path / "two"), strict=True):
        assert (one["kind"], one["step"]) == (two["kind"], two["step"])
        if one["kind"] == "train":
            assert one["tokens"] == two["tokens"]
            for name in ("loss", "gradient_norm"):
                assert one[name] == pytest.approx(two[name], rel=1e-3)


@pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="needs gloo")
def test_a_mistake_of_the_user_is_reported_once_though_torchrun_restarts(tmp_path: Path) -> None:
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=1", "--max-restarts=2"]
    command = [*launch, "-m", "regard", "train", "dates", "model.d_modle=3", "--folder", str(tmp_path / "run")]
    result = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr.count("error [") == 1, result.stderr
