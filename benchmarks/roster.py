"""Who is in the table, and how a peer is installed: beside this file, each in a folder of its own, touching nothing.

pip is never allowed to resolve (`--no-deps`): most peers pin a torch of their own time. Each line names the packages
its peer needs beside those of requirements-dev.txt; what a peer only imports and never uses here has a stand-in in its
adapter.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.worker import Failed, Worker

PEERS = Path(__file__).with_name(".peers")
PATIENCE = 900
"""Seconds an installation may take."""


@dataclass(frozen=True)
class Peer:
    """A row of the table."""

    name: str
    """What `--peers` calls it."""
    label: str
    module: str
    contender: str
    packages: tuple[str, ...] = ()
    """What to install for it."""
    folder: str = ""
    """Where to, when it is not its name."""
    trains: bool = True

    @property
    def home(self) -> Path:
        return PEERS / (self.folder or self.name)

    def start(self, threads: int) -> Worker:
        """Its process; what it is made of must be there."""
        folders = [self.home] if self.packages else []
        return Worker(f"benchmarks.peers.{self.module}", self.contender, folders, threads)


CTRANSLATE2 = ("ctranslate2==4.8.4",)
UNIT = Peer("torch", "torch.nn.Transformer", "pytorch", "Torch")
ROSTER = [
    UNIT,
    Peer("transformers", "transformers (Marian)", "marian", "Marian"),
    Peer("ctranslate2", "CTranslate2 float32", "ct2", "Float", CTRANSLATE2, trains=False),
    Peer("ctranslate2-int8", "CTranslate2 int8", "ct2", "Quantised", CTRANSLATE2, "ctranslate2", trains=False),
    Peer("regard", "regard", "ours", "Readable"),
    Peer("regard-prepared", "regard, prepared", "ours", "Prepared", trains=False),
    Peer(
        "regard-ctranslate2", "regard, CTranslate2 int8", "ours", "Quantised", CTRANSLATE2, "ctranslate2", trains=False
    ),
]
QUICK = [peer for peer in ROSTER if not peer.packages]


def chosen(names: str) -> list[Peer]:
    """`all`, or names with commas between; the unit and ours are always among them."""
    known = {peer.name: peer for peer in ROSTER}
    if names == "all":
        return ROSTER
    asked = {name.strip() for name in names.split(",") if name.strip()} | {UNIT.name, "regard"}
    if unknown := sorted(asked - set(known)):
        raise Failed(f"no peer is called {', '.join(unknown)}; there are {', '.join(known)}")
    return [peer for name, peer in known.items() if name in asked]


def install(peer: Peer) -> None:
    """Install what the peer needs, once; `Failed` says why it could not be."""
    wanted = "\n".join(peer.packages)
    mark = peer.home / ".ready"
    if not peer.packages or (mark.exists() and mark.read_text() == wanted):
        return
    aside = PEERS / f".{peer.home.name}.part"
    shutil.rmtree(aside, ignore_errors=True)
    command = [
        sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
        "--target", str(aside), *peer.packages,
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        raise Failed(f"its installation took longer than {PATIENCE} s") from None
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise Failed(f"pip: {errors[0] if errors else f'ended with {done.returncode}'}")
    (aside / ".ready").write_text(wanted)
    shutil.rmtree(peer.home, ignore_errors=True)
    os.replace(aside, peer.home)
