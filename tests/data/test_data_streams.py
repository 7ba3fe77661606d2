"""A text becomes one row of tokens, as its lines stand, with rare words replaced if one asks for it."""

import lzma
from pathlib import Path

import pytest
from pydantic import ValidationError

from regard.data.streams import Stream, open_or_build_stream
from regard.data.texts import UNKNOWN, Reading, Text, TextDataSettings, count_known, read_texts
from regard.errors import UserError
from regard.text import EOS, TextSettings, Vocabulary, train_vocabulary

LINES = [" = Heading = ", " ", " the cat sat , the cat slept . ", "", " the  dog sat . "]
TEXT = "".join(f"{line}\n" for line in LINES)


@pytest.fixture
def text(tmp_path: Path) -> Text:
    (tmp_path / "text.xz").write_bytes(lzma.compress(TEXT.encode()))
    return Text(file="text.xz")


def learnt(texts: list[Text], root: Path, reading: Reading, kind: str = "token") -> Vocabulary:
    settings = TextSettings.model_validate({"kind": kind, "min_frequency": 1})
    return train_vocabulary(read_texts(texts, root, reading), settings)


def stream(folder: Path, text: Text, reading: Reading, kind: str = "token") -> tuple[Stream, Vocabulary]:
    vocabulary = learnt([text], folder, reading, kind)
    return open_or_build_stream(folder / "store", [text], folder, vocabulary, reading, workers=1), vocabulary


@pytest.mark.parametrize("kind", ["token", "char", "bpe"])
def test_the_row_is_the_text_line_by_line(tmp_path: Path, text: Text, kind: str) -> None:
    row, vocabulary = stream(tmp_path, text, Reading(), kind)
    lines, current = [], list[int]()
    for number in row.ids.tolist():
        if number == EOS:
            lines.append(vocabulary.decode(current))
            current = []
        else:
            current.append(number)
    assert lines == LINES and current == []
    assert (row.lines, row.characters) == (len(LINES), len(TEXT))
    assert row.words == len(TEXT.split()) + len(LINES)


def test_rare_words_become_one_and_words_are_tokens(tmp_path: Path, text: Text) -> None:
    known = count_known([text], tmp_path, unknown_below=2)
    assert known == {"the", "cat", "sat", ".", "=", UNKNOWN}
    reading = Reading(single_blanks=True, known=known)
    assert list(read_texts([text], tmp_path, reading)) == [
        "= <unk> =", "", "the cat sat <unk> the cat <unk> .", "", "the <unk> sat .",
    ]  # fmt: skip
    assert Reading(known=known)(" the  fox\t") == " the  <unk>\t"
    row, vocabulary = stream(tmp_path, text, reading)
    assert len(row) == row.words, "a token a word, and one for the end of each line"
    assert len(set(row.ids.tolist())) == len(known) + 1
    assert vocabulary.pieces(row.ids[:5].tolist()) == ["=", "<unk>", "=", "⟨/s⟩", "⟨/s⟩"]


def test_a_row_is_found_again_until_something_changes(tmp_path: Path, text: Text) -> None:
    first, vocabulary = stream(tmp_path, text, Reading())
    made = (tmp_path / "store" / "ids").stat().st_ino

    def again(reading: Reading) -> tuple[Stream, bool]:
        row = open_or_build_stream(tmp_path / "store", [text], tmp_path, vocabulary, reading, workers=1)
        return row, (tmp_path / "store" / "ids").stat().st_ino == made

    row, same = again(Reading())
    assert same and row.fingerprint == first.fingerprint and len(row) == len(first)
    known, same = again(Reading(known=frozenset({"the"})))
    assert not same and known.fingerprint != first.fingerprint
    (tmp_path / "store" / "ids").write_bytes(b"\0" * 8)
    assert len(again(Reading())[0]) == len(first), "a damaged one is made again"
    (tmp_path / "text.xz").write_bytes(lzma.compress(b"other\n"))
    assert len(again(Reading())[0]) == len(vocabulary.encode("other")) + 1


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
        open_or_build_stream(tmp_path / "store", [Text(file="none.txt")], tmp_path, _tiny(), Reading())
    (tmp_path / "latin.txt").write_bytes(b"one\ntw\xf6\n")
    with pytest.raises(UserError, match="line 2 is not UTF-8"):
        open_or_build_stream(tmp_path / "store", [Text(file="latin.txt")], tmp_path, _tiny(), Reading())
    assert not (tmp_path / "store").exists()
    settings = TextDataSettings.model_validate({"train": {"file": "a.txt"}, "valid": [{"file": "b.txt"}]})
    assert settings.train == [Text(file="a.txt")] and settings.bptt == 70


def _tiny() -> Vocabulary:
    return train_vocabulary(["one"], TextSettings(kind="char"))
