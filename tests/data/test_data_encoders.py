"""Encoders of lines, documents and labelled inputs give the columns of a store, for any division into chunks."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from regard import processes
from regard.data.bptt import TokenizedText
from regard.data.encoders import LineEncoder, SentenceEncoder
from regard.data.examples import Example
from regard.data.inputs import Input, InputEncoder, Inputs
from regard.data.pretraining import TokenizedDocuments
from regard.data.store import Store, open_or_build
from regard.errors import UserError
from regard.text.bert import BertTokenizer
from regard.text.factory import train_tokenizer
from regard.text.settings import BertTextSettings, TextSettings
from regard.text.symbols import EOS
from regard.text.tokenizer import Tokenizer

LINES = [" = Heading = ", " ", " the cat sat , the cat slept . ", "", " the  dog sat . "]


def lines_of(text: TokenizedText, tokenizer: Tokenizer) -> list[str]:
    rows = np.split(text.ids, np.flatnonzero(text.ids == EOS) + 1)[:-1]
    return [tokenizer.decode(row[:-1]) for row in rows]


@pytest.mark.parametrize("kind", ["token", "char", "bpe"])
def test_a_text_is_its_lines_each_with_the_end_symbol(tmp_path: Path, kind: str) -> None:
    tokenizer = train_tokenizer(LINES, TextSettings.model_validate({"kind": kind, "min_frequency": 1}))
    examples: list[Example] = [{"text": line} for line in LINES]
    store = open_or_build(tmp_path / "store", "lines", lambda: examples, LineEncoder(tokenizer))
    text = TokenizedText.of(store)
    assert lines_of(text, tokenizer) == LINES and text.ids[-1] == EOS
    assert (text.lines, text.characters) == (len(LINES), sum(len(line) + 1 for line in LINES))
    assert text.words == sum(len(line.split()) + 1 for line in LINES)
    assert len(text) == len(text.ids) and text.fingerprint == store.fingerprint


@cache
def bert_tokenizer() -> BertTokenizer:
    return train_tokenizer(["one two three four five"] * 3, BertTextSettings(min_frequency=1))


def documents_of(corpus: TokenizedDocuments) -> list[list[str]]:
    rows = [bert_tokenizer().decode(row) for row in np.split(corpus.tokens, corpus.sentences[1:-1])]
    return [rows[first:last] for first, last in zip(corpus.documents, corpus.documents[1:], strict=False)]


def sentence_examples(documents: list[list[str]]) -> list[Example]:
    return [{"text": text, "first": index == 0} for document in documents for index, text in enumerate(document)]


@pytest.mark.parametrize("chunk", [1, 2, 3, 100])
def test_empty_sentences_and_documents_disappear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    """Control characters have no tokens."""
    monkeypatch.setattr(processes, "CHUNK_ITEMS", chunk)
    documents = [["one two", "\x01", "three"], ["\x01"], ["\x01", "four"], ["five one"], ["\x01"], ["\x01", "\x01"]]
    examples = sentence_examples(documents)
    store = open_or_build(tmp_path / "store", "documents", lambda: examples, SentenceEncoder(bert_tokenizer()))
    corpus = TokenizedDocuments.of(store)
    assert documents_of(corpus) == [["one two", "three"], ["four"], ["five one"]]
    assert len(corpus) == 3


def test_documents_continue_across_chunks(tmp_path: Path) -> None:
    examples = sentence_examples([["one two three"] * 6] * 1285 + [["one"] * 4])
    store = open_or_build(tmp_path / "store", "documents", lambda: examples, SentenceEncoder(bert_tokenizer()))
    assert np.diff(TokenizedDocuments.of(store).documents).tolist() == [6] * 1285 + [4]


def test_documents_without_tokens_are_an_error(tmp_path: Path) -> None:
    examples = sentence_examples([["\x01"], ["\x01"]])
    with pytest.raises(UserError) as error:
        open_or_build(tmp_path / "store", "documents", lambda: examples, SentenceEncoder(bert_tokenizer()), data="text")
    assert (error.value.code, error.value.where) == ("no-data", "text")


def windows(example: Example) -> list[Input]:
    """An input for each word; the first one has the label."""
    return [Input([len(word)] * 2, [0, 1], [example["label"]] * (n == 0)) for n, word in enumerate(example["words"])]


@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize("chunk", [1, 3])
def test_inputs_of_an_example_are_one_group_or_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grouped: bool, chunk: int
) -> None:
    monkeypatch.setattr(processes, "CHUNK_ITEMS", chunk)
    examples = [{"words": ["a", "bb", "ccc"], "label": 1.5}, {"words": ["dd"], "label": 2.5}]
    encoder = InputEncoder(windows, grouped, "windows")
    store = open_or_build(tmp_path / "store", "examples", lambda: examples, encoder)
    assert store.values("ids").tolist() == [1, 1, 2, 2, 3, 3, 2, 2]
    assert store.values("labels").tolist() == [1.5, 2.5]
    assert store.groups.tolist() == ([0, 3, 4] if grouped else [0, 1, 2, 3, 4])
    inputs = Inputs(store, per_token=False)
    memory = Inputs(Store.of(encoder(examples)), per_token=False)
    assert len(inputs) == len(memory) == (2 if grouped else 4)
    assert inputs.lengths[0].tolist() == memory.lengths[0].tolist()
    assert inputs.input_lengths.tolist() == [2, 2, 2, 2]


def test_labelled_examples_are_encoded_in_several_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "CHUNK_ITEMS", 2)
    monkeypatch.setattr(processes, "SINGLE_PROCESS_CHUNKS", 2)
    examples = [{"words": ["x" * (n % 7 + 1)] * (n % 3 + 1), "label": n / 2} for n in range(30)]
    stores = [
        open_or_build(tmp_path / str(workers), "a", lambda: examples, InputEncoder(windows, True, "w"), workers)
        for workers in (1, 2)
    ]
    assert stores[0].values("ids").tolist() == stores[1].values("ids").tolist()
    assert stores[0].groups.tolist() == stores[1].groups.tolist()
