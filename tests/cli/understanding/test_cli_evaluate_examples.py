"""regard evaluate for models of understanding: scores, classes, confusions, other files, and two runs compared."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.command import refused, regard

from regard import Predictor
from regard.metrics.significance import compare_means


def test_scores_are_counted_again_from_what_is_kept(classifier: Path) -> None:
    done = regard("evaluate", classifier, "--json")
    assert done.status == 0, done.err
    found = json.loads(done.out)
    kept = json.loads(Path(found["file"]).read_text(encoding="utf-8"))
    scores = {score["name"]: score["value"] for score in found["scores"]}
    right = [each["label"] == each["said"]["label"] for each in kept["examples"]]
    assert len(right) == found["examples"] == 24 and scores["accuracy"] == pytest.approx(100 * np.mean(right))
    assert scores["accuracy"] > 90, "it has learnt which words are kind"
    assert [each["text"] for each in kept["examples"]] == [
        json.loads(line)["text"]
        for line in (classifier.parents[1] / "classification.test.jsonl").read_text().splitlines()
    ]


def test_classes_and_confusions_are_shown(classifier: Path, ground: Path) -> None:
    table = regard("evaluate", classifier, "--on", "valid")
    assert "precision" in table.out and table.out.count("good") >= 1 and "24 examples" in table.out
    other = ground / "other.jsonl"
    lines = [{"text": "a lovely film", "label": label} for label in ("good", "bad", "bad", "odd")]
    other.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    wrong = regard("evaluate", classifier, "--file", other, "--output", ground / "other.json")
    assert wrong.status == 0, wrong.err
    rows = [line.split() for line in wrong.out.splitlines()]
    assert ["bad", "good", "2"] in rows and ["odd", "good", "1"] in rows
    assert "never learnt, which count as wrong: odd" in wrong.err
    assert (ground / "other.json").is_file()


def test_every_task_has_its_measures(
    tagger: Path, answerer: Path, chooser: Path, rater: Path, pretrained: Path
) -> None:
    measures = {
        tagger: {"precision", "recall", "F1", "accuracy"}, answerer: {"exact match", "F1"}, chooser: {"accuracy"},
        rater: {"Pearson correlation", "Spearman correlation"},
        pretrained: {"masked accuracy", "masked perplexity", "next sentence accuracy"},
    }  # fmt: skip
    for run, names in measures.items():
        done = regard("evaluate", run, "--json")
        assert done.status == 0 and {score["name"] for score in json.loads(done.out)["scores"]} == names
        assert Predictor.load(run).evaluate("test").scores[0].value == json.loads(done.out)["scores"][0]["value"]


def test_two_runs_are_compared_example_by_example(classifier: Path, recurrent: Path, rater: Path) -> None:
    done = regard("evaluate", classifier, "--against", recurrent, "--json")
    assert done.status == 0, done.err
    (found,) = json.loads(done.out)["comparison"]
    assert found["metric"] == "accuracy" and found["delta"] == pytest.approx(found["other"] - found["base"])
    assert "luck" in regard("evaluate", classifier, "--against", recurrent).out
    assert "compares what is right or wrong example by example" in refused("evaluate", rater, "--against", rater)
    assert "has another task: regression" in refused("evaluate", classifier, "--against", rater)


def test_a_difference_is_more_than_luck_when_it_is() -> None:
    rng = np.random.default_rng(1)
    base = rng.random(400) < 0.6
    same, better = base[rng.permutation(400)], base | (rng.random(400) < 0.3)
    found = compare_means("accuracy", base.astype(float), better.astype(float))
    assert (
        found.p_value < 0.01 and found.ci_low > 0 and found.delta == pytest.approx(100 * (better.mean() - base.mean()))
    )
    assert compare_means("accuracy", base.astype(float), same.astype(float)).p_value > 0.05


def test_what_does_not_suit_is_refused(classifier: Path, pretrained: Path) -> None:
    assert "--beam is for translators" in refused("evaluate", classifier, "--beam", "3")
    assert "no such file" in refused("evaluate", classifier, "--file", "nowhere.jsonl")
    assert "--file is for examples with labels" in refused("evaluate", pretrained, "--file", "a.txt")
    assert "--on is 'train'" in refused("evaluate", classifier, "--on", "train")
