"""Readers that begin from nothing: an input is read for itself, in every layout, and what it says can be learnt."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from regard.attention.layouts import Packed, Padded, Tokens
from regard.models.text_encoder import EncoderSettings, EncoderWithHead, build_encoder

V, T, D = 20, 7, 16
LENGTHS = torch.tensor([7, 3, 1, 5])
REAL = torch.arange(T) < LENGTHS[:, None]
SMALL: dict[str, dict[str, Any]] = {
    "transformer": dict(layers=2, d_model=D, num_heads=2, d_ff=24),
    "recurrent": dict(layers=2, d_model=D),
}
POSITIONS = ["sinusoidal", "learned", "rotary", "relative", "alibi", "none"]
VARIANTS: list[dict[str, Any]] = [
    *(dict(kind="transformer", positions=positions) for positions in POSITIONS),
    *(dict(kind="transformer", pooling=pooling) for pooling in ("first", "max", "attention")),
    dict(kind="transformer", norm="post", combine="concat"),
    dict(kind="transformer", window=2, head_dim=6),
    dict(kind="transformer", score="additive"),
    *(dict(kind="transformer", causal=True, pooling=pooling) for pooling in ("last", "mean")),
    *(dict(kind="recurrent", cell=cell) for cell in ("rnn", "gru", "lstm")),
    *(dict(kind="recurrent", pooling=pooling) for pooling in ("first", "mean", "max")),
]


def settings(**values: Any) -> Any:
    return TypeAdapter(EncoderSettings).validate_python(SMALL[values["kind"]] | values)


def build(**values: Any) -> Any:
    """Small, in 64 bits, with weights far from where they begin, so that everything counts."""
    torch.manual_seed(0)
    encoder = build_encoder(settings(**values), V).double().eval()
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return encoder


def batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(5, V, (4, T), generator=generator), torch.randint(0, 2, (4, T), generator=generator)


def name(part: Any) -> str:
    """Of a case, for people."""
    return "-".join(map(str, part.values())) if isinstance(part, dict) else part.__name__


@pytest.mark.parametrize("values", VARIANTS, ids=name)
def test_an_input_is_the_same_in_any_company(values: dict[str, Any]) -> None:
    encoder, (ids, segments) = build(**values), batch()
    tokens = Padded.of(ids, LENGTHS)
    states = encoder.hidden_states(tokens, segments)
    pooled = encoder.pool(states[-1], tokens.layout)
    assert len(states) == 3 and pooled.shape == (4, D)
    torch.testing.assert_close(encoder(tokens, segments), states[-1])
    for row, length in enumerate(LENGTHS.tolist()):
        alone = Padded.of(ids[row : row + 1, :length], LENGTHS[row : row + 1])
        own = encoder.hidden_states(alone, segments[row : row + 1, :length])
        for state, one in zip(states, own, strict=True):
            torch.testing.assert_close(one[0], state[row, :length])
        torch.testing.assert_close(encoder.pool(own[-1], alone.layout)[0], pooled[row])


@pytest.mark.parametrize("values", [values for values in VARIANTS if settings(**values).supports_packing], ids=name)
def test_a_stream_gives_the_same_as_rows_with_padding(values: dict[str, Any]) -> None:
    encoder, (ids, segments) = build(**values), batch()
    tokens, stream = Padded.of(ids, LENGTHS), Packed.of(ids, LENGTHS)
    layout = stream.layout
    assert isinstance(layout, Packed)
    roomy = Packed(
        F.pad(layout.offsets, (0, 3), value=16), F.pad(layout.rows, (0, 4), value=6), F.pad(layout.positions, (0, 4))
    )
    h = encoder(tokens, segments)
    packed = encoder(Tokens(F.pad(stream.ids, (0, 4)), roomy), F.pad(segments[REAL], (0, 4)))
    torch.testing.assert_close(packed[:16], h[REAL])
    pooled = encoder.pool(packed, roomy)
    torch.testing.assert_close(pooled[:4], encoder.pool(h, tokens.layout))
    assert pooled.shape == (7, D) and pooled.isfinite().all()


def test_only_what_the_kernel_knows_is_packed() -> None:
    packed = {positions: settings(kind="transformer", positions=positions).supports_packing for positions in POSITIONS}
    assert [positions for positions, packs in packed.items() if not packs] == ["relative", "alibi"]
    assert (
        not settings(kind="transformer", score="additive").supports_packing
        and not settings(kind="recurrent").supports_packing
    )


@pytest.mark.parametrize("kind", SMALL)
def test_every_token_knows_every_other_its_place_and_its_text(kind: str) -> None:
    encoder, (ids, segments) = build(kind=kind), batch()
    tokens = Padded.of(ids, LENGTHS)
    before = encoder(tokens, segments)
    for place in (0, T - 1):
        other = ids.clone()
        other[0, place] = (ids[0, place] - 4) % (V - 5) + 5
        changed = (encoder(Padded.of(other, LENGTHS), segments) - before).abs().sum(dim=-1)
        assert (changed[0] > 1e-6).all() and changed[1:].max() == 0
    assert not torch.allclose(encoder(tokens, 1 - segments), before, atol=1e-3)
    assert not torch.allclose(encoder(Padded.of(ids.flip(1), LENGTHS)).flip(1)[0], encoder(tokens)[0], atol=1e-3)
    torch.testing.assert_close(encoder(tokens), encoder(tokens, torch.zeros_like(ids)))


def test_a_window_hides_what_is_beyond_it() -> None:
    encoder, (ids, _) = build(kind="transformer", window=2, layers=1, positions="none"), batch()
    other = ids.clone()
    other[0, 0] = (ids[0, 0] - 4) % (V - 5) + 5
    changed = (encoder(Padded.of(other, LENGTHS)) - encoder(Padded.of(ids, LENGTHS))).abs().sum(dim=-1)[0]
    assert (changed[:3] > 1e-6).all() and changed[3:].max() == 0


@pytest.mark.parametrize("values", VARIANTS, ids=name)
def test_every_weight_learns(values: dict[str, Any]) -> None:
    encoder, (ids, segments) = build(**values), batch()
    tokens = Padded.of(ids, LENGTHS)
    mix = torch.randn(4, D, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    h = encoder(tokens, segments)
    ((encoder.pool(h, tokens.layout) * mix).sum() + h[0].sum()).backward()
    for name, parameter in encoder.named_parameters():
        shifts_all_scores = name.endswith("attention.key.bias")  # a softmax does not see what all keys have in common
        assert parameter.grad is not None and (shifts_all_scores or parameter.grad.abs().sum() > 1e-9), name


def test_attentions_of_a_transformer_are_distributions_over_what_is_seen() -> None:
    encoder, (ids, segments) = build(kind="transformer", window=2, layers=3), batch()
    weights = encoder.attentions(Padded.of(ids, LENGTHS), segments).encoder
    assert weights.shape == (4, 3, 2, T, T)
    torch.testing.assert_close(weights[0].sum(dim=-1), torch.ones(3, 2, T, dtype=torch.float64))
    assert weights[1, ..., 3:].max() == 0 and weights[0, ..., 0, 3:].max() == 0


def test_attentions_of_a_recurrent_reader_are_those_it_pools_with() -> None:
    encoder, (ids, segments) = build(kind="recurrent"), batch()
    tokens = Padded.of(ids, LENGTHS)
    weights = encoder.attentions(tokens, segments).encoder
    assert weights.shape == (4, 1, 1, 1, T)
    torch.testing.assert_close(weights.sum(dim=-1).flatten(), torch.ones(4, dtype=torch.float64))
    h = encoder(tokens, segments)
    torch.testing.assert_close((weights[:, 0, 0] @ h)[:, 0], encoder.pool(h, tokens.layout))
    assert build(kind="recurrent", pooling="mean").attentions(tokens).encoder is None


@pytest.mark.parametrize("values", VARIANTS, ids=name)
def test_half_precision_is_near(values: dict[str, Any]) -> None:
    encoder, (ids, segments) = build(**values).float(), batch()
    tokens = Padded.of(ids, LENGTHS)
    pooled = encoder.pool(encoder(tokens, segments), tokens.layout)
    with torch.autocast("cpu", torch.float16):  # as bf16, which some CPUs cannot compute in
        half = encoder.pool(encoder(tokens, segments), tokens.layout)
    assert F.cosine_similarity(half.float(), pooled).min() > 0.99
    half.float().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in encoder.parameters())


def test_settings_are_checked_and_summarised() -> None:
    assert settings(kind="recurrent").summary == (
        "recurrent encoder, 2 bidirectional LSTM layers, width 16, attention pooling"
    )
    assert settings(kind="transformer", positions="rotary").summary == (
        "Transformer encoder, 2 layers of 2 heads, width 16, mean pooling, positions = rotary"
    )
    assert settings(kind="transformer", positions="learned").length_limit == 512
    assert settings(kind="transformer").length_limit is None and settings(kind="recurrent").length_limit is None
    assert settings(kind="recurrent").has_attention and not settings(kind="recurrent", pooling="max").has_attention
    with pytest.raises(ValidationError, match="d_model = 15 is odd"):
        settings(kind="recurrent", d_model=15)
    with pytest.raises(ValidationError, match="num_heads = 3 does not divide"):
        settings(kind="transformer", num_heads=3)
    with pytest.raises(ValidationError, match="median"):
        settings(kind="transformer", pooling="median")


FIRST, SECOND = 5, 6  # the two symbols the questions below are about


def comes_first(ids: Tensor, lengths: Tensor) -> Tensor:
    """Does the one stand before the other? Every input has one of each."""
    return (ids == FIRST).int().argmax(dim=1) < (ids == SECOND).int().argmax(dim=1)


def majority(ids: Tensor, lengths: Tensor) -> Tensor:
    """Are there more of the one than of the other?"""
    real = torch.arange(ids.size(1)) < lengths[:, None]
    return ((ids == FIRST) & real).sum(dim=1) > ((ids == SECOND) & real).sum(dim=1)


def examples(question: Callable[[Tensor, Tensor], Tensor], generator: torch.Generator) -> tuple[Tokens, Tensor]:
    """64 inputs of 6 to 12 tokens, the first a [CLS], and the answers."""
    lengths = torch.randint(6, 13, (64,), generator=generator)
    if question is majority:
        ids = torch.randint(FIRST, SECOND + 3, (64, 12), generator=generator)
    else:
        ids = torch.randint(SECOND + 1, V, (64, 12), generator=generator)
        places = 1 + torch.rand(64, 5, generator=generator).argsort(dim=1)  # among the five that all inputs have
        ids.scatter_(1, places[:, :2], torch.tensor([FIRST, SECOND]).expand(64, 2))
    ids[:, 0] = 2
    return Padded.of(ids, lengths), question(ids, lengths).long()


LEARNT: list[tuple[dict[str, Any], Any]] = [
    *((dict(kind="transformer", pooling=pooling), comes_first) for pooling in ("first", "mean", "max", "attention")),
    (dict(kind="transformer"), majority),
    (dict(kind="recurrent", layers=1), comes_first),
    (dict(kind="recurrent", layers=1), majority),
]


@pytest.mark.parametrize(("values", "question"), LEARNT, ids=name)
def test_it_learns(values: dict[str, Any], question: Callable[[Tensor, Tensor], Tensor]) -> None:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    model = EncoderWithHead(build_encoder(settings(**values | dict(d_model=32, dropout=0.0)), V), 2, True, 0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(100):
        tokens, answers = examples(question, generator)
        loss = F.cross_entropy(model(tokens), answers)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    tests = [examples(question, generator) for _ in range(8)]
    right = [(model(tokens).argmax(dim=1) == answers).double().mean() for tokens, answers in tests]
    assert torch.stack(right).mean() > 0.9
