"""CoNLL-U: words, tags and trees are read; ranges and empty nodes are skipped; defects are named with their line."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.conllu import to_conllu
from regard.data.fields import DEPENDENCIES, TAGGED_WORDS, Fields
from regard.data.formats import check_source, read_examples, read_table
from regard.data.sources import Source
from regard.errors import UserError

SENTENCE = """\
# newdoc id = one
# text = Don't go.
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVB\tMood=Imp\t3\taux\t3:aux\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t3:advmod\t_
2.1\tyou\tyou\tPRON\tPRP\t_\t_\t_\t3:nsubj\t_
3\tgo\tgo\tVERB\tVB\tMood=Imp\t0\troot\t0:root\tSpaceAfter=No
4\t.\t.\tPUNCT\t.\t_\t3\tpunct\t3:punct\t_
"""
SECOND = "1\tA B\t_\tX\t_\t_\t0\troot\t_\t_\n"
TREE = {"words": ["Do", "n't", "go", "."], "heads": [3, 3, 0, 3], "relations": ["aux", "advmod", "root", "punct"]}


def read(folder: Path, content: str, fields: Fields = DEPENDENCIES, **values: Any) -> list[dict[str, Any]]:
    source = Source(file="a.conllu", **values)
    check_source(source, fields)
    (folder / "a.conllu").write_text(content, encoding="utf-8", newline="")
    return list(read_examples([source], folder, fields))


def refused(folder: Path, content: str, **values: Any) -> tuple[str, str]:
    with pytest.raises(UserError) as error:
        read(folder, content, **values)
    assert error.value.remedy
    return error.value.code, error.value.where.replace(f"{folder}/", "")


@pytest.mark.parametrize("end", ["", "\n", "\n\n\n"])
def test_words_heads_and_relations(tmp_path: Path, end: str) -> None:
    second = {"words": ["A B"], "heads": [0], "relations": ["root"]}
    assert read(tmp_path, f"{SENTENCE}\n{SECOND}{end}") == [TREE, second]
    assert read(tmp_path, SENTENCE.replace("\n", "\r\n")) == [TREE]
    assert read(tmp_path, SENTENCE, names={"advmod": "adv"})[0]["relations"][1] == "adv"


def test_parts_of_speech_are_the_tags_of_tagging(tmp_path: Path) -> None:
    assert read(tmp_path, SENTENCE, TAGGED_WORDS) == [
        {"words": TREE["words"], "tags": ["AUX", "PART", "VERB", "PUNCT"]}
    ]
    assert read(tmp_path, SENTENCE, TAGGED_WORDS, tags="xpos")[0]["tags"] == ["VB", "RB", "VB", "."]


def test_defects_are_named_with_their_line(tmp_path: Path) -> None:
    assert refused(tmp_path, f"{SENTENCE}\n1\tno\ttabs\n") == ("bad-line", "a.conllu:10")
    assert refused(tmp_path, SENTENCE.replace("4\t.", "5\t.")) == ("bad-line", "a.conllu:8")
    assert refused(tmp_path, SENTENCE.replace("\tgo\tgo", "\t\tgo")) == ("bad-line", "a.conllu:7")
    assert refused(tmp_path, SENTENCE.replace("3\tpunct", "5\tpunct")) == ("bad-line", "a.conllu:8")
    assert refused(tmp_path, SENTENCE.replace("3\tpunct", "_\tpunct")) == ("bad-line", "a.conllu:8")
    assert refused(tmp_path, SENTENCE.replace("3\tpunct", "x\tpunct")) == ("bad-line", "a.conllu:8")
    assert refused(tmp_path, SENTENCE.replace("3\tpunct", "0\tpunct")) == ("bad-record", "a.conllu:4"), "two roots"
    assert refused(tmp_path, SENTENCE.replace("3\taux", "1\taux")) == ("bad-record", "a.conllu:4"), "its own head"
    cycle = SENTENCE.replace("3\taux", "2\taux").replace("3\tadvmod", "1\tadvmod")
    assert refused(tmp_path, cycle) == ("bad-record", "a.conllu:4")
    assert refused(tmp_path, "# nothing\n")[0] == "no-data"
    assert refused(tmp_path, SECOND.replace("0\troot", "_\t_"))[0] == "missing-field"
    assert refused(tmp_path, SENTENCE, fields=TAGGED_WORDS, tags="upos")[0] == "missing-field"


def test_a_text_without_a_tree_can_be_read_for_predictions(tmp_path: Path) -> None:
    (tmp_path / "a.conllu").write_text(SECOND.replace("0\troot", "_\t_"), encoding="utf-8")
    (example,) = [example for _, example in read_table(tmp_path / "a.conllu", DEPENDENCIES)]
    assert example == {"words": ["A B"]}


def test_trees_as_json(tmp_path: Path) -> None:
    assert DEPENDENCIES.parse(TREE) == TREE
    assert DEPENDENCIES.parse({"words": []} | {"heads": [], "relations": []})["heads"] == []
    for defect in ({"heads": [3, 3, 0]}, {"heads": [3, 3, 0, 9]}, {"heads": [3, 3, 0, -1]}, {"heads": [3, 3, 0, 1.5]}):
        with pytest.raises(UserError) as error:
            DEPENDENCIES.parse(TREE | defect)
        assert error.value.code == "bad-record"


@settings(deadline=None, derandomize=True)
@given(st.lists(st.text(st.characters(categories=["L", "P"]), min_size=1), min_size=1, max_size=6))
def test_what_is_written_is_read_again(tmp_path_factory: pytest.TempPathFactory, words: list[str]) -> None:
    tree: dict[str, Sequence[object]] = {
        "words": words,
        "heads": list(range(len(words))),
        "relations": [f"r:{word}" for word in words],
    }
    assert read(tmp_path_factory.mktemp("conllu"), to_conllu(tree) + to_conllu(tree)) == [tree, tree]
