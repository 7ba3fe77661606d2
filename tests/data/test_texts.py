"""Plain text: lines and their normalisation, and documents of sentences."""

import lzma
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.fields import LINES, SENTENCES
from regard.data.formats import read_examples
from regard.data.settings import DocumentDataSettings
from regard.data.sources import Source
from regard.data.texts import UNKNOWN, TextNormalizer, frequent_words, split_sentences
from regard.errors import UserError
from regard.text.factory import train_tokenizer
from regard.text.settings import TextSettings

TEXT = [" = Heading = ", " ", " the cat sat , the cat slept . ", "", " the  dog sat . "]
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
    result: list[list[str]] = []
    for sentence in read_examples([Source.model_validate({"file": "text", **how})], folder, SENTENCES):
        if sentence["first"]:
            result.append([])
        result[-1].append(sentence["text"])
    return result


def test_documents_are_parted_as_the_settings_say(tmp_path: Path) -> None:
    assert documents(tmp_path, "a\nb\n\n  \nc\n") == [["a", "b"], ["c"]]
    assert documents(tmp_path, "\n\na\n\nb", boundary="file") == [["a", "b"]]
    assert documents(tmp_path, WIKI, boundary="heading", sentences="split") == [
        ["One two .", "Three four ?", "Five ."], ["Six seven ."],
    ]  # fmt: skip


def test_each_file_begins_a_document(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n", encoding="utf-8")
    (tmp_path / "b.xz").write_bytes(lzma.compress(b"y\nz\n"))
    sentences = read_examples([Source(file="a"), Source(file="b.xz")], tmp_path, SENTENCES)
    assert [(sentence["text"], sentence["first"]) for sentence in sentences] == [("x", True), ("y", True), ("z", False)]


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
    assert one.train == [Source(file="a")]
    assert all(field.description for field in DocumentDataSettings.model_fields.values())


@pytest.fixture
def text(tmp_path: Path) -> Source:
    (tmp_path / "text.xz").write_bytes(lzma.compress("".join(f"{line}\n" for line in TEXT).encode()))
    return Source(file="text.xz")


def read(texts: list[Source], root: Path, normalizer: TextNormalizer) -> Iterator[str]:
    return (normalizer(line["text"]) for line in read_examples(texts, root, LINES))


def test_rare_words_become_unknown(tmp_path: Path, text: Source) -> None:
    words = frequent_words(read([text], tmp_path, TextNormalizer()), 2)
    assert words == {"the", "cat", "sat", ".", "=", UNKNOWN}
    normalizer = TextNormalizer(single_blanks=True, words=words)
    lines = list(read([text], tmp_path, normalizer))
    assert lines == ["= <unk> =", "", "the cat sat <unk> the cat <unk> .", "", "the <unk> sat ."]
    vocabulary = train_tokenizer(lines, TextSettings.model_validate({"kind": "token", "min_frequency": 1}))
    ids = [number for line in lines for number in vocabulary.encode(line)]
    assert len(ids) == sum(len(line.split()) for line in lines), "one token per word"
    assert len(set(ids)) == len(words)
    assert vocabulary.tokens(ids[:3]) == ["=", "<unk>", "="]


def test_normalisation_of_a_line() -> None:
    assert TextNormalizer(words=frozenset({"the", UNKNOWN}))(" the  fox\t") == " the  <unk>\t"
    assert TextNormalizer(single_blanks=True)(" the  fox\t") == "the fox"
    assert TextNormalizer()(" the  fox\t") == " the  fox\t"


def test_several_texts_follow_each_other(tmp_path: Path, text: Source) -> None:
    (tmp_path / "more.txt").write_text("the end", encoding="utf-8")
    texts = [text, Source(file="more.txt"), Source(builtin="numbers", split="valid", side="tgt")]
    lines = list(read(texts, tmp_path, TextNormalizer()))
    assert lines[: len(TEXT) + 1] == [*TEXT, "the end"]
    assert len(lines) == len(TEXT) + 1 + 500 and all(line.islower() for line in lines[-500:])


@pytest.mark.parametrize(
    ("content", "code", "line"), [(None, "missing-file", ""), (b"one\ntw\xf6\n", "not-utf8", ":2")]
)
def test_defects_have_a_code_and_a_line(tmp_path: Path, content: bytes | None, code: str, line: str) -> None:
    if content is not None:
        (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(UserError) as error:
        list(read([Source(file="a.txt")], tmp_path, TextNormalizer()))
    assert (error.value.code, error.value.where) == (code, f"{tmp_path}/a.txt{line}")
