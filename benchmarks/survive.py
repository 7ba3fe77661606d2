"""Kill a training run at random moments, over and over, until it is done; then hold it against one left in peace.

    python -m benchmarks.survive --runs 3
    python -m benchmarks.survive --ranks 2 --parallel shard --kills 100

Every kill is SIGKILL, at any moment from the first second on: while the vocabulary is learnt, the store is written, a
step is computed or a checkpoint is saved. The run must end with the same losses and the same weights, to the bit.

With `--ranks`, torchrun starts the processes, one random process is killed each time, and torchrun restarts them all.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

SMALL = [
    "text.dropout=0.1", "text.vocab_size=400", "model.d_model=32", "model.num_heads=2", "model.d_ff=64",
    "model.dropout=0.1", "training.max_steps=150", "training.warmup=20", "training.batch_tokens=256",
    "training.validate_every=20", "training.log_every=1", "training.monitor=loss", "training.samples=0",
    "training.ema=0.9", "training.r_drop=1.0", "runtime.device=cpu", "runtime.threads=1",
]  # fmt: skip


def write_text(folder: Path) -> None:
    rng = random.Random(5)
    lines = ["".join(rng.choices("abcdef ", k=rng.randint(3, 12))) for _ in range(300)]
    (folder / "text.tsv").write_text("".join(f"x{line}\t{line[::-1]}x\n" for line in lines), encoding="utf-8")


def command(folder: Path, ranks: int = 1, parallel: str = "auto") -> list[str]:
    text = [f"data.{part}={{ file = 'text.tsv' }}" for part in ("train", "valid", "test")]
    settings = [f"data.root={folder.parent}", "data.workers=1", *text, *SMALL]
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", "--max-restarts=1000"]
    settings += [f"runtime.parallel={parallel}"] if ranks > 1 else []
    program = [sys.executable, *(launch if ranks > 1 else []), "-m", "regard", "train", "numbers"]
    return [*program, *settings, "--folder", str(folder), "--resume"]


def losses(folder: Path) -> list[tuple[str, int, Any]]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [(line["kind"], line["step"], line.get("loss", line.get("metrics"))) for line in lines]


def weights(folder: Path) -> dict[str, Any]:
    return load_file(sorted((folder / "checkpoints").glob("step-*"))[-1] / "model.safetensors")


def harass(folder: Path, rng: random.Random, longest: float) -> int:
    """Start the run, kill it after a random while, start it again; return how many kills it took to finish."""
    kills = 0
    while True:
        process = subprocess.Popen(command(folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            said, _ = process.communicate(timeout=rng.uniform(0.5, longest * (1 + kills / 20)))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
            continue
        if process.returncode:
            sys.exit(f"the run ended with {process.returncode}:\n{said}")
        return kills


def harass_ranks(folder: Path, rng: random.Random, longest: float, launch: list[str]) -> int:
    """Start the run with torchrun, kill random processes of it until it is done; return the number of kills."""
    kills = 0
    with (folder.parent / "said.txt").open("w+") as said:
        agent = subprocess.Popen(launch, stdout=said, stderr=said)
        while True:
            with suppress(subprocess.TimeoutExpired):
                agent.wait(rng.uniform(0.5, longest * (1 + kills / 20)))
                break
            tasks = Path(f"/proc/{agent.pid}/task").glob("*/children")
            workers = [int(child) for task in tasks for child in task.read_text().split()]
            if workers:
                with suppress(ProcessLookupError):
                    os.kill(rng.choice(workers), signal.SIGKILL)
                    kills += 1
        if agent.returncode:
            said.seek(0)
            sys.exit(f"the run ended with {agent.returncode}:\n{said.read()}")
    return kills


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="runs to kill [3]")
    parser.add_argument("--longest", type=float, default=6.0, help="most seconds between two kills [6]")
    parser.add_argument("--kills", type=int, default=0, help="kill runs until there were so many kills")
    parser.add_argument("--ranks", type=int, default=1, help="processes of a run [1]")
    parser.add_argument("--parallel", default="auto", help="runtime.parallel of several processes [auto]")
    parser.add_argument("--seed", type=int, default=1, help="of the moments [1]")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as place:
        write_text(Path(place))
        given = options.ranks, options.parallel
        subprocess.run(command(Path(place) / "peace", *given), check=True, capture_output=True)
        expected, final = losses(Path(place) / "peace"), weights(Path(place) / "peace")
        number = total = 0
        began = time.monotonic()
        while total < options.kills if options.kills else number < options.runs:
            number += 1
            folder = Path(place) / f"run-{number}"
            if options.ranks > 1:
                kills = harass_ranks(folder, rng, options.longest, command(folder, *given))
            else:
                kills = harass(folder, rng, options.longest)
            found, total = weights(folder), total + kills
            same = losses(folder) == expected and all(found[name].equal(final[name]) for name in final)
            print(f"run {number}: {kills} kills, {'bit-identical' if same else 'DIFFERENT'}", flush=True)
            if not same:
                sys.exit(1)
        print(f"{number} runs, {total} kills, all bit-identical, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
