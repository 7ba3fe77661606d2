"""Properties of any Transformer: sizes, layouts, caches, and no attention to hidden positions."""

import itertools
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from regard.attention.layouts import Packed, Padded, Tokens
from regard.models.transformer import Transformer, TransformerSettings

V = 60
VARIANTS = [
    dict(norm=norm, positions=positions, tie=tie)
    for (norm, positions), tie in zip(
        itertools.product(["post", "pre"], ["sinusoidal", "learned", "rotary", "none"]),
        itertools.cycle(["all", "output", "none"]),
    )
]


def build(**settings: Any) -> Transformer:
    torch.manual_seed(0)
    tiny = dict(size="tiny", d_model=32, num_heads=4, d_ff=64, max_positions=32)
    return Transformer(TransformerSettings.model_validate(tiny | settings), V, V).eval()


def batch() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    src = torch.randint(3, V, (4, 9), generator=generator)
    tgt = torch.randint(3, V, (4, 7), generator=generator)
    return src, torch.tensor([9, 4, 1, 7]), tgt, torch.tensor([3, 7, 5, 1])


@pytest.mark.parametrize(("size", "paper", "exact"), [("base", 65e6, 63_082_496), ("big", 213e6, 214_245_376)])
def test_parameters_of_the_papers_sizes(size: str, paper: float, exact: int) -> None:
    """Table 3 says 65 and 213 million for a shared vocabulary of about 37,000."""
    with torch.device("meta"):
        model = Transformer(TransformerSettings.model_validate(dict(size=size)), 37_000, 37_000)
    count = sum(parameter.numel() for parameter in model.parameters())
    assert count == exact
    assert abs(count / paper - 1) < 0.03


def test_named_sizes_can_be_changed_in_part() -> None:
    settings = TransformerSettings.model_validate(dict(size="big", d_model=512))
    assert (settings.d_model, settings.num_heads, settings.dropout) == (512, 16, 0.3)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (dict(d_model=30, num_heads=4), "num_heads = 4 does not divide"),
        (dict(d_model=33, num_heads=3), "even `d_model`"),
        (dict(d_model=36, num_heads=4, positions="rotary"), "even head size"),
        (dict(dropout=1.0), "less than 1"),
    ],
)
def test_contradictory_shapes_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        TransformerSettings.model_validate(wrong)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_padded_equals_packed(variant: dict[str, Any]) -> None:
    model = build(**variant)
    src, src_lengths, tgt, tgt_lengths = batch()
    padded = model(Padded.of(src, src_lengths), Padded.of(tgt, tgt_lengths)).logits()
    packed = model(Packed.of(src, src_lengths), Packed.of(tgt, tgt_lengths)).logits()
    real = torch.arange(7) < tgt_lengths[:, None]
    torch.testing.assert_close(padded[real], packed, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_cached_decoding_equals_uncached(variant: dict[str, Any]) -> None:
    model = build(**variant)
    src, src_lengths, tgt, _ = batch()
    expected = model(Padded.of(src, src_lengths), Padded.of(tgt, torch.full((4,), 7))).logits()
    state = model.start(Padded.of(src, src_lengths))
    for position in range(7):
        logits, state = model.step(tgt[:, position : position + 1], state)
        torch.testing.assert_close(logits[:, 0], expected[:, position], atol=1e-5, rtol=1e-5)


def test_a_state_can_be_widened_reordered_and_thinned() -> None:
    """Hypotheses are moved about as a search would; each must keep its own history."""
    model = build(norm="pre", positions="rotary")
    src, src_lengths, *_ = batch()
    generator = torch.Generator().manual_seed(7)
    state = model.start(Padded.of(src, src_lengths))
    history = torch.empty(4, 1, 0, dtype=torch.long)
    alive = torch.arange(4)
    for width in (1, 3, 2, 4):
        parents = torch.randint(history.size(1), (len(alive), width), generator=generator)
        state, history = state.reorder(parents), history.gather(1, parents[:, :, None].expand(-1, -1, history.size(2)))
        if width == 2:
            kept = torch.tensor([3, 1])
            state, history, alive = state.keep(kept), history[kept], alive[kept]
        tokens = torch.randint(3, V, (len(alive), width), generator=generator)
        history = torch.cat([history, tokens[:, :, None]], dim=2)
        logits, state = model.step(tokens, state)
        for row, sentence in enumerate(alive.tolist()):
            for column in range(width):
                source = Padded.of(src[sentence : sentence + 1], src_lengths[sentence : sentence + 1])
                target = history[row, column][None]
                expected = model(source, Padded.of(target, torch.tensor([target.size(1)]))).logits()[0, -1]
                torch.testing.assert_close(logits[row, column], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("layout", [Padded, Packed])
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_no_position_sees_the_future_and_nobody_sees_padding(variant: dict[str, Any], layout: Any) -> None:
    model = build(**variant)
    src, src_lengths, tgt, tgt_lengths = batch()

    def logits(src: Tensor, tgt: Tensor) -> Tensor:
        out: Tensor = model(layout.of(src, src_lengths), layout.of(tgt, tgt_lengths)).logits()
        if layout is Padded:
            return out
        rectangle = out.new_zeros(*tgt.shape, V)
        rectangle[Padded(tgt_lengths, tgt.size(1)).not_padding] = out
        return rectangle

    def tokens_other_than(ids: Tensor) -> Tensor:
        return torch.where(ids > 30, ids - 20, ids + 20)

    before = logits(src, tgt)
    real = torch.arange(7) < tgt_lengths[:, None]
    for position in range(1, 7):
        changed = tgt.clone()
        changed[:, position:] = tokens_other_than(tgt[:, position:])
        after = logits(src, changed)
        seen = real & (torch.arange(7) < position)
        torch.testing.assert_close(after[seen], before[seen], atol=0, rtol=0)
        touched = real & (torch.arange(7) == position)
        assert (after[touched] != before[touched]).any(dim=-1).all(), "a change must be seen by its own position"
    padding = torch.where(torch.arange(9) < src_lengths[:, None], src, tokens_other_than(src))
    torch.testing.assert_close(logits(padding, tgt)[real], before[real], atol=0, rtol=0)


def test_attention_weights_are_distributions_over_what_may_be_seen() -> None:
    model = build()
    src, src_lengths, tgt, tgt_lengths = batch()
    weights = model.attentions(Padded.of(src, src_lengths), Padded.of(tgt, tgt_lengths))
    encoder, decoder, cross = weights.encoder, weights.decoder, weights.cross
    assert encoder is not None and decoder is not None and cross is not None
    assert encoder.shape == (4, 2, 4, 9, 9)
    assert decoder.shape == (4, 2, 4, 7, 7)
    assert cross.shape == (4, 2, 4, 7, 9)
    for each in (encoder, decoder, cross):
        torch.testing.assert_close(each.sum(-1), torch.ones(each.shape[:-1]))
    assert (decoder.triu(1) == 0).all()
    hidden = torch.arange(9) >= src_lengths[:, None]
    assert (cross.transpose(1, 3)[:, :, :, :, :].masked_select(hidden[:, None, None, None, :]) == 0).all()


def test_three_way_tied_embeddings_are_one_matrix() -> None:
    for tie, matrices in (("all", 1), ("output", 2), ("none", 3)):
        model = build(tie=tie)
        weights = {id(x.weight) for x in (model.src_embedding, model.tgt_embedding, model.output)}
        assert len(weights) == matrices
    with pytest.raises(ValueError, match="shared vocabulary"):
        Transformer(TransformerSettings(size="tiny"), 10, 11)


def test_learned_positions_say_when_they_run_out() -> None:
    model = build(positions="learned", max_positions=4)
    ids = torch.full((1, 5), 7)
    with pytest.raises(ValueError, match="beyond the 4 learned"):
        model(Padded.of(ids, torch.tensor([5])), Padded.of(ids, torch.tensor([5]))).logits()


def test_tokens_name_their_parts() -> None:
    tokens = Padded.of(torch.ones(2, 3, dtype=torch.long), torch.tensor([3, 1]))
    assert isinstance(tokens, Tokens) and tokens.layout.positions.tolist() == [0, 1, 2]
