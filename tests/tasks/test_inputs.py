"""Stretches, groups and cuts: nothing lost, nothing out of order, every bound kept."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import UserError
from regard.tasks.inputs import chunk, halve, split_columns, split_spans
from regard.text.factory import train_tokenizer
from regard.text.settings import TextSettings
from regard.text.tokenizer import Tokenizer

quick = settings(max_examples=60)


def vocabulary() -> Tokenizer:
    return train_tokenizer(["a house, a mouse. 一只猫！"] * 3, TextSettings(vocab_size=300))


@quick
@given(st.lists(st.text(max_size=30)), st.integers(1, 5), st.integers(1, 40))
def test_stretches_keep_every_line_in_order(lines: list[str], most_lines: int, most_characters: int) -> None:
    found = list(chunk(iter(lines), len, most_lines, most_characters))
    assert [line for stretch in found for line in stretch] == lines
    for stretch in found:
        assert len(stretch) <= most_lines
        assert len(stretch) == 1 or sum(map(len, stretch)) <= most_characters


@quick
@given(st.text(alphabet="ab ,.。猫", min_size=1, max_size=200), st.integers(1, 20))
def test_a_cut_loses_only_blanks_and_keeps_the_limit(text: str, limit: int) -> None:
    words = vocabulary()
    end = 0
    for (start, stop), ids in split_spans(text, words, limit):
        assert len(ids) <= limit or stop - start == 1
        assert ids == words.encode(text[start:stop])[:limit]
        assert not text[end:start].strip() and end <= start < stop
        end = stop
    assert not text[end:].strip()


def test_a_short_text_is_one_part_and_a_long_one_is_cut_at_a_sentence() -> None:
    words = vocabulary()
    assert split_spans("a mouse.", words, 50) == [((0, 8), words.encode("a mouse."))]
    text = "The first sentence is here. The second one is there."
    assert halve(text) == (text.index(" The second"), text.index("The second"))
    assert halve("一只猫！一只猫！") == (4, 4)
    # the sentence end nearest to the middle, before or after it, of several in the middle half
    assert halve("aaaaaa. bbbbbb. c. ddddddddd eeeeeee") == (18, 19)
    assert halve("aaaaaaaaaa b. cc. dddddddddd. eeee fff") == (17, 18)
    assert halve("aaaaaaa b. cccccc ddddd. eeee fff ggg") == (24, 25)
    assert halve("aaa. bbb ccc ddd eee fff ggg hh. iii") == (16, 17), "those outside of it are too far"
    assert halve("aaa bbbbbb, cccc d eee ffff gggg hhh") == (11, 12), "after a clause rather than a word"
    assert halve("xxxxyyyy") == (4, 4)
    assert halve("xxxx⦅12⦆yyy") == (4, 4)  # not inside the placeholder


@pytest.mark.parametrize("line", ["a", "a\tb\tc\td"])
def test_a_line_with_too_few_or_too_many_columns_names_them(line: str) -> None:
    keys = ("question", "context", "id")
    assert split_columns("a\tb", keys, 2, "line 1", "{}") == {"question": "a", "context": "b"}
    with pytest.raises(UserError) as caught:
        split_columns(line, keys, 2, "line 1", "{}")
    assert (caught.value.code, caught.value.where) == ("bad-line", "line 1")
    assert "question TAB context [TAB id];" in str(caught.value.remedy)
