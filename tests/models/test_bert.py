"""BERT sees a whole input and nothing else, answers only what it is asked, and learns from both of its questions."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from pydantic import ValidationError
from tests.models.outputs import with_logits
from torch import Tensor

from regard.attention.layouts import Packed, Padded, Tokens
from regard.losses.projected import projected_cross_entropy
from regard.models.bert import Bert, BertPretraining, BertSettings

V, T = 30, 8
LENGTHS = torch.tensor([8, 3, 1, 6])


def build(**settings: Any) -> BertPretraining:
    """Small, with weights far from where they begin, so that everything counts."""
    torch.manual_seed(0)
    small = dict(size="tiny", d_model=32, num_heads=4, d_ff=48, max_positions=12)
    model = BertPretraining(BertSettings.model_validate(small | settings), V).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model


def batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(5, V, (4, T), generator=generator), torch.randint(0, 2, (4, T), generator=generator)


def with_room(ids: Tensor, segments: Tensor, sentences: int, size: int) -> tuple[Tokens, Tensor]:
    """A stream with room for more sentences and tokens than there are."""
    real = torch.arange(T) < LENGTHS[:, None]
    packed = Packed.of(ids, LENGTHS)
    layout, fill = packed.layout, (0, size - len(packed.ids))
    assert isinstance(layout, Packed)
    offsets = F.pad(layout.offsets, (0, sentences + 1 - len(layout.offsets)), value=len(packed.ids))
    rows, positions = F.pad(layout.rows, fill, value=sentences - 1), F.pad(layout.positions, fill)
    return Tokens(F.pad(packed.ids, fill), Packed(offsets, rows, positions)), F.pad(segments[real], fill)


def test_a_sentence_is_the_same_in_any_company() -> None:
    model, (ids, segments) = build().double(), batch()
    tokens = Padded.of(ids, LENGTHS)
    states = model.bert.hidden_states(tokens, segments)
    pooled = model.bert.pool(states[-1], tokens.layout)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = Padded.of(ids[row : row + 1, :length], LENGTHS[row : row + 1])
        own = model.bert.hidden_states(alone, segments[row : row + 1, :length])
        for state, one in zip(states, own, strict=True):
            torch.testing.assert_close(one[0], state[row, :length])
        torch.testing.assert_close(model.bert.pool(own[-1], alone.layout)[0], pooled[row])


@pytest.mark.parametrize(("sentences", "size"), [(4, 18), (7, 18), (4, 25), (7, 25)])
def test_a_stream_gives_the_same_as_rows_with_padding(sentences: int, size: int) -> None:
    model, (ids, segments) = build().double(), batch()
    real = torch.arange(T) < LENGTHS[:, None]
    places = real.flatten().nonzero()[:, 0]
    words, following = with_logits(model(Padded.of(ids, LENGTHS), segments, places))
    stream, stream_segments = with_room(ids, segments, sentences, size)
    packed_words, packed_following = with_logits(model(stream, stream_segments, torch.arange(18)))
    torch.testing.assert_close(packed_words, words)
    assert packed_following.shape == (sentences, 2)
    torch.testing.assert_close(packed_following[:4], following)


def test_every_token_sees_every_other_its_place_and_its_text() -> None:
    model, (ids, segments) = build().bert, batch()
    before = model(Padded.of(ids, LENGTHS), segments)
    other = ids.clone()
    other[0, -1] = ids[0, -1] % (V - 6) + 5  # another word at the end of the first sentence
    changed = (model(Padded.of(other, LENGTHS), segments) - before).abs().sum(dim=-1)
    assert (changed[0] > 1e-4).all() and changed[1:].max() == 0
    assert not torch.allclose(model(Padded.of(ids, LENGTHS), 1 - segments), before, atol=1e-3)
    assert not torch.allclose(model(Padded.of(ids.flip(1), LENGTHS)).flip(1)[0], model(Padded.of(ids, LENGTHS))[0])
    torch.testing.assert_close(model(Padded.of(ids, LENGTHS)), model(Padded.of(ids, LENGTHS), torch.zeros_like(ids)))


def test_attentions_are_distributions_over_real_tokens() -> None:
    model, (ids, segments) = build(layers=3), batch()
    weights = model.bert.attentions(Padded.of(ids, LENGTHS), segments).encoder
    assert weights is not None and weights.shape == (4, 3, 4, T, T)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(4, 3, 4, T))
    assert weights[1, ..., 3:].max() == 0


def test_only_the_places_asked_for_are_scored() -> None:
    model, (ids, segments) = build(), batch()
    tokens, places = Padded.of(ids, LENGTHS), torch.tensor([2, 8, 7, 26])
    projection, _ = model(tokens, segments, places)
    hidden, weight = projection.without_bias()
    assert (hidden.shape, weight.shape) == (torch.Size([4, 40]), torch.Size([V, 40]))
    logits = projection.logits()
    h = model.bert(tokens, segments)[places // T, places % T]
    head = model.masked
    x = F.gelu(F.linear(h, head.dense.weight, head.dense.bias))
    x = F.layer_norm(x, (32,), head.norm.weight, head.norm.bias, eps=1e-12)
    torch.testing.assert_close(logits, F.linear(x, model.bert.words.weight, head.bias))


def test_a_loss_that_never_holds_the_scores_has_the_same_gradient() -> None:
    model, (ids, segments) = build().double(), batch()
    tokens, places, labels = Padded.of(ids, LENGTHS), torch.tensor([2, 8, 7, 26, 0]), torch.tensor([9, 5, 29, 7, 0])

    def gradients() -> dict[str, Tensor]:
        found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
        model.zero_grad()
        return found

    F.cross_entropy(model(tokens, segments, places)[0].logits(), labels, ignore_index=0, reduction="sum").backward()
    expected = gradients()
    projected_cross_entropy(model(tokens, segments, places)[0], labels).sum.backward()
    actual = gradients()
    assert actual.keys() == expected.keys() and actual["masked.bias"].abs().sum() > 0
    for name, gradient in expected.items():
        torch.testing.assert_close(actual[name], gradient, msg=name)


def test_half_precision_is_near() -> None:
    model, (ids, segments) = build(), batch()
    tokens, places = Padded.of(ids, LENGTHS), torch.tensor([2, 8, 7])
    words, _ = with_logits(model(tokens, segments, places))
    with torch.autocast("cpu", torch.float16):  # as bf16, which some CPUs cannot compute in
        half_words, half_following = with_logits(model(tokens, segments, places))
    assert half_words.dtype == half_following.dtype == torch.float16
    assert F.cosine_similarity(half_words.float(), words).min() > 0.99
    (half_words.float().sum() + half_following.float().sum()).backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_weights_begin_small_and_cut() -> None:
    torch.manual_seed(0)
    model = BertPretraining(BertSettings(size="tiny"), 500)
    for name, parameter in model.named_parameters():
        if name.endswith("norm.weight"):
            assert (parameter == 1).all()
        elif name.endswith("bias"):
            assert (parameter == 0).all()
        else:
            assert parameter.abs().max() <= 0.04
            assert float(parameter.detach().std()) == pytest.approx(
                0.0176, rel=0.15
            )  # that of a normal cut at two deviations


def test_named_sizes_have_the_published_number_of_weights() -> None:
    counts = {}
    for size in ("tiny", "mini", "small", "minilm", "base", "large"):
        with torch.device("meta"):
            model = Bert(BertSettings.model_validate({"size": size}), 30_522)
        counts[size] = sum(parameter.numel() for parameter in model.parameters())
    assert counts == {
        "tiny": 4_385_920, "mini": 11_170_560, "small": 28_763_648, "minilm": 22_713_216,
        "base": 109_482_240, "large": 335_141_888,
    }  # fmt: skip


def test_settings() -> None:
    settings = BertSettings(size="large", layers=3)
    assert (settings.d_model, settings.num_heads, settings.layers, settings.num_layers) == (1024, 16, 3, 3)
    assert settings.length_limit == 512 and settings.supports_packing and settings.length_setting == "max_positions"
    assert settings.summary == "BERT, 3 layers of 16 heads, width 1024"
    assert settings.model_copy(update={"layers": 1, "num_heads": 1}).summary == "BERT, 1 layer of 1 head, width 1024"
    with pytest.raises(ValidationError, match="num_heads = 7 does not divide d_model = 768"):
        BertSettings(num_heads=7)
    with pytest.raises(ValueError, match="position 12 is beyond the 12 learned ones"):
        build()(Padded.of(torch.ones(1, 13, dtype=torch.long), torch.tensor([13])), None, torch.tensor([0]))


def test_it_learns_both_questions() -> None:
    """Texts run in a circle, each word after the last: what is masked follows from its neighbours, on either side. The
    second text goes on where the first ended, or at the other side of the circle."""
    torch.manual_seed(0)
    size, half, mask = 12, 5, 4
    settings = BertSettings(size="tiny", d_model=64, num_heads=4, d_ff=128, dropout=0.0, attention_dropout=0.0)
    model = BertPretraining(settings, 5 + size)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    warm_up = torch.optim.lr_scheduler.LinearLR(optimizer, 0.02, total_iters=50)
    segments = torch.tensor([0] * (half + 2) + [1] * (half + 1)).expand(32, -1)
    layout = Padded(torch.full((32,), 2 * half + 3), 2 * half + 3)
    rows = torch.arange(32) * layout.size

    def example() -> tuple[Tensor, Tensor, Tensor, Tensor]:
        jumps = torch.randint(0, 2, (32,))
        words = torch.randint(0, size, (32, 1)) + torch.arange(2 * half)
        words[:, half:] += jumps[:, None] * (size // 2)
        words = words % size + 5
        first, sep = torch.full((32, 1), 2), torch.full((32, 1), 3)
        ids = torch.cat([first, words[:, :half], sep, words[:, half:], sep], dim=1)
        places = rows + torch.randint(1, half + 1, (32,)) + torch.randint(0, 2, (32,)) * (half + 1)
        labels = ids.flatten()[places]
        return ids.flatten().index_fill(0, places, mask).view_as(ids), places, labels, jumps

    for _ in range(300):
        ids, places, labels, jumps = example()
        words, following = with_logits(model(Tokens(ids, layout), segments, places))
        loss = F.cross_entropy(words, labels) + F.cross_entropy(following, jumps)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        warm_up.step()
    model.eval()
    right = torch.zeros(2)
    for _ in range(4):
        ids, places, labels, jumps = example()
        words, following = with_logits(model(Tokens(ids, layout), segments, places))
        right += torch.stack([(words.argmax(-1) == labels).sum(), (following.argmax(-1) == jumps).sum()])
    assert (right / 128).min() > 0.95, right
