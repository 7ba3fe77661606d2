"""The unit of the CPU table searches rightly, ours never ends by itself, and the table tells medians of ratios."""

import ast
import importlib
import itertools
import sys
from pathlib import Path

import pytest
import torch
from benchmarks import standin, table
from benchmarks.contender import OUTPUT, Shape, renumbering
from benchmarks.peers import ours, pytorch
from benchmarks.roster import OURS, QUICK, ROSTER, UNIT, Peer, chosen
from benchmarks.table import Results
from benchmarks.worker import PeerError
from benchmarks.workload import Workload, captions

from regard.text.symbols import BOS, EOS, PAD

TINY = Shape(vocabulary=7, d_model=16, num_heads=2, d_ff=16, layers=1, dropout=0.0)

nested = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")  # nn.Transformer's own way past padding


def likelihoods(contender: pytorch.Torch, source: torch.Tensor, texts: torch.Tensor) -> torch.Tensor:
    """(N,) log P of each of the texts (N, T) by reading them whole, the end symbol ruled out at every step."""
    begun = torch.cat([torch.full((len(texts), 1), BOS), texts[:, :-1]], dim=1)
    logits = contender.model(source.expand(len(texts), -1), begun)
    logits[:, :, EOS] = -torch.inf
    return logits.log_softmax(-1).gather(2, texts[:, :, None]).sum((1, 2))


@nested
@torch.inference_mode()
def test_the_units_beam_search_finds_the_best_text_when_nothing_is_pruned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pytorch, "OUTPUT", 3)
    torch.manual_seed(3)
    contender = pytorch.Torch(TINY)
    contender.model.eval()
    source = torch.tensor([[3, 4, EOS], [5, EOS, PAD]])
    padding = source == PAD
    memory = contender.model.encode(source, padding)
    found = contender.beam(memory, padding, 49)[:, 1:]
    words = [word for word in range(TINY.vocabulary) if word != EOS]
    texts = torch.tensor(list(itertools.product(words, repeat=3)))
    for row, text in zip(source, found, strict=True):
        assert text.tolist() == texts[likelihoods(contender, row, texts).argmax()].tolist()
    assert torch.equal(contender.beam(memory, padding, 1), contender.greedy(memory, padding, 1))


@nested
@pytest.mark.parametrize("width", [1, 4])
def test_contenders_write_as_much_as_they_are_asked_for(width: int) -> None:
    shape = Shape(vocabulary=300, d_model=32, num_heads=2, d_ff=32, layers=1)
    torch.manual_seed(1)
    ((src, lengths),) = Workload(captions(40, shape.vocabulary), 100).sources(0, size=5, batches=1)
    for contender in (pytorch.Torch(shape), ours.Readable(shape), ours.Prepared(shape)):
        assert contender.decode(src, lengths, width) == [OUTPUT] * 5


def test_rounds_have_text_of_their_own() -> None:
    workload = Workload(captions(500, 100), 200)
    first, again, other = (workload.training(turn, 2) for turn in (0, 0, 1))
    assert all(torch.equal(a["source"], b["source"]) for a, b in zip(first, again, strict=True))
    assert first[0]["source"].tolist() != other[0]["source"].tolist()
    assert all(batch.labels.numel() <= 200 for batch in first)
    assert [len(src) for src, _ in workload.sources(99, size=3, batches=2)] == [3, 3]


def test_renumbering_is_one_to_one_and_moves_the_special_symbols() -> None:
    theirs = renumbering(20, pad=1, bos=0, eos=2)
    assert sorted(theirs.tolist()) == list(range(20))
    assert theirs[[PAD, BOS, EOS]].tolist() == [1, 0, 2]


def test_a_ratio_is_the_median_of_the_rounds_ratios(capsys: pytest.CaptureFixture[str]) -> None:
    results = Results("unit")
    for name in ("unit", "fast", "half"):
        results.enter(name, name.title(), "1.0", 5)
    for unit, fast in ((10.0, 20.0), (1.0, 9.0), (100.0, 300.0)):  # 2, 9 and 3 times; the medians' ratio would be 2
        results.add("speed", "unit", unit)
        results.add("speed", "fast", fast)
    results.add("speed", "half", 4.0)
    results.failures.append(("Half", "speed", "it broke in the second round"))
    assert (results.ratio("speed", "unit"), results.ratio("speed", "fast")) == (1.0, 3.0)
    assert results.ratio("speed", "half") is None
    assert results.as_json()["ratios"] == {"speed": {"unit": 1.0, "fast": 3.0, "half": None}}
    table.markdown(results, ["a machine"])
    said = capsys.readouterr().out
    assert "| Fast 1.0 | 3.00x (20) |" in said and "| Half 1.0 | – |" in said
    assert "- left out: Half, speed: it broke in the second round" in said
    table.screen(results, ["a machine"])
    assert "3.00x (20)" in capsys.readouterr().out


def test_peers_are_chosen_by_name_and_the_unit_and_ours_come_along() -> None:
    assert chosen("all") == ROSTER
    assert [peer.name for peer in chosen("sockeye, eole")] == ["torch", "eole", "sockeye", "regard"]
    assert UNIT in QUICK and OURS in QUICK and not any(peer.packages for peer in QUICK)
    with pytest.raises(PeerError, match="no peer is called marian; there are torch, transformers"):
        chosen("marian")


@pytest.mark.parametrize("peer", ROSTER, ids=lambda peer: peer.name)
def test_every_row_has_its_adapter(peer: Peer) -> None:
    file = Path(ours.__file__).with_name(f"{peer.module}.py")
    classes = [node for node in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef)]
    assert peer.contender in {node.name for node in classes}
    assert all("==" in package for package in peer.packages), "versions are pinned"


def test_a_stand_in_is_imported_but_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_such_package", "no_such_package.part"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    real = sys.modules["ast"]
    standin.stand_in("no_such_package", "no_such_package.part", "ast")
    part = importlib.import_module("no_such_package.part")
    assert sys.modules["ast"] is real, "what is there is left alone"
    with pytest.raises(ModuleNotFoundError, match=r"no_such_package\.part\.Thing is used after all"):
        part.Thing()
    assert issubclass(part.Thing, object)
    assert standin.StandIn("matplotlib").use("Agg") is None, "called when JoeyNMT is imported"
