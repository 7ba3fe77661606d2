"""The device engine gives the tokens and scores of the reference engine, with any number of slots."""

import copy
import itertools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention.layouts import Padded
from regard.decoding.engine import DecodingRequest
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search import decode
from regard.decoding.settings import DecodingSettings
from regard.decoding.stepper import Symbols
from regard.engines.device import DeviceEngine, ValidationEngine
from regard.errors import UserError
from regard.models.transformer import Transformer, TransformerSettings

V = 40
SYMBOLS = Symbols(bos=1, eos=2, pad=0)


def build(seed: int = 0, sharp: float = 1.0, ends: float = 0.0, **changes: Any) -> Transformer:
    """A random model; `sharp` makes it sure of itself (and so repeat itself), `ends` makes it like to end."""
    torch.manual_seed(seed)
    tiny = dict(size="tiny", d_model=16, num_heads=2, d_ff=32, max_positions=64, tie="none")
    model = Transformer(TransformerSettings.model_validate(tiny | changes), V, V).eval()
    with torch.no_grad():
        model.output.weight.mul_(sharp)
        # The output has no bias of its own; the last norm's, along the end symbol's row, is as good as one.
        norm = model.decoder[-1].feedforward_residual.norm if changes.get("norm") != "pre" else model.decoder_norm
        assert isinstance(norm, torch.nn.LayerNorm)
        row = model.output.weight[SYMBOLS.eos]
        norm.bias.add_(ends * row / row.square().sum())
    return model


def texts(count: int, seed: int = 0) -> tuple[list[list[int]], list[int]]:
    """Sources of mixed lengths with the end symbol, and limits."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(0, 9, (count,), generator=generator).tolist()
    sources = [[*torch.randint(3, V, (n,), generator=generator).tolist(), SYMBOLS.eos] for n in lengths]
    return sources, torch.randint(1, 34, (count,), generator=generator).tolist()


def readable(
    model: Transformer, sources: list[list[int]], max_new_tokens: list[int], how: DecodingSettings, **more: Any
) -> list[list[Hypothesis]]:
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(source) for source in sources], batch_first=True)
    lengths = torch.tensor([len(source) for source in sources])
    return decode(model, Padded.of(ids, lengths), torch.tensor(max_new_tokens), SYMBOLS, how, **more)


def assert_same(ours: list[list[Hypothesis]], theirs: list[list[Hypothesis]]) -> None:
    def facts(actual: list[list[Hypothesis]]) -> list[list[tuple[list[int], bool, bool]]]:
        return [[(h.tokens, h.finished, h.looped) for h in hypotheses] for hypotheses in actual]

    assert facts(ours) == facts(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-5, rel=1e-5)
        assert [h.log_prob for h in one] == pytest.approx([h.log_prob for h in other], abs=1e-5, rel=1e-5)


VARIANTS = [
    dict(norm="post", positions="sinusoidal"),
    dict(norm="pre", positions="rotary", tie="all"),
    dict(norm="pre", positions="learned"),
    dict(norm="post", positions="none", tie="output"),
    dict(share_qk=True, scale_embeddings=False),
]


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize("how", [DecodingSettings(search="greedy"), DecodingSettings(beam=3, nbest=2)], ids=["1", "3"])
def test_every_kind_of_model_equals_the_reference(variant: dict[str, Any], how: DecodingSettings) -> None:
    model, (sources, max_new_tokens) = build(3, ends=2.0, **variant), texts(11)
    actual = DeviceEngine(model, SYMBOLS, slots=4).decode(DecodingRequest(sources, max_new_tokens, how))
    assert_same(actual, readable(model, sources, max_new_tokens, how))


@given(
    seed=st.integers(0, 3),
    sharp=st.sampled_from([1.0, 4.0]),
    ends=st.sampled_from([-2.0, 1.0, 5.0]),
    width=st.integers(0, 5),
    alpha=st.sampled_from([0.0, 0.6, 1.4]),
    guard=st.booleans(),
    slots=st.sampled_from([1, 2, 4, 16]),
    data=st.data(),
)
@settings(max_examples=30)
def test_every_search_with_every_number_of_slots(
    seed: int, sharp: float, ends: float, width: int, alpha: float, guard: bool, slots: int, data: st.DataObject
) -> None:
    model, (sources, max_new_tokens) = build(seed, sharp, ends), texts(9, seed)
    how = DecodingSettings(search="greedy", alpha=alpha, loop_guard=guard)
    if width:
        nbest = data.draw(st.integers(1, width))
        how = DecodingSettings(beam=width, nbest=nbest, alpha=alpha, loop_guard=guard)
    actual = DeviceEngine(model, SYMBOLS, slots=slots).decode(DecodingRequest(sources, max_new_tokens, how))
    assert_same(actual, readable(model, sources, max_new_tokens, how))


def test_the_cases_cover_all_kinds_of_results() -> None:
    """The inputs above have all kinds of results: early and late ends, loops, cut texts."""
    actual = []
    for seed, ends in itertools.product(range(4), (-2.0, 5.0)):
        engine, (sources, max_new_tokens) = DeviceEngine(build(seed, 4.0, ends), SYMBOLS), texts(9, seed)
        actual += [
            hypotheses[0] for hypotheses in engine.decode(DecodingRequest(sources, max_new_tokens, DecodingSettings()))
        ]
    assert any(best.finished and len(best.tokens) > 2 for best in actual)
    assert any(best.finished and len(best.tokens) <= 2 for best in actual)
    assert any(best.looped for best in actual)
    assert any(not best.finished and not best.looped for best in actual)


def learn_to_copy() -> Transformer:
    """A model that has learnt to write what it reads, more or less."""
    model = build(d_model=32, num_heads=4, norm="pre", tie="all", dropout=0.0).train()
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    generator = torch.Generator().manual_seed(0)
    for _ in range(60):
        lengths = torch.randint(1, 8, (32,), generator=generator)
        src = torch.randint(3, V, (32, 8), generator=generator)
        src = src.scatter(1, lengths[:, None], SYMBOLS.eos)
        real = torch.arange(8) <= lengths[:, None]
        tgt_in = torch.cat([torch.full((32, 1), SYMBOLS.bos), src[:, :-1]], dim=1)
        logits = model(Padded.of(src, lengths + 1), Padded.of(tgt_in, lengths + 1)).logits()
        torch.nn.functional.cross_entropy(logits[real], src[real]).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval()


def test_a_trained_model() -> None:
    model, (sources, max_new_tokens) = learn_to_copy(), texts(24)
    for how in (DecodingSettings(search="greedy"), DecodingSettings(beam=4, nbest=3, alpha=1.0)):
        actual = DeviceEngine(model, SYMBOLS, slots=8).decode(DecodingRequest(sources, max_new_tokens, how))
        assert sum(hypotheses[0].finished for hypotheses in actual) > 12
        assert_same(actual, readable(model, sources, max_new_tokens, how))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("how", [DecodingSettings(search="greedy"), DecodingSettings(beam=3, nbest=2)], ids=["1", "3"])
def test_a_cuda_graph_gives_the_same_results(how: DecodingSettings) -> None:
    model, (sources, max_new_tokens) = build(3, 4.0, 5.0), texts(40)
    there = DeviceEngine(copy.deepcopy(model).cuda(), SYMBOLS, slots=8).decode(
        DecodingRequest(sources, max_new_tokens, how)
    )
    here = readable(model, sources, max_new_tokens, how)
    assert [[h.tokens for h in actual] for actual in there] == [[h.tokens for h in actual] for actual in here]
    for one, other in zip(there, here, strict=True):
        assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-4)


def test_slots_are_reused_and_evicted() -> None:
    model, (sources, max_new_tokens) = build(), texts(6)
    engine = DeviceEngine(model, SYMBOLS, slots=2)
    greedy, beam = DecodingSettings(search="greedy"), DecodingSettings()
    first = engine.decode(DecodingRequest(sources, max_new_tokens, greedy))
    (slot_batch,) = engine.slot_batches.values()
    assert engine.decode(DecodingRequest(sources, max_new_tokens, greedy)) == first
    assert list(engine.slot_batches.values()) == [slot_batch]
    engine.memory = slot_batch.shape.bytes(model) + 1
    engine.decode(DecodingRequest(sources, max_new_tokens, beam))
    assert slot_batch not in engine.slot_batches.values()
    assert all(shape.shape.slots == 1 for shape in engine.slot_batches.values())  # two would not have fitted
    assert_same(engine.decode(DecodingRequest(sources, max_new_tokens, greedy)), first)


def test_a_long_sentence_gets_its_own_slots() -> None:
    model = build()
    sources, max_new_tokens = [[5, 2], [7, 2], [8, 9, 2]], [3, 70, 64]
    engine = DeviceEngine(model, SYMBOLS)
    actual = engine.decode(DecodingRequest(sources, max_new_tokens, DecodingSettings(loop_guard=False)))
    assert sorted(slot_batch.shape.positions for slot_batch in engine.slot_batches.values()) == [64, 128]
    assert_same(actual, readable(model, sources, max_new_tokens, DecodingSettings(loop_guard=False)))


@pytest.mark.parametrize(
    ("how", "more"),
    [
        (DecodingSettings(search="sample", nbest=2), dict(sentence_ids=[4, 7, 1, 0])),
        (DecodingSettings(no_repeat_ngram=2), {}),
        (DecodingSettings(), dict(prefixes=[[5, 6], [], [9], []])),
    ],
    ids=["sampling", "constraint", "prefix"],
)
def test_unsupported_searches_use_the_reference_engine(how: DecodingSettings, more: dict[str, Any]) -> None:
    model, (sources, max_new_tokens) = build(2, ends=1.0), texts(4)
    engine = DeviceEngine(model, SYMBOLS)
    assert not engine.supports(DecodingRequest(sources, max_new_tokens, how, **more))
    assert_same(
        engine.decode(DecodingRequest(sources, max_new_tokens, how, **more)),
        readable(model, sources, max_new_tokens, how, **more),
    )


def test_more_positions_than_learned_are_not_supported() -> None:
    engine = DeviceEngine(build(positions="learned", max_positions=8), SYMBOLS)
    assert engine.supports(DecodingRequest([[2]], [8], DecodingSettings()))
    assert not engine.supports(DecodingRequest([[2]], [9], DecodingSettings()))


def test_empty_input() -> None:
    assert DeviceEngine(build(), SYMBOLS).decode(DecodingRequest([], [], DecodingSettings())) == []


def test_invalid_arguments_are_refused() -> None:
    engine = DeviceEngine(build(), SYMBOLS)
    with pytest.raises(ValueError, match="at least 1"):
        engine.decode(DecodingRequest([[5, 2]], [0], DecodingSettings()))
    with pytest.raises(ValueError, match="2 max_new_tokens for 1"):
        engine.decode(DecodingRequest([[5, 2]], [3, 4], DecodingSettings()))
    with pytest.raises(ValueError, match="training mode"):
        DeviceEngine(build().train(), SYMBOLS)
    with pytest.raises(ValueError, match="slots"):
        DeviceEngine(build(), SYMBOLS, slots=0)


def test_nan_weights_raise_an_error() -> None:
    model = build()
    with torch.no_grad():
        model.output.weight.fill_(torch.nan)
    with pytest.raises(UserError) as error:
        DeviceEngine(model, SYMBOLS).decode(DecodingRequest([[5, 2]], [4], DecodingSettings(search="greedy")))
    assert error.value.code == "not-finite"


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_the_validation_engine_uses_the_current_weights(positions: str) -> None:
    model = build(positions=positions)
    sources, max_new_tokens = texts(5)
    follow, how = ValidationEngine(SYMBOLS, torch.float32), DecodingSettings(search="greedy")
    for seed in range(3):
        torch.manual_seed(seed)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.2)
        model.eval()
        with torch.no_grad():
            engine = follow(model)
            assert_same(
                engine.decode(DecodingRequest(sources, max_new_tokens, how)),
                readable(model, sources, max_new_tokens, how),
            )
        model.train()
    assert isinstance(engine, DeviceEngine) and len(engine.slot_batches) == 1
