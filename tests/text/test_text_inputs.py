"""Inputs of text encoders with byte-level tokenizers: spans, words, special tokens."""

from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import UserError
from regard.tasks.encoders import words_of
from regard.text.factory import load_input_tokenizer, train_tokenizer
from regard.text.inputs import SubwordInputTokenizer
from regard.text.settings import TextSettings
from regard.text.symbols import BOS, EOS

KINDS = ["bpe", "wordpiece", "word", "token", "char"]
LINES = ["the cat sat on the mat .", "the dog didn't see the cat !", "爱 and naïve cats"]


@cache
def tokenizer(kind: str) -> SubwordInputTokenizer:
    settings = TextSettings.model_validate({"kind": kind, "vocab_size": 600, "min_frequency": 1})
    return SubwordInputTokenizer.from_json(train_tokenizer(LINES, settings).to_json())


TEXTS = st.text(st.sampled_from("ab the cat.'!?0\n\t爱é 🙂"), max_size=30)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None, derandomize=True)
@given(text=TEXTS)
def test_spans_cover_every_character_but_blanks(kind: str, text: str) -> None:
    encoding = tokenizer(kind).tokenize(text)
    assert encoding.ids == tokenizer(kind).encode(text)
    assert encoding.spans == sorted(encoding.spans)
    covered = {place for start, end in encoding.spans for place in range(start, end)}
    assert {place for place, character in enumerate(text) if not character.isspace()} <= covered
    assert all(not text[start].isspace() for start, end in encoding.spans if start < end)


@pytest.mark.parametrize("kind", KINDS)
def test_words_are_read_as_in_a_text(kind: str) -> None:
    words = ["the", "cat", "didn't", "see", "爱", "naïve", "!"]
    encoding = tokenizer(kind).tokenize_words(words)
    assert sorted(set(encoding.words)) == list(range(len(words))) and encoding.words == sorted(encoding.words)
    if kind != "token":
        assert encoding.ids == tokenizer(kind).encode(" ".join(words))
    for number, word in enumerate(words):
        spans = [span for span, owner in zip(encoding.spans, encoding.words, strict=True) if owner == number]
        assert (min(spans)[0], max(end for _, end in spans)) == (0, len(word))
    assert words_of("the  cat\tsat !", tokenizer(kind)) == ["the", "cat", "sat", "!"] or kind == "char"


def test_special_tokens_are_those_of_the_language_model() -> None:
    read = tokenizer("bpe")
    first, second = read.tokenize("the cat"), read.tokenize("the dog")
    assert read.build_input(first).ids == [EOS, *first.ids, EOS]
    pair = read.build_input(first, second)
    assert pair.ids == [EOS, *first.ids, BOS, *second.ids, EOS]
    assert pair.segments == [0] * (len(first) + 2) + [1] * (len(second) + 1)


def test_a_tokenizer_is_loaded_by_its_file(tmp_path: Path) -> None:
    tokenizer("bpe").save(tmp_path / "tokenizer.json")
    assert load_input_tokenizer(tmp_path / "tokenizer.json").encode("the cat") == tokenizer("bpe").encode("the cat")
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(UserError) as error:
        load_input_tokenizer(tmp_path / "tokenizer.json")
    assert error.value.code == "damaged-file"
