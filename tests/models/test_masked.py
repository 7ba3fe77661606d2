"""A masked model sees the whole target and nothing it must not: neither padding nor what hides behind a mask."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from pydantic import ValidationError
from tests.models.outputs import with_logits
from torch import Tensor

from regard.attention.layouts import Packed, Padded, Tokens
from regard.models.masked import MaskedSettings, MaskedTransformer
from regard.training.weights import load_weights, weights_of

V, L = 40, 24
VARIANTS: list[dict[str, Any]] = [
    dict(norm="post", positions="sinusoidal", tie="all"),
    dict(norm="pre", positions="learned", tie="output"),
    dict(norm="pre", positions="rotary", tie="none"),
    dict(norm="pre", positions="relative", tie="all"),
    dict(norm="pre", positions="alibi", tie="all"),
    dict(norm="pre", positions="sinusoidal", tie="all", window=2),
]


def build(**settings: Any) -> MaskedTransformer:
    torch.manual_seed(0)
    tiny = dict(size="tiny", d_model=32, num_heads=4, d_ff=64, max_positions=32, max_length=L)
    return MaskedTransformer(MaskedSettings.model_validate(tiny | settings), V, V).eval()


def batch() -> tuple[Tokens, Tokens]:
    generator = torch.Generator().manual_seed(1)
    src = torch.randint(3, V, (4, 9), generator=generator)
    tgt = torch.randint(3, V, (4, 7), generator=generator)
    return Padded.of(src, torch.tensor([9, 4, 1, 7])), Padded.of(tgt, torch.tensor([3, 7, 5, 1]))


def alone(tokens: Tokens, row: int) -> Tokens:
    lengths: Tensor = tokens.layout.lengths  # type: ignore[attr-defined]
    length = int(lengths[row])
    return Padded.of(tokens.ids[row : row + 1, :length], torch.tensor([length]))


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_sentence_is_the_same_in_any_company(variant: dict[str, Any]) -> None:
    model, (src, tgt) = build(**variant), batch()
    words, lengths = with_logits(model(src, tgt))
    assert words.shape == (4, 7, V) and lengths.shape == (4, L)
    for row in range(4):
        one_src, one_tgt = alone(src, row), alone(tgt, row)
        one_words, one_lengths = with_logits(model(one_src, one_tgt))
        torch.testing.assert_close(one_words[0], words[row, : one_tgt.ids.size(1)], atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(one_lengths[0], lengths[row], atol=1e-5, rtol=1e-4)


def with_room(tokens: Tokens, sentences: int, size: int) -> Tokens:
    """A stream with room for more sentences and tokens than there are."""
    packed = Packed.of(tokens.ids, tokens.layout.lengths)  # type: ignore[attr-defined]
    layout, used = packed.layout, len(packed.ids)
    assert isinstance(layout, Packed)
    offsets = torch.full((sentences + 1,), used, dtype=torch.int32)
    offsets[: len(layout.offsets)] = layout.offsets
    fill = (0, size - used)
    rows, positions = F.pad(layout.rows, fill, value=sentences - 1), F.pad(layout.positions, fill)
    return Tokens(F.pad(packed.ids, fill), Packed(offsets, rows, positions))


@pytest.mark.parametrize(
    "variant", [variant for variant in VARIANTS if variant["positions"] not in ("relative", "alibi")]
)
def test_a_stream_gives_the_same_as_rows_with_padding(variant: dict[str, Any]) -> None:
    model, (src, tgt) = build(**variant).double(), batch()
    words, lengths = with_logits(model(src, tgt))
    real = tgt.layout.not_padding
    (words[real].square().sum() + lengths.square().sum()).backward()
    expected = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}  # type: ignore[union-attr]
    model.zero_grad()
    for src_stream, tgt_stream in (
        (Packed.of(src.ids, src.layout.lengths), Packed.of(tgt.ids, tgt.layout.lengths)),  # type: ignore[attr-defined]
        (with_room(src, 7, 30), with_room(tgt, 7, 24)),
    ):
        model.zero_grad()
        stream, numbers = with_logits(model(src_stream, tgt_stream))
        used = int(real.sum())
        torch.testing.assert_close(stream[:used], words[real])
        torch.testing.assert_close(numbers[:4], lengths)
        (stream[:used].square().sum() + numbers[:4].square().sum()).backward()
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(parameter.grad, expected[name], msg=name)


def test_every_place_sees_all_others_and_lengths_see_the_source_alone() -> None:
    model, (src, tgt) = build(norm="pre"), batch()
    words, lengths = with_logits(model(src, tgt))
    changed = tgt.ids.clone()
    changed[1, 6] = changed[1, 6] % (V - 3) + 3
    other_words, other_lengths = with_logits(model(src, Tokens(changed, tgt.layout)))
    assert bool((words[1] != other_words[1]).any(dim=-1).all()), "the last word is seen from the first place on"
    assert torch.equal(words[[0, 2, 3]], other_words[[0, 2, 3]])
    assert torch.equal(lengths, other_lengths)


def test_forward_is_encode_and_predict() -> None:
    model, (src, tgt) = build(), batch()
    words, lengths = with_logits(model(src, tgt))
    memory, length = model.encode(src)
    assert memory.shape == (4, 9, 32)
    torch.testing.assert_close(model.predict(tgt, memory, src), words)
    torch.testing.assert_close(model.predict_length(length), lengths)


@pytest.mark.parametrize("variant", VARIANTS)
def test_attention_weights_are_distributions_over_what_is_there(variant: dict[str, Any]) -> None:
    model, (src, tgt) = build(**variant), batch()
    found = model.attentions(src, tgt)
    assert found.encoder is not None and found.decoder is not None and found.cross is not None
    layers, heads = model.settings.encoder_layers, 4
    assert found.encoder.shape == (4, layers, heads, 10, 10), "the LENGTH token and nine words"
    assert found.decoder.shape == (4, layers, heads, 7, 7)
    assert found.cross.shape == (4, layers, heads, 7, 10)
    for weights, (rows, columns) in (
        (found.encoder[1], (5, 5)),
        (found.decoder[1], (7, 7)),
        (found.cross[1], (7, 5)),
    ):
        torch.testing.assert_close(weights[..., :rows, :].sum(-1), torch.ones(layers, heads, rows))
        assert not bool(weights[..., :rows, columns:].any())
    assert not bool(found.cross[..., 0].any()), "the decoder is not shown the LENGTH token"
    later = found.decoder[1].triu(1)
    assert bool((later > 0).any()), "no causal mask"


@pytest.mark.parametrize("tie", ["all", "output", "none"])
def test_weights_come_back_with_their_ties(tie: str) -> None:
    model, (src, tgt) = build(tie=tie), batch()
    with torch.device("meta"):
        copy = MaskedTransformer(model.settings, V, V)
    copy = copy.to_empty(device="cpu").eval()
    load_weights(copy, weights_of(model), "test")
    for mine, other in zip(with_logits(model(src, tgt)), with_logits(copy(src, tgt)), strict=True):
        assert torch.equal(mine, other)
    assert len(list(copy.parameters())) == len(list(model.parameters()))


def test_what_the_settings_answer() -> None:
    assert (build().settings.length_limit, build().settings.supports_packing) == (L, True)
    assert not build(positions="alibi").settings.supports_packing
    learned = MaskedSettings.model_validate(dict(size="tiny", positions="learned", max_positions=100))
    assert learned.length_limit == 99, "the LENGTH token takes a position"
    assert learned.summary.startswith("masked Transformer")
    with pytest.raises(ValidationError, match="positions = none"):
        MaskedSettings.model_validate(dict(positions="none"))


def test_gradients_reach_every_weight() -> None:
    model, (src, tgt) = build(tie="none").train(), batch()
    words, lengths = with_logits(model(src, tgt))
    (words.square().mean() + lengths.square().mean()).backward()
    for name, parameter in model.named_parameters():
        if name.endswith("key.bias"):
            continue  # it moves all scores of a query alike, which no softmax notices
        assert parameter.grad is not None and bool(parameter.grad.any()), name
