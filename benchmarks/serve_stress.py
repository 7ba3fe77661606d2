"""A server under hostile load: how long does a short sentence from a different client take, and how much memory?

It starts `regard serve` on a free loopback port (without its cache of sentences). A number of clients at once send the
longest texts that every limit allows, without a full stop: invented words, base64, real words, one single word.
Meanwhile a client with a different address sends short sentences, one after another. When the seconds are over, the
hostile clients close their connections, and one more short sentence is sent: what they left behind must not delay it.

    python -m benchmarks.serve_stress                                 the bundled translator, 16 clients for 30 s
    python -m benchmarks.serve_stress --engine ctranslate2 --repeat 3
    python -m benchmarks.serve_stress --same-client                   all requests come from one address

The command fails if a short sentence takes longer than --at-most seconds or is refused. The last columns are the
responses to the hostile requests by status, and the load of the machine.
"""

import argparse
import asyncio
import base64
import json
import os
import random
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from benchmarks.servers import running_server
from benchmarks.serving import PARTS, peak_memory, read_answer, sentence

PASSED_ON = ("engine", "threads", "max-batch", "batch-tokens", "timeout")
"""Options of `regard serve` that the command passes on."""
HOSTILE_ADDRESS, OTHER_ADDRESS = "127.0.0.1", "127.0.0.2"
LONGEST = 19_900
"""Characters of a hostile text; --max-characters is 20,000."""
PAUSE = 0.1
"""Seconds between two short sentences."""


@dataclass
class Result:
    """What the clients of one repetition saw."""

    durations: list[float] = field(default_factory=list)
    refused: Counter[int] = field(default_factory=Counter)
    hostile: Counter[str] = field(default_factory=Counter)
    afterwards: float = float("nan")
    memory: float = 0.0
    load: float = 0.0

    def row(self) -> list[str]:
        """A row of the table."""
        times = [statistics.median(self.durations), max(self.durations)] if self.durations else [float("nan")] * 2
        statuses = ", ".join(f"{status}: {count}" for status, count in sorted(self.hostile.items()))
        refused = ", ".join(f"{status}: {count}" for status, count in sorted(self.refused.items())) or "0"
        columns = [str(len(self.durations)), *(f"{value:.2f}" for value in (*times, self.afterwards)), refused]
        return [*columns, f"{self.memory:.0f}", statuses, f"{self.load:.1f}"]


def hostile_text(number: int) -> str:
    """A long text without the end of a sentence."""
    rng = random.Random(number)
    words = [word for part in PARTS for text in part for word in text.split()]
    kinds = (
        lambda: " ".join(f"w{number}{i}" for i in range(2600)),
        lambda: base64.b64encode(rng.randbytes(15_000)).decode(),
        lambda: " ".join(rng.choice(words) for _ in range(3000)),
        lambda: "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(19_000)),
    )
    return kinds[number % len(kinds)]()[:LONGEST]


async def post(address: str, text: str, languages: tuple[str, str], local: str) -> int:
    """The status of one request from a local address, over a connection of its own."""
    host, _, port = address.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), local_addr=(local, 0))
    try:
        body = json.dumps({"q": text, "source": languages[0], "target": languages[1]}).encode()
        head = f"POST /translate HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        return (await read_answer(reader))[0]
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def attack(address: str, number: int, languages: tuple[str, str], result: Result) -> None:
    """Send one hostile text again and again until this is cancelled."""
    while True:
        try:
            result.hostile[str(await post(address, hostile_text(number), languages, HOSTILE_ADDRESS))] += 1
            await asyncio.sleep(PAUSE)
        except asyncio.CancelledError:
            result.hostile["closed"] += 1
            raise


async def short_sentences(
    address: str, languages: tuple[str, str], local: str, end: float, limit: float, result: Result
) -> None:
    """Send one short sentence after another; one without a response at the end has the time until then."""
    rng = random.Random(0)
    while time.perf_counter() < end:
        started, status = time.perf_counter(), 0
        with suppress(TimeoutError):
            async with asyncio.timeout(limit):
                status = await post(address, sentence(rng), languages, local)
        result.durations.append(time.perf_counter() - started)
        if status != 200:
            result.refused[status] += 1
        await asyncio.sleep(PAUSE)


async def stress(address: str, options: argparse.Namespace) -> Result:
    """One repetition: hostile and short requests at the same time, then one short request."""
    languages, result = (options.source, options.target), Result()
    local = HOSTILE_ADDRESS if options.same_client else OTHER_ADDRESS
    await post(address, "Good morning.", languages, local)
    hostile = [asyncio.create_task(attack(address, i, languages, result)) for i in range(options.clients)]
    await asyncio.sleep(1.0)  # let all of them arrive
    end = time.perf_counter() + options.seconds
    await short_sentences(address, languages, local, end, 60, result)
    for task in hostile:
        task.cancel()
    await asyncio.gather(*hostile, return_exceptions=True)
    after = Result()
    await short_sentences(address, languages, local, time.perf_counter() + 0.01, 120, after)
    result.afterwards, result.load = after.durations[0], os.getloadavg()[0]
    result.refused += after.refused
    return result


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table, and check the longest time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", help="runs to serve; default: the bundled translator")
    parser.add_argument("--clients", type=int, default=16, help="hostile clients")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each repetition")
    parser.add_argument("--repeat", type=int, default=1, help="repetitions, each with a new server")
    parser.add_argument("--source", default="en")
    parser.add_argument("--target", default="de")
    parser.add_argument("--same-client", action="store_true", help="short sentences come from the same address")
    parser.add_argument("--at-most", type=float, default=2.0, help="seconds above which the command fails")
    for name in PASSED_ON:
        parser.add_argument(f"--{name}", help="option of regard serve")
    options = parser.parse_args(arguments)
    passed = [(f"--{name}", getattr(options, name.replace("-", "_"))) for name in PASSED_ON]
    given = [part for name, value in passed if value is not None for part in (name, value)]
    columns = ["short sentences", "p50 s", "max s", "after s", "refused", "RSS peak MB", "hostile: status", "load"]
    for row in (columns, ["---"] * len(columns)):
        print(f"| {' | '.join(row)} |", flush=True)
    results = []
    for _ in range(options.repeat):
        with running_server(options.runs, "--cache", "0", *given) as (address, process):
            result = asyncio.run(stress(address, options))
            result.memory = peak_memory(process)
        results.append(result)
        print(f"| {' | '.join(result.row())} |", flush=True)
    longest = max(max([*result.durations, result.afterwards]) for result in results)
    if longest > options.at_most or any(result.refused for result in results):
        raise SystemExit(f"a short sentence took {longest:.1f} s or was refused; allowed: {options.at_most} s")


if __name__ == "__main__":
    main()
