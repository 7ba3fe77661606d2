"""Running text becomes documents of sentences, and these a store that is found again."""

import lzma
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.document_store import DocumentStore, open_or_build_documents
from regard.data.documents import DocumentDataSettings, Documents, read_documents, split_sentences
from regard.errors import UserError
from regard.text.bert import BertVocabulary
from regard.text.bert_settings import BertTextSettings
from regard.text.bert_training import learn_bert_vocabulary

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


@pytest.fixture
def vocabulary() -> BertVocabulary:
    return learn_bert_vocabulary(["one two three four five"] * 3, BertTextSettings(min_frequency=1))


def sentences_of(store: DocumentStore, vocabulary: BertVocabulary) -> list[list[str]]:
    rows = [vocabulary.decode(row) for row in np.split(store.pieces, store.sentences[1:-1])]
    return [rows[first:last] for first, last in zip(store.documents, store.documents[1:], strict=False)]


def test_a_store_holds_what_says_something(tmp_path: Path, vocabulary: BertVocabulary) -> None:
    """Control characters alone are no pieces: their sentence is gone, and a document that has no other."""
    (tmp_path / "text").write_text("one two\n\x01\nthree\n\n\x01\n\n\x01\nfour\n\nfive one", encoding="utf-8")
    store = open_or_build_documents(tmp_path / "store", [Documents(file="text")], tmp_path, vocabulary, workers=1)
    assert sentences_of(store, vocabulary) == [["one two", "three"], ["four"], ["five one"]]
    assert len(store) == 3


def test_many_sentences_come_in_chunks(tmp_path: Path, vocabulary: BertVocabulary) -> None:
    lines = ["one two three" if n % 7 else "" for n in range(9000)]
    (tmp_path / "text").write_text("\n".join(lines), encoding="utf-8")
    store = open_or_build_documents(tmp_path / "store", [Documents(file="text")], tmp_path, vocabulary, workers=1)
    assert [len(each) for each in sentences_of(store, vocabulary)] == [6] * 1285 + [4]


def test_a_store_is_found_again_and_made_again_when_something_changed(
    tmp_path: Path, vocabulary: BertVocabulary
) -> None:
    (tmp_path / "text").write_text("one. Two\nthree", encoding="utf-8")

    def opened(**how: str) -> DocumentStore:
        files = [Documents.model_validate({"file": "text", **how})]
        return open_or_build_documents(tmp_path / "store", files, tmp_path, vocabulary, workers=1)

    first = opened()
    made = (tmp_path / "store" / "meta.json").stat().st_mtime_ns
    assert opened().fingerprint == first.fingerprint
    assert (tmp_path / "store" / "meta.json").stat().st_mtime_ns == made
    assert len(opened(sentences="split").sentences) == len(first.sentences) + 1
    (tmp_path / "text").write_text("two", encoding="utf-8")
    assert opened().fingerprint != first.fingerprint


def test_nothing_to_read_is_named(tmp_path: Path, vocabulary: BertVocabulary) -> None:
    (tmp_path / "text").write_text("\n\x01\n", encoding="utf-8")
    with pytest.raises(UserError, match="text says nothing"):
        open_or_build_documents(tmp_path / "store", [Documents(file="text")], tmp_path, vocabulary, workers=1)
    with pytest.raises(UserError, match="absent"):
        open_or_build_documents(tmp_path / "store", [Documents(file="absent")], tmp_path, vocabulary, workers=1)


def test_a_model_may_have_no_data_and_one_table_is_a_list() -> None:
    assert DocumentDataSettings().train == []
    one = DocumentDataSettings.model_validate({"train": {"file": "a"}})
    assert one.train == [Documents(file="a")]
    assert all(field.description for field in DocumentDataSettings.model_fields.values())
