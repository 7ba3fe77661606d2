"""How much memory and time the store of a large corpus takes, to build and to open.

    python -m benchmarks.store_memory --pairs 5000000 --workers 2
    python -m benchmarks.store_memory --pairs 5000000 --folder FOLDER    keep it there, and later only open it again

Pairs of made-up words with a natural distribution of frequency are written to a file, tokenised into a store, and the
resident memory of this process and its children is sampled while that happens. Then new processes open the store as
training does: the first reads every byte, the second trusts what the first has seen.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import accumulate, islice
from pathlib import Path

from regard.data.fields import PAIRS
from regard.data.formats import read_examples
from regard.data.pairs import Pairs
from regard.data.planning import Batches, Budget
from regard.data.sources import Source
from regard.data.store import DIGESTS
from regard.files import write_json
from regard.reading import check_dataclass, read_json
from regard.tasks import operations
from regard.tasks.registry import build_recipe
from regard.tasks.translation import Translation
from regard.text.factory import load_tokenizer, train_tokenizer
from regard.text.settings import TextSettings

CORPUS, VOCABULARY, STORE, BUILT = "corpus.tsv", "tokenizer.json", "store", "built.json"
BATCH_TOKENS = 25_000
MIB, GIB = 2**20, 2**30
WORDS = 50_000
PAGE = os.sysconf("SC_PAGE_SIZE")


def write_corpus(path: Path, pairs: int, words: tuple[int, int] = (5, 35)) -> None:
    """Sentences with a random number of words, from the first to the second of `words`, drawn by Zipf's law."""
    rng = random.Random(1)
    known = ["".join(rng.choices("abcdefghijklmnoprstuvwz", k=rng.randint(2, 10))) for _ in range(WORDS)]
    weights = list(accumulate(1 / rank for rank in range(1, WORDS + 1)))
    stock = rng.choices(known, cum_weights=weights, k=2_000_000)
    with path.open("w", encoding="utf-8") as stream:
        for _ in range(pairs):
            length, src, tgt = rng.randint(*words), rng.randrange(len(stock) - 40), rng.randrange(len(stock) - 40)
            stream.write(f"{' '.join(stock[src : src + length])}\t{' '.join(stock[tgt : tgt + length])}\n")


def resident(pid: int) -> int:
    """Bytes of memory a process and all its children hold, shared pages counted each time."""
    try:
        own = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        threads = [task for task in Path(f"/proc/{pid}/task").iterdir() if task.name != str(pid)]
        children += [child for task in threads for child in (task / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return own + sum(resident(int(child)) for child in children)


class Sampler(threading.Thread):
    """Keeps the largest `resident` seen."""

    def __init__(self) -> None:
        """Start with an empty count."""
        super().__init__(daemon=True)
        self.peak, self.ended = 0, threading.Event()

    def run(self) -> None:
        """Look ten times a second."""
        while not self.ended.wait(0.1):
            self.peak = max(self.peak, resident(os.getpid()))


@dataclass(frozen=True)
class Built:
    """What building a store took: seconds, bytes of memory at the most, and bytes on the disk."""

    seconds: float
    peak: int
    disk: int


@dataclass(frozen=True)
class Opened:
    """What opening it took in a new process: seconds and memory up to there, then up to the first batch.

    Anonymous memory is the process's own; pages of files are those of the system's cache, which it takes back.
    """

    pairs: int
    open_seconds: float
    open_anonymous: int
    open_file: int
    batch_seconds: float
    batch_anonymous: int
    batch_file: int


def open_store(root: Path, workers: int = 0) -> Pairs:
    """The store of the corpus in `root`, as a run opens it."""
    source = {"file": CORPUS}
    data = {"root": str(root), "train": source, "valid": source, "workers": workers}
    recipe = build_recipe({"name": "benchmark", "data": data}, "benchmark")
    tokenizer = load_tokenizer(root / VOCABULARY)
    pairs: Pairs = operations.open_store(Translation(recipe, tokenizer, tokenizer), root, "train")  # type: ignore[arg-type]
    return pairs


def build(root: Path, pairs: int, workers: int) -> Built:
    """Make a corpus, a vocabulary and a store in `root`."""
    write_corpus(root / CORPUS, pairs)
    examples = islice(read_examples([Source(file=CORPUS)], root, PAIRS), 100_000)
    texts = (text for example in examples for text in (example["src"], example["tgt"]))
    train_tokenizer(texts, TextSettings()).save(root / VOCABULARY)
    sampler = Sampler()
    sampler.start()
    began = time.perf_counter()
    open_store(root, workers)
    seconds = time.perf_counter() - began
    sampler.ended.set()
    return Built(seconds, sampler.peak, sum(path.stat().st_size for path in (root / STORE).iterdir()))


def memory(pid: str = "self") -> tuple[int, int]:
    """Bytes a process holds: its own, and pages of files."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return int(fields["RssAnon"].split()[0]) * 1024, int(fields["RssFile"].split()[0]) * 1024


def measure_opening(root: Path) -> Opened:
    """Open the store in this process, and make the first batch of training."""
    before, began = memory(), time.perf_counter()
    store = open_store(root)
    opened, at_open = time.perf_counter(), memory()
    Batches(store, Budget(BATCH_TOKENS), seed=1).batch(0)
    batched, at_batch = time.perf_counter(), memory()
    return Opened(
        len(store),
        opened - began,
        at_open[0] - before[0],
        at_open[1] - before[1],
        batched - opened,
        at_batch[0] - before[0],
        at_batch[1] - before[1],
    )


def opened_anew(root: Path) -> Opened:
    """`measure_opening` in a new process."""
    command = [sys.executable, "-m", "benchmarks.store_memory", "--open", str(root)]
    return Opened(**json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def show(name: str, found: Opened) -> None:
    """One line for opening, one for the first batch."""
    print(f"{name}: {found.open_seconds:.2f} s, {found.open_anonymous / MIB:.0f} MiB of its own, "
          f"{found.open_file / MIB:.0f} MiB of pages")  # fmt: skip
    print(f"  its first batch (the epoch planned): {found.batch_seconds:.2f} s more, then "
          f"{found.batch_anonymous / MIB:.0f} MiB of its own, {found.batch_file / MIB:.0f} MiB of pages")  # fmt: skip


def main() -> None:
    """Print pairs per second, peak memory, the size on disk, and what opening takes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5_000_000)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="keep corpus and store here; one that is there is only opened")
    parser.add_argument("--json", action="store_true", help="print the figures for a program")
    parser.add_argument("--open", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.open is not None:
        print(json.dumps(asdict(measure_opening(arguments.open))))
        return
    with ExitStack() as stack:
        root = arguments.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if not (root / BUILT).exists():
            root.mkdir(parents=True, exist_ok=True)
            write_json(root / BUILT, asdict(build(root, arguments.pairs, arguments.workers)))
        built = check_dataclass(read_json(root / BUILT, dict), Built, root / BUILT)
        (root / STORE / DIGESTS).unlink(missing_ok=True)
        time.sleep(3)  # what was written a moment ago is not remembered
        first, again = opened_anew(root), opened_anew(root)
    if arguments.json:
        print(json.dumps({"built": asdict(built), "first": asdict(first), "again": asdict(again)}))
        return
    print(f"{first.pairs:,} pairs; built in {built.seconds:.0f} s ({first.pairs / built.seconds:,.0f} pairs/s), "
          f"peak resident {built.peak / GIB:.2f} GiB, on disk {built.disk / GIB:.2f} GiB")  # fmt: skip
    show("opened, every byte read", first)
    show("opened again", again)


if __name__ == "__main__":
    main()
