"""A corpus in parts: the same bytes from one process and from a Dask cluster that loses a worker; memory against size.

    python -m benchmarks.corpora --pairs 5000000 --parts 16

1. Generated pairs, every 50th a repetition, are prepared as one store, as parts in one process, and as parts by a Dask
   scheduler with two worker processes, one of which is killed (SIGKILL) after a quarter of the parts. The rows of the
   first two are compared, and every byte of the last two. `--sizes` repeats the first half for smaller corpora.
2. A store lists these parts again and again, up to a billion pairs. In a new process for each size, it is opened and
   batches of training are made: the process's own memory must not grow.
"""

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, cast

import numpy as np
from benchmarks.store_memory import MIB, memory, write_corpus

from regard.data.batch import Share
from regard.data.pairs import Pairs
from regard.data.parts import Plan
from regard.data.planning import Budget
from regard.data.pools import PooledBatches
from regard.data.store import PARTS, open_or_write
from regard.files import Manifest, digest
from regard.run.run import Run
from regard.run_files import MANIFEST, STORES
from regard.tasks.registry import load_recipe

RECIPE = """
name = "corpora"
task = "translation"
[data]
root = "{root}"
workers = 1
train = [{{file = "corpus.tsv"}}]
valid = [{{file = "valid.tsv"}}]
[text]
vocab_size = 8000
tokenizer_from = "{tokenizers}"
[model]
size = "tiny"
[training]
max_steps = 100
batch_tokens = 25000
learning_rate = 0.001
warmup = 10
validate_every = 100
"""
STEPS = 1000


def prepare_corpus(root: Path, pairs: int, words: tuple[int, int]) -> Path:
    """Write a corpus and its recipe, and learn the tokenizer from its first 100,000 pairs."""
    root.mkdir(parents=True, exist_ok=True)
    write_corpus(root / "unique.tsv", pairs, words)
    with (root / "unique.tsv").open(encoding="utf-8") as lines, (root / "corpus.tsv").open("w") as stream:
        kept = ""
        for number, line in enumerate(lines):
            stream.write(kept if number % 50 == 49 else line)
            kept = line if number % 1000 == 0 else kept
    (root / "unique.tsv").unlink()
    for name, count in (("valid.tsv", 200), ("sample.tsv", 100_000)):
        with (root / "corpus.tsv").open(encoding="utf-8") as lines, (root / name).open("w") as stream:
            stream.writelines(islice(lines, count))
    text = RECIPE.format(root=root, tokenizers=root / "tokenizers")
    (root / "corpora.toml").write_text(text)
    learning = text.replace("corpus.tsv", "sample.tsv").replace(f'tokenizer_from = "{root / "tokenizers"}"', "")
    (root / "sample.toml").write_text(learning)
    Run.create(root / "tokenizers", load_recipe(str(root / "sample.toml"), [])).prepare(lambda _: None)
    return root / "corpora.toml"


class Peaks:
    """The largest memory of processes, in bytes: their own, and resident (with pages of files)."""

    def __init__(self, *processes: subprocess.Popen[bytes]) -> None:
        self._processes = processes
        self.found = [(0, 0)] * len(processes)

    def sample(self) -> None:
        """Look once; a process that ended keeps what was seen."""
        for number, process in enumerate(self._processes):
            with suppress(OSError, KeyError):
                own, files = memory(str(process.pid))
                self.found[number] = max(own, self.found[number][0]), max(own + files, self.found[number][1])


def regard_prepare(recipe: Path, folder: Path, parts: int, *options: str) -> list[str]:
    """The command that prepares a corpus in parts."""
    command = [sys.executable, "-m", "regard", "prepare", str(recipe), "--folder", str(folder)]
    return [*command, "--parts", str(parts), *options]


def run_command(command: Sequence[str]) -> tuple[float, list[tuple[int, int]]]:
    """Seconds of a command, and its memory."""
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        peaks = Peaks(process)
        while process.poll() is None:
            peaks.sample()
            time.sleep(0.1)
    assert process.returncode == 0, command
    return time.perf_counter() - began, peaks.found


def on_cluster(recipe: Path, folder: Path, parts: int) -> tuple[float, list[tuple[int, int]], str]:
    """`regard prepare --on` with two workers; one is killed after a quarter of the parts. Seconds, the memory of both
    workers and of the command, and how many parts were complete when the worker was killed."""
    port, store = 18786, folder / STORES / "train"
    address, quiet = f"tcp://127.0.0.1:{port}", {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    dask = [sys.executable, "-m", "dask"]
    command = [*dask, "scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
    scheduler = subprocess.Popen(command, **quiet)  # type: ignore[call-overload]
    options = ["--nworkers", "1", "--nthreads", "1", "--no-nanny", "--no-dashboard"]
    workers = [subprocess.Popen([*dask, "worker", address, *options], **quiet) for _ in range(2)]  # type: ignore[call-overload]
    killed = ""
    try:
        began = time.perf_counter()
        process = subprocess.Popen(regard_prepare(recipe, folder, parts, "--on", address), stderr=subprocess.DEVNULL)
        peaks = Peaks(*workers, process)
        while process.poll() is None:
            peaks.sample()
            complete = len(list((store / PARTS).glob("[!.]*")))
            if not killed and complete:
                planned = len(Plan.read(store).slices)
                if complete >= planned // 4:
                    workers[0].send_signal(signal.SIGKILL)
                    workers[0].wait()
                    killed = f"{complete} of {planned}"
            time.sleep(0.1)
        assert process.returncode == 0 and killed, "regard prepare --on failed, or was too fast"
        return time.perf_counter() - began, peaks.found, killed
    finally:
        for child in (*workers, scheduler):
            child.kill()
            child.wait()


def digests(folder: Path) -> dict[str, str]:
    """sha256 of every file of a training store that does not depend on times."""
    store = folder / STORES / "train"
    files = [path for path in store.rglob("*") if path.is_file() and path.name not in ("digests.json", "plan.json")]
    return {str(path.relative_to(store)): digest(path) for path in files}


def same_rows(left: Path, right: Path) -> int:
    """Compare all rows of two training stores; their number."""
    stores = [Run.open(folder).store("train", lambda _: None) for folder in (left, right)]
    one, two = stores
    assert isinstance(one, Pairs) and isinstance(two, Pairs) and len(one) == len(two)
    for first in range(0, len(one), 100_000):
        rows = np.arange(first, min(first + 100_000, len(one)))
        for side in ("sources", "targets"):
            pairs = zip(getattr(one, side)(rows), getattr(two, side)(rows), strict=True)
            assert all(np.array_equal(ours, theirs) for ours, theirs in pairs)
    return len(one)


def single_store(recipe: Path, folder: Path) -> None:
    """The store that `regard train` writes in one process."""
    run = Run.create(folder, load_recipe(str(recipe), []))
    run.prepare(lambda _: None)
    run.store("train", lambda _: None)


def in_new_process(*arguments: str) -> dict[str, float]:
    """The figures that this module prints in a new process."""
    command = [sys.executable, "-m", "benchmarks.corpora", *arguments]
    result: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return result


def repeated_store(folder: Path, pairs: int) -> Path:
    """A store of `pairs` pairs or more: copies of the parts of another store, as hard links."""
    store = folder / STORES / "train"
    target, manifest = store.parent / f"repeated-{pairs}", Manifest.read(store / MANIFEST)
    listed = cast(list[dict[str, Any]], manifest.facts[PARTS])
    files: dict[str, Any] = {}
    parts = []
    for number in range(-(-pairs // sum(part["rows"] for part in listed))):
        for part in listed:
            names = {key: f"{number:05}/{part[key]}" for key in ("folder", "kept") if part[key]}
            for key, name in names.items():
                shutil.copytree(store / part[key], target / name, copy_function=os.link)
                files[f"{name}/{MANIFEST}"] = manifest.files[f"{part[key]}/{MANIFEST}"]
            parts.append({**part, **names})
    Manifest(manifest.format, manifest.inputs, files, {**manifest.facts, PARTS: parts}).write(target / MANIFEST)
    return target


def measure_batches(folder: Path, inputs: str, ranks: int) -> dict[str, float]:
    """Open a store as training does, and make batches in this process: the share of one of several ranks."""
    before, own, began = memory()[0], 0, time.perf_counter()
    pairs = Pairs(open_or_write(folder, inputs, {"src": np.uint16, "tgt": np.uint16}, lambda _: {}))
    opened = time.perf_counter() - began
    batches = PooledBatches(pairs, Budget(25_000), 1, Share(0, ranks))
    batches.batch(0)
    first = time.perf_counter() - began
    middle = int(np.random.default_rng(1).integers(0, batches.steps_in_epoch(0)))
    began = time.perf_counter()
    for step in range(middle, middle + STEPS):
        batches.batch(step)
        own = max(own, memory()[0] - before)
    each = (time.perf_counter() - began) / STEPS
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    files = len(list(Path("/proc/self/fd").iterdir()))
    return {"pairs": len(pairs), "open": opened, "first": first, "step": each, "own": own, "peak": peak, "files": files}


def processor_seconds() -> float:
    """Processor time of all processes that this one started and that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def compare(root: Path, pairs: int, parts: int, words: tuple[int, int]) -> None:
    """Part 1 for one size."""
    recipe = prepare_corpus(root, pairs, words)
    began = processor_seconds()

    def show(what: str, seconds: float, peaks: Sequence[tuple[int, int]], equal: str = "") -> None:
        nonlocal began
        used, began = processor_seconds() - began, processor_seconds()
        sizes = ", ".join(f"{own / MIB:.0f} ({all_pages / MIB:.0f})" for own, all_pages in peaks)
        print(f"{pairs:>12,} pairs, {what}: {seconds:.0f} s, {used:.0f} s of CPU, {sizes} MiB{equal}", flush=True)

    command = [sys.executable, "-m", "benchmarks.corpora", "--single", str(recipe), "--folder", str(root / "single")]
    show("one store", *run_command(command))
    seconds, peaks = run_command(regard_prepare(recipe, root / "one", parts))
    show("parts, one process", seconds, peaks, f"; {same_rows(root / 'single', root / 'one'):,} equal rows")
    seconds, peaks, killed = on_cluster(recipe, root / "cluster", parts)
    one = digests(root / "one")
    assert one == digests(root / "cluster"), "the bytes differ"
    show(f"two Dask workers, one killed after {killed} parts", seconds, peaks, f"; {len(one):,} equal files")
    size = sum(path.stat().st_size for path in (root / "one" / STORES / "train").rglob("*") if path.is_file())
    print(f"{'':>12}  text {(root / 'corpus.tsv').stat().st_size / pairs:.0f}, store {size / pairs:.0f} bytes a pair")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print seconds and memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5_000_000)
    parser.add_argument("--parts", type=int, default=16, help="maximum number of parts")
    parser.add_argument("--words", type=int, nargs=2, default=[5, 35], help="fewest and most words of a sentence")
    parser.add_argument("--sizes", type=int, nargs="*", default=[], help="smaller corpora, prepared first")
    parser.add_argument("--folder", type=Path, help="keep everything here")
    parser.add_argument("--single", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--batches", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--inputs", help=argparse.SUPPRESS)
    parser.add_argument("--ranks", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.batches is not None:
        print(json.dumps(measure_batches(options.batches, options.inputs, options.ranks)))
        return
    if options.single is not None:
        single_store(options.single, options.folder)
        return
    with tempfile.TemporaryDirectory() as temporary:
        root = options.folder or Path(temporary)
        for pairs in (*options.sizes, options.pairs):
            compare(root / str(pairs), pairs, options.parts, tuple(options.words))
        for pairs in (1, 10**8, 10**9):
            show_batches(repeated_store(root / str(options.pairs) / "one", pairs))


def show_batches(folder: Path) -> None:
    """Part 2 for one size: first with the digest of each part's manifest to compute, then with digests in a file."""
    inputs = str(Manifest.read(folder / MANIFEST).inputs)
    for ranks in (1, 1, 8):
        found = in_new_process("--batches", str(folder), "--inputs", inputs, "--ranks", str(ranks))
        times = f"open {found['open']:.2f} s, first batch {found['first']:.2f} s, a batch {found['step'] * 1e3:.1f} ms"
        sizes = f"own memory {found['own'] / MIB:.1f} MiB, peak {found['peak'] / MIB:.0f} MiB"
        print(
            f"{found['pairs']:>14,.0f} pairs, 1 of {ranks}: {times}, {sizes}, {found['files']} open files", flush=True
        )


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
