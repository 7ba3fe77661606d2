"""Contenders in processes of their own: what goes over the pipe, and what is said when one of them breaks."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks import cpu, roster
from benchmarks.contender import Shape
from benchmarks.roster import OURS, UNIT, Peer
from benchmarks.worker import Facts, PeerError, Worker
from benchmarks.workload import Workload, captions

MODULE = """
import os
import unwanted

class Fake:
    version, model = "7", None

    def __init__(self, shape):
        print("libraries print where they like")

    def train(self, batch):
        if batch == "die":
            print("out of everything")
            os._exit(3)
        raise RuntimeError("no\\n luck")

    def decode(self, src, lengths, width):
        return [width] * len(src)
"""


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    (tmp_path / "fake.py").write_text(MODULE, encoding="utf-8")
    worker = Worker("fake", "Fake", [tmp_path], threads=1)
    yield worker
    worker.close()


def test_a_contender_answers_refuses_and_dies_in_one_line(worker: Worker) -> None:
    assert worker.ask("build", Shape(), ["unwanted"]) == Facts("7", None)
    assert worker.ask("decode", [("ab", None)], 16, 16, 0.01) >= 0
    with pytest.raises(PeerError, match=r"^ValueError: wrote 4 to 4 tokens where 16 were asked for$"):
        worker.ask("decode", [("ab", None)], 4, 16, 0.0)
    with pytest.raises(PeerError, match=r"^RuntimeError: no luck$"):
        worker.ask("train", ["live"])
    with pytest.raises(PeerError, match=r"^its process ended with 3: out of everything$"):
        worker.ask("train", ["die"])
    with pytest.raises(PeerError, match="its process ended with 3"):
        worker.ask("train", ["again"])


def test_a_round_of_everything(tmp_path: Path) -> None:
    """All measures of two contenders; a third that cannot be built is named and left out."""
    shape = Shape(vocabulary=100, d_model=16, num_heads=2, d_ff=16, layers=1)
    broken = Peer("broken", "Broken", "nowhere", "Nothing")
    results = cpu.run([UNIT, broken, OURS], Workload(captions(200, 100), 64), shape, rounds=1, steps=1, least=0)
    assert list(results.contenders) == ["torch", "regard"]
    assert list(results.figures) == [
        "training", "greedy, batch 64", "beam 4, batch 64", "greedy, batch 1", "beam 4, batch 1",
    ]  # fmt: skip
    for measure, found in results.figures.items():
        assert [len(figures) for figures in found.values()] == [1, 1], "the warming up is not counted"
        assert results.ratio(measure, "torch") == 1.0
    ((who, measure, why),) = results.failures
    assert (who, measure) == ("Broken", "") and "No module named 'benchmarks.peers.nowhere'" in why
    json.dumps(results.as_json())


def test_what_pip_refuses_is_said_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roster, "PEERS", tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    peer = Peer("absent", "Absent", "nowhere", "Nothing", packages=("there-is-no-such-package==1.0",))
    with pytest.raises(PeerError, match=r"pip: ERROR: .*there-is-no-such-package"):
        roster.install(peer)
    assert not peer.home.exists()
    peer.home.mkdir()
    (peer.home / ".ready").write_text("there-is-no-such-package==1.0", encoding="utf-8")
    roster.install(peer)  # what is there already needs no pip


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--src", "a"], "--src and --tgt go together"),
        (["--rounds", "0"], "--rounds is at least 1"),
    ],
)
def test_bad_options_are_refused(words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cpu.main(words)
    assert complaint in capsys.readouterr().err


def test_an_unknown_peer_ends_the_command_at_once() -> None:
    with pytest.raises(SystemExit, match="no peer is called nematus"):
        cpu.main(["--peers", "nematus"])


def test_a_missing_corpus_is_named() -> None:
    with pytest.raises(SystemExit, match=r"nowhere\.en"):
        cpu.main(["--src", "nowhere.en", "--tgt", "nowhere.de"])
