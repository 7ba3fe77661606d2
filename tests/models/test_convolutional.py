"""A convolutional model: no word sees later ones or padding, steps equal the whole, and it learns."""

import copy
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load, save
from torch import Tensor

from regard.attention.layouts import Padded, Tokens
from regard.models.convolutional import Convolutional, ConvolutionalSettings

V = 60
VARIANTS: list[dict[str, Any]] = [
    dict(kernel=3, tie="all"),
    dict(kernel=4, tie="output", encoder_layers=1),
    dict(kernel=1, tie="none", d_embedding=32),
    dict(kernel=5, tie="all", decoder_layers=3),
]
each_variant = pytest.mark.parametrize("variant", VARIANTS, ids=str)


def build(**settings: Any) -> Convolutional:
    torch.manual_seed(0)
    tiny = dict(d_model=32, d_embedding=24, encoder_layers=2, decoder_layers=2, max_positions=32)
    model = Convolutional(ConvolutionalSettings.model_validate(tiny | settings), V, V).eval()
    for parameter in model.parameters():  # embeddings of a trained size, biases that are not zero
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model


def batch() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    src = torch.randint(3, V, (4, 9), generator=generator)
    tgt = torch.randint(3, V, (4, 7), generator=generator)
    return src, torch.tensor([9, 4, 1, 7]), tgt, torch.tensor([3, 7, 5, 1])


def alone(ids: Tensor, length: int) -> Tokens:
    return Padded.of(ids[None, :length], torch.tensor([length]))


@each_variant
def test_padding_changes_nothing(variant: dict[str, Any]) -> None:
    model = build(**variant)
    src, src_lengths, tgt, tgt_lengths = batch()
    together = model(Padded.of(src, src_lengths), Padded.of(tgt, tgt_lengths)).logits()
    for b, (s, t) in enumerate(zip(src_lengths.tolist(), tgt_lengths.tolist(), strict=True)):
        torch.testing.assert_close(
            together[b, :t], model(alone(src[b], s), alone(tgt[b], t)).logits()[0], atol=1e-5, rtol=1e-5
        )
    other = torch.where(torch.arange(9) < src_lengths[:, None], src, (src + 20) % V)
    real = torch.arange(7) < tgt_lengths[:, None]
    changed = model(Padded.of(other, src_lengths), Padded.of(tgt, tgt_lengths)).logits()
    torch.testing.assert_close(changed[real], together[real], atol=0, rtol=0)


@each_variant
def test_no_word_sees_a_later_one(variant: dict[str, Any]) -> None:
    model = build(**variant)
    src, src_lengths, tgt, _ = batch()
    source, lengths = Padded.of(src, src_lengths), torch.full((4,), 7)
    before = model(source, Padded.of(tgt, lengths)).logits()
    for position in range(1, 7):
        changed = tgt.clone()
        changed[:, position:] = (tgt[:, position:] + 20) % V
        after = model(source, Padded.of(changed, lengths)).logits()
        torch.testing.assert_close(after[:, :position], before[:, :position], atol=0, rtol=0)
        assert (after[:, position] != before[:, position]).any(dim=-1).all(), "a word is seen from its own place"


def test_a_decoder_sees_as_far_back_as_its_windows_reach() -> None:
    """Two layers of three words see five; what lies further back is gone, and no other path leads there."""
    model = build(kernel=3, decoder_layers=2)
    src, src_lengths, tgt, _ = batch()
    source, lengths = Padded.of(src, src_lengths), torch.full((4,), 7)
    changed = tgt.clone()
    changed[:, 1] = (tgt[:, 1] + 20) % V
    same = (model(source, Padded.of(tgt, lengths)).logits() == model(source, Padded.of(changed, lengths)).logits()).all(
        dim=-1
    )
    assert same.tolist() == [[True, False, False, False, False, False, True]] * 4


@each_variant
def test_steps_equal_the_whole(variant: dict[str, Any]) -> None:
    model = build(**variant)
    src, src_lengths, tgt, _ = batch()
    expected = model(Padded.of(src, src_lengths), Padded.of(tgt, torch.full((4,), 7))).logits()
    state = model.start(Padded.of(src, src_lengths))
    for position in range(7):
        logits, state = model.step(tgt[:, position : position + 1], state)
        torch.testing.assert_close(logits[:, 0], expected[:, position], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kernel", [1, 3])
def test_a_state_can_be_widened_reordered_and_thinned(kernel: int) -> None:
    """Hypotheses are moved about as a search would; each must keep its own history."""
    model = build(kernel=kernel)
    src, src_lengths, *_ = batch()
    generator = torch.Generator().manual_seed(7)
    state = model.start(Padded.of(src, src_lengths))
    history = torch.empty(4, 1, 0, dtype=torch.long)
    alive = torch.arange(4)
    for width in (1, 3, 2, 4, 4):
        parents = torch.randint(history.size(1), (len(alive), width), generator=generator)
        state, history = state.reorder(parents), history.gather(1, parents[:, :, None].expand(-1, -1, history.size(2)))
        if width == 2:
            kept = torch.tensor([3, 1])
            state, history, alive = state.keep(kept), history[kept], alive[kept]
        tokens = torch.randint(3, V, (len(alive), width), generator=generator)
        history = torch.cat([history, tokens[:, :, None]], dim=2)
        logits, state = model.step(tokens, state)
        for row, b in enumerate(alive.tolist()):
            for column in range(width):
                target = history[row, column]
                expected = model(alone(src[b], int(src_lengths[b])), alone(target, len(target))).logits()[0, -1]
                torch.testing.assert_close(logits[row, column], expected, atol=1e-5, rtol=1e-5)


def test_attention_weights_are_distributions_over_the_source() -> None:
    model = build()
    src, src_lengths, tgt, tgt_lengths = batch()
    weights = model.attentions(Padded.of(src, src_lengths), Padded.of(tgt, tgt_lengths))
    assert weights.encoder is None and weights.decoder is None and weights.cross is not None
    assert weights.cross.shape == (4, 2, 1, 7, 9)
    torch.testing.assert_close(weights.cross.sum(-1), torch.ones(4, 2, 1, 7))
    hidden = torch.arange(9) >= src_lengths[:, None]
    assert not weights.cross.masked_select(hidden[:, None, None, None, :]).any()
    assert not torch.allclose(weights.cross[:, 0], weights.cross[:, 1]), "each layer looks for itself"


def test_the_encoder_gets_a_divided_gradient_and_the_embeddings_in_the_values_a_whole_one() -> None:
    """Section 3.4, with 2 attentions: a quarter. An encoder that says nothing (z = b) leaves the values' own path."""
    model = build(tie="none")
    src, src_lengths, *_ = batch()
    model.encoder_out.magnitude.data.zero_()
    model.encode(Padded.of(src, src_lengths)).values.sum().backward()
    each = (src_lengths / 2).sqrt()[:, None].expand(4, 9)  # of a value: sqrt(S), and sqrt(1/2) for a sum of two
    bias, words = model.encoder_out.bias.grad, model.src_embedding.weight.grad
    assert bias is not None and words is not None
    torch.testing.assert_close(bias, (each.sum() / 4).expand(24))
    expected = torch.zeros(V).index_add(0, src.flatten(), each.flatten())
    torch.testing.assert_close(words, expected[:, None].expand(V, 24))


def test_ties_settings_and_refusals() -> None:
    for tie, matrices in (("all", 1), ("output", 2), ("none", 3)):
        model = build(tie=tie)
        assert len({id(x.weight) for x in (model.src_embedding, model.tgt_embedding, model.output)}) == matrices
        assert model.settings.shared_vocabulary == (tie == "all")
    settings = ConvolutionalSettings(max_positions=77)
    assert settings.length_limit == 77 and not settings.supports_packing and "width 256" in settings.summary
    with pytest.raises(ValueError, match="shared vocabulary"):
        Convolutional(ConvolutionalSettings(), 10, 11)
    with pytest.raises(ValidationError, match="greater than 0"):
        ConvolutionalSettings(kernel=0)
    too_long = Padded.of(torch.full((1, 33), 7), torch.tensor([33]))
    with pytest.raises(ValueError, match="beyond the 32 learned"):
        build()(too_long, too_long)


def test_a_model_is_copied_and_stored_by_plain_names() -> None:
    model = build(tie="none")
    src, src_lengths, tgt, tgt_lengths = batch()
    arguments = Padded.of(src, src_lengths), Padded.of(tgt, tgt_lengths)
    twin = copy.deepcopy(model)
    other = Convolutional(model.settings, V, V).eval()
    other.load_state_dict(load(save(model.state_dict())))
    expected = model(*arguments).logits()
    torch.testing.assert_close(twin(*arguments).logits(), expected, atol=0, rtol=0)
    torch.testing.assert_close(other(*arguments).logits(), expected, atol=0, rtol=0)
    assert "decoder.0.attention.query.direction" in model.state_dict()


def test_dropout_falls_in_training_only() -> None:
    model = build(dropout=0.5)
    src, src_lengths, tgt, tgt_lengths = batch()
    arguments = Padded.of(src, src_lengths), Padded.of(tgt, tgt_lengths)
    assert torch.equal(model(*arguments).logits(), model(*arguments).logits())
    model.train()
    assert not torch.allclose(model(*arguments).logits(), model(*arguments).logits())


def test_it_trains_and_steps_in_bf16(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build()
    src, src_lengths, tgt, tgt_lengths = batch()
    arguments = Padded.of(src, src_lengths), Padded.of(tgt, tgt_lengths)
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)  # there are CPUs on which oneDNN dies of bf16
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(*arguments).logits()
        logits.float().square().mean().backward()
        step, state = model.step(tgt[:, :1], model.start(arguments[0]))
        step, _ = model.step(tgt[:, 1:2], state)
    assert logits.dtype == step.dtype == torch.bfloat16
    torch.testing.assert_close(step[:, 0], logits[:, 1], atol=0.1, rtol=0.05)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_it_learns_to_reverse() -> None:
    """Words one has never seen in this order come out backwards: attention finds a place by its learned position."""
    torch.manual_seed(0)
    settings = dict(d_model=32, d_embedding=32, encoder_layers=2, decoder_layers=2, dropout=0.0, max_positions=16)
    model = Convolutional(ConvolutionalSettings.model_validate(settings), 13, 13)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def sentences(count: int) -> tuple[Tokens, Tokens, Tensor]:
        lengths = torch.randint(2, 8, (count,))
        places, words = torch.arange(8), torch.randint(3, 13, (count, 8))
        src = torch.where(places < lengths[:, None], words, 0).scatter(1, lengths[:, None], 2)[:, :8]
        backwards = words.gather(1, (lengths[:, None] - 1 - places).clamp(min=0))
        labels = torch.where(places < lengths[:, None], backwards, 0).scatter(1, lengths[:, None], 2)
        tgt = torch.cat([torch.ones(count, 1, dtype=torch.long), labels[:, :-1]], dim=1)
        return Padded.of(src, lengths + 1), Padded.of(tgt, lengths + 1), labels

    for step in range(200):
        optimizer.param_groups[0]["lr"] = 5e-3 * min(1.0, step / 30, (200 - step) / 100)
        src, tgt, labels = sentences(64)
        loss = torch.nn.functional.cross_entropy(
            model(src, tgt).logits().flatten(0, 1), labels.flatten(), ignore_index=0
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    src, tgt, labels = sentences(300)
    right = (model.eval()(src, tgt).logits().argmax(-1) == labels) | (labels == 0)
    assert float(right.all(dim=1).float().mean()) > 0.95
