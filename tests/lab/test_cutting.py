"""Cuts of experiments in trained runs: the scores are those of the cut model, and a cut removes just its part."""

import json
import math

import pytest
import torch
from tests.cli.command import fails, regard
from tests.conftest import TinyRun
from tests.tiny import SEQUENCE_MODELS

from regard.attention.layouts import Padded
from regard.errors import UserError
from regard.lab.cutting import CUTS, cut_run, scorer_of
from regard.lab.registry import all_experiments
from regard.models.transformer import Transformer, TransformerSettings
from regard.run.model import Model
from regard.run.recording import without


def build(**settings: object) -> Transformer:
    torch.manual_seed(1)
    values = {**SEQUENCE_MODELS["transformer"], "max_distance": 20, **settings}
    return Transformer(TransformerSettings(**values), 20, 20).eval()


@torch.no_grad()
def encoded(model: Transformer, ids: list[int]) -> torch.Tensor:
    src = Padded.of(torch.tensor([ids]), torch.tensor([len(ids)]))
    return model.encode(src, src.layout.pattern(src.layout))[0]


def test_every_cut_belongs_to_an_experiment() -> None:
    assert CUTS.keys() <= all_experiments().keys()


@pytest.mark.parametrize("kind", ["sinusoidal", "learned", "rotary", "relative", "alibi", "buckets"])
def test_without_positions_the_encoder_reads_a_bag_of_words(kind: str) -> None:
    model, ids = build(positions=kind), [5, 6, 7, 8]
    before = encoded(model, ids)
    with without(model, (), (), {"positions"}):
        assert not model.is_standard
        assert torch.allclose(encoded(model, ids), encoded(model, ids[::-1]).flip(0), atol=1e-5)
    assert torch.equal(encoded(model, ids), before) and not torch.allclose(before, encoded(model, ids[::-1]).flip(0))


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_without_residual_connections_it_is_the_model_without_them(norm: str) -> None:
    model, plain = build(norm=norm), build(norm=norm, residual=False)
    plain.load_state_dict(model.state_dict())
    with without(model, (), (), {"residual"}):
        assert not model.is_standard and torch.allclose(encoded(model, [5, 6, 7]), encoded(plain, [5, 6, 7]), atol=1e-6)


def test_without_feed_forward_networks() -> None:
    model, plain = build(), build(d_ff=0)
    plain.load_state_dict(model.state_dict(), strict=False)
    with without(model, (), (), {"feedforward"}):
        assert not model.is_standard and torch.allclose(encoded(model, [5, 6, 7]), encoded(plain, [5, 6, 7]), atol=1e-6)


def test_a_translation_run_loses_everything_without_cross_attention(tiny_run: TinyRun) -> None:
    model = Model.load(tiny_run("translation"), device="cpu")
    (cut,) = cut_run("cross-attention", model, "test")
    whole = {score.name: score.value for score in model.evaluate("test").scores}
    with model.without(heads={"decoder.0.cross": [0, 1], "decoder.1.cross": [0, 1]}):
        without_it = {score.name: score.value for score in model.evaluate("test").scores}
    for item in cut.comparisons:
        assert (item.base, item.other) == pytest.approx((whole[item.metric], without_it[item.metric]))
        assert item.ci_low <= item.delta <= item.ci_high
    assert next(item for item in cut.comparisons if item.metric == "exact match").delta < -50


def test_a_language_model_is_scored_by_blocks(tiny_run: TinyRun) -> None:
    model = Model.load(tiny_run("language", "transformer"), device="cpu")
    cuts = {cut.title: cut for cut in cut_run("parts", model, "valid")}
    assert set(cuts) == {"all self-attention", "positions", "residual connections", "feed-forward networks"}
    (item,) = cuts["all self-attention"].comparisons
    assert item.metric == "perplexity" and math.isfinite(item.ci_high) and item.ci_low <= item.delta <= item.ci_high
    blocks, _ = scorer_of(model, "valid")
    assert blocks == cuts["positions"].examples


def test_the_command_and_its_errors(tiny_run: TinyRun) -> None:
    classifier = tiny_run("classification")
    values = json.loads(regard("lab", "heads", "--run", classifier, "--on", "test", "--json").out)
    assert values["cuts"][0]["examples"] == 24 and values["cuts"][0]["comparisons"]
    assert "95% interval" in regard("lab", "depth", "--run", classifier, "--on", "test").out
    assert fails("lab", "cross-attention", "--run", classifier).code == "unsupported-option"
    assert fails("lab", "scale", "--run", classifier).code == "unsupported-option"
    assert fails("lab", "--run", classifier).code == "missing-input"
    assert fails("lab", "bag-of-words", "--run", tiny_run("translation", "recurrent")).code == "unsupported-option"
    assert fails("lab", "heads", "--run", tiny_run("pretraining")).code == "unsupported-option"


def test_an_unknown_part(tiny_run: TinyRun) -> None:
    model = Model.load(tiny_run("translation"), device="cpu")
    with pytest.raises(UserError, match="no part 'doors'"), model.without(parts={"doors"}):
        pass
