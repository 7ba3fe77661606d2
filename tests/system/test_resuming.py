"""The command, as people use it: killed and resumed to the bit, and spread over two processes with one result."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
RECIPE = """
name = "small"
[data]
root = "{root}"
train = {{ file = "text.tsv" }}
valid = {{ file = "valid.tsv" }}
max_length = 32
workers = 1
[text]
kind = "char"
vocab_size = 300
[model]
size = "tiny"
d_model = 32
num_heads = 2
d_ff = 64
dropout = {dropout}
[training]
max_steps = 90
batch_tokens = 300
schedule = "inverse_sqrt"
learning_rate = 2e-3
warmup = 10
log_every = 1
validate_every = 15
samples = 0
r_drop = 1.0
[runtime]
device = "cpu"
threads = 1
"""


def write_recipe(folder: Path, dropout: float) -> Path:
    rng = random.Random(5)
    for name, count in (("text.tsv", 300), ("valid.tsv", 20)):
        lines = ["".join(rng.choices("abcdef", k=rng.randint(1, 12))) for _ in range(count)]
        (folder / name).write_text("".join(f"{line}\t{line[::-1]}\n" for line in lines), encoding="utf-8")
    recipe = folder / "small.toml"
    recipe.write_text(RECIPE.format(root=folder.as_posix(), dropout=dropout), encoding="utf-8")
    return recipe


def regard(*arguments: object, launch: tuple[str, ...] = ("-m", "regard")) -> None:
    done = subprocess.run(
        [sys.executable, *launch, *map(str, arguments)], env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def losses(run: Path) -> list[tuple[str, int, Any]]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [(line["kind"], line["step"], line.get("loss", line.get("metrics"))) for line in lines]


def last_weights(run: Path) -> dict[str, torch.Tensor]:
    folder = sorted((run / "checkpoints").glob("step-*"))[-1]
    return load_file(folder / "model.safetensors")


def test_a_run_killed_at_any_moment_and_resumed_is_the_uninterrupted_run(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, dropout=0.1)
    regard("train", recipe, "--folder", tmp_path / "whole")
    killed = tmp_path / "killed"
    command = [sys.executable, "-m", "regard", "train", str(recipe), "-o", str(killed)]
    process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wanted = random.Random(17).randrange(20, 70)
    metrics = killed / "metrics.jsonl"
    while not metrics.exists() or metrics.read_bytes().count(b"\n") < wanted:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.01)
            break
    process.kill()
    assert process.wait() == -signal.SIGKILL, "it must die in the middle of its work"
    assert len(list((killed / "checkpoints").glob("step-*"))) > 0
    regard("train", killed)
    assert losses(killed) == losses(tmp_path / "whole")
    whole, resumed = last_weights(tmp_path / "whole"), last_weights(killed)
    assert whole.keys() == resumed.keys()
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_two_processes_give_the_weights_of_one(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, dropout=0.0)
    short = ("training.max_steps=12", "training.validate_every=12")
    regard("train", recipe, *short, "--folder", tmp_path / "one")
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "regard")
    regard("train", recipe, *short, "--folder", tmp_path / "two", launch=torchrun)
    one, two = last_weights(tmp_path / "one"), last_weights(tmp_path / "two")
    # A key's bias adds the same number to all scores of a query, which softmax ignores: its gradient is nothing but
    # rounding, and Adam makes steps of full length even of that.
    for name in (name for name in one if not name.endswith("key.bias")):
        torch.testing.assert_close(one[name], two[name], atol=1e-4, rtol=1e-3, msg=name)
    for (kind, step, loss), (_, other_step, other_loss) in zip(
        losses(tmp_path / "one"), losses(tmp_path / "two"), strict=True
    ):
        assert step == other_step
        if kind == "train":
            assert abs(loss - other_loss) < 1e-4 * abs(loss)


def test_what_a_kill_left_aside_is_swept_and_stops_nobody(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, dropout=0.0)
    run = tmp_path / "run"

    def leave(place: Path) -> None:
        (place / ".recipe.toml.x1y2.partial").mkdir(parents=True)
        (place / ".recipe.toml.x1y2.partial" / "recipe.toml").write_text("half a rec", encoding="utf-8")

    leave(run)
    regard("train", recipe, "training.max_steps=2", "--folder", run)
    leave(run / "store")
    leave(run / "checkpoints")
    regard("train", run, "training.max_steps=3")
    assert not list(run.rglob("*.partial"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("mine", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "regard", "train", str(recipe), "--folder", str(tmp_path / "other")],
        env=ENVIRONMENT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and "not empty and not a run" in done.stderr
