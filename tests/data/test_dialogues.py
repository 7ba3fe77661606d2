"""Dialogues become pairs of turns and reply, each dialogue is in one split, and every defect has a line."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tasks.make import make_task

from regard.data import dialogues
from regard.data.dialogues import SEPARATOR, dialogue_split, join_turns, normalize_turn
from regard.data.fields import PAIRS
from regard.data.formats import read_examples, read_records
from regard.data.sources import Source
from regard.data.store import fingerprint_of
from regard.errors import UserError
from regard.run_files import STORES
from regard.tasks.operations import open_store
from regard.tasks.translation import Translation
from regard.text.factory import train_tokenizer
from regard.text.settings import TextSettings
from regard.text.tokenizer import Tokenizer

TEXT = """\
# topic: films
Seen it?
Not  yet.\t
You should!
# 1 of the year.

# topic: music

  Hi.
Hello.
"""
SPLITS = ("train", "valid", "test")


class Pair(NamedTuple):
    src: str
    tgt: str
    line: object


def talk(**values: Any) -> Source:
    return Source.model_validate({"file": "talk.txt", "format": "dialogues"} | values)


def read(root: Path, text: str | bytes = TEXT, **values: Any) -> list[Pair]:
    path = root / "talk.txt"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    examples = read_records(talk(**values), root, PAIRS)
    return [Pair(example["src"], example["tgt"], record.location.number) for record, example in examples]


def refused(root: Path, text: str | bytes, **values: Any) -> tuple[str, str]:
    with pytest.raises(UserError) as error:
        read(root, text, **values)
    return error.value.code, error.value.where.replace(f"{root}/", "")


def numbered(count: int, turns: int = 3) -> list[list[str]]:
    return [[f"{number} says {turn}" for turn in range(turns)] for number in range(count)]


def written(talks: list[list[str]]) -> str:
    return "\n".join("".join(f"{turn}\n" for turn in talk) for talk in talks)


def test_every_turn_answers_the_one_before_it(tmp_path: Path) -> None:
    expected = [
        Pair("Seen it?", "Not yet.", 3),
        Pair("Not yet.", "You should!", 4),
        Pair("You should!", "# 1 of the year.", 5),
        Pair("Hi.", "Hello.", 10),
    ]
    assert read(tmp_path) == expected
    assert read(tmp_path, turns=1) == expected
    assert read(tmp_path, TEXT.replace("\n", "\r\n")) == expected


def test_more_turns_are_read_as_far_as_there_are_any(tmp_path: Path) -> None:
    two = [pair.src for pair in read(tmp_path, turns=2)]
    assert two == ["Seen it?", "Seen it?\tNot yet.", "Not yet.\tYou should!", "Hi."]
    all_ = [pair.src for pair in read(tmp_path, turns=9)]
    assert all_ == ["Seen it?", "Seen it?\tNot yet.", "Seen it?\tNot yet.\tYou should!", "Hi."]
    assert [pair.tgt for pair in read(tmp_path, turns=9)] == [pair.tgt for pair in read(tmp_path)]


@pytest.mark.parametrize("turns", [1, 3])
def test_the_splits_are_complete_and_share_no_dialogue(tmp_path: Path, turns: int) -> None:
    talks = numbered(2000)
    found = {split: read(tmp_path, written(talks), split=split, turns=turns) for split in SPLITS}
    whole = read(tmp_path, written(talks), turns=turns)
    assert sorted(pair for split in SPLITS for pair in found[split]) == sorted(whole)
    owners = {split: {pair.tgt.split()[0] for pair in found[split]} for split in SPLITS}
    assert sum(map(len, owners.values())) == 2000
    assert {split: len(found[split]) for split in SPLITS} == {split: 2 * len(owners[split]) for split in SPLITS}
    assert all(20 < len(owners[split]) < 60 for split in ("valid", "test")), "two in a hundred each"


def test_the_split_of_a_dialogue_depends_on_its_turns_only(tmp_path: Path) -> None:
    talks = numbered(300)
    before = [pair[:2] for pair in read(tmp_path, written(talks), split="test")]
    headed = "".join(
        f"# topic: x\n\n\n{'  '.join(turn + chr(10) for turn in talk)}\n\n" for talk in [["a", "b"], *talks]
    )
    after = [pair[:2] for pair in read(tmp_path, headed, split="test")]
    assert before == [pair for pair in after if pair[1] != "b"]
    assert before
    assert dialogue_split(["a", "b"]) == dialogue_split(["a", "b"])


def test_a_file_too_small_for_a_split_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="only 2 dialogues") as error:
        read(tmp_path, split="test")
    assert error.value.code == "no-data" and "2%" in error.value.remedy
    assert list(read_records(talk(), tmp_path, PAIRS))
    (tmp_path / "talk.txt").write_text("alone\n\nalone\n", encoding="utf-8")
    with pytest.raises(UserError) as error:
        list(read_examples([talk()], tmp_path, PAIRS))
    assert error.value.code == "no-data"


def test_defects_have_a_code_and_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused(tmp_path, "# topic: a\n\none\ntwo\n# topic: b\n") == ("bad-line", "talk.txt:5")
    assert refused(tmp_path, b"one\nM\xe4nner\n") == ("not-utf8", "talk.txt:2")
    assert refused(tmp_path, "") == ("no-data", "talk.txt")
    monkeypatch.setattr(dialogues, "MAX_CHARACTERS", 10)
    assert refused(tmp_path, "12345\n12345\n\n12345\n1234\n12\n") == ("bad-line", "talk.txt:6")


@pytest.fixture(scope="module", params=["bpe", "wordpiece", "word", "char", "token"])
def vocabulary(request: pytest.FixtureRequest) -> Tokenizer:
    texts = [join_turns(talk) for talk in numbered(50)]
    return train_tokenizer(texts, TextSettings(kind=request.param, vocab_size=700))


@settings(max_examples=50)
@given(lines=st.lists(st.text(st.characters(exclude_categories=["Cs"])).filter(str.strip), min_size=1, max_size=4))
def test_the_separator_survives_every_vocabulary(vocabulary: Tokenizer, lines: list[str]) -> None:
    turns = [turn for turn in map(normalize_turn, lines) if turn]
    assert all(SEPARATOR not in turn for turn in turns)
    ids = vocabulary.encode(join_turns(turns))
    separator = vocabulary.encode(SEPARATOR)[-1]
    assert ids.count(separator) == len(turns) - 1
    assert vocabulary.decode(ids).split(SEPARATOR) == turns


def test_a_store_is_built_again_for_another_split_or_number_of_turns(tmp_path: Path) -> None:
    (tmp_path / "talk.txt").write_text(written(numbered(200)), encoding="utf-8")
    known = train_tokenizer(["says 0123456789"], TextSettings(kind="char", vocab_size=300))
    task = make_task(Translation, known, known)

    def made(**values: Any) -> str:
        source = talk(**values)
        open_store(
            task, tmp_path, "test", sources=[source.model_copy(update={"file": str(tmp_path / str(source.file))})]
        )
        return str(fingerprint_of(tmp_path / STORES / "test"))

    prints = [made(), made(turns=2), made(split="train"), made(split="train", turns=2)]
    assert len(set(prints)) == 4
    assert made(turns=1) == prints[0]


def test_memory_does_not_grow_with_the_file() -> None:
    def lines(count: int) -> Iterator[str]:
        return (line for _ in range(count) for line in ("a turn " * 100, "another turn " * 100, ""))

    def peak(count: int) -> int:
        tracemalloc.start()
        assert sum(1 for _ in dialogues.pairs(lines(count), Path("talk"), None, 2)) == count
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(10)
    assert peak(2000) < 2 * peak(20)
