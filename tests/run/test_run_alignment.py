"""The alignment of a run's attention: right attention has no error, wrong attention has, and every number is a mean."""

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
from regard.metrics.alignment import coverage_error, entropy
from regard.run.alignment import Plane, align, all_planes, gold_of, plane_names, study
from regard.text.factory import train_tokenizer
from regard.text.settings import TextSettings
from regard.text.tokenizer import Tokenizer

LAYERS, HEADS, SENTENCES = 2, 3, 40


@pytest.fixture(scope="module")
def vocabulary() -> Tokenizer:
    texts = [text for pair in islice(builtin.pairs("numbers", "train"), 500) for text in pair]
    return train_tokenizer(texts, TextSettings(kind="char", vocab_size=300))


@dataclass
class Knowing:
    """Stands for a translator whose layer 2, head 1 looks where the gold alignment says; the others look anywhere."""

    vocabulary: Tokenizer
    pairs: dict[str, AlignedPair] = field(default_factory=dict)
    has_cross: bool = True

    def __post_init__(self) -> None:
        self.task = SimpleNamespace(
            src_vocabulary=self.vocabulary, tgt_vocabulary=self.vocabulary, max_source=256, attentions=self.attentions
        )
        self.models = [None]
        self.run = SimpleNamespace(folder="runs/x", recipe=SimpleNamespace(model=SimpleNamespace(summary="a model")))

    def attentions(self, model: Any, source: str, target: list[int]) -> tuple[list[str], list[str], Attentions]:
        src, T = self.vocabulary.encode(source), len(target)
        random = np.random.default_rng(len(src) + 7 * T)
        weights = random.gamma(0.3, size=(LAYERS, HEADS, T + 1, len(src) + 1)) + 1e-9
        if source in self.pairs:
            weights[1, 0] = self.right(self.pairs[source], src, target)
        weights /= weights.sum(axis=-1, keepdims=True)
        return [], [], Attentions(cross=torch.from_numpy(weights)[None] if self.has_cross else None)

    def right(self, pair: AlignedPair, src: list[int], tgt: list[int]) -> np.ndarray:
        ours, theirs = units(pair.src_segments, src, self.vocabulary), units(pair.tgt_segments, tgt, self.vocabulary)
        weights = np.full((len(tgt) + 1, len(src) + 1), 1e-6)
        weights[:, -1] = 1e-3
        for s, t in unit_links(pair.sure, ours, theirs):
            for row in theirs.tokens[t]:
                weights[row, list(ours.tokens[s])] += 1
        return weights


@pytest.fixture
def knowing(vocabulary: Tokenizer) -> Any:
    return Knowing(vocabulary, {pair.src: pair for pair in islice(gold("numbers", "test"), SENTENCES)})


def test_attention_that_knows_makes_no_error_and_is_found(knowing: Any) -> None:
    found = study(knowing, gold("numbers", "test"), SENTENCES)
    assert found.sentences == SENTENCES
    assert found.best.plane == Plane(2, 1)
    assert found.best.links is not None and found.lowest is not None
    assert found.best.links.recall == found.best.links.precision == 1.0 and found.best.links.aer == 0.0
    others = [each.links.aer for each in found.planes if each.links and each.plane.head and each.plane != Plane(2, 1)]
    assert len(others) == LAYERS * HEADS - 1 and min(others) > 0.3


def test_what_a_model_puts_before_the_source_is_no_word(knowing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = study(knowing, gold("numbers", "test"), 5)
    words = next(align(knowing, [next(builtin.pairs("numbers", "test"))], Plane(2, 1)))
    bare = knowing.task.attentions

    def headed(*given: Any) -> Any:
        columns, rows, weights = bare(*given)
        return columns, rows, Attentions(cross=torch.nn.functional.pad(weights.cross, (1, 0)))

    monkeypatch.setattr(knowing.task, "attentions", headed)
    assert study(knowing, gold("numbers", "test"), 5) == plain
    assert next(align(knowing, [next(builtin.pairs("numbers", "test"))], Plane(2, 1))) == words


def test_a_head_that_looks_at_the_end_links_nothing(knowing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def only_the_end(pair: AlignedPair, src: list[int], tgt: list[int]) -> np.ndarray:
        weights = np.zeros((len(tgt) + 1, len(src) + 1))
        weights[:, -1] = 1
        return weights

    monkeypatch.setattr(knowing, "right", only_the_end)
    links = study(knowing, gold("numbers", "test"), 5).at(Plane(2, 1)).links
    assert links is not None and (links.predicted, links.recall, links.aer) == (0, 0.0, 1.0)


def test_measures_are_means_over_sentences_without_the_ends(knowing: Any) -> None:
    pairs = list(islice(builtin.pairs("numbers", "test"), 3))
    found = study(knowing, pairs)
    assert found.lowest is None and all(each.links is None for each in found.planes)
    by_hand = []
    for source, target in pairs:
        ids = knowing.vocabulary.encode(target)
        weights = knowing.attentions(None, source, ids)[2].cross[0, 0, 2].numpy()[: len(ids)]
        by_hand.append([entropy(weights).mean(), coverage_error(weights[:, :-1])])
    third = found.at(Plane(1, 3))
    assert [third.entropy, third.coverage_error] == pytest.approx(np.mean(by_hand, axis=0).tolist())
    assert found.best.coverage_error == min(each.coverage_error for each in found.planes)
    assert all(0 <= share <= 1 for share in [*found.agreement_of_heads, found.agreement_of_layers])


def test_planes_are_every_head_and_every_mean() -> None:
    weights = np.random.default_rng(0).random((LAYERS, HEADS, 4, 5))
    planes, names = all_planes(weights), plane_names(weights)
    assert len(planes) == len(names) == LAYERS * (HEADS + 1) + 1
    for plane, name in zip(planes, names, strict=True):
        layers = weights if not name.layer else weights[name.layer - 1 : name.layer]
        heads = layers if not name.head else layers[:, name.head - 1 : name.head]
        assert plane == pytest.approx(heads.mean(axis=(0, 1)))


def test_links_of_words_and_of_pieces(knowing: Any) -> None:
    pair = next(pair for pair in knowing.pairs.values() if "thousand" in pair.src and "," not in pair.src)
    words = next(align(knowing, [(pair.src, pair.tgt)], Plane(2, 1), by="words"))
    assert {t for _, t in words} <= {0} and max(s for s, _ in words) < len(pair.src.split())
    pieces = next(align(knowing, [(pair.src, pair.tgt)], Plane(2, 1), by="pieces"))
    said = {t: s for s, t in pieces}
    tens = pair.tgt.index("tausend")
    assert pair.src[: said[tens] + 1].rpartition(" ")[2] in "thousand"


def test_blank_lines_have_no_links_and_are_not_measured(knowing: Any) -> None:
    assert list(align(knowing, [("", ""), ("  ", "x")], Plane(1, 1))) == [frozenset(), frozenset()]
    with pytest.raises(UserError, match="no sentence"):
        study(knowing, [("", "")])


def test_gold_exists_for_builtin_corpora_alone() -> None:
    numbers = Source(builtin="numbers", split="valid")
    assert gold_of([numbers]) is not None
    assert gold_of([numbers, Source(src="a", tgt="b")]) is None
    assert gold_of([]) is None


def test_a_model_without_attention_is_named(vocabulary: Tokenizer) -> None:
    blind: Any = Knowing(vocabulary, has_cross=False)
    with pytest.raises(UserError, match="runs/x has no attention"):
        study(blind, [("one", "eins")])
