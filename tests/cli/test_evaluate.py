"""regard evaluate: scores, tables, other files, and the comparison of two runs, for every task."""

import json
import math
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pytest
from tests.cli.command import fails, regard
from tests.conftest import TinyRun
from tests.tiny import TREES, number_sentences, translate_words, write_jsonl

from regard.metrics.score import exact_match
from regard.run.model import Model
from regard.run.run import Run

SCORES = {
    "translation": {"BLEU", "chrF", "TER", "exact match", "perplexity"},
    "parsing": {"F1", "precision", "recall", "complete match", "repaired"},
    "language": {"perplexity", "word perplexity", "bits per character"},
    "pretraining": {"masked accuracy", "masked perplexity", "next sentence accuracy", "next sentence majority"},
    "classification": {"accuracy", "F1", "macro F1", "Matthews correlation"},
    "regression": {"Pearson correlation", "Spearman correlation"},
    "tagging": {"precision", "recall", "F1", "accuracy"},
    "answering": {"exact match", "F1"},
    "choice": {"accuracy"},
}


@pytest.mark.parametrize("task", SCORES)
def test_every_task_has_its_scores(task: str, tiny_run: TinyRun, tmp_path: Path) -> None:
    run = tiny_run(task)
    page = tmp_path / "page.html"
    result = regard("evaluate", run, "--json", "--output", tmp_path / "scores.json", "--report", page)
    assert result.status == 0, result.err
    values = json.loads(result.out)
    assert {score["name"] for score in values["scores"]} == SCORES[task]
    assert values["report"] == str(page) and page.read_text(encoding="utf-8").count("<h1") == 1
    in_python = Model.load(run).evaluate("test")
    assert [score.value for score in in_python.scores] == [score["value"] for score in values["scores"]]
    assert values["examples"] == len(in_python.examples)


def test_scores_are_printed_and_saved_with_every_prediction(copied: Path) -> None:
    result = regard("evaluate", copied)
    assert result.status == 0
    file = copied / "evaluations" / "test-best.json"
    assert str(file) in result.out
    saved = json.loads(file.read_text(encoding="utf-8"))
    sources = (Run.open(copied).recipe.data.folder / "test.src").read_text(encoding="utf-8").splitlines()
    assert [example["src"] for example in saved["examples"]] == sources
    references = [example["tgt"] for example in saved["examples"]]
    assert references == [translate_words(line) for line in sources]
    outputs = [example["prediction"]["translation"] for example in saved["examples"]]
    scores = {score["name"]: score for score in saved["scores"]}
    assert scores["exact match"]["value"] == exact_match(outputs, references).value
    printed = {line.split("   ")[0].strip(): line.split() for line in result.lines}
    assert f"{scores['exact match']['value']:.2f}" in printed["exact match"]
    assert f"{scores['BLEU']['value']:.2f}" in printed["BLEU"]
    assert "tok:13a" in scores["BLEU"]["signature"]


def test_scores_of_a_classifier_follow_from_its_predictions(classifier: Path) -> None:
    values = json.loads(regard("evaluate", classifier, "--json").out)
    saved = json.loads(Path(values["file"]).read_text(encoding="utf-8"))
    scores = {score["name"]: score["value"] for score in values["scores"]}
    right = [example["label"] == example["prediction"]["label"] for example in saved["examples"]]
    assert len(right) == values["examples"] == 24 and scores["accuracy"] == pytest.approx(100 * np.mean(right))
    assert scores["accuracy"] > 90
    lines = (classifier.parents[1] / "classification.test.jsonl").read_text().splitlines()
    assert [example["text"] for example in saved["examples"]] == [json.loads(line)["text"] for line in lines]


def test_scores_of_a_language_model(language: Path, tmp_path: Path) -> None:
    values = json.loads(regard("evaluate", language, "--json").out)
    scores = {score["name"]: score for score in values["scores"]}
    # Three choices of three, two and two in seven tokens: exp(ln(12) / 7) = 1.426; and "test" is an unknown word.
    assert 1.4 < scores["perplexity"]["value"] < 1.9
    assert scores["word perplexity"]["value"] == scores["perplexity"]["value"]
    assert "213 words" in scores["word perplexity"]["signature"] and "<unk>" in scores["word perplexity"]["signature"]
    bits = scores["bits per character"]
    characters = int(bits["signature"].split()[0].replace(",", ""))
    assert bits["value"] * characters * math.log(2) == pytest.approx(213 * math.log(scores["perplexity"]["value"]))
    file = language.parents[1] / "test.txt"
    same = regard("evaluate", language, "--file", file, "--json", "--output", tmp_path / "file.json")
    assert json.loads(same.out)["scores"] == values["scores"]


def test_scores_of_a_parser(parser: Path) -> None:
    values = json.loads(regard("evaluate", parser, "--json").out)
    scores = {score["name"]: score for score in values["scores"]}
    assert scores["F1"]["value"] > 90 and "3 sentences" in scores["F1"]["signature"] and values["examples"] == 3
    saved = json.loads(Path(values["file"]).read_text(encoding="utf-8"))["examples"]
    assert [example["tree"] for example in saved] == TREES.splitlines()
    assert saved[0]["prediction"]["tree"] == "(ROOT (S (NP (XX the) (XX cat)) (VP (XX slept)) (XX .)))"
    assert saved[2]["words"] == ["It", "'s", "-LRB-", "fun", "-RRB-", "."]


def test_other_files(copied: Path, tmp_path: Path) -> None:
    table = tmp_path / "pairs.tsv"
    table.write_text("".join(f"{line}\t{translate_words(line)}\n" for line in number_sentences()[:4]), encoding="utf-8")
    output = tmp_path / "scores.json"
    result = regard("evaluate", copied, "--file", table, "--tokenize", "char", "--output", output, "--json")
    values = json.loads(result.out)
    assert values["examples"] == 4 and values["file"] == str(output) and values["data"] == "pairs.tsv"
    assert json.loads(output.read_text(encoding="utf-8"))["scores"] == values["scores"]
    bleu, *_ = values["scores"]
    assert "tok:char" in bleu["signature"]
    assert bleu["value"] > 90
    folder = Run.open(copied).recipe.data.folder
    files = ("--src", folder / "test.src", "--tgt", folder / "test.tgt", "--output", output)
    same = json.loads(regard("evaluate", copied, *files, "--json").out)
    assert same["scores"] == json.loads(regard("evaluate", copied, "--json").out)["scores"]


@pytest.mark.parametrize("task", ["parsing", "pretraining", "classification", "tagging", "answering", "choice"])
def test_the_test_file_given_by_name_has_the_same_scores(task: str, tiny_run: TinyRun, tmp_path: Path) -> None:
    run = tiny_run(task)
    file = run.parents[1] / str(Run.open(run).recipe.data.test[0].file)
    output = ("--json", "--output", tmp_path / "scores.json")
    by_file, by_split = (json.loads(regard("evaluate", run, *data, *output).out) for data in (("--file", file), ()))
    assert by_file["scores"] == by_split["scores"]


def test_a_file_is_read_as_the_files_of_the_recipe(tmp_path: Path, tiny_run: TinyRun) -> None:
    from tests.tiny import labelled_examples, train_run

    for split, examples in labelled_examples("classification").items():
        rows = "".join(f"{example['label']}\t{example['text']}\n" for example in examples)
        (tmp_path / f"{split}.tsv").write_text(rows, encoding="utf-8")
    columns = {"header": False, "label": 1, "text": 2}
    data = {f"data.{split}": {"file": f"{split}.tsv", **columns} for split in ("train", "valid", "test")}
    run = train_run(tmp_path, "classification", settings=data | {"training.max_steps": 2})
    (tmp_path / "other.tsv").write_text("good\ta lovely film\nbad\ta dull song\n", encoding="utf-8")
    values = json.loads(regard("evaluate", run, "--file", tmp_path / "other.tsv", "--json").out)
    assert values["examples"] == 2


def test_the_columns_of_a_table_of_pairs(tmp_path: Path) -> None:
    """Those of the recipe, others by option, and an error where nothing tells them."""
    from tests.tiny import train_run

    rows = [(line, translate_words(line)) for line in number_sentences()[:8]]
    for name in ("train", "other"):
        table = "".join(f"{number},{tgt},{src},x\n" for number, (src, tgt) in enumerate(rows))
        (tmp_path / f"{name}.csv").write_text("id,Deutscher Satz,English sentence,note\n" + table, encoding="utf-8")
    (tmp_path / "swapped.csv").write_text("".join(f"{tgt};{src}\n" for src, tgt in rows), encoding="utf-8")
    source = {"file": "train.csv", "src_column": "English sentence", "tgt_column": "Deutscher Satz"}
    data = {"data.train": source, "data.valid": source, "data.test": [], "training.max_steps": 2}
    run = train_run(tmp_path, "translation", settings=data)

    def evaluated(*options: object) -> list[tuple[str, str]]:
        result = regard("evaluate", run, *options, "--json")
        saved = json.loads(Path(json.loads(result.out)["file"]).read_text(encoding="utf-8"))["examples"]
        return [(item["src"], item["tgt"]) for item in saved]

    assert evaluated("--file", tmp_path / "other.csv") == rows
    assert evaluated("--file", tmp_path / "swapped.csv", "--columns", "2,1") == rows
    names = "src=Deutscher Satz,tgt=English sentence"
    assert evaluated("--file", tmp_path / "other.csv", "--columns", names) == [(tgt, src) for src, tgt in rows]
    assert regard("align", run, "--file", tmp_path / "swapped.csv", "--columns", "2,1").status == 0
    assert fails("evaluate", run, "--columns", "2,1").code == "unsupported-option"
    assert fails("evaluate", run, "--file", tmp_path / "other.csv", "--columns", "a=1").code == "invalid-option"


def test_a_table_without_known_columns_is_refused(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,English sentence,Satz\n1,one,eins\n", encoding="utf-8")
    assert fails("evaluate", trained, "--file", tmp_path / "a.csv").code == "ambiguous-columns"
    assert fails("align", trained, "--file", tmp_path / "a.csv").code == "ambiguous-columns"


def test_classes_and_confusions_are_printed(classifier: Path, tmp_path: Path) -> None:
    table = regard("evaluate", classifier, "--on", "valid")
    assert "precision" in table.out and table.out.count("good") >= 1 and "24 examples" in table.out
    other = tmp_path / "other.jsonl"
    write_jsonl(other, [{"text": "a lovely film", "label": label} for label in ("good", "bad", "bad", "odd")])
    wrong = regard("evaluate", classifier, "--file", other, "--output", tmp_path / "other.json")
    assert wrong.status == 0, wrong.err
    rows = [line.split() for line in wrong.out.splitlines()]
    assert ["bad", "good", "2"] in rows and ["odd", "good", "1"] in rows
    assert "note: " in wrong.err and "odd" in wrong.err, "an unknown label is reported"
    assert (tmp_path / "other.json").is_file()


def test_the_test_split_is_scored_without_the_training_data(copied_classifier: Path) -> None:
    before = json.loads(regard("evaluate", copied_classifier, "--json").out)["scores"]
    (copied_classifier.parent / "data" / "classification.train.jsonl").unlink()
    assert json.loads(regard("evaluate", copied_classifier, "--json").out)["scores"] == before


@pytest.fixture
def copied_classifier(classifier: Path, tmp_path: Path) -> Path:
    """A classifier with a copy of its data."""
    import shutil

    run = Path(shutil.copytree(classifier, tmp_path / "run"))
    (tmp_path / "data").mkdir()
    for file in classifier.parents[1].glob("*.jsonl"):
        shutil.copy(file, tmp_path / "data")
    recipe = run / "recipe.toml"
    text = recipe.read_text(encoding="utf-8").replace(classifier.parents[1].as_posix(), (tmp_path / "data").as_posix())
    recipe.write_text(text, encoding="utf-8")
    return run


def test_options_of_the_search(copied: Path) -> None:
    values = json.loads(regard("evaluate", copied, "--on", "valid", "--beam", 3, "--alpha", 0, "--json").out)
    assert values["options"] == {"beam": 3, "alpha": 0.0}
    assert values["file"].endswith("valid-best-beam=3-alpha=0.0.json")


def test_a_run_compared_with_itself(copied: Path, trained: Path) -> None:
    values = json.loads(regard("evaluate", copied, "--against", trained, "--on", "valid", "--json").out)
    assert [(item["metric"], item["delta"], item["p_value"]) for item in values["comparison"]] == [
        ("BLEU", 0.0, 1.0),
        ("chrF", 0.0, 1.0),
        ("exact match", 0.0, 1.0),  # which the recipe monitors
    ]
    printed = regard("evaluate", copied, "--against", trained, "--on", "valid").out
    assert "difference" in printed and "95% interval" in printed
    assert "BLEU: not significant; chrF: not significant; exact match: not significant" in printed


def test_a_better_run_has_a_positive_difference(copied: Path, recipe: Path, tmp_path: Path) -> None:
    worse = tmp_path / "worse"
    assert regard("train", recipe, "training.max_steps=2", "--folder", worse).status == 0
    values = json.loads(regard("evaluate", copied, "--against", worse, "--on", "valid", "--json").out)
    chrf = values["comparison"][1]
    assert chrf["delta"] > 20
    assert chrf["p_value"] < 0.05
    assert "chrF: significant" in regard("evaluate", copied, "--against", worse, "--on", "valid").out


def test_labelled_runs_are_compared_example_by_example(classifier: Path, recurrent: Path, regressor: Path) -> None:
    result = regard("evaluate", classifier, "--against", recurrent, "--json")
    assert result.status == 0, result.err
    comparisons = json.loads(result.out)["comparison"]
    assert [item["metric"] for item in comparisons] == ["accuracy", "F1", "macro F1", "Matthews correlation"]
    assert all(item["delta"] == pytest.approx(item["other"] - item["base"]) for item in comparisons)
    assert "significant" in regard("evaluate", classifier, "--against", recurrent).out
    values = json.loads(regard("evaluate", regressor, "--against", regressor, "--json").out)
    assert [(item["metric"], item["delta"]) for item in values["comparison"]] == [
        ("Pearson correlation", 0.0),
        ("Spearman correlation", 0.0),
    ]
    assert fails("evaluate", classifier, "--against", regressor).code == "wrong-task"


def test_runs_with_different_test_data_are_not_paired(classifier: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(classifier, other)
    recipe = tomllib.loads((other / "recipe.toml").read_text(encoding="utf-8"))
    (name,) = (source["file"] for source in recipe["data"]["test"])
    lines = (Path(recipe["data"]["root"]) / name).read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "reversed.jsonl").write_text("".join(reversed(lines)), encoding="utf-8")
    text = (other / "recipe.toml").read_text(encoding="utf-8")
    (other / "recipe.toml").write_text(text.replace(name, str(tmp_path / "reversed.jsonl")), encoding="utf-8")
    error = fails("evaluate", classifier, "--against", other)
    assert error.code == "different-data"


def test_errors(copied: Path, recipe: Path, tmp_path: Path) -> None:
    assert fails("evaluate", copied, "--on", "train").code == "invalid-option"
    assert fails("evaluate", copied, "--src", recipe.parent / "test.src").status == 1
    assert fails("evaluate", copied, "--tokenize", "13b").status == 1
    bare = tmp_path / "bare"
    assert regard("train", recipe, "training.max_steps=1", "data.test=[]", "--folder", bare).status == 0
    assert fails("evaluate", bare).code == "no-data"
    (tmp_path / "file").touch()
    unwritable = fails("evaluate", copied, "--output", tmp_path / "file" / "scores.json")
    assert "evaluating" not in unwritable.err, "an unwritable file is an error before the work"


def test_options_that_a_task_does_not_use_are_errors(
    language: Path, classifier: Path, parser: Path, tmp_path: Path
) -> None:
    for run in (language, classifier):
        assert fails("evaluate", run, "--beam", 3).code == "unsupported-option"
        assert fails("evaluate", run, "--engine", "readable").code == "unsupported-option"
        assert fails("evaluate", run, "--tokenize", "zh").code == "unsupported-option"
        assert fails("evaluate", run, "--src", "a", "--tgt", "b").code == "invalid-setting"
        assert fails("evaluate", run, "--file", tmp_path / "missing.txt").status == 1
    assert fails("evaluate", language, "--against", language).code == "unsupported-option"
    (tmp_path / "pairs.tsv").write_text("a\tb\n", encoding="utf-8")
    assert fails("evaluate", parser, "--file", tmp_path / "pairs.tsv").status == 1
    (tmp_path / "broken.ptb").write_text("(S (NP a)\n", encoding="utf-8")
    assert fails("evaluate", parser, "--file", tmp_path / "broken.ptb").status == 1
