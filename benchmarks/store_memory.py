"""How much memory and time the store of a large corpus takes.

    python -m benchmarks.store_memory --pairs 5000000 --workers 2

Pairs of made-up words with a natural distribution of frequency are written to a temporary file, tokenised into a
store, and the resident memory of this process and its children is sampled while that happens.
"""

import argparse
import os
import random
import tempfile
import threading
import time
from itertools import accumulate
from pathlib import Path

from regard.data.corpora import Corpus, read_pairs
from regard.data.filters import Filters
from regard.data.settings import DataSettings
from regard.data.store import open_or_build
from regard.text import TextSettings, train_vocabulary

WORDS = 50_000
PAGE = os.sysconf("SC_PAGE_SIZE")


def write_corpus(path: Path, pairs: int) -> None:
    """Sentences of 5 to 35 words drawn by Zipf's law."""
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefghijklmnoprstuvwz", k=rng.randint(2, 10))) for _ in range(WORDS)]
    weights = list(accumulate(1 / rank for rank in range(1, WORDS + 1)))
    stock = rng.choices(words, cum_weights=weights, k=2_000_000)
    with path.open("w", encoding="utf-8") as stream:
        for _ in range(pairs):
            length, src, tgt = rng.randint(5, 35), rng.randrange(len(stock) - 40), rng.randrange(len(stock) - 40)
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
        """Start from nothing."""
        super().__init__(daemon=True)
        self.peak, self.ended = 0, threading.Event()

    def run(self) -> None:
        """Look ten times a second."""
        while not self.ended.wait(0.1):
            self.peak = max(self.peak, resident(os.getpid()))


def main() -> None:
    """Print pairs per second, peak memory and the size on disk."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5_000_000)
    parser.add_argument("--workers", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        write_corpus(root / "corpus.tsv", arguments.pairs)
        corpus = Corpus(file="corpus.tsv")
        settings = DataSettings(train=[corpus], valid=[corpus])
        sample = (text for pair in read_pairs(corpus, root) if pair.line <= 100_000 for text in pair[:2])
        vocab = train_vocabulary(sample, TextSettings())
        sampler = Sampler()
        sampler.start()
        began = time.perf_counter()
        store = open_or_build(
            root / "store", settings.train, root, vocab, vocab, Filters.of(settings), arguments.workers
        )
        seconds = time.perf_counter() - began
        sampler.ended.set()
        size = sum(path.stat().st_size for path in (root / "store").iterdir())
        print(store.report.table())
        print(f"{arguments.pairs / seconds:,.0f} pairs/s, {seconds:.0f} s")
        print(f"peak resident {sampler.peak / 2**30:.2f} GiB, on disk {size / 2**30:.2f} GiB")


if __name__ == "__main__":
    main()
