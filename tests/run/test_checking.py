"""`regard check`: the table of the bundled translator, files of the user, and the margins of minimal pairs."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.cli.command import fails, regard

from regard.data.faults import CHECKS
from regard.data.pairs import pad_pairs
from regard.run import checking
from regard.run.checking import check_pairs, minimal_pairs, pair_margins
from regard.run.model import Translator
from regard.run.scoring import cross_entropies, encode_pairs

DIRECTION = ("en", "de")


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(device="cpu")


def log_probability(model: Translator, source: str, target: str) -> float:
    """log P(target | source), token by token and without padding."""
    columns = model.task.encoder(filtered=False)([{"src": source, "tgt": target, "to": "de"}]).columns
    src, tgt = (torch.from_numpy(np.asarray(columns[name][0], np.int64)) for name in ("src", "tgt"))
    batch = pad_pairs(columns["src"], columns["tgt"])
    logits = model.model(batch.source, batch.target).logits()[0].double()
    assert len(src) and batch.labels[0].tolist() == tgt.tolist()
    return float(sum(logits[step].log_softmax(-1)[token] for step, token in enumerate(tgt.tolist())).detach())


def test_margins_are_differences_of_log_probabilities(translator: Translator) -> None:
    pairs = minimal_pairs(DIRECTION)[::6]
    margins = pair_margins(translator, DIRECTION, pairs)
    for pair, margin in zip(pairs, margins, strict=True):
        right, wrong = (log_probability(translator, pair.source, text) for text in (pair.right, pair.wrong))
        assert margin == pytest.approx(right - wrong, abs=2e-3)


def test_margins_and_scores_have_the_same_probabilities(translator: Translator) -> None:
    pairs = minimal_pairs(DIRECTION)[::5]
    rows = [{"src": pair.source, "tgt": text, "to": "de"} for pair in pairs for text in (pair.right, pair.wrong)]
    lengths = [len(target) for target in encode_pairs(translator.task, rows)[1]]
    costs = np.array(cross_entropies(translator, rows)) * lengths
    margins = pair_margins(translator, DIRECTION, pairs)
    assert margins == pytest.approx(costs[1::2] - costs[::2], abs=1e-3)


def test_known_margins(translator: Translator) -> None:
    """The figures of the bundled translator in docs/ledger.md."""
    margins = pair_margins(translator, DIRECTION, minimal_pairs(DIRECTION))
    means = [margins[start : start + 8].mean() for start in (0, 8, 16)]
    assert means == pytest.approx([2.17, 11.96, 10.85], abs=0.01)


def test_the_deciding_head_lowers_the_margin_most(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "count_heads", lambda model: {"decoder.1.cross": 6})
    pairs = minimal_pairs(DIRECTION)[16:18]
    (result,) = check_pairs(translator, DIRECTION, pairs, heads=True)
    lowest = []
    for head in range(6):
        with translator.without(heads={"decoder.1.cross": [head]}):
            lowest.append(float(pair_margins(translator, DIRECTION, pairs).mean()))
    assert result.head == ("decoder.1.cross", int(np.argmin(lowest)))
    assert result.margin_without == pytest.approx(min(lowest), abs=1e-3)
    assert result.right == 2 and result.margin > min(lowest)


def test_files_are_sets_of_their_own_and_directions_can_be_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = checking.read_rows
    monkeypatch.setattr(checking, "read_rows", lambda name: read(name)[:40])
    rows = ["Anna lives in Berlin.\tAnna wohnt in Berlin.", "I have 37 books.\tIch habe 37 Bücher."]
    (tmp_path / "own.tsv").write_text("src\ttgt\n" + "\n".join(rows) + "\n", encoding="utf-8")
    command = ("check", "translator", tmp_path / "own.tsv", "--from", "en", "--to", "de", "--no-heads")
    result = regard(*command, "--json")
    assert result.status == 0, result.err
    values = json.loads(result.out)
    assert [item["set"] for item in values["sets"]] == ["sentences", "phrases", "own.tsv"]
    own = values["sets"][2]
    assert own["sentences"] == 2 and own["bleu"] > 20 and own["checks"]["numbers"] == {"passed": 1, "judged": 1}
    for item in values["sets"]:
        counts = item["checks"]
        assert list(counts) == list(CHECKS)
        failed = [failure["check"] for failure in item["failures"]]
        assert all(counts[name]["judged"] - counts[name]["passed"] == failed.count(name) for name in CHECKS)
    assert {item["kind"] for item in values["minimal_pairs"]} == {"gender", "negation", "number"}
    assert sum(item["right"] for item in values["minimal_pairs"]) > 18


def test_the_table_names_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    read = checking.read_rows
    monkeypatch.setattr(checking, "read_rows", lambda name: read(name)[:12])
    result = regard("check", "--from", "en", "--to", "zh", "--no-heads", "--show", "2")
    assert result.status == 0, result.err
    assert "en-zh" in result.out and "BLEU" in result.out and "numbers" in result.out and "gender" in result.out


def test_unknown_directions_are_errors() -> None:
    assert fails("check", "translator", "--from", "en", "--to", "ru").code == "unknown-language"
    assert fails("check", "translator", "--to", "ru").code == "unknown-pair"
