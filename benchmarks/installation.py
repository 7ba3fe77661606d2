"""Seconds from `pip install` to the first translation, in a new environment with an empty home folder.

    python -m benchmarks.installation                      the wheel with the extra serve
    python -m benchmarks.installation --extras all --keep folder/

The wheel is built from this repository. torch is installed first and alone, as the Makefile does, then the wheel with
its extras. The commands run with an empty HOME and without a network, if `unshare` can take it away. Seconds are wall
clock; memory is the peak resident set of the process. Installing depends on the network, as pip's cache is not used.
"""

import argparse
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
TORCH = "torch==2.13.0"
BUILD = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
TEXT, TARGET = "Good morning. How are you?", "de"
WAIT_SECONDS = 300.0
"""How long the server may take to start."""


@dataclass
class Table:
    """The rows that are printed at the end."""

    rows: list[tuple[str, float | None, str]] = field(default_factory=list)
    """What was done, its seconds, and what else was measured."""

    def add(self, name: str, seconds: float | None, more: str = "") -> None:
        print(f"{name}: {'' if seconds is None else f'{seconds:.1f} s '}{more}", file=sys.stderr, flush=True)
        self.rows.append((name, seconds, more))

    def print(self) -> None:
        print("| step | seconds | size, memory, result |\n| --- | ---: | --- |")
        for name, seconds, more in self.rows:
            print(f"| {name} | {'' if seconds is None else f'{seconds:.1f}'} | {more} |")


@dataclass(frozen=True)
class Environment:
    """A new virtual environment and a home folder of its own."""

    folder: Path
    offline: tuple[str, ...]
    """The words before a command that take the network away."""

    @property
    def bin(self) -> Path:
        return self.folder / "venv" / "bin"

    @property
    def variables(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("LANG", "TERM") if name in os.environ}
        pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_") or name.endswith("_proxy")}
        return (
            kept
            | pip
            | {"HOME": str(self.folder / "home"), "PATH": f"{self.bin}:/usr/bin:/bin", "PIP_NO_CACHE_DIR": "1"}
        )

    def run(self, *command: str) -> tuple[str, float]:
        """What a command prints, and its seconds; an error ends the benchmark with what it printed."""
        started = time.perf_counter()
        result = subprocess.run(
            command, env=self.variables, cwd=self.folder, capture_output=True, text=True, check=False
        )
        if result.returncode:
            sys.exit(f"{' '.join(command)}: status {result.returncode}\n{result.stdout}\n{result.stderr}")
        return result.stdout.strip(), time.perf_counter() - started


def mebibytes(path: Path) -> float:
    """The size of all files below a folder."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file() and not file.is_symlink()) / 2**20


def take_network_away() -> tuple[str, ...]:
    """`unshare` with a network of its own, which has only the loopback device; nothing where it is not allowed."""
    words = ("unshare", "--user", "--map-root-user", "--net")
    allowed = (
        shutil.which("unshare") and subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0
    )
    return words if allowed else ()


def install(environment: Environment, extras: str, table: Table) -> None:
    """Build the wheel, make the environment, install torch and the wheel."""
    started = time.perf_counter()
    built = subprocess.run(
        [sys.executable, "-c", BUILD, str(environment.folder)], cwd=ROOT, check=True, capture_output=True, text=True
    )
    wheel = environment.folder / built.stdout.strip()
    table.add("the wheel is built", time.perf_counter() - started, f"{wheel.stat().st_size / 2**20:.1f} MiB")
    (environment.folder / "home").mkdir()
    _, seconds = environment.run(sys.executable, "-m", "venv", str(environment.folder / "venv"))
    table.add("python -m venv", seconds)
    pip = (str(environment.bin / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    _, seconds = environment.run(*pip, TORCH)
    site = next((environment.folder / "venv" / "lib").glob("python*/site-packages"))
    table.add(f"pip install {TORCH}", seconds, f"{mebibytes(site):,.0f} MiB")
    before = mebibytes(site)
    _, seconds = environment.run(*pip, f"regard[{extras}] @ file://{wheel}")
    own, bundled = mebibytes(site / "regard"), mebibytes(site / "regard" / "bundled")
    table.add(
        f'pip install "regard[{extras}]"',
        seconds,
        f"{mebibytes(site) - before:,.0f} MiB, of which regard is {own:.0f} MiB with {bundled:.1f} MiB of models",
    )


def use(environment: Environment, table: Table) -> None:
    """The first commands, without a network."""
    regard = (*environment.offline, str(environment.bin / "regard"))
    for name in ("first", "second"):
        out, seconds = environment.run(*regard, "translate", "--to", TARGET, TEXT)
        table.add(f'regard translate --to {TARGET} "{TEXT}", {name} time', seconds, out)
    out, seconds = environment.run(*regard, "predict", "languages", "Guten Morgen", "--top", "1")
    table.add('regard predict languages "Guten Morgen"', seconds, out)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    table.add("peak memory of the commands and of pip", None, f"{peak:,.0f} MiB")


@contextmanager
def server(environment: Environment, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A running `regard serve`."""
    command = [str(environment.bin / "regard"), "serve", "--port", str(port)]
    process = subprocess.Popen(command, env=environment.variables, cwd=environment.folder, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(WAIT_SECONDS)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(answer: Callable[[], object], process: "subprocess.Popen[bytes]") -> object:
    """The first answer that is not an error."""
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            return answer()
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.05)
    sys.exit(f"the server gave no answer; status {process.poll()}")


def memory_of(process: "subprocess.Popen[bytes]", name: str) -> float:
    """MiB of VmRSS or VmHWM."""
    lines = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024


def serve(environment: Environment, table: Table) -> None:
    """Seconds from the start of the server to its first translation, and its memory."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/translate"
    body = json.dumps({"q": TEXT, "source": "en", "target": TARGET}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})

    def translate() -> str:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return str(json.load(answer)["translatedText"])

    started = time.perf_counter()
    with server(environment, port) as process:
        text = wait_for(translate, process)
        table.add("regard serve, to the first answer of /translate", time.perf_counter() - started, str(text))
        started = time.perf_counter()
        translate()
        now, peak = memory_of(process, "VmRSS"), memory_of(process, "VmHWM")
        table.add("the same request again", time.perf_counter() - started, f"{now:,.0f} MiB, peak {peak:,.0f} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--extras", default="serve", help="extras of the wheel, with commas")
    parser.add_argument("--keep", type=Path, help="make the environment in this new folder, and keep it")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="regard-installation-") as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        environment, table = Environment(folder.absolute(), take_network_away()), Table()
        install(environment, arguments.extras, table)
        use(environment, table)
        serve(environment, table)
        to_first = sum(
            seconds or 0 for name, seconds, _ in table.rows if name.startswith("pip") or name.endswith("first time")
        )
        table.add("from pip install to the first translation", to_first)
        table.add("the environment on the disk", None, f"{mebibytes(environment.folder / 'venv'):,.0f} MiB")
        table.print()


if __name__ == "__main__":
    main()
