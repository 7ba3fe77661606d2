"""Labelled files of every format become the same plain examples; an error has a code and a location."""

import gzip
import json
import lzma
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from regard.data.fields import CHOICES, LABELLED_TEXT, QUESTIONS, SCORED_TEXT, TAGGED_WORDS, Fields
from regard.data.formats import check_source, read_examples
from regard.data.records import follow
from regard.data.sources import Source
from regard.errors import UserError

Examples = list[dict[str, Any]]
FIELDS = {
    "classification": LABELLED_TEXT, "regression": SCORED_TEXT, "tagging": TAGGED_WORDS, "answering": QUESTIONS,
    "choice": CHOICES,
}  # fmt: skip


def read(folder: Path, fields: Fields, content: str, *, labelled: bool = True, **values: Any) -> Examples:
    """The examples of a file with this content."""
    source = Source(**{"file": "data.csv"} | values)
    check_source(source, fields)
    (folder / str(source.file)).write_text(content, encoding="utf-8", newline="")
    return list(read_examples([source], folder, fields, labelled))


def refused(folder: Path, fields: Fields, content: str, **values: Any) -> tuple[str, str]:
    """Code and location of the error that a file with this content causes."""
    with pytest.raises(UserError) as error:
        read(folder, fields, content, **values)
    assert error.value.remedy
    return error.value.code, error.value.where.replace(f"{folder}/", "")


def refusal(folder: Path, fields: Fields, content: str, **values: Any) -> str:
    """The text of the error."""
    with pytest.raises(UserError) as error:
        read(folder, fields, content, **values)
    return str(error.value).replace(f"{folder}/", "")


def parse_error(fields: Fields, value: dict[str, Any]) -> tuple[str, str]:
    with pytest.raises(UserError) as error:
        fields.parse(value)
    return error.value.code, error.value.where


def test_a_table_with_the_usual_columns_needs_nothing_but_its_name(tmp_path: Path) -> None:
    expected = [{"text": "good, very", "label": "yes"}, {"text": 'bad "indeed"', "label": "no"}]
    assert read(tmp_path, LABELLED_TEXT, 'label,text\r\nyes,"good, very"\r\nno,"bad ""indeed"""\r\n') == expected
    tabs = 'text\tlabel\ngood, very\tyes\nbad "indeed"\tno\n'
    assert read(tmp_path, LABELLED_TEXT, tabs, file="data.tsv") == expected, "quotes are text there"


def test_a_cell_may_span_lines(tmp_path: Path) -> None:
    content = 'text,label\n"one\ntwo",a\n\nthree,b\n,c\n'
    found = read(tmp_path, LABELLED_TEXT, content)
    assert [example["text"] for example in found] == ["one\ntwo", "three", ""]
    assert refused(tmp_path, LABELLED_TEXT, content + "x,y,z\n") == ("bad-line", "data.csv:7")


def test_quotation_marks_by_setting(tmp_path: Path) -> None:
    content = 'text\tlabel\n"a\tb"\tc\n'
    assert read(tmp_path, LABELLED_TEXT, content, file="a.tsv", quoted=True)[0] == {"text": "a\tb", "label": "c"}
    assert refused(tmp_path, LABELLED_TEXT, content, file="a.tsv") == ("bad-line", "a.tsv:2")
    assert read(tmp_path, LABELLED_TEXT, 'text,label\n"a,b\n', quoted=False)[0]["text"] == '"a'


def test_columns_by_name_by_number_and_several_joined(tmp_path: Path) -> None:
    content = "3,Title,Body \n4,Other,\n"
    names = {"3": "Business", "4": "Science"}
    found = read(tmp_path, LABELLED_TEXT, content, header=False, text=[2, 3], label=1, names=names)
    assert found == [{"text": "Title Body", "label": "Business"}, {"text": "Other", "label": "Science"}]
    content = "a,b,score\nx,y,2.5\n"
    found = read(tmp_path, SCORED_TEXT, content, text="a", pair=2, label="score")
    assert found == [{"text": "x", "pair": "y", "label": 2.5}]


def test_a_column_called_pair_is_the_second_text(tmp_path: Path) -> None:
    assert read(tmp_path, LABELLED_TEXT, "text,pair,label\na,b,c\n")[0]["pair"] == "b"


def test_where_chooses_rows(tmp_path: Path) -> None:
    content = "text,label,year,source\na,1,2012,x\nb,1,2013,y\nc,0,2014,x\n"

    def texts(**where: Any) -> list[str]:
        return [example["text"] for example in read(tmp_path, LABELLED_TEXT, content, where=where)]

    assert texts(source="x") == ["a", "c"]
    assert texts(year=[2012, 2013]) == ["a", "b"]
    assert texts(source="x", year=2014) == ["c"]
    found = read(tmp_path, LABELLED_TEXT, "a,1\nb,2\n", header=False, text=1, label=2, where={"2": 2})
    assert found == [{"text": "b", "label": "2"}]
    assert refused(tmp_path, LABELLED_TEXT, content, where={"sauce": "x"}) == ("missing-field", "data.csv:2")
    assert refused(tmp_path, LABELLED_TEXT, content, where={"source": "z"}) == ("no-data", "data.csv")


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_compressed_files_are_read(tmp_path: Path, compress: Any) -> None:
    name = f"data.csv.{'gz' if compress is gzip.compress else 'xz'}"
    (tmp_path / name).write_bytes(compress("\ufefftext,label\nä,b\n".encode()))
    assert list(read_examples([Source(file=name)], tmp_path, LABELLED_TEXT)) == [{"text": "ä", "label": "b"}]


EXAMPLES: dict[str, Examples] = {
    "classification": [{"text": "a", "label": "x"}, {"text": "a", "pair": "b", "label": "y"}],
    "regression": [{"text": "a", "pair": "b", "label": 0.5}],
    "tagging": [{"words": ["Ada", "slept"], "tags": ["B-PER", "O"]}],
    "answering": [
        {"question": "who?", "context": " Ada slept", "id": "1", "answers": [{"text": "Ada", "start": 1}]},
        {"question": "where?", "context": " Ada slept", "answers": []},
    ],
    "choice": [{"text": "Ada", "choices": ["slept", "sleeped"], "label": 0}],
}


@pytest.mark.parametrize("task", EXAMPLES)
def test_plain_examples_are_read_as_they_are(tmp_path: Path, task: str) -> None:
    lines = "".join(json.dumps(example) + "\n" for example in EXAMPLES[task])
    assert read(tmp_path, FIELDS[task], lines, file="data.jsonl") == EXAMPLES[task]
    assert read(tmp_path, FIELDS[task], json.dumps(EXAMPLES[task], indent=1), file="data.json") == EXAMPLES[task]
    assert [FIELDS[task].parse(example) for example in EXAMPLES[task]] == EXAMPLES[task]


@pytest.mark.parametrize("task", EXAMPLES)
def test_the_target_is_needed_only_for_training_and_scoring(tmp_path: Path, task: str) -> None:
    bare = [{k: v for k, v in e.items() if k not in ("label", "tags", "answers")} for e in EXAMPLES[task]]
    lines = "\n" + "".join(json.dumps(example) + "\n" for example in bare)
    assert read(tmp_path, FIELDS[task], lines, file="data.jsonl", labelled=False) == bare
    assert refused(tmp_path, FIELDS[task], lines, file="data.jsonl") == ("missing-field", "data.jsonl:2")


def test_json_by_keys_and_numbers(tmp_path: Path) -> None:
    content = json.dumps({"train": [["hi", "greet"], ["bye", "leave"]], "more": {"oos": [["um", 0]]}})
    found = read(tmp_path, LABELLED_TEXT, content, file="d.json", records="train", text=1, label=2)
    assert found == [{"text": "hi", "label": "greet"}, {"text": "bye", "label": "leave"}]
    found = read(tmp_path, LABELLED_TEXT, content, file="d.json", records="more.oos", text=1, label=2)
    assert found == [{"text": "um", "label": "0"}]
    assert "lists: train" in refusal(tmp_path, LABELLED_TEXT, content, file="d.json")
    assert refused(tmp_path, LABELLED_TEXT, content, file="d.json", records="test") == ("bad-json", "d.json")
    assert 'format = "jsonl"' in refusal(tmp_path, LABELLED_TEXT, '{"text": 1}\n{"text": 2}\n', file="d.json")
    message = refusal(tmp_path, LABELLED_TEXT, content, file="d.json", records="train")
    assert message.startswith("d.json, train 1: there is no text") and "2 columns, numbered from 1" in message


def test_following_a_path() -> None:
    value = {"a": {"b": [{"c": 1}]}, "a.b": 2, "d.e": {"f": 3}}
    assert follow(value, "a.b") == 2, "a key that is there is taken first"
    assert follow({"a": value["a"]}, "a.b.1.c") == 1
    assert follow(value, "a.x") is None and follow(value, "x.y") is None and follow([1], "2") is None


def test_labels_of_json_become_text(tmp_path: Path) -> None:
    lines = '{"text": "a", "label": true}\n{"text": "b", "label": 1}\n{"text": 3, "label": " x "}\n'
    assert [e["label"] for e in read(tmp_path, LABELLED_TEXT, lines, file="d.jsonl")] == ["true", "1", "x"]


def test_lines_with_a_label_or_a_file_of_labels(tmp_path: Path) -> None:
    found = read(tmp_path, LABELLED_TEXT, "__label__yes good stuff\n__label__no  bad\n", file="d.txt")
    assert found == [{"text": "good stuff", "label": "yes"}, {"text": "bad", "label": "no"}]
    (tmp_path / "d.labels").write_text("1\n0\n", encoding="utf-8")
    found = read(tmp_path, LABELLED_TEXT, "good\nbad\n", file="d.txt", labels_file="d.labels", names={"1": "yes"})
    assert found == [{"text": "good", "label": "yes"}, {"text": "bad", "label": "0"}]
    more = {"file": "d.txt", "labels_file": "d.labels"}
    for lines in ("a\nb\nc\n", "a\n"):
        assert refused(tmp_path, LABELLED_TEXT, lines, **more) == ("unaligned-files", "d.labels")


def test_trec(tmp_path: Path) -> None:
    content = "NUM:dist How far ?\nHUM:desc Who : me ?\n"
    source: dict[str, Any] = {"file": "t.txt", "format": "trec"}
    assert [e["label"] for e in read(tmp_path, LABELLED_TEXT, content, **source)] == ["NUM", "HUM"]
    found = read(tmp_path, LABELLED_TEXT, content, label="fine", **source)
    assert found[1] == {"text": "Who : me ?", "label": "HUM:desc"}
    assert refused(tmp_path, LABELLED_TEXT, "A:b c\nnothing\n", **source) == ("bad-line", "t.txt:2")


CONLL = "-DOCSTART- -X- O\nAda NNP B-PER\nslept VBD O\n\t\n\nNo\u00a0one NN O\n"


def test_conll_has_words_first_and_tags_last(tmp_path: Path) -> None:
    tabs = "Ada\tB-PER\nslept\tO\n\t\nNo one\tO"
    found = read(tmp_path, TAGGED_WORDS, tabs, file="d.conll")
    assert found == [{"words": ["Ada", "slept"], "tags": ["B-PER", "O"]}, {"words": ["No one"], "tags": ["O"]}]
    blanks = CONLL.replace("\u00a0", "")
    assert [e["tags"] for e in read(tmp_path, TAGGED_WORDS, blanks, file="d.conll")] == [["B-PER", "O"], ["O"]]
    found = read(tmp_path, TAGGED_WORDS, blanks, file="d.conll", tags=2, names={"NN": "N"})
    assert [e["tags"] for e in found] == [["NNP", "VBD"], ["N"]]
    assert read(tmp_path, TAGGED_WORDS, "a\nb\n\nc\n", file="d.conll", labelled=False)[0] == {"words": ["a", "b"]}
    bound = read(tmp_path, TAGGED_WORDS, "New\u00a0York  B-LOC\nslept O \n", file="d.conll")
    assert bound == [{"words": ["New\u00a0York", "slept"], "tags": ["B-LOC", "O"]}], "columns are between blanks alone"


def test_defects_of_conll(tmp_path: Path) -> None:
    assert refused(tmp_path, TAGGED_WORDS, "a\tO\n\nb\tO\nc\n", file="d.conll") == ("bad-line", "d.conll:4")
    assert refused(tmp_path, TAGGED_WORDS, "\tO\n", file="d.conll") == ("bad-line", "d.conll:1")
    assert "header" not in refusal(tmp_path, TAGGED_WORDS, "a\nb\n", file="d.conll"), "there is none"
    for record in ('{"words": ["a", "b"], "tags": ["O", ""]}', '{"words": ["a", "b"], "tags": ["O"]}'):
        assert refused(tmp_path, TAGGED_WORDS, record, file="d.jsonl") == ("bad-record", "d.jsonl:1")


def test_words_and_tags_as_text_and_as_numbers(tmp_path: Path) -> None:
    content = '{"tokens": "Ada slept", "ner": [1, 0]}\n'
    names = {"0": "O", "1": "B-PER"}
    found = read(tmp_path, TAGGED_WORDS, content, file="d.jsonl", words="tokens", tags="ner", names=names)
    assert found == EXAMPLES["tagging"]


def squad(answers: Any, **more: Any) -> str:
    asked = {"id": "7", "question": "Who?", "answers": answers} | more
    return json.dumps({"data": [{"title": "t", "paragraphs": [{"context": "Ada slept. Ada.", "qas": [asked]}]}]})


def test_squad(tmp_path: Path) -> None:
    source: dict[str, Any] = {"file": "s.json", "format": "squad"}
    content = squad([{"text": "Ada", "answer_start": 11}, {"text": "Ada slept", "answer_start": 0}])
    found = read(tmp_path, QUESTIONS, content, **source)
    assert found[0]["answers"] == [{"text": "Ada", "start": 11}, {"text": "Ada slept", "start": 0}]
    assert found[0]["id"] == "7" and found[0]["context"] == "Ada slept. Ada."
    assert read(tmp_path, QUESTIONS, squad([], is_impossible=True), **source)[0]["answers"] == []
    wrong = squad([{"text": "Ada", "answer_start": 1}])
    assert refused(tmp_path, QUESTIONS, wrong, **source) == ("bad-record", "s.json:7")
    assert "s.json, question 7: " in refusal(tmp_path, QUESTIONS, wrong, **source)
    assert refused(tmp_path, QUESTIONS, "{}", **source) == ("bad-record", "s.json")


def test_answers_in_every_form(tmp_path: Path) -> None:
    context = {"question": "who?", "context": "the Ada"}
    for answers in ("Ada", ["Ada"], {"text": "Ada", "start": 4}, {"text": ["Ada"], "answer_start": [4]}):
        assert QUESTIONS.parse(context | {"answers": answers})["answers"] == [{"text": "Ada", "start": 4}]
    assert QUESTIONS.parse(context | {"answers": {"text": [], "answer_start": []}})["answers"] == []
    assert QUESTIONS.parse(context | {"answers": ""})["answers"] == [], "an empty cell of a table"
    assert QUESTIONS.parse(context | {"answers": {"text": ["Ada"]}})["answers"] == [{"text": "Ada", "start": 4}]
    unlike = ({"text": ["Ada"], "start": 4}, {"text": ["Ada", "the"], "start": [4]}, {"text": ["Ada"], "start": None})
    for wrong in ("Eve", [""], [" "], [3], {"text": "Ada", "start": "4"}, {"start": 4}, *unlike):
        assert parse_error(QUESTIONS, context | {"answers": wrong}) == ("bad-record", "the input")


def test_answers_that_count_words(tmp_path: Path) -> None:
    for name, content in (("question", "Who ?\nWhat ?\n"), ("span", "1 2\n0 0\n")):
        (tmp_path / f"a.{name}").write_text(content, encoding="utf-8")
    source: dict[str, Any] = {"file": "a.context", "format": "squad-tokens"}
    found = read(tmp_path, QUESTIONS, "the Ada L. slept\nsleep  well\n", **source)
    assert [e["answers"] for e in found] == [[{"text": "Ada L.", "start": 4}], [{"text": "sleep", "start": 0}]]
    assert _with(tmp_path, "a.span", "0 0\n0 5\n", source) == ("bad-record", "a.span:2")
    assert _with(tmp_path, "a.span", "x\n0 5\n", source) == ("bad-record", "a.span:1")
    assert _with(tmp_path, "a.question", "Who ?\n", source) == ("unaligned-files", "a.question")


def _with(folder: Path, name: str, content: str, source: dict[str, Any]) -> tuple[str, str]:
    (folder / "a.span").write_text("0 0\n0 0\n", encoding="utf-8")
    (folder / name).write_text(content, encoding="utf-8")
    return refused(folder, QUESTIONS, "the Ada\nsleep well\n", **source)


def test_qamr(tmp_path: Path) -> None:
    (tmp_path / "sentences.tsv").write_text("s:1\tAda -LRB- `` L. '' -RRB- slept here\n", encoding="utf-8")
    row = ["s:1", "0 5", "76", "0", "3", "Who slept?", "0 3", "261:0", "60:3 0"]
    source: dict[str, Any] = {"file": "q.tsv", "format": "qamr", "contexts_file": "sentences.tsv"}
    (example,) = read(tmp_path, QUESTIONS, "\t".join(row) + "\n", **source)
    assert example["context"] == 'Ada ( " L. " ) slept here' and example["question"] == "Who slept?"
    assert example["answers"] == [{"text": 'Ada ( " L.', "start": 0}, {"text": "Ada", "start": 0}]
    assert refused(tmp_path, QUESTIONS, "\t".join(["s:2", *row[1:]]), **source) == ("bad-record", "q.tsv:1")
    assert refused(tmp_path, QUESTIONS, "\t".join(row[:6]), **source) == ("bad-record", "q.tsv:1")


def test_choices_in_every_form(tmp_path: Path) -> None:
    expected = {"text": "go", "choices": ["up", "down"], "label": 1}
    forms: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"text": "go", "choices": ["up", "down"], "label": "1"}, {}),
        ({"sent": "go", "options": {"0": "up", "1": "down"}, "label": 1}, {"text": "sent", "choices": "options"}),
        (
            {"q": {"stem": "go", "c": [{"label": "A", "text": "up"}, {"text": "down", "label": "B"}]}, "key": "B"},
            {"text": "q.stem", "choices": "q.c", "label": "key"},
        ),
        ({"text": "go", "c": {"text": ["up", "down"], "label": ["A", "B"]}, "label": "B"}, {"choices": "c"}),
        ({"text": "go", "a": "up ", "b": " down", "label": "x"}, {"choices": ["a", "b"], "names": {"x": "1"}}),
    ]
    for record, columns in forms:
        assert read(tmp_path, CHOICES, json.dumps(record), file="d.jsonl", **columns) == [expected]
    table: dict[str, Any] = {"file": "d.tsv", "header": False, "text": 2, "choices": [3, 4], "label": 5}
    assert read(tmp_path, CHOICES, "o\tgo\tup\tdown\t1\n", **table) == [expected]
    assert refused(tmp_path, CHOICES, "o\tgo\tup\tdown\t2\n", **table) == ("bad-record", "d.tsv:1")
    one: dict[str, Any] = {"header": False, "text": 1, "choices": [2], "label": 3}
    assert refused(tmp_path, CHOICES, "go,up,0\n", **one) == ("bad-record", "data.csv:1")
    assert refused(tmp_path, CHOICES, "text,label\ngo,1\n") == ("missing-field", "data.csv:2")


def test_choices_with_equal_labels() -> None:
    twice = {"text": "go", "choices": [{"label": each, "text": each} for each in ("A", "A", "B")]}
    assert CHOICES.parse(twice)["choices"] == ["A", "A", "B"]
    assert parse_error(CHOICES, twice | {"label": "A"}) == ("bad-record", "the input")
    for choices in ({"text": ["up", "down"], "label": ["A"]}, ["up", None], "up"):
        assert parse_error(CHOICES, {"text": "go", "choices": choices}) == ("bad-record", "the input")


@pytest.mark.parametrize(
    ("fields", "content", "code", "line"),
    [
        (LABELLED_TEXT, "sentence,label\na,b\n", "missing-field", ":2"),
        (LABELLED_TEXT, "text,class\na,b\n", "missing-field", ":2"),
        (LABELLED_TEXT, "text,label\na,\n", "missing-field", ":2"),
        (LABELLED_TEXT, "text,label\na, \n", "missing-field", ":2"),
        (LABELLED_TEXT, "text,label\n", "no-data", ""),
        (LABELLED_TEXT, "", "no-data", ""),
        (LABELLED_TEXT, 'text,label\n"a,b\n', "bad-line", ":2"),
        (SCORED_TEXT, "text,label\na,1.5\nb,many\n", "bad-record", ":3"),
        (SCORED_TEXT, "text,label\na,nan\n", "bad-record", ":2"),
        (SCORED_TEXT, "text,label\na,-1e30\n", "bad-record", ":2"),
        (TAGGED_WORDS, "text,label\na,b\n", "missing-field", ":2"),
    ],
)
def test_a_defect_has_a_code_and_a_line(tmp_path: Path, fields: Fields, content: str, code: str, line: str) -> None:
    assert refused(tmp_path, fields, content) == (code, f"data.csv{line}")


def test_the_error_for_a_missing_column_names_the_columns_there_are(tmp_path: Path) -> None:
    message = refusal(tmp_path, LABELLED_TEXT, "good,yes\nbad,no\n")
    assert "the columns good, yes" in message and "`text`" in message and "header = false" in message


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("[", "bad-json"),
        ('{"text": ["a"], "label": 1}', "bad-record"),
        ('{"text": "a", "label": ["b"]}', "bad-record"),
        ('{"text": "\\ud800", "label": 1}', "bad-text"),
        ('"a"', "missing-field"),
    ],
)
def test_json_that_is_not_an_example(tmp_path: Path, line: str, code: str) -> None:
    assert refused(tmp_path, LABELLED_TEXT, line + "\n", file="d.jsonl") == (code, "d.jsonl:1")


def test_all_texts_of_an_example() -> None:
    assert LABELLED_TEXT.texts({"text": "a", "pair": "b", "label": "x"}) == ["a", "b"]
    assert QUESTIONS.texts({"question": "a", "context": "b", "id": "7"}) == ["a", "b"]
    assert TAGGED_WORDS.texts({"words": ["a", "b"], "tags": []}) == ["a b"]
    assert CHOICES.texts({"text": "a", "choices": ["b", "c"]}) == ["a", "b", "c"]
    assert replace(LABELLED_TEXT, inputs=("word",), required=("word",)).texts({"word": "a", "text": "b"}) == ["a"]
