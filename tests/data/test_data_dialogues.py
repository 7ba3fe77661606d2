"""Conversations become pairs of turns and reply, each conversation in one part, and every defect has a line."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from regard.data import dialogues
from regard.data.corpora import Corpus, Pair, read_pairs
from regard.data.dialogues import SEPARATOR, as_source, as_turn, part_of
from regard.data.filters import KEEP_ALL
from regard.errors import UserError
from regard.run.translation import open_pairs
from regard.text import TextSettings, Vocabulary, train_vocabulary

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
PARTS = ("train", "valid", "test")


def read(root: Path, text: str | bytes = TEXT, **values: Any) -> list[Pair]:
    path = root / "talk.txt"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return list(read_pairs(Corpus.model_validate({"dialogue": "talk.txt"} | values), root))


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
    assert read(tmp_path, context=1) == expected
    assert read(tmp_path, TEXT.replace("\n", "\r\n")) == expected


def test_more_turns_are_read_as_far_as_there_are_any(tmp_path: Path) -> None:
    two = [pair.src for pair in read(tmp_path, context=2)]
    assert two == ["Seen it?", "Seen it?\tNot yet.", "Not yet.\tYou should!", "Hi."]
    all_ = [pair.src for pair in read(tmp_path, context=9)]
    assert all_ == ["Seen it?", "Seen it?\tNot yet.", "Seen it?\tNot yet.\tYou should!", "Hi."]
    assert [pair.tgt for pair in read(tmp_path, context=9)] == [pair.tgt for pair in read(tmp_path)]


@pytest.mark.parametrize("context", [1, 3])
def test_the_parts_are_all_of_it_and_share_no_conversation(tmp_path: Path, context: int) -> None:
    talks = numbered(2000)
    found = {part: read(tmp_path, written(talks), part=part, context=context) for part in PARTS}
    whole = read(tmp_path, written(talks), context=context)
    assert sorted(pair for part in PARTS for pair in found[part]) == sorted(whole)
    owners = {part: {pair.tgt.split()[0] for pair in found[part]} for part in PARTS}
    assert sum(map(len, owners.values())) == 2000
    assert {part: len(found[part]) for part in PARTS} == {part: 2 * len(owners[part]) for part in PARTS}
    assert all(20 < len(owners[part]) < 60 for part in ("valid", "test")), "two in a hundred each"


def test_a_part_depends_on_what_is_said_and_on_nothing_around_it(tmp_path: Path) -> None:
    talks = numbered(300)
    before = [pair[:2] for pair in read(tmp_path, written(talks), part="test")]
    headed = "".join(
        f"# topic: x\n\n\n{'  '.join(turn + chr(10) for turn in talk)}\n\n" for talk in [["a", "b"], *talks]
    )
    after = [pair[:2] for pair in read(tmp_path, headed, part="test")]
    assert before == [pair for pair in after if pair[1] != "b"]
    assert before
    assert part_of(["a", "b"]) == part_of(["a", "b"])


def test_a_file_too_small_for_a_part_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none of the 2 dialogues of .*talk\.txt is in the part 'test'") as caught:
        read(tmp_path, part="test")
    assert "2%" in str(caught.value.remedy)
    with pytest.raises(UserError, match=r"talk\.txt holds no pair"):
        read(tmp_path, "alone\n\nalone\n")


def test_defects_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"talk\.txt, line 5: '# topic: b' stands inside .* begins on line 3") as caught:
        read(tmp_path, "# topic: a\n\none\ntwo\n# topic: b\n")
    assert "blank line" in str(caught.value.remedy)
    with pytest.raises(UserError, match=r"talk\.txt, line 2 is not UTF-8"):
        read(tmp_path, b"one\nM\xe4nner\n")
    with pytest.raises(UserError, match=r"talk\.txt is empty"):
        read(tmp_path, "")
    monkeypatch.setattr(dialogues, "LONGEST", 10)
    with pytest.raises(UserError, match=r"talk\.txt, line 6: the dialogue that begins on line 4 is longer than 10"):
        read(tmp_path, "12345\n12345\n\n12345\n1234\n12\n")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"dialogue": "a", "file": "b.tsv"}, "either src and tgt"),
        ({"dialogue": "a", "src": "b", "tgt": "c"}, "either src and tgt"),
        ({"dialogue": "a", "builtin": "dates", "part": "train"}, "either src and tgt"),
        ({"file": "a.tsv", "context": 2}, "context counts the turns of a dialogue"),
        ({"file": "a.tsv", "part": "train"}, "builtin and part go together"),
        ({"dialogue": "a", "context": 0}, "greater than or equal to 1"),
        ({"dialogue": "a", "part": "dev"}, "'train', 'valid' or 'test'"),
        ({"dialogue": "a", "src_column": 1}, "choose columns of file"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Corpus.model_validate(values)


def test_a_corpus_says_what_it_is() -> None:
    assert str(Corpus(dialogue="talk.txt.xz", part="valid")) == "talk.txt.xz (valid)"
    assert str(Corpus(dialogue="talk.txt.xz")) == "talk.txt.xz"
    assert (Corpus(dialogue="a").turns, Corpus(dialogue="a", context=4).turns) == (1, 4)


@pytest.fixture(scope="module", params=["bpe", "wordpiece", "word", "char", "token"])
def vocabulary(request: pytest.FixtureRequest) -> Vocabulary:
    texts = [as_source(talk) for talk in numbered(50)]
    return train_vocabulary(texts, TextSettings(kind=request.param, vocab_size=700))


@settings(max_examples=50, deadline=None)
@given(lines=st.lists(st.text(st.characters(exclude_categories=["Cs"])).filter(str.strip), min_size=1, max_size=4))
def test_the_separator_survives_every_vocabulary(vocabulary: Vocabulary, lines: list[str]) -> None:
    turns = [turn for turn in map(as_turn, lines) if turn]
    assert all(SEPARATOR not in turn for turn in turns)
    ids = vocabulary.encode(as_source(turns))
    separator = vocabulary.encode(SEPARATOR)[-1]
    assert ids.count(separator) == len(turns) - 1
    assert vocabulary.decode(ids).split(SEPARATOR) == turns


def test_a_store_is_made_anew_when_another_part_or_context_is_read(tmp_path: Path) -> None:
    (tmp_path / "talk.txt").write_text(written(numbered(200)), encoding="utf-8")
    known = train_vocabulary(["says 0123456789"], TextSettings(kind="char", vocab_size=300))

    def made(**values: Any) -> str:
        corpus = Corpus.model_validate({"dialogue": "talk.txt"} | values)
        return open_pairs(tmp_path / "store", [corpus], tmp_path, (known, known), KEEP_ALL, workers=1).fingerprint

    prints = [made(), made(context=2), made(part="train"), made(part="train", context=2)]
    assert len(set(prints)) == 4
    assert made(context=1) == prints[0]


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
