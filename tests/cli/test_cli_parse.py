"""A parser by commands alone: trained, scored, and asked for trees in every form."""

import json
import re
from pathlib import Path

import pytest
from tests.cli.command import refused, regard

from regard.cli.parse import separated
from regard.trees import parsed, words

RECIPE = """
name = "small"
task = "parsing"
[data]
root = "{root}"
train = {{ file = "trees.ptb" }}
valid = {{ file = "trees.ptb" }}
test = {{ file = "trees.ptb" }}
max_length = 64
workers = 1
[text]
kind = "word"
min_frequency = 1
[model]
size = "tiny"
d_model = 32
num_heads = 2
d_ff = 32
encoder_layers = 1
decoder_layers = 1
dropout = 0.0
[training]
max_steps = 120
batch_tokens = 128
schedule = "cosine"
learning_rate = 1e-2
warmup = 10
label_smoothing = 0.0
validate_every = 120
[decoding]
beam = 2
extra_length = 30
[runtime]
device = "cpu"
threads = 1
"""
TREES = """(ROOT (S (NP (DT the) (NN cat)) (VP (VBD slept)) (. .)))
(ROOT (S (NP (NNP Ada)) (VP (VBD saw) (NP (DT the) (NN cat))) (. .)))
(ROOT (S (NP (PRP It)) (VP (VBZ 's) (NP (-LRB- -LRB-) (NN fun) (-RRB- -RRB-))) (. .)))
"""
CAT = "(ROOT (S (NP (XX the) (XX cat)) (VP (XX slept)) (XX .)))"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three trees, learnt by heart."""
    folder = tmp_path_factory.mktemp("parsing")
    (folder / "trees.ptb").write_text(TREES, encoding="utf-8")
    (folder / "small.toml").write_text(RECIPE.format(root=folder.as_posix()), encoding="utf-8")
    done = regard("train", folder / "small.toml", "--folder", folder / "run")
    assert done.status == 0, done.err
    assert f"regard parse {folder / 'run'} 'the cat slept .'" in done.out and "repaired" in done.err
    return folder / "run"


def test_a_sentence_is_drawn_written_and_told(run: Path) -> None:
    drawn = regard("parse", run, "the cat slept .")
    assert drawn.status == 0, drawn.err
    assert drawn.lines[-2:] == ["the  cat  slept  .", ""] and drawn.lines[-4].split() == ["NP", "VP", "│"]
    assert regard("parse", run, "the cat slept .", "--format", "brackets").lines == [CAT]
    told = json.loads(regard("parse", run, "the cat slept .", "--format", "json", "--search", "greedy").out)
    assert told["tree"] == CAT and told["tokens"][:2] == ["(S", "(NP"] and len(told["words"]) == 4
    assert not told["repaired"] and told["score"] < 0 and told["parts"] == 1


def test_lines_come_from_files_and_stdin_blank_for_blank(run: Path, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("the cat slept .\n\nAda saw the cat .\n", encoding="utf-8")
    from_file = regard("parse", run, "--input", tmp_path / "lines.txt", "--format", "brackets")
    assert from_file.lines[:2] == [CAT, ""] and len(from_file.lines) == 3
    assert regard("parse", run, "--format", "brackets", stdin="the cat slept .\n").lines == [CAT]
    typed = regard("parse", run, "-i", stdin="the cat slept .\nAda saw the cat .\n", terminal=True)
    assert typed.status == 0 and "the" in typed.out and "Type a sentence" in typed.err
    several = regard("parse", run, "the cat slept .", "Ada saw the cat .", "--json")
    assert [json.loads(line)["words"][0] for line in several.lines] == ["the", "Ada"]


def test_what_is_no_tree_is_made_one_and_that_is_said(run: Path) -> None:
    sentence = "the the the the saw saw saw cat cat"
    done = regard("parse", run, sentence, "--format", "brackets", "--max-length", "3")
    (tree,) = parsed(done.lines)
    assert words(tree) == sentence.split() and "1 of 1 outputs were no tree" in done.err


def test_the_picture(run: Path, tmp_path: Path) -> None:
    done = regard("parse", run, "the cat slept .", "--svg", tmp_path / "cat.svg", "--format", "brackets")
    assert done.status == 0 and ">slept</text>" in (tmp_path / "cat.svg").read_text(encoding="utf-8")


def test_signs_are_separated(run: Path) -> None:
    assert separated("Don't go (yet), Ada's 3.5 cats...") == [
        "Do", "n't", "go", "(", "yet", ")", ",", "Ada", "'s", "3.5", "cats", "...",
    ]  # fmt: skip
    assert separated('He said: "at 10:30, we\'ll see."') == [
        "He", "said", ":", '"', "at", "10:30", ",", "we", "'ll", "see", ".", '"',
    ]  # fmt: skip
    assert separated("It costs 1,000 U.S. dollars.") == ["It", "costs", "1,000", "U.S.", "dollars", "."]
    told = json.loads(regard("parse", run, "--split", "It's (fun).", "--format", "json").out)
    assert told["words"] == ["It", "'s", "(", "fun", ")", "."]
    assert "(XX -LRB-)" in told["tree"]


def test_evaluate_counts_brackets_and_keeps_the_trees(run: Path, tmp_path: Path) -> None:
    done = regard("evaluate", run, "--json")
    assert done.status == 0, done.err
    found = json.loads(done.out)
    scores = {score["name"]: score for score in found["scores"]}
    assert set(scores) == {"F1", "precision", "recall", "complete match", "repaired"}
    assert scores["F1"]["value"] > 90 and "3 sentences" in scores["F1"]["signature"] and found["sentences"] == 3
    kept = json.loads(Path(found["file"]).read_text(encoding="utf-8"))
    assert kept["references"] == TREES.splitlines() and kept["outputs"][0] == CAT
    assert kept["sources"][2] == "It 's ( fun ) ."
    table = regard(
        "evaluate", run, "--file", run.parent / "trees.ptb", "--output", tmp_path / "kept.json", "--beam", "1"
    )
    assert "complete match" in table.out and (tmp_path / "kept.json").is_file()


def test_inspect_shows_which_words_a_bracket_is_read_from_and_the_doctor_examines(run: Path) -> None:
    shown = regard("inspect", run, "the cat slept .")
    assert shown.status == 0 and "(S" in shown.out, shown.err
    examined = regard("doctor", run.parent / "small.toml", "--quick", "--folder", run.parent / "nowhere")
    assert "source -> target" in examined.out and "(S (NP XX XX )NP" in examined.out
    assert not re.search(r"✗|Traceback", examined.out), examined.out


def test_what_is_no_parser_or_no_treebank_is_refused(run: Path, trained: Path, tmp_path: Path) -> None:
    assert "is no parser: its task is translation" in refused("parse", trained, "a")
    assert "sentences come from one place" in refused("parse", run, "a", "--input", "b")
    assert "write one of tree, brackets, json" in refused("parse", run, "a", "--format", "xml")
    assert "--report is for translators" in refused("evaluate", run, "--report")
    (tmp_path / "pairs.tsv").write_text("a\tb\n", encoding="utf-8")
    assert "[invalid-setting]" in refused("evaluate", run, "--file", tmp_path / "pairs.tsv")
    (tmp_path / "broken.ptb").write_text("(S (NP a)\n", encoding="utf-8")
    assert "broken.ptb, line 1: a tree begins that does not end" in refused(
        "evaluate", run, "--file", tmp_path / "broken.ptb"
    )
    assert "has no ladder" in refused("ladder", run.parent / "small.toml", "--folder", tmp_path / "ladder")
