"""regard answers: claims by topic or in the notes' order, by words and verdict, in both languages, as JSON."""

import json

import pytest
from tests.cli.command import fails, regard

from regard.lab.claim import all_claims, in_notes_order


def test_all_claims_by_topic() -> None:
    result = regard("answers")
    assert result.status == 0 and result.out.startswith("Attention\n\n")
    assert sum(line.startswith("proof: ") for line in result.lines) == len(all_claims())
    assert "000:" not in result.out
    assert "wrong" in result.err and "open" in result.err, "the summary"


def test_words_and_verdicts_choose() -> None:
    result = regard("answers", "padding", "SOFTMAX")
    assert "Why" not in result.out and "regard lab padding" in result.out and "right: Scores of padding" in result.out
    shown = json.loads(regard("answers", "--only", "half", "--json").out)
    assert {claim["verdict"] for claim in shown} == {"half right"}
    error = fails("answers", "nosuchword", "neither")
    assert error.code == "not-found" and "nosuchword and neither" in error.err


def test_the_order_of_the_notes() -> None:
    result = regard("answers", "--order", "notes")
    places = [line for line in result.lines if line[:4] in ("000:", "001:", "002:", "003:", "004:")]
    assert places == [claim.notes for claim in in_notes_order(all_claims())]


def test_json_has_both_languages_and_the_proof() -> None:
    (claim,) = json.loads(regard("answers", "several-heads", "--json").out)
    assert claim["experiment"] == "heads" and claim["verdict"] == "right" and "001:176" in claim["notes"]
    assert claim["question"]["en"].startswith("Why several heads") and "多头" in claim["claim"]["zh"]


def test_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    result = regard("answers", "调和平均")
    assert "错误：" in result.out and "几何平均" in result.out and "证据：regard lab perplexity" in result.out
