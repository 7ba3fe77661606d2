"""The command train: killed and resumed to the bit, and in two processes with the result of one."""

import contextlib
import json
import random
import signal
import subprocess
import sys
from pathlib import Path

import torch
from tests.cli.command import fails, regard
from tests.system.helpers import ENVIRONMENT, assert_same_checkpoint, run_successfully, saved_tensors

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


def losses(run: Path) -> list[tuple[str, int, object]]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [(line["kind"], line["step"], line.get("loss", line.get("metrics"))) for line in lines]


def test_killed_and_resumed_run_equals_uninterrupted_run(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, dropout=0.1)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run_successfully("train", recipe, "--folder", whole)
    command = [sys.executable, "-m", "regard", "train", str(recipe), "--folder", str(killed)]
    process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lines = random.Random(17).randrange(20, 70)
    metrics = killed / "metrics.jsonl"
    while not metrics.exists() or metrics.read_bytes().count(b"\n") < lines:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.01)
            break
    process.kill()
    assert process.wait() == -signal.SIGKILL, "it is killed during training"
    assert len(list((killed / "checkpoints").glob("step-*"))) > 0
    run_successfully("train", killed)
    assert losses(killed) == losses(whole)
    assert_same_checkpoint(whole, killed)


def test_two_processes_give_the_weights_of_one(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, dropout=0.0)
    short = ("training.max_steps=12", "training.validate_every=12")
    assert regard("train", str(recipe), *short, "--folder", str(tmp_path / "one")).status == 0
    run_successfully("train", recipe, *short, "--folder", tmp_path / "two", processes=2)
    one, two = saved_tensors(tmp_path / "one"), saved_tensors(tmp_path / "two")
    # The bias of a key adds the same number to all scores of a query, which the softmax ignores: its gradient is only
    # rounding error, and Adam turns even that into steps of full length.
    for name in (name for name in one if not name.endswith("key.bias")):
        torch.testing.assert_close(one[name], two[name], atol=1e-4, rtol=1e-3, msg=name)
    pairs = zip(losses(tmp_path / "one"), losses(tmp_path / "two"), strict=True)
    for (kind, step, loss), (_, other_step, other_loss) in pairs:
        assert step == other_step
        if kind == "train":
            assert isinstance(loss, float) and isinstance(other_loss, float)
            assert abs(loss - other_loss) < 1e-4 * abs(loss)


def test_leftovers_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    recipe, run = write_recipe(tmp_path, dropout=0.0), tmp_path / "run"

    def write_leftover(folder: Path) -> None:
        (folder / ".recipe.toml.x1y2.partial").mkdir(parents=True)
        (folder / ".recipe.toml.x1y2.partial" / "recipe.toml").write_text("half a rec", encoding="utf-8")

    write_leftover(run)
    assert regard("train", str(recipe), "training.max_steps=2", "--folder", str(run)).status == 0
    write_leftover(run / "store")
    write_leftover(run / "checkpoints")
    assert regard("train", str(run), "training.max_steps=3").status == 0
    assert not list(run.rglob("*.partial"))


def test_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    recipe, other = write_recipe(tmp_path, dropout=0.0), tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("mine", encoding="utf-8")
    assert fails("train", recipe, "--folder", other).code == "not-a-run"
    assert [path.name for path in other.iterdir()] == ["thesis.txt"]
