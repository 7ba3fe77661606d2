"""A text becomes one row of tokens, as its lines stand, with rare words replaced if one asks for it."""

import lzma
from pathlib import Path

import pytest
from pydantic import ValidationError

from regard.data.texts import UNKNOWN, Reading, Text, TextDataSettings, count_known, read_texts
from regard.errors import UserError
from regard.text import TextSettings, train_vocabulary

LINES = [" = Heading = ", " ", " the cat sat , the cat slept . ", "", " the  dog sat . "]
TEXT = "".join(f"{line}\n" for line in LINES)


@pytest.fixture
def text(tmp_path: Path) -> Text:
    (tmp_path / "text.xz").write_bytes(lzma.compress(TEXT.encode()))
    return Text(file="text.xz")


def test_rare_words_become_one_and_words_are_tokens(tmp_path: Path, text: Text) -> None:
    known = count_known([text], tmp_path, unknown_below=2)
    assert known == {"the", "cat", "sat", ".", "=", UNKNOWN}
    reading = Reading(single_blanks=True, known=known)
    assert list(read_texts([text], tmp_path, reading)) == [
        "= <unk> =", "", "the cat sat <unk> the cat <unk> .", "", "the <unk> sat .",
    ]  # fmt: skip
    assert Reading(known=known)(" the  fox\t") == " the  <unk>\t"
    vocabulary = train_vocabulary(
        read_texts([text], tmp_path, reading), TextSettings.model_validate({"kind": "token", "min_frequency": 1})
    )
    ids = [number for line in read_texts([text], tmp_path, reading) for number in vocabulary.encode(line)]
    assert len(ids) == sum(len(line.split()) for line in read_texts([text], tmp_path, reading)), "a token a word"
    assert len(set(ids)) == len(known)
    assert vocabulary.pieces(ids[:3]) == ["=", "<unk>", "="]


def test_several_texts_are_one_after_another(tmp_path: Path, text: Text) -> None:
    (tmp_path / "more.txt").write_text("the end", encoding="utf-8")
    texts = [text, Text(file="more.txt"), Text(builtin="numbers", part="valid", side="tgt")]
    lines = list(read_texts(texts, tmp_path, Reading()))
    assert lines[: len(LINES) + 1] == [*LINES, "the end"]
    assert len(lines) == len(LINES) + 1 + 500 and all(line.islower() for line in lines[-500:])


def test_what_is_no_text_is_named(tmp_path: Path) -> None:
    for values in ({}, {"file": "a", "builtin": "numbers"}, {"builtin": "numbers", "part": "train"}, {"side": "src"}):
        with pytest.raises(ValidationError):
            Text.model_validate(values)
    with pytest.raises(UserError, match=r"none\.txt: no such file"):
        list(read_texts([Text(file="none.txt")], tmp_path, Reading()))
    (tmp_path / "latin.txt").write_bytes(b"one\ntw\xf6\n")
    with pytest.raises(UserError, match="line 2 is not UTF-8"):
        list(read_texts([Text(file="latin.txt")], tmp_path, Reading()))
    settings = TextDataSettings.model_validate({"train": {"file": "a.txt"}, "valid": [{"file": "b.txt"}]})
    assert settings.train == [Text(file="a.txt")] and settings.bptt == 70
