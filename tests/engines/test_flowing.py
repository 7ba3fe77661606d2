"""A search that sentences enter and leave at any step finds the same hypotheses as the reference."""

import random

import pytest
import torch

from regard.decoding.engine import DecodingRequest
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import DecodingSettings
from regard.decoding.stepper import Symbols
from regard.engines.flowing import FlowingSearch, flowing_search
from regard.engines.fused import FusedState, FusedTransformer
from regard.engines.stepper_engine import StepperEngine
from regard.models.transformer import Transformer, TransformerSettings

SYMBOLS = Symbols(bos=1, eos=2, pad=0)
VOCABULARY = 40


def make_engine(seed: int, **settings: object) -> StepperEngine[FusedState]:
    """A random Transformer whose outputs end, loop or reach their maximum length."""
    torch.manual_seed(seed)
    values = TransformerSettings(d_model=32, d_ff=64, num_heads=4, encoder_layers=1, decoder_layers=2, **settings)  # type: ignore[arg-type]
    model = Transformer(values, VOCABULARY, VOCABULARY).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # larger weights, so that outputs differ and are certain
            parameter.mul_(1.5)
        if model.output.bias is not None:
            model.output.bias[2] += 1.0
    return StepperEngine(FusedTransformer(model), SYMBOLS, torch.device("cpu"))


def make_request(seed: int, count: int, settings: DecodingSettings) -> DecodingRequest:
    rng = random.Random(seed)
    sources = [[*(rng.randrange(4, VOCABULARY) for _ in range(rng.randrange(1, 12))), 2] for _ in range(count)]
    return DecodingRequest(sources, [rng.randrange(1, 45) for _ in sources], settings)


def flow(search: FlowingSearch[int], request: DecodingRequest, seed: int) -> dict[int, list[Hypothesis]]:
    """Decode a request whose sentences enter in groups of 0 to 3 at random steps."""
    rng = random.Random(seed)
    waiting = list(range(len(request)))
    found: dict[int, list[Hypothesis]] = {}
    while waiting or len(search):
        group = [waiting.pop(0) for _ in range(min(len(waiting), rng.randrange(4)))]
        search.add(group, request.select(group))
        for name, hypotheses in search.step():
            assert name not in found
            found[name] = hypotheses
    return found


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
@pytest.mark.parametrize(
    "settings",
    [
        DecodingSettings(search="greedy"),
        DecodingSettings(beam=4),
        DecodingSettings(beam=3, nbest=3, alpha=1.0),
        DecodingSettings(beam=2, loop_guard=False, alpha=0.0),
    ],
    ids=["greedy", "beam", "nbest", "no-guard"],
)
def test_equal_to_the_reference(settings: DecodingSettings, positions: str) -> None:
    looped = finished = 0
    for seed in (1, 2):
        engine, request = make_engine(seed, positions=positions), make_request(seed, 24, settings)
        expected = engine.decode(request)
        search = flowing_search(engine, settings)
        assert search is not None
        found = flow(search, request, seed)
        assert sorted(found) == list(range(24)) and not len(search)
        for number, hypotheses in enumerate(expected):
            for ours, theirs in zip(found[number], hypotheses, strict=True):
                assert ours.tokens == theirs.tokens
                assert ours.score == pytest.approx(theirs.score, abs=1e-4)
                assert (ours.finished, ours.looped) == (theirs.finished, theirs.looped)
                looped, finished = looped + theirs.looped, finished + theirs.finished
    assert finished and (looped or not settings.loop_guard)


def test_partial_outputs_grow_and_a_removed_sentence_is_forgotten() -> None:
    settings = DecodingSettings(search="greedy")
    engine, request = make_engine(0), make_request(0, 3, settings)
    expected = engine.decode(request)
    search = flowing_search(engine, settings)
    assert search is not None
    search.add([0, 1, 2], request)
    search.remove(1)
    outputs: dict[object, list[int]] = {}
    found: dict[int, list[Hypothesis]] = {}
    while len(search):
        found.update(search.step())
        for name, tokens in search.partial().items():
            assert tokens[: len(outputs.get(name, []))] == outputs.get(name, [])  # greedy search changes nothing
            outputs[name] = tokens
    assert sorted(found) == [0, 2] and 1 not in outputs
    assert [found[number][0].tokens for number in (0, 2)] == [expected[number][0].tokens for number in (0, 2)]


def test_other_searches_do_not_flow() -> None:
    engine = make_engine(0)
    for settings in (DecodingSettings(search="sample"), DecodingSettings(no_repeat_ngram=2)):
        assert flowing_search(engine, settings) is None
    assert flowing_search(object(), DecodingSettings()) is None
