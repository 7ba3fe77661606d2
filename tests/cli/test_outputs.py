"""Output files: the file extension says what is in them, nothing of the input is lost, and no file replaces another."""

import csv
import json
from pathlib import Path

import pytest
from tests.cli.command import fails, regard

from regard.data.conllu import to_conllu
from regard.data.formats import read_examples
from regard.data.sources import Source
from regard.tasks.registry import load_recipe

TEXTS = ["a fine film", "a dull film", "a fine plot"]


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    path = tmp_path / "gold.jsonl"
    rows = [
        {"text": text, "label": label, "id": n}
        for n, (text, label) in enumerate(zip(TEXTS, ["bad", "good", "bad"], strict=True))
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["out.jsonl", "out.json", "out.csv", "out.tsv"])
@pytest.mark.parametrize("source", ["gold.jsonl", "gold.csv"])
def test_the_label_of_the_input_stays(source: str, name: str, labelled: Path, classifier: Path, tmp_path: Path) -> None:
    """Also with labels that are all wrong: the scores of the output are those of the input."""
    if source == "gold.csv":
        rows = [json.loads(line) for line in labelled.read_text(encoding="utf-8").splitlines()]
        lines = ["text,label", *(f"{row['text']},{row['label']}" for row in rows)]
        (tmp_path / source).write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert regard("predict", classifier, "-i", tmp_path / source, "-o", tmp_path / name).status == 0
    text = (tmp_path / name).read_text(encoding="utf-8")
    if name.endswith(("csv", "tsv")):
        written = list(csv.DictReader(text.splitlines(), delimiter="," if name == "out.csv" else "\t"))
    else:
        written = json.loads(text) if name == "out.json" else [json.loads(line) for line in text.splitlines()]
    assert [row["label"] for row in written] == ["bad", "good", "bad"]
    assert [row["predicted_label"] for row in written] == ["good", "bad", "good"]

    def scores(path: Path) -> object:
        return json.loads(regard("evaluate", classifier, "--file", path, "-o", tmp_path / "e", "--json").out)["scores"]

    assert scores(tmp_path / name) == scores(labelled)


def test_a_prediction_without_a_label_in_the_input_keeps_its_name(classifier: Path) -> None:
    assert [json.loads(line)["label"] for line in regard("predict", classifier, stdin="\n".join(TEXTS)).lines] == [
        "good",
        "bad",
        "good",
    ]


def test_tags_are_written_as_conll(tagger: Path, tmp_path: Path) -> None:
    sentences = [["Ada", "of", "New York"], ["a\tb", "Paris"]]
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps({"words": words}) + "\n" for words in sentences), encoding="utf-8")
    assert regard("predict", tagger, "-i", source, "-o", tmp_path / "out.conll").status == 0
    expected = [json.loads(line)["tags"] for line in regard("predict", tagger, "-i", source).lines]
    blocks = (tmp_path / "out.conll").read_text(encoding="utf-8").removesuffix("\n\n").split("\n\n")
    rows = [[line.split("\t") for line in block.split("\n")] for block in blocks]
    assert [[word for word, _ in block] for block in rows] == [["Ada", "of", "New York"], ["a b", "Paris"]]
    assert [[tag for _, tag in block] for block in rows] == expected
    fields = load_recipe(tagger / "recipe.toml").fields
    assert [item["tags"] for item in read_examples([Source(file="out.conll")], tmp_path, fields)] == expected


def test_a_cell_of_conllu_has_no_tab() -> None:
    assert to_conllu({"words": ["a\tb\nc"]}).count("\t") == 9 and to_conllu({"words": ["a\tb\nc"]}).count("\n") == 2


@pytest.mark.parametrize("name", ["out.conll", "out.txt", "out.parquet", "out.xlsx", "out.conll.gz"])
def test_a_format_that_a_task_cannot_write_is_refused_before_the_work(
    name: str, classifier: Path, tmp_path: Path
) -> None:
    error = fails("predict", classifier, "a film", "-o", tmp_path / name)
    assert error.code == "unsupported-file" and ".jsonl" in error.err and list(tmp_path.iterdir()) == []


def test_json_is_not_written_into_another_format(parser: Path, tagger: Path, tmp_path: Path) -> None:
    assert fails("predict", parser, "one two", "--json", "-o", tmp_path / "out.ptb").code == "conflicting-options"
    assert fails("predict", tagger, "one two", "--json", "-o", tmp_path / "out.csv").code == "conflicting-options"
    assert regard("predict", tagger, "one two", "--json", "-o", tmp_path / "out.jsonl").status == 0


def test_translations_are_written_in_the_format_of_the_name(trained: Path, tmp_path: Path) -> None:
    source, lines = tmp_path / "in.txt", ["one two", "three", "two, one"]
    source.write_text("\n".join(lines) + "\n", encoding="utf-8")
    expected = regard("translate", trained, "-i", source).lines
    for name in ("out.csv", "out.tsv", "out.jsonl", "out.txt", "out", "out.hyp"):
        assert regard("translate", trained, "-i", source, "-o", tmp_path / name).status == 0
    for name, delimiter in (("out.csv", ","), ("out.tsv", "\t")):
        with (tmp_path / name).open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream, delimiter=delimiter))
        assert [(row["src"], row["predicted_translation"]) for row in rows] == list(zip(lines, expected, strict=True))
    objects = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(item["source"], item["translation"]) for item in objects] == list(zip(lines, expected, strict=True))
    for name in ("out.txt", "out", "out.hyp"):
        assert (tmp_path / name).read_text(encoding="utf-8").splitlines() == expected
    for name in ("out.json", "out.docx", "out.html", "out.xlsx"):
        error = fails("translate", trained, "-i", source, "-o", tmp_path / name)
        assert error.code == "unsupported-file" and not (tmp_path / name).exists()
    assert fails("translate", trained, "-i", source, "-o", tmp_path / "out.csv", "--scores").code == "unsupported-file"


def test_a_translated_table_keeps_its_columns(trained: Path, tmp_path: Path) -> None:
    source, output = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text('id,src,tgt\n7,"one, two",x\n8,three,y\n', encoding="utf-8")
    assert regard("translate", trained, "-i", source, "-o", output).status == 0
    with output.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["id"], row["src"], row["tgt"]) for row in rows] == [("7", "one, two", "x"), ("8", "three", "y")]
    expected = regard("translate", trained, stdin="one, two\nthree\n").lines
    assert [row["predicted_translation"] for row in rows] == expected


@pytest.mark.parametrize("name", ["out.csv", "out.txt", "out.npy.gz"])
def test_vectors_are_not_written_under_another_extension(name: str, classifier: Path, tmp_path: Path) -> None:
    assert fails("embed", classifier, "a film", "-o", tmp_path / name).status == 1
    assert list(tmp_path.iterdir()) == []


def test_evaluations_of_files_with_one_name_are_different_files(classifier: Path, tmp_path: Path) -> None:
    files = []
    for folder, label in (("a", "good"), ("b", "bad")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "test.tsv").write_text(f"text\tlabel\na fine film\t{label}\n", encoding="utf-8")
        result = regard("evaluate", classifier, "--file", tmp_path / folder / "test.tsv", "--json")
        files.append(Path(json.loads(result.out)["file"]))
    assert [json.loads(path.read_text(encoding="utf-8"))["examples"][0]["label"] for path in files] == ["good", "bad"]
    for path in files:
        path.unlink()
