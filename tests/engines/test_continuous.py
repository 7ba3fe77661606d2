"""A search that sentences enter and leave at any step finds the same hypotheses as the reference."""

import random
from typing import Any

import pytest
import torch

from regard.decoding.engine import DecodingRequest
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import DecodingSettings
from regard.decoding.stepper import Symbols
from regard.engines.choose import ContinuousSearch, continuous_search
from regard.engines.device import DeviceEngine
from regard.engines.fused import FusedState, FusedTransformer
from regard.engines.stepper_engine import StepperEngine
from regard.models.transformer import Transformer, TransformerSettings

SYMBOLS = Symbols(bos=1, eos=2, pad=0)
VOCABULARY = 40


def make_model(seed: int, **settings: object) -> Transformer:
    """A random Transformer whose outputs end, loop or reach their maximum length."""
    torch.manual_seed(seed)
    values = TransformerSettings(d_model=32, d_ff=64, num_heads=4, encoder_layers=1, decoder_layers=2, **settings)  # type: ignore[arg-type]
    model = Transformer(values, VOCABULARY, VOCABULARY).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # larger weights, so that outputs differ and are certain
            parameter.mul_(1.5)
        if model.output.bias is not None:
            model.output.bias[2] += 1.0
    return model


def make_engine(seed: int, **settings: object) -> StepperEngine[FusedState]:
    return StepperEngine(FusedTransformer(make_model(seed, **settings)), SYMBOLS, torch.device("cpu"))


def make_request(seed: int, count: int, settings: DecodingSettings) -> DecodingRequest:
    rng = random.Random(seed)
    sources = [[*(rng.randrange(4, VOCABULARY) for _ in range(rng.randrange(1, 12))), 2] for _ in range(count)]
    return DecodingRequest(sources, [rng.randrange(1, 45) for _ in sources], settings)


def flow(search: ContinuousSearch[int], request: DecodingRequest, seed: int) -> dict[int, list[Hypothesis]]:
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
        DecodingSettings(beam=3, no_repeat_ngram=2),
    ],
    ids=["greedy", "beam", "nbest", "no-guard", "no-repeat"],
)
def test_equal_to_the_reference(settings: DecodingSettings, positions: str) -> None:
    looped = finished = 0
    for seed in (1, 2):
        engine, request = make_engine(seed, positions=positions), make_request(seed, 24, settings)
        expected = engine.decode(request)
        search = continuous_search(engine, settings)
        assert search is not None
        found = flow(search, request, seed)
        assert sorted(found) == list(range(24)) and not len(search)
        for number, hypotheses in enumerate(expected):
            for ours, theirs in zip(found[number], hypotheses, strict=True):
                assert ours.tokens == theirs.tokens
                assert ours.score == pytest.approx(theirs.score, abs=1e-4)
                assert (ours.finished, ours.looped) == (theirs.finished, theirs.looped)
                looped, finished = looped + theirs.looped, finished + theirs.finished
    assert finished and (looped or not settings.loop_guard or settings.no_repeat_ngram)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("settings", [DecodingSettings(search="greedy"), DecodingSettings(beam=3, nbest=2)])
def test_slots_of_a_device_are_equal_to_the_reference(
    settings: DecodingSettings, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU")
    for name, size in {"SLOTS": 24, "SOURCE": 32, "POSITIONS": 64}.items():  # a CPU computes empty slots too
        monkeypatch.setattr(f"regard.engines.device_continuous.{name}", size)
    request = make_request(1, 24, settings)
    expected = make_engine(1).decode(request)
    search = continuous_search(DeviceEngine(make_model(1).to(device), SYMBOLS), settings)
    assert search is not None
    for _ in range(2):  # slots are used again
        found = flow(search, request, 1)
        assert [[item.tokens for item in found[number]] for number in range(24)] == [
            [item.tokens for item in hypotheses] for hypotheses in expected
        ]
    search.add([0, 1], request.select([0, 1]))
    search.remove(0)
    assert len(search) == 1
    with pytest.raises(ValueError):
        search.add(range(2, 1002), request.select([0] * 1000))
    left: dict[int, list[Hypothesis]] = {}
    while len(search):
        left.update(search.step())
    assert [item.tokens for item in left.pop(1)] == [item.tokens for item in expected[1]] and not left


def test_partial_outputs_grow_and_a_removed_sentence_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = DecodingSettings(search="greedy")
    engine, request = make_engine(0), make_request(0, 3, settings)
    expected = engine.decode(request)
    search = continuous_search(engine, settings)
    assert search is not None
    search.add([0, 1, 2], request)
    search.step()
    search.remove(1)
    sizes = list[int]()
    decode = FusedTransformer.decode

    def counted(self: FusedTransformer, tokens: torch.Tensor, *rest: Any) -> Any:
        sizes.append(len(tokens))
        return decode(self, tokens, *rest)

    monkeypatch.setattr(FusedTransformer, "decode", counted)
    outputs: dict[object, list[int]] = {}
    found: dict[int, list[Hypothesis]] = {}
    while len(search):
        found.update(search.step())
        for name, tokens in search.partial().items():
            assert tokens[: len(outputs.get(name, []))] == outputs.get(name, [])  # greedy search changes nothing
            outputs[name] = tokens
    assert sorted(found) == [0, 2] and 1 not in outputs
    assert max(sizes) == 2  # from the next step on nothing is computed for the removed one
    assert [found[number][0].tokens for number in (0, 2)] == [expected[number][0].tokens for number in (0, 2)]


def test_other_searches_do_not_flow() -> None:
    engine = make_engine(0)
    assert continuous_search(engine, DecodingSettings(search="sample")) is None
    assert continuous_search(make_model(0), DecodingSettings()) is None
    assert continuous_search(DeviceEngine(make_model(0), SYMBOLS), DecodingSettings(no_repeat_ngram=2)) is None
