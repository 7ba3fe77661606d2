"""Who is in the table, and how a peer is installed: beside this file, each in a folder of its own, touching nothing.

pip is never allowed to resolve (`--no-deps`): most peers pin a torch of their own time. Each row names the packages
its peer needs beside those of requirements-dev.txt, and those it imports but never uses here.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.worker import PeerError, Worker

PEERS = Path(__file__).with_name(".peers")
PURE = {"READTHEDOCS": "1"}
"""Tells the setup of fairseq, which has no wheel, to leave its extensions out."""
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
    unused: tuple[str, ...] = ()
    """What gets a stand-in where it is absent."""
    folder: str = ""
    """Where to install, when it is not its name."""
    trains: bool = True

    @property
    def home(self) -> Path:
        return PEERS / (self.folder or self.name)

    def start(self, threads: int) -> Worker:
        """Its process; what it is made of must be there."""
        folders = [self.home] if self.packages else []
        return Worker(f"benchmarks.peers.{self.module}", self.contender, folders, threads)


CTRANSLATE2 = ("ctranslate2==4.8.4",)
TOKENIZER = "pyonmttok==1.38.1"
PLOTS = ("matplotlib", *(f"matplotlib.{part}" for part in ("pyplot", "backends", "backends.backend_pdf", "figure")))
UNIT = Peer("torch", "torch.nn.Transformer", "pytorch", "Torch")
OURS = Peer("regard", "regard", "ours", "Readable")
ROSTER = [
    UNIT,
    Peer("transformers", "transformers (Marian)", "marian", "Marian"),
    Peer("joeynmt", "JoeyNMT", "joeynmt", "JoeyNMT", packages=("joeynmt==2.3.0",),
         unused=("sentencepiece", "subword_nmt", "importlib_metadata", *PLOTS)),
    Peer("opennmt", "OpenNMT-py", "opennmt", "OpenNMT",
         packages=("OpenNMT-py==3.5.1", TOKENIZER, "configargparse==1.9.0"),
         unused=("spacy", "spacy.language", "spacy.tokens", "ahocorasick", "fasttext", "rapidfuzz", "flask")),
    Peer("eole", "Eole", "eole", "Eole", packages=("eole==0.6.4", TOKENIZER)),
    Peer("fairseq", "fairseq", "fairseq", "Fairseq",
         packages=("fairseq==0.12.2", "omegaconf==2.0.6", "hydra-core==1.0.7", "antlr4-python3-runtime==4.8",
                   "bitarray==3.12.3")),
    Peer("sockeye", "Sockeye", "sockeye", "Sockeye", packages=("sockeye==3.1.34",)),
    Peer("ctranslate2", "CTranslate2 float32", "ct2", "Float", CTRANSLATE2, trains=False),
    Peer("ctranslate2-int8", "CTranslate2 int8", "ct2", "Quantised", CTRANSLATE2, folder="ctranslate2", trains=False),
    OURS,
    Peer("regard-prepared", "regard, prepared", "ours", "Prepared", trains=False),
    Peer("regard-ctranslate2", "regard, CTranslate2 int8", "ours", "Quantised", CTRANSLATE2, folder="ctranslate2",
         trains=False),
]  # fmt: skip
QUICK = [peer for peer in ROSTER if not peer.packages]


def chosen(names: str) -> list[Peer]:
    """`all`, or names with commas between; the unit and ours are always among them."""
    if names == "all":
        return ROSTER
    known = {peer.name: peer for peer in ROSTER}
    asked = {name.strip() for name in names.split(",") if name.strip()} | {UNIT.name, OURS.name}
    if unknown := sorted(asked - set(known)):
        raise PeerError(f"no peer is called {', '.join(unknown)}; there are {', '.join(known)}")
    return [peer for name, peer in known.items() if name in asked]


def install(peer: Peer) -> None:
    """Install what the peer needs, once; `PeerError` says why it could not be."""
    wanted = "\n".join(peer.packages)
    mark = peer.home / ".ready"
    if not peer.packages or (mark.exists() and mark.read_text(encoding="utf-8") == wanted):
        return
    aside = PEERS / f".{peer.home.name}.part"
    shutil.rmtree(aside, ignore_errors=True)
    quiet = ["--quiet", "--disable-pip-version-check"]
    alone = ["--no-deps", "--no-build-isolation", "--target", str(aside)]
    command = [sys.executable, "-m", "pip", "install", *quiet, *alone, *peer.packages]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=os.environ | PURE)
    except subprocess.TimeoutExpired:
        raise PeerError(f"its installation took longer than {PATIENCE} s") from None
    if done.returncode:
        lines = done.stderr.splitlines() or [f"ended with {done.returncode}"]
        raise PeerError(f"pip: {next((line for line in lines if line.startswith('ERROR')), lines[-1])}")
    (aside / ".ready").write_text(wanted, encoding="utf-8")
    shutil.rmtree(peer.home, ignore_errors=True)
    aside.replace(peer.home)
