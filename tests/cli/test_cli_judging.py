"""regard evaluate, average, inspect and the page they leave."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.command import refused, regard, sentences, translated

from regard.metrics.score import exact_match
from regard.run import Evaluation, Run, Translator
from regard.run.report import choose_examples, evaluation_report, loss_curves, read_metrics
from regard.training.checkpoint import read_weights

SENTENCE = sentences()[0]


def test_scores_are_printed_and_kept_with_every_output(copied: Path) -> None:
    result = regard("evaluate", copied)
    assert result.status == 0
    file = copied / "evaluations" / "test-best.json"
    assert str(file) in result.out
    kept = json.loads(file.read_text(encoding="utf-8"))
    sources = (Run.open(copied).recipe.data.folder / "test.src").read_text(encoding="utf-8").splitlines()
    assert kept["sources"] == sources
    assert kept["references"] == [translated(line) for line in sources]
    scores = {score["name"]: score for score in kept["scores"]}
    assert scores["exact match"]["value"] == exact_match(kept["outputs"], kept["references"]).value
    shown = {line.split("   ")[0].strip(): line.split() for line in result.lines}
    assert f"{scores['exact match']['value']:.2f}" in shown["exact match"]
    assert f"{scores['BLEU']['value']:.2f}" in shown["BLEU"]
    assert "tok:13a" in scores["BLEU"]["signature"]


def test_evaluation_on_other_files_as_json(copied: Path, tmp_path: Path) -> None:
    table = tmp_path / "pairs.tsv"
    table.write_text("".join(f"{line}\t{translated(line)}\n" for line in sentences()[:4]), encoding="utf-8")
    output = tmp_path / "scores.json"
    result = regard("evaluate", copied, "--file", table, "--tokenize", "char", "--output", output, "--json")
    found = json.loads(result.out)
    assert found["sentences"] == 4
    assert found["file"] == str(output)
    assert json.loads(output.read_text(encoding="utf-8"))["scores"] == found["scores"]
    bleu, *_ = found["scores"]
    assert "tok:char" in bleu["signature"]
    assert bleu["value"] > 90


def test_search_options_reach_the_search(copied: Path) -> None:
    found = json.loads(regard("evaluate", copied, "--on", "valid", "--beam", 3, "--alpha", 0, "--json").out)
    assert (found["decoding"]["search"], found["decoding"]["beam"], found["decoding"]["alpha"]) == ("beam", 3, 0.0)
    assert found["file"].endswith("valid-best-beam=3-alpha=0.0.json")


def test_a_run_against_itself_differs_by_nothing(copied: Path, trained: Path) -> None:
    found = json.loads(regard("evaluate", copied, "--against", trained, "--on", "valid", "--json").out)
    assert [(item["metric"], item["delta"], item["p_value"]) for item in found["comparison"]] == [
        ("BLEU", 0.0, 1.0),
        ("chrF", 0.0, 1.0),
    ]
    shown = regard("evaluate", copied, "--against", trained, "--on", "valid").out
    assert "difference" in shown
    assert "95% interval" in shown
    assert "BLEU: may be luck; chrF: may be luck" in shown


def test_a_better_run_has_a_positive_difference(copied: Path, recipe: Path, tmp_path: Path) -> None:
    worse = tmp_path / "worse"
    assert regard("train", recipe, "training.max_steps=2", "--folder", worse).status == 0
    found = json.loads(regard("evaluate", copied, "--against", worse, "--on", "valid", "--json").out)
    chrf = found["comparison"][1]
    assert chrf["delta"] > 20
    assert chrf["p_value"] < 0.05
    assert "chrF: more than luck" in regard("evaluate", copied, "--against", worse, "--on", "valid").out


def test_bad_questions_are_answered_with_what_to_ask(copied: Path, recipe: Path, tmp_path: Path) -> None:
    assert "one of test, valid" in refused("evaluate", copied, "--on", "train")
    assert "tgt is missing" in refused("evaluate", copied, "--src", recipe.parent / "test.src")
    assert "no tokenizer '13b'" in refused("evaluate", copied, "--tokenize", "13b")
    bare = tmp_path / "bare"
    assert regard("train", recipe, "training.max_steps=1", "data.test=[]", "--folder", bare).status == 0
    assert "--on valid" in refused("evaluate", bare)


def test_the_page_of_an_evaluation(copied: Path) -> None:
    found = json.loads(regard("evaluate", copied, "--report", "--json").out)
    page = Path(found["report"])
    assert page == copied / "evaluations" / "test-best.html"
    assert "<html" in page.read_text(encoding="utf-8")
    translator = Translator.load(copied)
    evaluation = Evaluation(
        **(json.loads(Path(found["file"]).read_text(encoding="utf-8")) | {"scores": [exact_match(["a"], ["a"])]})
    )
    report = evaluation_report(translator, evaluation, examples=6, explained=2)
    assert len(report.examples) == 6
    assert [example.attention is not None for example in report.examples] == [True, True, *[False] * 4]
    assert report.examples[0].correct in (True, False)
    assert [step for step, _ in report.curves["validation loss"]] == [120, 240]
    assert report.facts["steps"] == "240"


def test_curves_come_from_whole_lines_alone(copied: Path) -> None:
    before = read_metrics(copied)
    with (copied / "metrics.jsonl").open("a", encoding="utf-8") as stream:
        stream.write('{"kind": "tra')
    assert read_metrics(copied) == before
    curves = loss_curves(before)
    assert curves["train loss"][0][1] > curves["train loss"][-1][1]
    assert read_metrics(copied / "nowhere") == []


def test_examples_show_what_went_wrong_but_not_only_that() -> None:
    evaluation = Evaluation("r", "best", [], {}, [], 0.0, list("abcdefgh"), list("abcdefgh"), list("abXXXXXh"))
    assert choose_examples(evaluation, 4) == [0, 1, 2, 3]
    assert choose_examples(evaluation, 6) == [0, 1, 2, 3, 4, 7]
    assert choose_examples(evaluation, 100) == list(range(8))
    assert choose_examples(replace(evaluation, outputs=list("abcdefgh")), 3) == [0, 1, 2]


def test_the_average_is_the_mean_and_can_be_used(copied: Path) -> None:
    result = regard("average", copied)
    assert "averaged 2 checkpoints (step-00000120, step-00000240)" in result.out
    assert "only 2 of the 5 checkpoints asked for are kept; train with training.keep=5" in result.err
    first, second, mean = (
        read_weights(copied / "checkpoints" / name) for name in ("step-00000120", "step-00000240", "averaged")
    )
    for name, tensor in mean.items():
        assert tensor.double().sub((first[name].double() + second[name].double()) / 2).abs().max() < 1e-6
    used = regard("translate", copied, "--checkpoint", "averaged", stdin=SENTENCE)
    assert (used.status, len(used.lines)) == (0, 1)


def test_the_checkpoints_of_an_average_can_be_named(copied: Path) -> None:
    names = ["step-00000120", "step-00000240"]
    found = json.loads(regard("average", copied, "--checkpoints", ",".join(names), "--json").out)
    assert (found["checkpoint"], found["averaged"]) == ("averaged", names)
    twice = json.loads(regard("average", copied, "--checkpoints", ",".join([*names, "last"]), "--json").out)
    assert twice["averaged"] == names
    assert "fewer than two" in refused("average", copied, "--checkpoints", "last,step-00000240")
    assert "has no checkpoint 'step-7'" in refused("average", copied, "--checkpoints", "step-7,last")


def test_one_checkpoint_has_no_mean(recipe: Path, tmp_path: Path) -> None:
    assert regard("train", recipe, "training.max_steps=1", "--folder", tmp_path / "run").status == 0
    assert "training.keep=3" in refused("average", tmp_path / "run", "--last", 3)


def test_inspect_draws_and_writes_a_page(copied: Path) -> None:
    result = regard("inspect", copied, SENTENCE)
    assert result.lines[0] == translated(SENTENCE)
    assert "cross attention, layer 2 of 2, mean of 2 heads" in result.out
    assert "⟨/s⟩" in result.out
    assert "\x1b" not in result.out
    page = copied / "inspect.html"
    assert str(page) in result.out
    assert SENTENCE in page.read_text(encoding="utf-8")


def test_inspect_draws_in_colour_on_a_terminal(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[48;2;" in regard("inspect", copied, SENTENCE, terminal=True).out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[48;2;" not in regard("inspect", copied, SENTENCE, terminal=True).out


def test_inspect_writes_what_it_draws_as_a_picture(copied: Path, tmp_path: Path) -> None:
    result = regard("inspect", copied, SENTENCE, "--layer", 1, "--head", 2, "--svg", tmp_path / "a.svg")
    picture = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert str(tmp_path / "a.svg") in result.out
    assert "cross attention, layer 1 of 2, head 2 of 2" in picture
    assert "⟨/s⟩ → " in picture, "the titles of the cells say what looks at what"
    assert "cannot be written" in refused("inspect", copied, SENTENCE, "--svg", copied / "recipe.toml" / "a.svg")


def test_inspect_as_json(copied: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    found = json.loads(regard("inspect", copied, SENTENCE, "--json", "--output", page).out)
    assert (found["source"], found["translation"], found["report"]) == (SENTENCE, translated(SENTENCE), str(page))
    encoder, decoder, cross = found["maps"]
    assert [encoder["name"], decoder["name"], cross["name"]] == ["encoder", "decoder", "cross"]
    assert len(cross["weights"]) == 2
    assert len(cross["weights"][0]) == 2
    for row in cross["weights"][1][0]:
        assert len(row) == len(cross["columns"])
        assert sum(row) == pytest.approx(1, abs=1e-3)


def test_inspect_needs_no_writing_where_one_may_only_read(
    copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: not (path == copied and mode == os.W_OK))
    before = sorted(copied.rglob("*"))
    result = regard("inspect", copied, SENTENCE)
    assert result.status == 0
    assert "cross attention" in result.out and "browser" not in result.out
    assert "--output FILE" in result.err
    assert json.loads(regard("inspect", copied, SENTENCE, "--json").out)["report"] is None
    assert sorted(copied.rglob("*")) == before
    assert "--output" not in regard("inspect", copied, SENTENCE, "--output", tmp_path / "page.html").err
    assert (tmp_path / "page.html").exists()


def test_inspect_explains_a_given_translation(copied: Path) -> None:
    found = json.loads(regard("inspect", copied, SENTENCE, "--target", "sechs sechs", "--json").out)
    assert found["translation"] == "sechs sechs"
    assert found["score"] is None
    assert "".join(found["maps"][2]["rows"]).replace("␣", " ") == "sechs sechs⟨/s⟩"


def test_inspect_names_what_is_not_there(copied: Path) -> None:
    assert "1 to 2" in refused("inspect", copied, SENTENCE, "--layer", 3)
    assert "1 to 2" in refused("inspect", copied, SENTENCE, "--head", 0)
    assert "blank" in refused("inspect", copied, " ")
    assert "data.max_length=16" in refused("inspect", copied, "one " * 50)
    assert "data.max_length=16" in refused("inspect", copied, "one", "--target", "eins " * 50)


def test_the_doctor_examines_a_run_by_its_folder(copied: Path) -> None:
    by_folder = json.loads(regard("doctor", copied, "--json").out)
    assert by_folder["healthy"]
    assert "tokenised pairs" in [check["name"] for check in by_folder["checks"]]
