"""regard predict with tables: the columns of the recipe in, .csv, .tsv, .json and JSON lines out."""

import csv
import gzip
import json
import lzma
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import fails, regard
from tests.tiny import SPLIT_SIZES, labelled_examples, write_recipe

from regard.errors import UserError
from regard.files import open_binary

TEXTS = ["a lovely film by Ada in 7", "a dull book", "", 'a great "song",\nby Bob']


@pytest.fixture(scope="module")
def intents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier whose recipe names the columns of a .csv file."""
    folder = tmp_path_factory.mktemp("intents")
    source = {split: {"file": f"{split}.csv", "text": "Utterance", "label": "Intent"} for split in SPLIT_SIZES}
    settings = {f"data.{split}": value for split, value in source.items()} | {"training.max_epochs": 2.0}
    recipe = write_recipe(folder, "classification", settings=settings)
    for split, examples in labelled_examples("classification").items():
        rows = [[str(number), item["text"], item["label"]] for number, item in enumerate(examples)]
        write_csv(folder / f"{split}.csv", [["id", "Utterance", "Intent"], *rows])
    result = regard("train", recipe, "--folder", folder / "run")
    assert result.status == 0, result.err
    return folder / "run"


def write_csv(path: Path, rows: Sequence[Sequence[str]], delimiter: str = ",") -> Path:
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, delimiter=delimiter).writerows(rows)
    return path


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def predict(*arguments: object, stdin: str = "") -> list[dict[str, Any]]:
    result = regard("predict", *arguments, stdin=stdin)
    assert result.status == 0, result.err
    return [json.loads(line) for line in result.lines]


def plain(run: Path, texts: Sequence[str]) -> list[Any]:
    """Labels of texts that are given as JSON on stdin."""
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    return [item["label"] for item in predict(run, stdin=lines)]


def test_a_table_is_read_by_the_columns_of_the_recipe(intents: Path, tmp_path: Path) -> None:
    rows = [["id", "Utterance", "Intent"], *([str(n), text, "bad"] for n, text in enumerate(TEXTS))]
    items = predict(intents, "-i", write_csv(tmp_path / "t.csv", rows))
    assert [item["text"] for item in items] == TEXTS, "neither the header nor the label is in a text"
    assert [item["label"] for item in items] == plain(intents, TEXTS) and items[2]["label"] is None
    assert [(item["id"], item["Intent"]) for item in items] == [(str(n), "bad") for n in range(4)]
    without = write_csv(tmp_path / "no-label.csv", [row[:2] for row in rows])
    assert [item["label"] for item in predict(intents, "-i", without)] == [item["label"] for item in items]


def test_compressed_tables_and_other_formats(classifier: Path, regressor: Path, tmp_path: Path) -> None:
    content = "text\tlabel\n" + "".join(f"{text}\twrong\n" for text in TEXTS[:2])
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress(content.encode()))
    (tmp_path / "b.tsv.xz").write_bytes(lzma.compress(content.encode()))
    (tmp_path / "c.json").write_text(json.dumps([{"text": text, "label": "x"} for text in TEXTS]), encoding="utf-8")
    (tmp_path / "d.jsonl").write_text('{"text": "a dull book", "label": 3, "id": 7}\n', encoding="utf-8")
    expected = plain(classifier, TEXTS)
    for name in ("a.tsv.gz", "b.tsv.xz", "c.json"):
        labels = [item["predicted_label"] for item in predict(classifier, "-i", tmp_path / name)]
        assert labels == expected[: len(labels)] and len(labels) == (4 if name == "c.json" else 2)
    (item,) = predict(classifier, "-i", tmp_path / "d.jsonl")
    assert item["label"] == 3 and item["predicted_label"] == expected[1] and item["id"] == 7
    numbers = write_csv(tmp_path / "n.csv", [["text", "pair", "label"], ["a film", "the film", "not a number"]])
    (item,) = predict(regressor, "-i", numbers)
    assert item["pair"] == "the film" and isinstance(item["score"], float), "a target need not be right"


def test_options_choose_columns(intents: Path, classifier: Path, regressor: Path, tmp_path: Path) -> None:
    table = write_csv(tmp_path / "t.csv", [["Intent", "body"], ["bad", "a lovely film"], ["bad", "a dull book"]])
    expected = plain(intents, ["a lovely film", "a dull book"])
    for columns in ("text=body", "text=2", "body", "2"):
        items = predict(intents, "-i", table, "--columns", columns)
        assert [item["label"] for item in items] == expected and items[0]["text"] == "a lovely film"
    headless = write_csv(tmp_path / "h.tsv", [["x", "a lovely film"], ["y", "a dull book"]], "\t")
    items = predict(classifier, "-i", headless, "--columns", "text=2", "--no-header")
    assert [item["text"] for item in items] == ["a lovely film", "a dull book"] and items[0]["1"] == "x"
    pairs = write_csv(tmp_path / "p.csv", [["a", "b"], ["the film", "a film"]])
    (item,) = predict(regressor, "-i", pairs, "--columns", "pair=a, text=b")
    assert (item["text"], item["pair"]) == ("a film", "the film")


def test_delimiters(intents: Path, tmp_path: Path) -> None:
    rows = [["Utterance", "n"], ["a dull book", "1"], ["a lovely, film", "2"]]
    hashes = write_csv(tmp_path / "t.csv", rows, "#")
    items = predict(intents, "-i", hashes, "--delimiter", "#")
    assert [item["text"] for item in items] == ["a dull book", "a lovely, film"]
    semicolons = write_csv(tmp_path / "s.csv", rows, ";")
    result = regard("predict", intents, "-i", semicolons)
    assert [json.loads(line)["text"] for line in result.lines] == ["a dull book", "a lovely, film"]
    assert "s.csv" in result.err and ";" in result.err, "what is guessed is reported"
    other = tmp_path / "t.tsv"
    other.write_text("Utterance\tn\na dull book\t1\n", encoding="utf-8")
    assert predict(intents, "-i", other)[0]["text"] == "a dull book", "the columns of the recipe in another format"


def test_errors(intents: Path, classifier: Path, language: Path, tmp_path: Path) -> None:
    table = write_csv(tmp_path / "t.csv", [["body", "Intent"], ["a dull book", "bad"]])
    assert fails("predict", intents, "-i", table).code == "missing-field"
    assert fails("predict", intents, "-i", table, "--columns", "txt=body").code == "invalid-option"
    assert fails("predict", intents, "-i", table, "--columns", "a,b,c,d").code == "invalid-option"
    plain_file = tmp_path / "t.txt"
    plain_file.write_text("a dull book\n", encoding="utf-8")
    assert fails("predict", intents, "-i", plain_file, "--columns", "text=1").code == "unsupported-option"
    assert fails("predict", intents, "a", "--no-header").code == "unsupported-option"
    assert fails("predict", intents, "-i", table, "-o", tmp_path / "o.csv", "--json").code == "conflicting-options"
    assert fails("predict", language, "-i", plain_file, "--columns", "text=1").code == "invalid-option"
    uneven = "\n".join(json.dumps(item) for item in ({"text": "a"}, {"text": "b", "id": 1}))
    result = fails("predict", classifier, "-o", tmp_path / "o.csv", stdin=uneven)
    assert result.code == "bad-record" and not (tmp_path / "o.csv").exists()


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".csv.xz"])
def test_a_csv_file_keeps_the_columns_of_the_input(intents: Path, tmp_path: Path, ending: str) -> None:
    rows = [["id", "Utterance", "Intent"], *([str(n), text, "bad"] for n, text in enumerate(TEXTS))]
    output, table = tmp_path / f"o{ending}", write_csv(tmp_path / "t.csv", rows)
    assert predict(intents, "-i", table, "-o", output) == []
    with open_binary(output) as stream:
        opened = stream.read().decode()
    read = list(csv.reader(opened.splitlines(keepends=True)))
    names = ["predicted_label", "predicted_probability", "predicted_truncated", "p(bad)", "p(good)"]
    assert read[0] == [*rows[0], *names]
    assert [row[:3] for row in read[1:]] == rows[1:] and read[3][3:] == [""] * 5, "no prediction for a blank text"
    for row, item in zip(read[1:], predict(intents, "-i", table), strict=True):
        if item["text"]:
            assert row[3] == item["label"] and float(row[4]) == pytest.approx(item["probability"], abs=1e-5)
            assert [float(row[6]), float(row[7])] == pytest.approx(
                [item["probabilities"][name] for name in ("bad", "good")], abs=1e-5
            )
    again = tmp_path / "again.csv"
    (tmp_path / "first.csv").write_text(opened, encoding="utf-8", newline="")
    predict(intents, "-i", tmp_path / "first.csv", "-o", again)
    assert [list(row) for row in read_csv(again)] == [[*rows[0], *names]] * 4, "predictions replace older ones"


def test_plain_lines_as_tables(classifier: Path, tagger: Path, regressor: Path, tmp_path: Path) -> None:
    lines, output = "a\tdull book\n\na lovely film\n", tmp_path / "o.tsv"
    predict(classifier, "-o", output, "--top", 1, stdin=lines)
    rows = [line.split("\t") for line in output.read_text(encoding="utf-8").splitlines()]
    assert rows[0][:2] == ["text", "predicted_label"] and [row[0] for row in rows[1:]] == [
        "a dull book",
        "",
        "a lovely film",
    ]
    assert [row[1] for row in rows[1:]] == ["bad", "", "good"] and all(len(row) == 6 for row in rows)
    assert rows[1][5] == "" != rows[1][4], "of one class only the probability"
    predict(tagger, "-o", tmp_path / "t.csv", stdin="Ada reads 5 film in Oslo.\n")
    (tags,) = read_csv(tmp_path / "t.csv")
    assert tags["words"] == "Ada reads 5 film in Oslo ." and tags["predicted_tags"] == "B-PER O O O O B-LOC O"
    assert [item["text"] for item in json.loads(tags["predicted_entities"])] == ["Ada", "Oslo"]
    predict(regressor, "-o", tmp_path / "r.csv", stdin="a film\na film\tthe film\n")
    assert [row["pair"] for row in read_csv(tmp_path / "r.csv")] == ["", "the film"]


def test_a_json_file_is_one_list(classifier: Path, tmp_path: Path) -> None:
    output = tmp_path / "o.json"
    predict(classifier, "-o", output, stdin="a dull book\na lovely film\n")
    assert [item["label"] for item in json.loads(output.read_text(encoding="utf-8"))] == ["bad", "good"]
    predict(classifier, "-o", output)
    assert json.loads(output.read_text(encoding="utf-8")) == []


def test_other_tasks_read_their_files(
    trained: Path, tagger: Path, parser: Path, answerer: Path, chooser: Path, tmp_path: Path
) -> None:
    pairs = write_csv(tmp_path / "p.csv", [["id", "english"], ["7", "one two six"]])
    (item,) = predict(trained, "-i", pairs, "--columns", "src=english")
    assert item["src"] == "one two six" and item["translation"] == "eins zwei sechs" and item["id"] == "7"
    prefixed = tmp_path / "p.jsonl"
    prefixed.write_text('{"src": "one two six", "prefix": "zwei", "tgt": "x"}\n', encoding="utf-8")
    (item,) = predict(trained, "-i", prefixed)
    assert item["translation"].startswith("zwei") and item["tgt"] == "x"
    conll = tmp_path / "t.conll"
    conll.write_text("Ada\tO\nreads\tO\n\nMax\tX\n", encoding="utf-8")
    tagged = predict(tagger, "-i", conll)
    assert [item["words"] for item in tagged] == [["Ada", "reads"], ["Max"]]
    assert [item["tags"] for item in tagged] == [["O", "O"], ["X"]], "gold tags stay"
    assert [item["predicted_tags"] for item in tagged] == [["B-PER", "O"], ["B-PER"]]
    trees = tmp_path / "t.ptb"
    trees.write_text("(ROOT (S (NP (DT the) (NN cat)) (VP (VBD slept)) (. .)))\n", encoding="utf-8")
    (item,) = predict(parser, "-i", trees, "--json")
    assert item["words"] == ["the", "cat", "slept", "."] and item["tree"].startswith("(ROOT (S (NP")
    question = {"question": "Who ?", "context": "Max lives in Rome .", "answers": "nowhere", "id": "q"}
    choice = {"text": "the film", "choices": ["a", "film"], "label": "none"}
    for run, values, key in ((answerer, question, "answer"), (chooser, choice, "choice")):
        (tmp_path / "q.json").write_text(json.dumps([values]), encoding="utf-8")
        (item,) = predict(run, "-i", tmp_path / "q.json")
        assert item[key] in (values.get("context") or " ".join(choice["choices"]))


def test_other_commands_read_the_same_columns(
    trained: Path, parser: Path, intents: Path, tagger: Path, pretrained: Path, tmp_path: Path
) -> None:
    pairs = write_csv(tmp_path / "p.csv", [["id", "english", "tgt"], ["7", "one two six", "x"], ["8", "", "x"]])
    result = regard("translate", trained, "-i", pairs, "--columns", "src=english")
    assert result.lines == ["eins zwei sechs", ""]
    assert fails("translate", trained, "-i", pairs, "--columns", "text=english").code == "invalid-option"
    assert fails("translate", trained, "--columns", "src=1", stdin="one\n").code == "unsupported-option"
    trees = tmp_path / "t.mrg"
    trees.write_text("(ROOT (S (NP (DT the) (NN cat)) (VP (VBD slept)) (. .)))\n", encoding="utf-8")
    (tree,) = regard("predict", parser, "-i", trees, "--json").lines
    assert json.loads(tree)["words"] == ["the", "cat", "slept", "."]
    texts = write_csv(tmp_path / "t.csv", [["Intent", "Utterance"], ["bad", "a dull book"]])
    others = write_csv(tmp_path / "o.csv", [["label", "text"], ["bad", "a dull book"]])
    for run, table in ((intents, texts), (tagger, others), (pretrained, others)):
        lines = [regard("embed", run, *source).lines for source in (("-i", table), ("a dull book",))]
        (item,), (alone,) = ([json.loads(line) for line in group] for group in lines)
        assert item["text"] == "a dull book" and item["embedding"] == alone["embedding"]


def test_a_text_is_drawn_on_a_terminal_and_json_elsewhere(classifier: Path, tmp_path: Path) -> None:
    drawn = regard("predict", classifier, "a lovely film", terminal=True)
    assert drawn.status == 0 and "█" in drawn.out and "{" not in drawn.out
    for result in (
        regard("predict", classifier, "a lovely film", "--json", terminal=True),
        regard("predict", classifier, "a lovely film"),
        regard("predict", classifier, "--json", "--interactive", stdin="a lovely film\n"),
    ):
        assert json.loads(result.out)["label"] == "good"
    blank = regard("predict", classifier, " ", terminal=True)
    assert blank.status == 0 and "█" not in blank.out and blank.out.strip()
    (tmp_path / "in.txt").write_text("a lovely film\n", encoding="utf-8")
    lines = regard("predict", classifier, "-i", tmp_path / "in.txt", terminal=True)
    assert json.loads(lines.out)["label"] == "good", "a file gives JSON lines"


def test_a_field_has_one_column() -> None:
    from regard.cli.tables import column_settings

    assert column_settings("text=1,label=2", ("text", "label")) == {"text": 1, "label": 2}
    for twice in ("text=1,text=2", "1,text=2"):
        with pytest.raises(UserError) as error:
            column_settings(twice, ("text", "label"))
        assert (error.value.code, error.value.where) == ("invalid-option", "columns")
