"""Attention as a word alignment: correct attention has no error, and every measure is a mean over sentences."""

from collections.abc import Sequence
from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from regard.attention.layouts import Attentions, Tokens
from regard.data import builtin
from regard.data.alignments import AlignedPair, gold, unit_links, units
from regard.data.sources import Source
from regard.errors import UserError
from regard.ladder.alignment import align, evaluate_alignment, gold_alignments
from regard.metrics.alignment import coverage_error, entropy
from regard.run.alignment import AlignmentHead
from regard.tasks.writing import LEFT_TO_RIGHT
from regard.text.factory import train_tokenizer
from regard.text.settings import TextSettings
from regard.text.symbols import BOS, EOS, PAD
from regard.text.tokenizer import Tokenizer

LAYERS, HEADS, SENTENCES = 2, 3, 40
GOLD_HEAD = AlignmentHead(2, 1)
TAG = 290
"""The token of a target language; no text has it."""


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    texts = [text for pair in islice(builtin.pairs("numbers", "train"), 500) for text in pair]
    return train_tokenizer(texts, TextSettings(kind="char", vocab_size=300))


class FakeNetwork(torch.nn.Module):
    """A model whose layer 2, head 1 attends as the gold alignment says; the other heads are random."""

    def __init__(self, tokenizer: Tokenizer, pairs: Sequence[AlignedPair]) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.tokenizer, self.pairs = tokenizer, {tuple(tokenizer.encode(pair.src)): pair for pair in pairs}
        self.before, self.has_cross = 0, True
        self.sources: list[list[int]] = []

    def attentions(self, source: Tokens, target: Tokens) -> Attentions:
        """Weights on `before` other tokens, then on the source."""
        rows = list(zip(source.ids.tolist(), target.ids.tolist(), strict=True))
        cross = torch.zeros(len(rows), LAYERS, HEADS, target.ids.size(1), self.before + source.ids.size(1))
        for row, (src, tgt) in enumerate(rows):
            src, tgt = [n for n in src if n != PAD], [n for n in tgt if n not in (BOS, PAD)]
            self.sources.append(src)
            tags = sum(n == TAG for n in src)
            weights = self.weights(src[tags:-1], tgt)
            cross[row, :, :, : len(tgt) + 1, self.before + tags : self.before + len(src)] = torch.from_numpy(weights)
        return Attentions(cross=cross if self.has_cross else None)

    def weights(self, src: list[int], tgt: list[int]) -> np.ndarray:
        random = np.random.default_rng(len(src) + 7 * len(tgt))
        weights = random.gamma(0.3, size=(LAYERS, HEADS, len(tgt) + 1, len(src) + 1)) + 1e-9
        if tuple(src) in self.pairs:
            weights[1, 0] = self.gold_weights(self.pairs[tuple(src)], src, tgt)
        normalised: np.ndarray = weights / weights.sum(axis=-1, keepdims=True)
        return normalised

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
    task = SimpleNamespace(
        src_tokenizer=tokenizer, tgt_tokenizer=tokenizer, max_source=256, max_target=None, writing=LEFT_TO_RIGHT,
        parse=lambda example: example, tags=lambda example: [TAG] if example.get("to") == "de" else [],
        source_row=lambda ids: [*ids, EOS],
    )  # fmt: skip
    run = SimpleNamespace(folder="runs/x", recipe=SimpleNamespace(model=SimpleNamespace(summary="a model")))
    network = FakeNetwork(tokenizer, list(islice(gold("numbers", "test"), SENTENCES)))
    return SimpleNamespace(task=task, model=network, run=run)


def first_example(**more: str) -> dict[str, str]:
    source, target = next(builtin.pairs("numbers", "test"))
    return {"src": source, "tgt": target, **more}


def test_the_gold_head_has_no_error_and_is_the_best(translator: Any) -> None:
    report = evaluate_alignment(translator, gold("numbers", "test"), SENTENCES)
    assert report.sentences == SENTENCES
    assert report.best.head == GOLD_HEAD
    assert report.best.links is not None and report.lowest is not None
    assert report.best.links.recall == report.best.links.precision == 1.0 and report.best.links.aer == 0.0
    others = [item.links.aer for item in report.heads if item.links and item.head.head and item.head != GOLD_HEAD]
    assert (
        len(others) == LAYERS * HEADS - 1 == sum(bool(item.head.head) for item in report.heads) - 1
        and min(others) > 0.3
    )


def test_the_tag_of_the_target_language_is_put_before_the_source(translator: Any) -> None:
    expected = next(align(translator, [first_example()], GOLD_HEAD))
    translator.model.sources.clear()
    assert next(align(translator, [first_example(to="de")], GOLD_HEAD)) == expected
    evaluate_alignment(translator, [first_example(to="de")])
    source = [TAG, *translator.task.src_tokenizer.encode(first_example()["src"]), EOS]
    assert translator.model.sources == [source, source]


def test_a_token_before_the_source_is_ignored(translator: Any) -> None:
    expected = evaluate_alignment(translator, gold("numbers", "test"), 5)
    words = next(align(translator, [first_example()], GOLD_HEAD))
    translator.model.before = 1  # LENGTH of a masked model
    assert evaluate_alignment(translator, gold("numbers", "test"), 5) == expected
    assert next(align(translator, [first_example()], GOLD_HEAD)) == words


def test_a_head_that_attends_to_the_end_symbol_has_no_links(translator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def end_weights(pair: AlignedPair, src: list[int], tgt: list[int]) -> np.ndarray:
        weights = np.zeros((len(tgt) + 1, len(src) + 1))
        weights[:, -1] = 1
        return weights

    monkeypatch.setattr(translator.model, "gold_weights", end_weights)
    links = evaluate_alignment(translator, gold("numbers", "test"), 5).of(GOLD_HEAD).links
    assert links is not None and (links.predicted, links.recall, links.aer) == (0, 0.0, 1.0)


def test_statistics_are_means_over_sentences_without_end_symbols(translator: Any) -> None:
    examples = [{"src": src, "tgt": tgt} for src, tgt in islice(builtin.pairs("numbers", "test"), 3)]
    report = evaluate_alignment(translator, examples)
    assert report.lowest is None and all(item.links is None for item in report.heads)
    expected = []
    for example in examples:
        src, tgt = (translator.task.src_tokenizer.encode(example[side]) for side in ("src", "tgt"))
        weights = translator.model.weights(src, tgt)[0, 2, : len(tgt)]
        expected.append([entropy(weights).mean(), coverage_error(weights[:, :-1])])
    third = report.of(AlignmentHead(1, 3))
    assert [third.entropy, third.coverage_error] == pytest.approx(np.mean(expected, axis=0).tolist())
    assert report.best.coverage_error == min(item.coverage_error for item in report.heads)
    assert all(0 <= share <= 1 for share in [*report.agreement_of_heads, report.agreement_of_layers])


def test_links_of_words_and_of_tokens(translator: Any) -> None:
    pair = next(pair for pair in translator.model.pairs.values() if "thousand" in pair.src and "," not in pair.src)
    words = next(align(translator, [{"src": pair.src, "tgt": pair.tgt}], GOLD_HEAD, by="words"))
    assert {t for _, t in words} <= {0} and max(s for s, _ in words) < len(pair.src.split())
    tokens = next(align(translator, [{"src": pair.src, "tgt": pair.tgt}], GOLD_HEAD, by="tokens"))
    source_of = {t: s for s, t in tokens}
    thousand = pair.tgt.index("tausend")
    assert pair.src[: source_of[thousand] + 1].rpartition(" ")[2] in "thousand"


def test_blank_lines_have_no_links_and_are_not_measured(translator: Any) -> None:
    blank = [{"src": "", "tgt": ""}, {"src": "  ", "tgt": "x"}]
    assert list(align(translator, blank, AlignmentHead(1, 1))) == [frozenset(), frozenset()]
    with pytest.raises(UserError) as error:
        evaluate_alignment(translator, blank)
    assert error.value.code == "no-data"


def test_only_builtin_corpora_have_gold_alignments() -> None:
    numbers = Source(builtin="numbers", split="valid")
    assert gold_alignments([numbers]) is not None
    assert gold_alignments([numbers, Source(src="a", tgt="b")]) is None
    assert gold_alignments([]) is None


def test_a_model_without_cross_attention_is_an_error(translator: Any) -> None:
    translator.model.has_cross = False
    with pytest.raises(UserError) as error:
        evaluate_alignment(translator, [{"src": "one", "tgt": "eins"}])
    assert (error.value.code, error.value.where) == ("no-attention", "runs/x")
