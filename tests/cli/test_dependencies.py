"""Predictions of dependencies as CoNLL-U, JSON, tables, drawings and pictures."""

import json
from pathlib import Path

import pytest
from tests.cli.command import regard
from tests.conftest import TinyRun

from regard.data.fields import DEPENDENCIES
from regard.data.formats import read_table

SENTENCE = "Ada reads the lamp in Rome ."


@pytest.fixture(scope="module")
def parser(tiny_run: TinyRun) -> Path:
    return tiny_run("dependencies")


def test_predictions_are_conllu(parser: Path, tmp_path: Path) -> None:
    result = regard("predict", parser, SENTENCE)
    rows = [line.split("\t") for line in result.out.splitlines() if line]
    assert result.status == 0 and [row[1] for row in rows] == SENTENCE.split()
    assert all(len(row) == 10 for row in rows) and [row[6] for row in rows].count("0") == 1
    values = json.loads(regard("predict", parser, SENTENCE, "--json").out)
    assert values["heads"] == [int(row[6]) for row in rows] and values["relations"] == [row[7] for row in rows]
    (tmp_path / "in.txt").write_text(f"{SENTENCE}\nAda\n", encoding="utf-8")
    assert regard("predict", parser, "-i", tmp_path / "in.txt", "-o", tmp_path / "out.conllu").status == 0
    written = [example for _, example in read_table(tmp_path / "out.conllu", DEPENDENCIES)]
    assert [example["words"] for example in written] == [SENTENCE.split(), ["Ada"]]
    assert written[0]["heads"] == values["heads"]


def test_columns_of_a_treebank_are_kept(parser: Path, tmp_path: Path) -> None:
    (tmp_path / "in.conllu").write_text("1\tAda\tada\tPROPN\tNNP\t_\t_\t_\t_\t_\n", encoding="utf-8")
    result = regard("predict", parser, "-i", tmp_path / "in.conllu")
    assert result.out.startswith("1\tAda\tada\tPROPN\tNNP\t_\t0\t")
    assert regard("predict", parser, "-i", tmp_path / "in.conllu", "-o", tmp_path / "out.csv").status == 0
    header, row = (tmp_path / "out.csv").read_text(encoding="utf-8").splitlines()
    assert "predicted_heads" in header and row.startswith("Ada,")


def test_a_tree_as_a_picture(parser: Path, tmp_path: Path, tiny_run: TinyRun) -> None:
    assert regard("predict", parser, SENTENCE, "--svg", tmp_path / "tree.svg").status == 0
    assert (tmp_path / "tree.svg").read_text(encoding="utf-8").startswith("<svg")
    other = regard("predict", tiny_run("tagging"), SENTENCE, "--svg", tmp_path / "no.svg")
    assert other.status and "unsupported-option" in other.err and not (tmp_path / "no.svg").exists()


def test_evaluate_inspect_and_info(parser: Path, tmp_path: Path) -> None:
    scores = json.loads(regard("evaluate", parser, "--json").out)["scores"]
    assert [score["name"] for score in scores] == ["UAS", "LAS"]
    greedy = regard("evaluate", parser, "--search", "greedy", "--report", tmp_path / "page.html")
    assert greedy.status == 0 and "scores by length" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "invalid-option" in regard("evaluate", parser, "--search", "beam").err
    maps = json.loads(regard("inspect", parser, SENTENCE, "--json", "-o", tmp_path / "inspect.html").out)["maps"]
    assert maps[-1]["columns"] == ["ROOT", *SENTENCE.split()]
    assert regard("info", parser).status == 0
