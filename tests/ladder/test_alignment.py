"""Attention as a word alignment: correct attention has no error, and every measure is a mean over sentences."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from regard.attention.layouts import Attentions
from regard.data import builtin
from regard.data.alignments import AlignedPair, gold, unit_links, units
from regard.data.sources import Source
from regard.errors import UserError
from regard.ladder.alignment import (
    AttentionHead,
    TextPair,
    align,
    attention_matrices,
    evaluate_alignment,
    gold_alignments,
    list_heads,
)
from regard.metrics.alignment import coverage_error, entropy
from regard.text.factory import train_tokenizer
from regard.text.settings import TextSettings
from regard.text.tokenizer import Tokenizer

LAYERS, HEADS, SENTENCES = 2, 3, 40
GOLD_HEAD = AttentionHead(2, 1)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    texts = [text for pair in islice(builtin.pairs("numbers", "train"), 500) for text in pair]
    return train_tokenizer(texts, TextSettings(kind="char", vocab_size=300))


@dataclass
class FakeTranslator:
    """A translator whose layer 2, head 1 attends as the gold alignment says; the other heads are random."""

    tokenizer: Tokenizer
    pairs: dict[str, AlignedPair] = field(default_factory=dict)
    has_cross: bool = True

    def __post_init__(self) -> None:
        self.task = SimpleNamespace(
            src_tokenizer=self.tokenizer,
            tgt_tokenizer=self.tokenizer,
            max_source=256,
            attention_weights=self.attention_weights,
            tags=lambda example: [],
        )
        self.model = None
        self.run = SimpleNamespace(folder="runs/x", recipe=SimpleNamespace(model=SimpleNamespace(summary="a model")))

    def attention_weights(
        self, model: Any, source: str, target: list[int], tags: Sequence[int] = ()
    ) -> tuple[list[str], list[str], Attentions]:
        src, T = self.tokenizer.encode(source), len(target)
        random = np.random.default_rng(len(src) + 7 * T)
        weights = random.gamma(0.3, size=(LAYERS, HEADS, T + 1, len(src) + 1)) + 1e-9
        if source in self.pairs:
            weights[1, 0] = self.gold_weights(self.pairs[source], src, target)
        weights /= weights.sum(axis=-1, keepdims=True)
        return [], [], Attentions(cross=torch.from_numpy(weights)[None] if self.has_cross else None)

    def gold_weights(self, pair: AlignedPair, src: list[int], tgt: list[int]) -> np.ndarray:
        src_units = units(pair.src_segments, src, self.tokenizer)
        tgt_units = units(pair.tgt_segments, tgt, self.tokenizer)
        weights = np.full((len(tgt) + 1, len(src) + 1), 1e-6)
        weights[:, -1] = 1e-3
        for s, t in unit_links(pair.sure, src_units, tgt_units):
            for row in tgt_units.tokens[t]:
                weights[row, list(src_units.tokens[s])] += 1
        return weights


@pytest.fixture
def translator(tokenizer: Tokenizer) -> Any:
    return FakeTranslator(tokenizer, {pair.src: pair for pair in islice(gold("numbers", "test"), SENTENCES)})


def test_the_gold_head_has_no_error_and_is_the_best(translator: Any) -> None:
    report = evaluate_alignment(translator, gold("numbers", "test"), SENTENCES)
    assert report.sentences == SENTENCES
    assert report.best.head == GOLD_HEAD
    assert report.best.links is not None and report.lowest is not None
    assert report.best.links.recall == report.best.links.precision == 1.0 and report.best.links.aer == 0.0
    others = [item.links.aer for item in report.heads if item.links and item.head.head and item.head != GOLD_HEAD]
    assert len(others) == LAYERS * HEADS - 1 == report.head_count - 1 and min(others) > 0.3


def test_the_tag_of_the_target_language_is_put_before_the_source(
    translator: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[Any, Sequence[int]]] = []

    def tags(example: Any) -> list[int]:
        return [7] if example.get("to") == "de" else []

    def weights(model: Any, source: str, target: list[int], tags: Sequence[int]) -> Any:
        seen.append((source, tags))
        columns, rows, found = translator.attention_weights(model, source, target)
        return columns, rows, Attentions(cross=torch.nn.functional.pad(found.cross, (len(tags), 0)))

    source, target = next(builtin.pairs("numbers", "test"))
    expected = next(align(translator, [TextPair(source, target)], GOLD_HEAD))
    monkeypatch.setattr(translator.task, "tags", tags)
    monkeypatch.setattr(translator.task, "attention_weights", weights)
    assert next(align(translator, [TextPair(source, target, "de")], GOLD_HEAD)) == expected
    evaluate_alignment(translator, [TextPair(source, target, "de")])
    assert seen == [(source, [7])] * 2


def test_a_token_before_the_source_is_ignored(translator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = evaluate_alignment(translator, gold("numbers", "test"), 5)
    words = next(align(translator, [TextPair(*next(builtin.pairs("numbers", "test")))], GOLD_HEAD))
    original = translator.task.attention_weights

    def with_length_token(*arguments: Any) -> Any:
        columns, rows, weights = original(*arguments)
        return columns, rows, Attentions(cross=torch.nn.functional.pad(weights.cross, (1, 0)))

    monkeypatch.setattr(translator.task, "attention_weights", with_length_token)
    assert evaluate_alignment(translator, gold("numbers", "test"), 5) == expected
    assert next(align(translator, [TextPair(*next(builtin.pairs("numbers", "test")))], GOLD_HEAD)) == words


def test_a_head_that_attends_to_the_end_symbol_has_no_links(translator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def end_weights(pair: AlignedPair, src: list[int], tgt: list[int]) -> np.ndarray:
        weights = np.zeros((len(tgt) + 1, len(src) + 1))
        weights[:, -1] = 1
        return weights

    monkeypatch.setattr(translator, "gold_weights", end_weights)
    links = evaluate_alignment(translator, gold("numbers", "test"), 5).of(GOLD_HEAD).links
    assert links is not None and (links.predicted, links.recall, links.aer) == (0, 0.0, 1.0)


def test_measures_are_means_over_sentences_without_end_symbols(translator: Any) -> None:
    pairs = [TextPair(*pair) for pair in islice(builtin.pairs("numbers", "test"), 3)]
    report = evaluate_alignment(translator, pairs)
    assert report.lowest is None and all(item.links is None for item in report.heads)
    expected = []
    for source, target, _ in pairs:
        ids = translator.tokenizer.encode(target)
        weights = translator.attention_weights(None, source, ids)[2].cross[0, 0, 2].numpy()[: len(ids)]
        expected.append([entropy(weights).mean(), coverage_error(weights[:, :-1])])
    third = report.of(AttentionHead(1, 3))
    assert [third.entropy, third.coverage_error] == pytest.approx(np.mean(expected, axis=0).tolist())
    assert report.best.coverage_error == min(item.coverage_error for item in report.heads)
    assert all(0 <= share <= 1 for share in [*report.agreement_of_heads, report.agreement_of_layers])


def test_matrices_of_every_head_and_every_mean() -> None:
    weights = np.random.default_rng(0).random((LAYERS, HEADS, 4, 5))
    matrices, heads = attention_matrices(weights), list_heads(weights)
    assert len(matrices) == len(heads) == LAYERS * (HEADS + 1) + 1
    for matrix, head in zip(matrices, heads, strict=True):
        layers = weights if not head.layer else weights[head.layer - 1 : head.layer]
        selected = layers if not head.head else layers[:, head.head - 1 : head.head]
        assert matrix == pytest.approx(selected.mean(axis=(0, 1)))


def test_links_of_words_and_of_tokens(translator: Any) -> None:
    pair = next(pair for pair in translator.pairs.values() if "thousand" in pair.src and "," not in pair.src)
    words = next(align(translator, [TextPair(pair.src, pair.tgt)], GOLD_HEAD, by="words"))
    assert {t for _, t in words} <= {0} and max(s for s, _ in words) < len(pair.src.split())
    tokens = next(align(translator, [TextPair(pair.src, pair.tgt)], GOLD_HEAD, by="tokens"))
    source_of = {t: s for s, t in tokens}
    thousand = pair.tgt.index("tausend")
    assert pair.src[: source_of[thousand] + 1].rpartition(" ")[2] in "thousand"


def test_blank_lines_have_no_links_and_are_not_measured(translator: Any) -> None:
    assert list(align(translator, [TextPair("", ""), TextPair("  ", "x")], AttentionHead(1, 1))) == [
        frozenset(),
        frozenset(),
    ]
    with pytest.raises(UserError) as error:
        evaluate_alignment(translator, [TextPair("", "")])
    assert error.value.code == "no-data"


def test_only_builtin_corpora_have_gold_alignments() -> None:
    numbers = Source(builtin="numbers", split="valid")
    assert gold_alignments([numbers]) is not None
    assert gold_alignments([numbers, Source(src="a", tgt="b")]) is None
    assert gold_alignments([]) is None


def test_a_model_without_cross_attention_is_an_error(tokenizer: Tokenizer) -> None:
    without: Any = FakeTranslator(tokenizer, has_cross=False)
    with pytest.raises(UserError) as error:
        evaluate_alignment(without, [TextPair("one", "eins")])
    assert (error.value.code, error.value.where) == ("no-attention", "runs/x")
