"""regard predict with a constituency parser: trees as drawings, brackets, JSON and pictures."""

import json
from pathlib import Path

import pytest
from tests.cli.command import fails, regard

from regard.tasks.parsing import split_words
from regard.trees import parsed, words

CAT = "(ROOT (S (NP (XX the) (XX cat)) (VP (XX slept)) (XX .)))"


@pytest.fixture(scope="module")
def run(parser: Path) -> Path:
    return parser


def test_every_format(run: Path, tmp_path: Path) -> None:
    drawn = regard("predict", run, "the cat slept .", terminal=True)
    assert drawn.status == 0, drawn.err
    assert "the  cat  slept  ." in drawn.out and ["NP", "VP", "│"] in [line.split() for line in drawn.lines]
    assert regard("predict", run, "the cat slept .").lines == [CAT]
    assert regard("predict", run, "the cat slept .", "-o", tmp_path / "cat.ptb").status == 0
    assert (tmp_path / "cat.ptb").read_text(encoding="utf-8") == f"{CAT}\n"
    values = json.loads(regard("predict", run, "the cat slept .", "--json", "--search", "greedy").out)
    assert values["tree"] == CAT and values["words"] == ["the", "cat", "slept", "."]
    assert not values["repaired"] and values["score"] < 0


def test_lines_of_files_and_of_stdin(run: Path, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("the cat slept .\n\nAda saw the cat .\n", encoding="utf-8")
    from_file = regard("predict", run, "-i", tmp_path / "lines.txt")
    assert from_file.lines[:2] == [CAT, ""] and len(from_file.lines) == 3
    assert regard("predict", run, stdin="the cat slept .\n").lines == [CAT]
    typed = regard("predict", run, "--interactive", stdin="the cat slept .\nAda saw the cat .\n", terminal=True)
    assert typed.status == 0 and "the" in typed.out and "Ctrl-D" in typed.err


def test_an_output_that_is_not_a_tree_is_repaired(run: Path) -> None:
    sentence = "the the the the saw saw saw cat cat"
    done = regard("predict", run, sentence, "--max-length", "3")
    (tree,) = parsed(done.lines)
    assert words(tree) == sentence.split() and "note: 1 of 1" in done.err


def test_the_last_tree_is_a_picture(run: Path, tmp_path: Path) -> None:
    done = regard("predict", run, "--svg", tmp_path / "cat.svg", stdin="Ada saw the cat .\nthe cat slept .\n\n")
    picture = (tmp_path / "cat.svg").read_text(encoding="utf-8")
    assert done.status == 0 and ">slept</text>" in picture and ">Ada</text>" not in picture
    assert regard("predict", run, "--svg", tmp_path / "none.svg", stdin="\n").status == 0
    assert not (tmp_path / "none.svg").exists()


def test_punctuation_is_split_words(run: Path) -> None:
    assert split_words("Don't go (yet), Ada's 3.5 cats...") == [
        "Do", "n't", "go", "(", "yet", ")", ",", "Ada", "'s", "3.5", "cats", "...",
    ]  # fmt: skip
    assert split_words('He said: "at 10:30, we\'ll see."') == [
        "He", "said", ":", '"', "at", "10:30", ",", "we", "'ll", "see", ".", '"',
    ]  # fmt: skip
    assert split_words("It costs 1,000 U.S. dollars.") == ["It", "costs", "1,000", "U.S.", "dollars", "."]
    values = json.loads(regard("predict", run, "--split", "It's (fun).", "--json").out)
    assert values["words"] == ["It", "'s", "(", "fun", ")", "."]
    assert "(XX -LRB-)" in values["tree"]


def test_errors(run: Path, trained: Path, classifier: Path) -> None:
    assert fails("predict", run, "a", "--input", "b").code == "conflicting-options"
    for wrong in (("--split",), ("--beam", "4"), ("--svg", "x.svg"), ("--engine", "readable")):
        assert fails("predict", classifier, "a", *wrong).code == "unsupported-option"
    gone = regard("parse", run, "a")
    assert gone.status == 2 and "regard predict" in gone.err
