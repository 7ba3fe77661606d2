"""regard parse: trees as drawings, brackets, JSON and pictures."""

import json
from pathlib import Path

import pytest
from tests.cli.command import fails, regard

from regard.cli.parse import split_words
from regard.trees import parsed, words

CAT = "(ROOT (S (NP (XX the) (XX cat)) (VP (XX slept)) (XX .)))"


@pytest.fixture(scope="module")
def run(parser: Path) -> Path:
    return parser


def test_every_format(run: Path) -> None:
    drawn = regard("parse", run, "the cat slept .")
    assert drawn.status == 0, drawn.err
    assert drawn.lines[-2:] == ["the  cat  slept  .", ""] and drawn.lines[-4].split() == ["NP", "VP", "│"]
    assert regard("parse", run, "the cat slept .", "--format", "brackets").lines == [CAT]
    values = json.loads(regard("parse", run, "the cat slept .", "--format", "json", "--search", "greedy").out)
    assert values["tree"] == CAT and values["tokens"][:2] == ["(S", "(NP"] and len(values["words"]) == 4
    assert not values["repaired"] and values["score"] < 0 and values["parts"] == 1


def test_lines_of_files_and_of_stdin(run: Path, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("the cat slept .\n\nAda saw the cat .\n", encoding="utf-8")
    from_file = regard("parse", run, "-i", tmp_path / "lines.txt", "--format", "brackets")
    assert from_file.lines[:2] == [CAT, ""] and len(from_file.lines) == 3
    assert regard("parse", run, "--format", "brackets", stdin="the cat slept .\n").lines == [CAT]
    typed = regard("parse", run, "--interactive", stdin="the cat slept .\nAda saw the cat .\n", terminal=True)
    assert typed.status == 0 and "the" in typed.out and "Ctrl-D" in typed.err
    several = regard("parse", run, "the cat slept .", "Ada saw the cat .", "--json")
    assert [json.loads(line)["words"][0] for line in several.lines] == ["the", "Ada"]


def test_an_output_that_is_not_a_tree_is_repaired(run: Path) -> None:
    sentence = "the the the the saw saw saw cat cat"
    done = regard("parse", run, sentence, "--format", "brackets", "--max-length", "3")
    (tree,) = parsed(done.lines)
    assert words(tree) == sentence.split() and "note: 1 of 1" in done.err


def test_a_picture(run: Path, tmp_path: Path) -> None:
    done = regard("parse", run, "the cat slept .", "--svg", tmp_path / "cat.svg", "--format", "brackets")
    assert done.status == 0 and ">slept</text>" in (tmp_path / "cat.svg").read_text(encoding="utf-8")


def test_punctuation_is_split_words(run: Path) -> None:
    assert split_words("Don't go (yet), Ada's 3.5 cats...") == [
        "Do", "n't", "go", "(", "yet", ")", ",", "Ada", "'s", "3.5", "cats", "...",
    ]  # fmt: skip
    assert split_words('He said: "at 10:30, we\'ll see."') == [
        "He", "said", ":", '"', "at", "10:30", ",", "we", "'ll", "see", ".", '"',
    ]  # fmt: skip
    assert split_words("It costs 1,000 U.S. dollars.") == ["It", "costs", "1,000", "U.S.", "dollars", "."]
    values = json.loads(regard("parse", run, "--split", "It's (fun).", "--format", "json").out)
    assert values["words"] == ["It", "'s", "(", "fun", ")", "."]
    assert "(XX -LRB-)" in values["tree"]


def test_errors(run: Path, trained: Path) -> None:
    assert fails("parse", trained, "a").code == "wrong-task"
    assert fails("parse", run, "a", "--input", "b").code == "conflicting-options"
    assert fails("parse", run, "a", "--format", "xml").code == "invalid-option"
