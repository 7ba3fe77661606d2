"""Training and decoding throughput beside the peers, on the CPU: `make bench`.

Every contender runs in a process of its own and they take turns, one at a time, in another order every round: the same
batches, the same shapes, the same number of tokens to write. What is reported is the median over the rounds of its
speed divided by that of a plain torch.nn.Transformer loop in the same round: on a busy machine a ratio says more than
seconds. A peer that cannot be installed or run is named with its reason and left out.

    python -m benchmarks.cpu                                      what is installed already; captions of random words
    python -m benchmarks.cpu --src train.en.xz --tgt train.de.xz  your own text, a joint vocabulary of 8,000 pieces
    python -m benchmarks.cpu --peers all --threads 1 --rounds 3   every peer, installed into benchmarks/.peers first
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contender import OUTPUT, WIDTHS, Shape
from benchmarks.roster import QUICK, UNIT, Peer, chosen, install
from benchmarks.table import Results, facts_of_machine, markdown, screen
from benchmarks.worker import Facts, PeerError, Worker
from benchmarks.workload import PAIR_COUNT, Workload, captions, corpus

from regard.errors import UserError
from regard.files import write_json


@dataclass(frozen=True)
class Decoding:
    """A search to measure: how wide, how many sentences at once and how often."""

    width: int
    size: int
    batches: int

    @property
    def name(self) -> str:
        return f"{f'beam {self.width}' if self.width > 1 else 'greedy'}, batch {self.size}"


TRAINING = "training"
DECODINGS = [Decoding(width, size, batches) for size, batches in ((64, 1), (1, 8)) for width in WIDTHS]


class Bench:
    """The contenders that are still in the race, and what was found so far."""

    def __init__(self, workload: Workload, shape: Shape, rounds: int, least: float) -> None:
        self.workload, self.shape, self.rounds, self.least = workload, shape, rounds, least
        self.workers: dict[Peer, Worker] = {}
        self.results = Results(UNIT.name)

    def enter(self, peer: Peer) -> None:
        """Install and build it, or say why not."""
        print(f"preparing {peer.label}", file=sys.stderr)
        try:
            install(peer)
            worker = self.workers[peer] = peer.start(self.shape.threads)
            facts: Facts = worker.ask("build", self.shape, peer.unused)
        except PeerError as problem:
            self.drop(peer, "", str(problem))
        else:
            self.results.enter(peer.name, peer.label, facts.version, facts.parameters)

    def drop(self, peer: Peer, measure: str, reason: str) -> None:
        self.results.failures.append((peer.label, measure, reason))
        print(f"left out: {peer.label} {measure}: {reason}", file=sys.stderr)
        if not measure and peer in self.workers:
            self.workers.pop(peer).close()

    def turn(self, number: int, steps: int) -> None:
        """One round: every measure, every contender; a round before the first only warms up."""
        peers = list(self.workers)
        first = number * len(peers) // self.rounds  # in one round early, in another late
        order = peers[first:] + peers[:first]
        batches = self.workload.training(max(number, 0), steps if number >= 0 else 1)
        tokens = sum(batch.tokens for batch in batches)
        for peer in order:
            if peer.trains:
                self.measure(peer, TRAINING, number, tokens, "train", batches)
        for decoding in DECODINGS:
            sources = self.workload.sources(number + 1, decoding.size, decoding.batches)
            tokens = decoding.size * decoding.batches * OUTPUT
            asked = (sources, decoding.width, OUTPUT, self.least if number >= 0 else 0.0)
            for peer in order:
                self.measure(peer, decoding.name, number, tokens, "decode", *asked)

    def measure(self, peer: Peer, measure: str, number: int, tokens: int, *question: object) -> None:
        """One figure, tokens a second, unless the contender has failed here before or fails now."""
        if self.results.failed(peer.label, measure):
            return
        try:
            seconds = self.workers[peer].ask(*question)  # type: ignore[arg-type]
        except PeerError as problem:
            self.drop(peer, measure, str(problem))
            return
        if number >= 0:
            self.results.add(measure, peer.name, tokens / seconds)

    def close(self) -> None:
        for worker in self.workers.values():
            worker.close()


def run(peers: list[Peer], workload: Workload, shape: Shape, rounds: int, steps: int, least: float = 0.5) -> Results:
    """Every round of it; a decoding is measured for `least` seconds."""
    bench = Bench(workload, shape, rounds, least)
    try:
        for peer in peers:
            bench.enter(peer)
        if UNIT not in bench.workers:
            raise PeerError("nothing to compare with: the torch.nn.Transformer loop did not start")
        for number in range(-1, rounds):
            print(f"round {number + 1} of {rounds}" if number >= 0 else "warming up", file=sys.stderr)
            bench.turn(number, steps)
    finally:
        bench.close()
    return bench.results


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--src", help="source side of a corpus")
    parser.add_argument("--tgt", help="target side of it")
    parser.add_argument("--peers", help="all, or names with commas between [those that need no installation]")
    parser.add_argument("--rounds", type=int, default=3, help="rounds to take the median of [3]")
    parser.add_argument("--steps", type=int, default=3, help="training steps a round [3]")
    parser.add_argument("--tokens", type=int, default=2048, help="tokens a batch, on the longer side [2048]")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of each contender [1]")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure of every round there")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    options = parser.parse_args(arguments)
    if bool(options.src) != bool(options.tgt):
        parser.error("--src and --tgt go together")
    for name in ("rounds", "steps", "threads", "tokens"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} is at least 1")
    return options


def main(arguments: list[str] | None = None) -> None:
    options = options_of(arguments)
    shape = Shape(threads=options.threads)
    try:
        peers = chosen(options.peers) if options.peers else QUICK
        examples = (
            corpus(options.src, options.tgt, PAIR_COUNT, shape.vocabulary)
            if options.src
            else captions(PAIR_COUNT, shape.vocabulary)
        )
        results = run(peers, Workload(examples, options.tokens), shape, options.rounds, options.steps)
    except (PeerError, UserError) as problem:
        sys.exit(str(problem))
    text = f"{Path(options.src).name} and {Path(options.tgt).name}" if options.src else "generated captions"
    machine = facts_of_machine(shape, options.tokens, options.rounds, text)
    (markdown if options.markdown else screen)(results, machine)
    if options.json:
        write_json(options.json, results.as_json() | {"machine": machine})


if __name__ == "__main__":
    main()
