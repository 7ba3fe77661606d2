"""Load of a translation server: many clients at once beside one request at a time, and beside another server.

It starts `regard serve` (without its cache of sentences), then clients send one sentence after another over connections
that stay open, first one client, then many. The clients run in this process, on the same machine. All servers get the
same requests: LibreTranslate's POST /translate. The last line says how many times more sentences a second many clients
get than one, and the command fails if that is less than --at-least, or if a request fails.

    python -m benchmarks.serving                                      the bundled translator, 64 clients for 60 s
    python -m benchmarks.serving runs/de --seconds 10 --engine ctranslate2
    python -m benchmarks.serving --also LibreTranslate=http://127.0.0.1:5001
"""

import argparse
import asyncio
import json
import random
import re
import statistics
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.servers import running_server

PARTS = (
    ("Yesterday", "This morning", "After the meeting", "On Monday", "When it rained", "In the summer of last year"),
    ("my sister", "the old man", "a young teacher", "our neighbour", "the new student from Spain", "nobody"),
    ("bought", "forgot", "found", "wanted to see", "talked about", "could not understand"),
    ("a red car", "the book on the table", "two tickets for the train", "the house near the river", "some water"),
    ("", "in the city", "with her friends", "because it was late", "and went home without saying a word"),
)
"""Sentences of the load: one part after another."""


PASSED_ON = ("engine", "quantization", "threads", "languages", "max-batch", "batch-delay", "device")
"""Options of `regard serve` that the command passes on."""


@dataclass
class Result:
    """What the clients of one run of the load saw."""

    name: str
    clients: int
    seconds: float = 0.0
    durations: list[float] = field(default_factory=list)
    errors: int = 0
    memory: float = 0.0
    """The largest resident memory of the server in MB; 0 if it is not known."""

    @property
    def rate(self) -> float:
        """Sentences a second."""
        return len(self.durations) / self.seconds

    def quantile(self, share: float) -> float:
        """Milliseconds within which this share of the requests was answered."""
        ordered = sorted(self.durations)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")

    def row(self) -> list[str]:
        """A row of the table."""
        mean = 1000 * statistics.mean(self.durations) if self.durations else float("nan")
        times = [f"{value:.0f}" for value in (self.quantile(0.5), self.quantile(0.99), mean)]
        memory = f"{self.memory:.0f}" if self.memory else ""
        return [self.name, str(self.clients), f"{self.rate:.1f}", *times, str(self.errors), memory]


def sentence(rng: random.Random) -> str:
    """One sentence of the load; there are 5,400 of them."""
    return " ".join(filter(None, (rng.choice(part) for part in PARTS))) + "."


async def client(address: str, languages: tuple[str, str], seed: int, end: float, result: Result) -> None:
    """Send one sentence after another over one connection until `end`."""
    host, _, port = address.removeprefix("http://").rstrip("/").partition(":")
    rng = random.Random(seed)
    reader, writer = await asyncio.open_connection(host, int(port or 80))
    try:
        while time.perf_counter() < end:
            values = {"q": sentence(rng), "source": languages[0], "target": languages[1], "format": "text"}
            body = json.dumps(values).encode()
            head = f"POST /translate HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
            started = time.perf_counter()
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            status, content = await read_answer(reader)
            if status == 200 and "translatedText" in json.loads(content):
                result.durations.append(time.perf_counter() - started)
            else:
                result.errors += 1
    except (OSError, asyncio.IncompleteReadError, ValueError):
        result.errors += 1
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Status and body of one answer with a Content-Length."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    (length,) = re.findall(r"^content-length: *(\d+)", head, re.MULTILINE | re.IGNORECASE)
    return int(head.split(" ", 2)[1]), await reader.readexactly(int(length))


async def load(name: str, address: str, languages: tuple[str, str], clients: int, seconds: float) -> Result:
    """The load of some clients; a request in progress at the end is counted, and so is its time."""
    result, started = Result(name, clients), time.perf_counter()
    end = started + seconds
    await asyncio.gather(*(client(address, languages, seed, end, result) for seed in range(clients)))
    result.seconds = time.perf_counter() - started
    return result


def peak_memory(process: int) -> float:
    """The largest resident memory of a process in MB."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0.0
    return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1000


def measure(options: argparse.Namespace) -> list[Result]:
    """Start the server, put the load on it and stop it."""
    passed: list[str] = []
    for name in PASSED_ON:
        value = getattr(options, name.replace("-", "_"))
        passed += [] if value is None else [f"--{name}", value]
    with running_server(options.runs, "--cache", "0", *passed) as (address, process):
        return measure_address("regard", address, options, process)


def measure_address(name: str, address: str, options: argparse.Namespace, process: int = 0) -> list[Result]:
    """The load on a server that runs: some requests to warm it up, one client, then all clients."""
    languages = (options.source, options.target)
    asyncio.run(load(name, address, languages, 2, min(2.0, options.seconds)))
    results = []
    for clients in (1, options.clients):
        result = asyncio.run(load(name, address, languages, clients, options.seconds))
        result.memory = peak_memory(process) if process else 0.0
        results.append(result)
    return results


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table, and check errors and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", help="runs to serve; default: the bundled translator")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each measurement")
    parser.add_argument("--source", default="en")
    parser.add_argument("--target", default="de")
    parser.add_argument("--also", action="append", default=[], metavar="NAME=URL", help="another server that runs")
    parser.add_argument("--at-least", type=float, default=3.0, help="ratio below which the command fails")
    for name in PASSED_ON:
        parser.add_argument(f"--{name}", help="option of regard serve")
    options = parser.parse_args(arguments)
    results = measure(options)
    ratio = results[1].rate / max(results[0].rate, 1e-9)
    for other in options.also:
        name, _, address = other.partition("=")
        results += measure_address(name, address, options)
    columns = ["server", "clients", "sentences/s", "p50 ms", "p99 ms", "mean ms", "errors", "RSS MB"]
    for row in (columns, ["---"] * len(columns), *(result.row() for result in results)):
        print(f"| {' | '.join(row)} |")
    print(f"\n{options.clients} clients get {ratio:.1f} times the sentences a second of one request at a time")
    errors = sum(result.errors for result in results[:2])
    if errors or ratio < options.at_least:
        raise SystemExit(f"{errors} errors; the ratio must be at least {options.at_least}")


if __name__ == "__main__":
    main()
