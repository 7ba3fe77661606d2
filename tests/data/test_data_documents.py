"""Running text becomes documents of sentences, and these a store that is found again."""

import lzma
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.documents import DocumentDataSettings, Documents, read_documents, split_sentences

WIKI = """
 = First title =

 One two . Three four ?
 = = A section = =
 Five .

 = Second = title =
 Six seven .
"""


def documents(folder: Path, text: str, **how: str) -> list[list[str]]:
    (folder / "text").write_text(text, encoding="utf-8")
    found: list[list[str]] = []
    for sentence in read_documents([Documents.model_validate({"file": "text", **how})], folder):
        if sentence.first:
            found.append([])
        found[-1].append(sentence.text)
    return found


def test_documents_are_parted_as_the_settings_say(tmp_path: Path) -> None:
    assert documents(tmp_path, "a\nb\n\n  \nc\n") == [["a", "b"], ["c"]]
    assert documents(tmp_path, "\n\na\n\nb", boundary="file") == [["a", "b"]]
    assert documents(tmp_path, WIKI, boundary="heading", sentences="split") == [
        ["One two .", "Three four ?", "Five ."], ["Six seven ."],
    ]  # fmt: skip


def test_each_file_begins_a_document(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n", encoding="utf-8")
    (tmp_path / "b.xz").write_bytes(lzma.compress(b"y\nz\n"))
    found = list(read_documents([Documents(file="a"), Documents(file="b.xz")], tmp_path))
    assert [tuple(sentence) for sentence in found] == [("x", True), ("y", True), ("z", False)]


@pytest.mark.parametrize(
    ("line", "sentences"),
    [
        ('He said "Go." Then he left. See e.g. this!  Why?! (Yes.) Fine', [
            'He said "Go."', "Then he left.", "See e.g. this!", "Why?!", "(Yes.)", "Fine"]),
        ("in the U.S. Army . He came ! Why ?", ["in the U.S. Army .", "He came !", "Why ?"]),
        ("他来了。你好！「好。」他说", ["他来了。", "你好！", "「好。」", "他说"]),
        ("  no stop at all  ", ["no stop at all"]),
        ("3.14 is pi.", ["3.14 is pi."]),
    ],
)  # fmt: skip
def test_sentences_end_at_stops(line: str, sentences: list[str]) -> None:
    assert split_sentences(line) == sentences


@given(st.text(alphabet='aB .!?")。」', max_size=40))
def test_splitting_loses_nothing_but_blanks(line: str) -> None:
    parts = split_sentences(line)
    assert "".join("".join(parts).split()) == "".join(line.split())
    assert all(part == part.strip() and part for part in parts)


def test_a_model_may_have_no_data_and_one_table_is_a_list() -> None:
    assert DocumentDataSettings().train == []
    one = DocumentDataSettings.model_validate({"train": {"file": "a"}})
    assert one.train == [Documents(file="a")]
    assert all(field.description for field in DocumentDataSettings.model_fields.values())
