"""Labelled files of every form become the same plain examples, and what is wrong with one is said with its place."""

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from regard.data.labelled import AnsweringDataSettings, Labelled, LabelledDataSettings, as_example, read_examples
from regard.data.labelled.records import follow
from regard.errors import UserError

Found = list[dict[str, Any]]


def read(folder: Path, task: str, content: str, *, labelled: bool = True, **source: Any) -> Found:
    """What a file of this content is read as."""
    source.setdefault("file", "data.csv")
    (folder / source["file"]).write_text(content, encoding="utf-8", newline="")
    return list(read_examples(task, [Labelled(**source)], folder, labelled))


def refused(folder: Path, task: str, content: str, **source: Any) -> str:
    with pytest.raises(UserError) as error:
        read(folder, task, content, **source)
    assert error.value.remedy
    return str(error.value).replace(f"{folder}/", "")


def test_a_table_with_the_usual_columns_needs_nothing_but_its_name(tmp_path: Path) -> None:
    expected = [{"text": "good, very", "label": "yes"}, {"text": 'bad "indeed"', "label": "no"}]
    assert read(tmp_path, "classification", 'label,text\r\nyes,"good, very"\r\nno,"bad ""indeed"""\r\n') == expected
    tabs = 'text\tlabel\ngood, very\tyes\nbad "indeed"\tno\n'
    assert read(tmp_path, "classification", tabs, file="data.tsv") == expected, "quotes are text there"


def test_a_cell_may_hold_lines_and_lines_are_counted_on(tmp_path: Path) -> None:
    content = 'text,label\n"one\ntwo",a\n\nthree,b\n,c\n'
    found = read(tmp_path, "classification", content)
    assert [example["text"] for example in found] == ["one\ntwo", "three", ""]
    assert refused(tmp_path, "classification", content + "x,y,z\n").startswith(
        "data.csv, line 7 has 3 columns, the first"
    )


def test_quotes_are_read_as_said(tmp_path: Path) -> None:
    content = 'text\tlabel\n"a\tb"\tc\n'
    assert read(tmp_path, "classification", content, file="a.tsv", quoted=True)[0] == {"text": "a\tb", "label": "c"}
    assert "line 2 has 3 columns" in refused(tmp_path, "classification", content, file="a.tsv")
    assert read(tmp_path, "classification", 'text,label\n"a,b\n', quoted=False)[0]["text"] == '"a'


def test_columns_by_name_by_number_and_several_joined(tmp_path: Path) -> None:
    content = "3,Title,Body \n4,Other,\n"
    names = {"3": "Business", "4": "Science"}
    found = read(tmp_path, "classification", content, header=False, text=[2, 3], label=1, names=names)
    assert found == [{"text": "Title Body", "label": "Business"}, {"text": "Other", "label": "Science"}]
    content = "a,b,score\nx,y,2.5\n"
    found = read(tmp_path, "regression", content, text="a", pair=2, label="score")
    assert found == [{"text": "x", "pair": "y", "label": 2.5}]


def test_a_column_called_pair_is_the_second_text(tmp_path: Path) -> None:
    assert read(tmp_path, "classification", "text,pair,label\na,b,c\n")[0]["pair"] == "b"


def test_where_chooses_rows(tmp_path: Path) -> None:
    content = "text,label,year,source\na,1,2012,x\nb,1,2013,y\nc,0,2014,x\n"

    def texts(**where: Any) -> list[str]:
        return [example["text"] for example in read(tmp_path, "classification", content, where=where)]

    assert texts(source="x") == ["a", "c"]
    assert texts(year=[2012, 2013]) == ["a", "b"]
    assert texts(source="x", year=2014) == ["c"]
    found = read(tmp_path, "classification", "a,1\nb,2\n", header=False, text=1, label=2, where={"2": 2})
    assert found == [{"text": "b", "label": "2"}]
    assert "where asks for 'sauce'" in refused(tmp_path, "classification", content, where={"sauce": "x"})
    assert "holds no example where" in refused(tmp_path, "classification", content, where={"source": "z"})


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_compressed_files_are_read(tmp_path: Path, compress: Any) -> None:
    name = f"data.csv.{'gz' if compress is gzip.compress else 'xz'}"
    (tmp_path / name).write_bytes(compress("\ufefftext,label\nä,b\n".encode()))
    assert list(read_examples("classification", [Labelled(file=name)], tmp_path)) == [{"text": "ä", "label": "b"}]


OWN: dict[str, Found] = {
    "classification": [{"text": "a", "label": "x"}, {"text": "a", "pair": "b", "label": "y"}],
    "regression": [{"text": "a", "pair": "b", "label": 0.5}],
    "tagging": [{"words": ["Ada", "slept"], "tags": ["B-PER", "O"]}],
    "answering": [
        {"question": "who?", "context": " Ada slept", "id": "1", "answers": [{"text": "Ada", "start": 1}]},
        {"question": "where?", "context": " Ada slept", "answers": []},
    ],
    "choice": [{"text": "Ada", "choices": ["slept", "sleeped"], "label": 0}],
}


@pytest.mark.parametrize("task", OWN)
def test_the_form_of_the_toolkit_is_read_as_it_is(tmp_path: Path, task: str) -> None:
    lines = "".join(json.dumps(example) + "\n" for example in OWN[task])
    assert read(tmp_path, task, lines, file="data.jsonl") == OWN[task]
    assert read(tmp_path, task, json.dumps(OWN[task], indent=1), file="data.json") == OWN[task]
    assert [as_example(task, example) for example in OWN[task]] == OWN[task]


@pytest.mark.parametrize("task", OWN)
def test_what_is_asked_needs_no_label_and_what_is_learnt_from_does(tmp_path: Path, task: str) -> None:
    bare = [{k: v for k, v in e.items() if k not in ("label", "tags", "answers")} for e in OWN[task]]
    lines = "\n" + "".join(json.dumps(example) + "\n" for example in bare)
    assert read(tmp_path, task, lines, file="data.jsonl", labelled=False) == bare
    assert refused(tmp_path, task, lines, file="data.jsonl").startswith("data.jsonl, line 2: there is no ")


def test_json_by_paths_parts_and_numbers(tmp_path: Path) -> None:
    content = json.dumps({"train": [["hi", "greet"], ["bye", "leave"]], "more": {"oos": [["um", 0]]}})
    found = read(tmp_path, "classification", content, file="d.json", part="train", text=1, label=2)
    assert found == [{"text": "hi", "label": "greet"}, {"text": "bye", "label": "leave"}]
    found = read(tmp_path, "classification", content, file="d.json", part="more.oos", text=1, label=2)
    assert found == [{"text": "um", "label": "0"}]
    assert "lists under train" in refused(tmp_path, "classification", content, file="d.json")
    assert "no list under 'test'" in refused(tmp_path, "classification", content, file="d.json", part="test")
    assert 'format = "jsonl"' in refused(tmp_path, "classification", '{"text": 1}\n{"text": 2}\n', file="d.json")
    message = refused(tmp_path, "classification", content, file="d.json", part="train")
    assert message.startswith("d.json, train 1: there is no text") and "2 columns, numbered from 1" in message


def test_following_a_path() -> None:
    value = {"a": {"b": [{"c": 1}]}, "a.b": 2, "d.e": {"f": 3}}
    assert follow(value, "a.b") == 2, "a key that is there is taken first"
    assert follow({"a": value["a"]}, "a.b.1.c") == 1
    assert follow(value, "a.x") is None and follow(value, "x.y") is None and follow([1], "2") is None


def test_labels_of_json_are_names_as_they_are_written(tmp_path: Path) -> None:
    lines = '{"text": "a", "label": true}\n{"text": "b", "label": 1}\n{"text": 3, "label": " x "}\n'
    assert [e["label"] for e in read(tmp_path, "classification", lines, file="d.jsonl")] == ["true", "1", "x"]


def test_lines_of_text_with_a_label_before_or_in_a_file_of_their_own(tmp_path: Path) -> None:
    found = read(tmp_path, "classification", "__label__yes good stuff\n__label__no  bad\n", file="d.txt")
    assert found == [{"text": "good stuff", "label": "yes"}, {"text": "bad", "label": "no"}]
    (tmp_path / "d.labels").write_text("1\n0\n", encoding="utf-8")
    found = read(tmp_path, "classification", "good\nbad\n", file="d.txt", labels_file="d.labels", names={"1": "yes"})
    assert found == [{"text": "good", "label": "yes"}, {"text": "bad", "label": "0"}]
    more = {"file": "d.txt", "labels_file": "d.labels"}
    assert "d.labels has 2 labels, and d.txt, line 3 has none" in refused(
        tmp_path, "classification", "a\nb\nc\n", **more
    )
    assert "d.labels has 2 labels, and the last record is d.txt, line 1" in refused(
        tmp_path, "classification", "a\n", **more
    )


def test_trec(tmp_path: Path) -> None:
    content = "NUM:dist How far ?\nHUM:desc Who : me ?\n"
    source: dict[str, Any] = {"file": "t.txt", "format": "trec"}
    assert [e["label"] for e in read(tmp_path, "classification", content, **source)] == ["NUM", "HUM"]
    found = read(tmp_path, "classification", content, label="fine", **source)
    assert found[1] == {"text": "Who : me ?", "label": "HUM:desc"}
    assert "line 2 has no class" in refused(tmp_path, "classification", "A:b c\nnothing\n", **source)


CONLL = "-DOCSTART- -X- O\nAda NNP B-PER\nslept VBD O\n\t\n\nNo\u00a0one NN O\n"


def test_conll_has_words_first_and_tags_last(tmp_path: Path) -> None:
    tabs = "Ada\tB-PER\nslept\tO\n\t\nNo one\tO"
    found = read(tmp_path, "tagging", tabs, file="d.conll")
    assert found == [{"words": ["Ada", "slept"], "tags": ["B-PER", "O"]}, {"words": ["No one"], "tags": ["O"]}]
    blanks = CONLL.replace("\u00a0", "")
    assert [e["tags"] for e in read(tmp_path, "tagging", blanks, file="d.conll")] == [["B-PER", "O"], ["O"]]
    found = read(tmp_path, "tagging", blanks, file="d.conll", tags=2, names={"NN": "N"})
    assert [e["tags"] for e in found] == [["NNP", "VBD"], ["N"]]
    assert read(tmp_path, "tagging", "a\nb\n\nc\n", file="d.conll", labelled=False)[0] == {"words": ["a", "b"]}
    bound = read(tmp_path, "tagging", "New\u00a0York  B-LOC\nslept O \n", file="d.conll")
    assert bound == [{"words": ["New\u00a0York", "slept"], "tags": ["B-LOC", "O"]}], "columns are between blanks alone"


def test_conll_that_is_out_of_step_is_named_by_its_line(tmp_path: Path) -> None:
    message = refused(tmp_path, "tagging", "a\tO\n\nb\tO\nc\n", file="d.conll")
    assert message.startswith("d.conll, line 4 has 1 columns, the first of its sentence 2")
    assert "line 1 has 1 columns" in refused(tmp_path, "tagging", "\tO\n", file="d.conll")
    assert "header" not in refused(tmp_path, "tagging", "a\nb\n", file="d.conll"), "there is none"
    nameless = '{"words": ["a", "b"], "tags": ["O", ""]}'
    assert "the tag of 'b' is empty" in refused(tmp_path, "tagging", nameless, file="d.jsonl")
    assert "2 words and 1 tags" in refused(tmp_path, "tagging", '{"words": ["a", "b"], "tags": ["O"]}', file="d.jsonl")


def test_words_and_tags_as_text_and_as_numbers(tmp_path: Path) -> None:
    content = '{"tokens": "Ada slept", "ner": [1, 0]}\n'
    names = {"0": "O", "1": "B-PER"}
    found = read(tmp_path, "tagging", content, file="d.jsonl", words="tokens", tags="ner", names=names)
    assert found == OWN["tagging"]


def squad(answers: Any, **more: Any) -> str:
    asked = {"id": "7", "question": "Who?", "answers": answers} | more
    return json.dumps({"data": [{"title": "t", "paragraphs": [{"context": "Ada slept. Ada.", "qas": [asked]}]}]})


def test_squad(tmp_path: Path) -> None:
    source: dict[str, Any] = {"file": "s.json", "format": "squad"}
    content = squad([{"text": "Ada", "answer_start": 11}, {"text": "Ada slept", "answer_start": 0}])
    found = read(tmp_path, "answering", content, **source)
    assert found[0]["answers"] == [{"text": "Ada", "start": 11}, {"text": "Ada slept", "start": 0}]
    assert found[0]["id"] == "7" and found[0]["context"] == "Ada slept. Ada."
    assert read(tmp_path, "answering", squad([], is_impossible=True), **source)[0]["answers"] == []
    message = refused(tmp_path, "answering", squad([{"text": "Ada", "answer_start": 1}]), **source)
    assert message.startswith("s.json, question 7: the answer 'Ada' does not stand at character 1")
    assert "is not written as SQuAD is: KeyError('data')" in refused(tmp_path, "answering", "{}", **source)


def test_answers_however_they_are_written(tmp_path: Path) -> None:
    context = {"question": "who?", "context": "the Ada"}
    for answers in ("Ada", ["Ada"], {"text": "Ada", "start": 4}, {"text": ["Ada"], "answer_start": [4]}):
        assert as_example("answering", context | {"answers": answers})["answers"] == [{"text": "Ada", "start": 4}]
    assert as_example("answering", context | {"answers": {"text": [], "answer_start": []}})["answers"] == []
    assert as_example("answering", context | {"answers": ""})["answers"] == [], "an empty cell of a table"
    assert as_example("answering", context | {"answers": {"text": ["Ada"]}})["answers"] == [{"text": "Ada", "start": 4}]
    unlike = ({"text": ["Ada"], "start": 4}, {"text": ["Ada", "the"], "start": [4]}, {"text": ["Ada"], "start": None})
    for wrong in ("Eve", [""], [" "], [3], {"text": "Ada", "start": "4"}, {"start": 4}, *unlike):
        with pytest.raises(UserError, match=r"^the input: "):
            as_example("answering", context | {"answers": wrong})


def test_answers_that_count_words(tmp_path: Path) -> None:
    for name, content in (("question", "Who ?\nWhat ?\n"), ("span", "1 2\n0 0\n")):
        (tmp_path / f"a.{name}").write_text(content, encoding="utf-8")
    source: dict[str, Any] = {"file": "a.context", "format": "squad-tokens"}
    found = read(tmp_path, "answering", "the Ada L. slept\nsleep  well\n", **source)
    assert [e["answers"] for e in found] == [[{"text": "Ada L.", "start": 4}], [{"text": "sleep", "start": 0}]]
    assert "a.span, line 2: an answer of words 0 to 5" in _with(tmp_path, "a.span", "0 0\n0 5\n", source)
    assert "a.span, line 1: 'x' says no words" in _with(tmp_path, "a.span", "x\n0 5\n", source)
    assert "a.question has 1 lines, and others more" in _with(tmp_path, "a.question", "Who ?\n", source)


def _with(folder: Path, name: str, content: str, source: dict[str, Any]) -> str:
    (folder / "a.span").write_text("0 0\n0 0\n", encoding="utf-8")
    (folder / name).write_text(content, encoding="utf-8")
    return refused(folder, "answering", "the Ada\nsleep well\n", **source)


def test_qamr(tmp_path: Path) -> None:
    (tmp_path / "sentences.tsv").write_text("s:1\tAda -LRB- `` L. '' -RRB- slept here\n", encoding="utf-8")
    row = ["s:1", "0 5", "76", "0", "3", "Who slept?", "0 3", "261:0", "60:3 0"]
    source: dict[str, Any] = {"file": "q.tsv", "format": "qamr", "contexts_file": "sentences.tsv"}
    (example,) = read(tmp_path, "answering", "\t".join(row) + "\n", **source)
    assert example["context"] == 'Ada ( " L. " ) slept here' and example["question"] == "Who slept?"
    assert example["answers"] == [{"text": 'Ada ( " L.', "start": 0}, {"text": "Ada", "start": 0}]
    assert "no sentence 's:2'" in refused(tmp_path, "answering", "\t".join(["s:2", *row[1:]]), **source)
    assert "q.tsv, line 1 has 6 columns" in refused(tmp_path, "answering", "\t".join(row[:6]), **source)


def test_choices_however_they_are_written(tmp_path: Path) -> None:
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
        assert read(tmp_path, "choice", json.dumps(record), file="d.jsonl", **columns) == [expected]
    table: dict[str, Any] = {"file": "d.tsv", "header": False, "text": 2, "choices": [3, 4], "label": 5}
    assert read(tmp_path, "choice", "o\tgo\tup\tdown\t1\n", **table) == [expected]
    assert "the label '2' is none of 0, 1" in refused(tmp_path, "choice", "o\tgo\tup\tdown\t2\n", **table)
    assert "has 1 choice" in refused(tmp_path, "choice", "go,up,0\n", header=False, text=1, choices=[2], label=3)
    assert "there is no choices" in refused(tmp_path, "choice", "text,label\ngo,1\n")


def test_no_choice_is_lost_between_labels() -> None:
    twice = {"text": "go", "choices": [{"label": each, "text": each} for each in ("A", "A", "B")]}
    assert as_example("choice", twice)["choices"] == ["A", "A", "B"]
    with pytest.raises(UserError, match="the label 'A' is not one of A, A, B"):
        as_example("choice", twice | {"label": "A"})
    for choices in ({"text": ["up", "down"], "label": ["A"]}, ["up", None], "up"):
        with pytest.raises(UserError, match=r"^the input: choices is "):
            as_example("choice", {"text": "go", "choices": choices})


@pytest.mark.parametrize(
    ("task", "content", "problem"),
    [
        ("classification", "sentence,label\na,b\n", "line 2: there is no text, which is looked for under 'text'"),
        (
            "classification",
            "good,yes\nbad,no\n",
            "it has the columns good, yes; write text = the one that is meant; or header",
        ),
        ("classification", "text,class\na,b\n", "line 2: there is no label to learn or to score by"),
        ("classification", "text,label\na,\n", "line 2: there is no label to learn or to score by"),
        ("classification", "text,label\na, \n", "line 2: there is no label to learn or to score by"),
        ("classification", "text,label\n", "holds no example"),
        ("classification", "", "is empty"),
        ("classification", 'text,label\n"a,b\n', "line 2"),
        ("regression", "text,label\na,1.5\nb,many\n", "line 3: the label 'many' is not a number"),
        ("regression", "text,label\na,nan\n", "line 2: the label 'nan' is not a number"),
        ("regression", "text,label\na,-1e30\n", "line 2: the label '-1e30' is not a number, or too large"),
        ("tagging", "text,label\na,b\n", "line 2: there is no words"),
    ],
)
def test_a_defect_is_named_with_its_line(tmp_path: Path, task: str, content: str, problem: str) -> None:
    message = refused(tmp_path, task, content)
    assert message.startswith("data.csv") and problem in message


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("[", "line 1 is not JSON"),
        ('{"text": ["a"], "label": 1}', "text is no text but ['a']"),
        ('{"text": "a", "label": ["b"]}', "label is no text"),
        ('{"text": "\\ud800", "label": 1}', "half of a surrogate pair"),
        ('"a"', "there is no text"),
    ],
)
def test_json_that_is_no_example_is_named(tmp_path: Path, line: str, problem: str) -> None:
    assert problem in refused(tmp_path, "classification", line + "\n", file="d.jsonl")


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ({"file": "data"}, "does not say how it is written"),
        ({"file": "a.csv", "text": 0}, "counted from 1"),
        ({"file": "a.csv", "header": False}, "text = 1, label = 2"),
        ({"file": "a.csv", "header": False, "text": "body"}, "no column is called 'body'"),
        ({"file": "a.csv", "part": "train"}, "part is for json files"),
        ({"file": "a.jsonl", "header": False}, "header and quoted are for csv and tsv, and this file is jsonl"),
        ({"file": "a.json", "format": "squad", "labels_file": "b"}, "squad says itself where everything is"),
        ({"file": "a.tsv", "format": "qamr"}, "two files"),
        ({"file": "a.tsv", "contexts_file": "b"}, "two files"),
        ({"file": "a.words", "format": "squad-tokens"}, r"with \.context in its name"),
        ({"file": "a.json", "format": "squad", "question": "q"}, "leave 'q' out"),
        ({"file": "a.conll", "tags": "ner"}, "have no names"),
        ({"file": "a.csv", "format": "xls"}, "format"),
        ({"file": "a.csv", "txt": "b"}, "txt"),
    ],
)
def test_a_source_that_cannot_be_read_is_refused_at_once(source: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        Labelled(**source)


def test_all_files_of_a_source_are_known(tmp_path: Path) -> None:
    def names(**source: Any) -> list[str]:
        return [str(path.relative_to(tmp_path)) for path in Labelled(**source).files(tmp_path)]

    assert names(file="a.csv") == ["a.csv"]
    assert names(file="a.jsonl", labels_file="a.lst") == ["a.jsonl", "a.lst"]
    assert names(file="q.tsv", format="qamr", contexts_file="s.tsv") == ["q.tsv", "s.tsv"]
    tokens = names(file="v.context/val.context.xz", format="squad-tokens")
    assert tokens == ["v.context/val.context.xz", "v.context/val.question.xz", "v.context/val.span.xz"]
    assert str(Labelled(file="a.json", part="oos", where={"x": 1})) == "a.json (oos, x = 1)"


def test_settings_that_contradict_themselves_are_refused() -> None:
    one = {"file": "a.csv"}
    assert LabelledDataSettings(train=one, hold_out=0.1).train == [Labelled(file="a.csv")]  # type: ignore[arg-type]
    for wrong, problem in (
        ({"train": one}, "write valid, or hold_out"),
        ({"train": one, "valid": one, "hold_out": 0.1}, "named already"),
        ({"train": one, "test": one, "hold_out": 0.1, "hold_out_test": 0.1}, "named already"),
        ({"train": one, "hold_out": 0.5, "hold_out_test": 0.5}, "leave nothing to train on"),
    ):
        with pytest.raises(ValidationError, match=problem):
            LabelledDataSettings.model_validate(wrong)
    with pytest.raises(ValidationError, match="would skip some"):
        AnsweringDataSettings(max_length=128, max_question=64, stride=62)
    assert AnsweringDataSettings(max_length=128, max_question=64, stride=61).stride == 61
