"""Every variant of the Transformer, as parts handed in: the same model in training, in a search and when watched."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from pydantic import ValidationError
from torch import Tensor

from regard.attention.layouts import Packed, Padded, Tokens
from regard.models.transformer import Transformer, TransformerSettings

V = 60
VARIANTS: list[dict[str, Any]] = [
    *(dict(score=score) for score in ("scaled_dot", "general", "additive")),
    dict(positions="relative", max_distance=2),
    dict(positions="none"),
    dict(positions="learned", combine="concat", norm="pre"),
    dict(num_heads=1, head_dim=48),
    dict(num_heads=3, head_dim=6, positions="rotary"),
    dict(window=2, positions="rotary", norm="pre"),
    dict(window=1, positions="relative", max_distance=3),
    dict(window=3, positions="alibi", score="additive", num_heads=3, head_dim=8),
    dict(score="cosine", positions="rotary"),
    dict(share_qk=True, positions="rotary", scale_embeddings=False),
    dict(relative_positions="relative", max_distance=2),
    dict(positions="learned", relative_positions="rotary", combine="concat"),
    dict(positions="learned", relative_positions="alibi", window=2),
    dict(norm_kind="batch"),
    dict(norm_kind="batch", norm="pre", positions="relative"),
    dict(norm_kind="none", norm="pre"),
    dict(residual=False),
    dict(d_ff=0),
    dict(self_attention=False, positions="learned", norm="pre"),
    dict(self_attention=False, d_ff=0),
    dict(residual=False, norm="pre", norm_kind="batch"),
    dict(
        norm_kind="rms", norm="pre", positions="buckets", buckets=8, max_distance=6, score="dot", bias=False, gated=True
    ),
    dict(decoder_layer="ssru"),
    dict(positions="buckets", max_distance=20, window=3, activation="gelu_tanh"),
]
EVERY = pytest.mark.parametrize("variant", VARIANTS, ids=str)


def build(variant: dict[str, Any], vocabulary: int = V) -> Transformer:
    torch.manual_seed(0)
    tiny = dict(size="tiny", d_model=32, num_heads=4, d_ff=64, max_positions=32)
    model = Transformer(TransformerSettings.model_validate(tiny | variant), vocabulary, vocabulary)
    if model.settings.norm_kind == "batch":  # some statistics of batches
        src, src_lengths, tgt, tgt_lengths = batch()
        for _ in range(30):
            model(Padded.of(src, src_lengths), Padded.of(tgt, tgt_lengths))
    return model.eval()


def tolerance(variant: dict[str, Any]) -> float:
    """Rounding of logits; without norms they are several times as large."""
    return 5e-5 if variant.get("norm_kind") == "none" else 1e-5


def batch() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    src = torch.randint(3, V, (4, 20), generator=generator)
    tgt = torch.randint(3, V, (4, 9), generator=generator)
    return src, torch.tensor([20, 4, 1, 11]), tgt, torch.tensor([3, 9, 5, 1])


@EVERY
def test_a_sentence_alone_is_the_sentence_in_a_padded_batch(variant: dict[str, Any]) -> None:
    model = build(variant)
    src, src_lengths, tgt, tgt_lengths = batch()
    together = model(Padded.of(src, src_lengths), Padded.of(tgt, tgt_lengths)).logits()
    for b, (s, t) in enumerate(zip(src_lengths.tolist(), tgt_lengths.tolist(), strict=True)):
        one = slice(b, b + 1)
        alone = model(Padded.of(src[one, :s], src_lengths[one]), Padded.of(tgt[one, :t], tgt_lengths[one])).logits()
        torch.testing.assert_close(together[b, :t], alone[0], atol=tolerance(variant), rtol=1e-5)


@EVERY
def test_packed_equals_padded(variant: dict[str, Any]) -> None:
    model = build(variant)
    src, src_lengths, tgt, tgt_lengths = batch()
    padded = model(Padded.of(src, src_lengths), Padded.of(tgt, tgt_lengths)).logits()
    packed = model(Packed.of(src, src_lengths), Packed.of(tgt, tgt_lengths)).logits()
    torch.testing.assert_close(padded[Padded(tgt_lengths, 9).not_padding], packed, atol=tolerance(variant), rtol=1e-5)


@EVERY
def test_steps_of_several_hypotheses_are_the_forward_pass(variant: dict[str, Any]) -> None:
    """W = 3 hypotheses, exchanged after every step; the sentences leave one after the other."""
    model = build(variant)
    src, src_lengths, *_ = batch()
    generator = torch.Generator().manual_seed(7)
    tgt = torch.randint(3, V, (4, 3, 8), generator=generator)
    state = model.start(Padded.of(src, src_lengths)).reorder(torch.zeros(4, 3, dtype=torch.long))
    alive, order = torch.arange(4), torch.arange(3).expand(4, 3)
    for position in range(8):
        logits, state = model.step(tgt[alive].gather(1, order[:, :, None].expand(-1, -1, 8))[..., position], state)
        for row, sentence in enumerate(alive.tolist()):
            source = Padded.of(src[sentence].expand(3, -1), src_lengths[sentence].expand(3))
            written = tgt[sentence, order[row], : position + 1]
            expected = model(source, Padded.of(written, torch.full((3,), position + 1))).logits()[:, -1]
            torch.testing.assert_close(logits[row], expected, atol=tolerance(variant), rtol=1e-5)
        parents = torch.rand(len(alive), 3, generator=generator).argsort(dim=1)
        state, order = state.reorder(parents), order.gather(1, parents)
        if position in (2, 4):
            kept = torch.arange(1, len(alive))
            state, alive, order = state.keep(kept), alive[kept], order[kept]
    assert state.position == 8


@EVERY
def test_watched_it_says_what_it_says_and_shows_distributions(variant: dict[str, Any]) -> None:
    model = build(variant)
    src, src_lengths, tgt, tgt_lengths = batch()
    source, target = Padded.of(src, src_lengths), Padded.of(tgt, tgt_lengths)
    weights = model.attentions(source, target)
    window, heads = model.settings.window, model.settings.num_heads
    if not model.settings.self_attention:
        assert weights.encoder is None and weights.decoder is None and weights.cross is not None
        return
    if model.settings.decoder_layer == "ssru":
        assert weights.encoder is not None and weights.decoder is None and weights.cross is not None
        return
    assert weights.encoder is not None and weights.decoder is not None and weights.cross is not None
    assert weights.encoder.shape == (4, 2, heads, 20, 20) and weights.cross.shape == (4, 2, heads, 9, 20)
    for each, lengths, keys in (
        (weights.encoder, src_lengths, src_lengths),
        (weights.decoder, tgt_lengths, tgt_lengths),
        (weights.cross, tgt_lengths, src_lengths),
    ):
        for b in range(4):
            rows = each[b, :, :, : lengths[b]]
            torch.testing.assert_close(rows.sum(-1), torch.ones(rows.shape[:-1]))
            assert not rows[..., keys[b] :].any()
    assert not weights.decoder.triu(1).any()
    if window:
        assert not weights.encoder.triu(window + 1).any() and not weights.encoder.tril(-window - 1).any()
        assert not weights.decoder.tril(-window - 1).any()
        assert (weights.encoder[0].diagonal(window, -2, -1) > 0).all()


@EVERY
def test_every_weight_is_trained_and_nothing_is_undefined(
    variant: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In bf16, where projections and norms come in different types."""
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)  # there are CPUs on which oneDNN dies of bf16
    model = build(variant).train()
    src, src_lengths, tgt, tgt_lengths = batch()
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(Padded.of(src, src_lengths), Padded.of(tgt, tgt_lengths)).logits()
    logits.float()[Padded(tgt_lengths, 9).not_padding].square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.any() or name.endswith("key.bias"), name  # a bias of all keys moves no softmax


def test_embeddings_without_a_scale() -> None:
    """The first input of the layers is E[w] + p instead of sqrt(D) E[w] + p."""
    scaled, unscaled = build(dict()), build(dict(scale_embeddings=False))
    for name, tensor in scaled.state_dict().items():
        assert torch.equal(tensor, unscaled.state_dict()[name])
    ids, positions = torch.tensor([[5, 9, 7]]), torch.arange(3)
    vectors, p = scaled.tgt_embedding.weight[ids], scaled.positions(positions)
    torch.testing.assert_close(scaled.embed(scaled.tgt_embedding, ids, positions), vectors * 32**0.5 + p)
    torch.testing.assert_close(unscaled.embed(unscaled.tgt_embedding, ids, positions), vectors + p)


def test_a_layer_without_a_sublayer_is_the_other_one() -> None:
    """Without self-attention no token depends on another; without both sublayers a layer is the identity."""
    src = torch.randint(3, V, (1, 6), generator=torch.Generator().manual_seed(0))
    source = Padded.of(src, torch.tensor([6]))
    pattern = source.layout.pattern(source.layout)
    model = build(dict(self_attention=False, encoder_layers=1, norm="pre"))
    x = model.embed(model.src_embedding, src, source.layout.positions)
    layer = model.encoder[0]
    expected = x + layer.feedforward(layer.feedforward_residual.norm(x))
    torch.testing.assert_close(layer(x, pattern), expected)
    layer = build(dict(d_ff=0, encoder_layers=1)).encoder[0]
    y = layer.attention(x, x, pattern)
    torch.testing.assert_close(layer(x, pattern), F.layer_norm(x + y, (32,)))
    layer = build(dict(d_ff=0, self_attention=False)).encoder[0]
    assert torch.equal(layer(x, pattern), x) and not list(layer.parameters())


def test_absolute_and_relative_positions_together_are_both() -> None:
    """The sum of embeddings and sinusoids, in the layers of the model with relative positions alone."""
    both, relative, absolute = (
        build(kind)
        for kind in (dict(relative_positions="relative"), dict(positions="relative"), dict(positions="sinusoidal"))
    )
    relative.load_state_dict(both.state_dict())
    ids, layout = torch.arange(5, 12)[None], Padded(torch.tensor([7]), 7)
    x = both.embed(both.src_embedding, ids, layout.positions)
    p = absolute.positions(layout.positions)
    torch.testing.assert_close(x, relative.embed(relative.src_embedding, ids, layout.positions) + p)
    pattern = layout.pattern(layout)
    torch.testing.assert_close(both.encode(Tokens(ids, layout), pattern), relative.encoder(x, pattern))


def test_a_window_of_r_reaches_r_words_a_layer() -> None:
    model = build(dict(window=2))  # two layers: four words
    src = torch.randint(3, V, (1, 20), generator=torch.Generator().manual_seed(0))
    source = Padded.of(src, torch.tensor([20]))
    pattern = source.layout.pattern(source.layout, window=2)
    before = model.encode(source, pattern)
    changed = src.clone()
    changed[0, 10] = (changed[0, 10] - 3 + 1) % (V - 3) + 3
    after = model.encode(Padded.of(changed, torch.tensor([20])), pattern)
    assert (before != after).any(-1)[0].tolist() == [abs(i - 10) <= 4 for i in range(20)]


@pytest.mark.parametrize(
    ("variant", "packs", "plain"),
    [
        (dict(), True, True),
        (dict(positions="rotary"), True, True),
        (dict(head_dim=8), True, True),
        (dict(head_dim=16), True, False),
        (dict(window=5), True, False),
        (dict(combine="concat"), True, False),
        (dict(score="additive"), False, False),
        (dict(positions="alibi"), False, False),
        (dict(positions="relative"), False, False),
        (dict(share_qk=True, scale_embeddings=False), True, True),
        (dict(relative_positions="rotary"), True, False),
        (dict(relative_positions="relative"), False, False),
        (dict(norm_kind="batch"), True, False),
        (dict(norm_kind="none"), True, False),
        (dict(residual=False), True, False),
        (dict(d_ff=0), True, False),
        (dict(self_attention=False), True, False),
    ],
)
def test_which_ways_of_computing_apply(variant: dict[str, Any], packs: bool, plain: bool) -> None:
    settings = build(variant).settings
    assert (settings.supports_packing, settings.is_standard) == (packs, plain)
    assert settings.length_limit is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (dict(d_model=30, num_heads=4), "head_dim"),
        (dict(num_heads=4, head_dim=7, positions="rotary"), "even head size, not 7"),
        (dict(positions="rotary", combine="concat"), 'combine = "add"'),
        (dict(positions="alibi", combine="concat"), 'combine = "add"'),
        (dict(positions="relative", score="additive"), 'positions = "alibi"'),
        (dict(positions="rotary", score="general"), 'positions = "alibi"'),
        (dict(positions="rotary", relative_positions="alibi"), 'positions = "alibi"'),
        (dict(relative_positions="rotary", score="general"), 'positions = "alibi"'),
        (dict(window=-1), "greater than or equal to 0"),
        (dict(score="euclidean"), "scaled_dot"),
    ],
)
def test_what_contradicts_itself_is_refused_with_a_remedy(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        TransformerSettings.model_validate(wrong)


def test_a_summary_names_what_is_unusual() -> None:
    assert TransformerSettings().summary == "Transformer, 6 + 6 layers of 8 heads, width 512"
    varied = TransformerSettings(window=3, positions="alibi", score="additive")
    assert varied.summary.endswith("width 512, score = additive, window = 3, positions = alibi")


def test_a_width_that_heads_do_not_divide_is_fine_where_theirs_is_given() -> None:
    model = build(dict(d_model=30, num_heads=4, head_dim=5))
    src, src_lengths, tgt, tgt_lengths = batch()
    assert model(Padded.of(src, src_lengths), Padded.of(tgt, tgt_lengths)).logits().shape == (4, 9, V)


@pytest.mark.parametrize(
    ("variant", "steps"),
    [
        (dict(positions="relative", max_distance=8), 150),
        (dict(positions="alibi", encoder_layers=2, num_heads=8), 400),  # symmetric: slow to distinguish left and right
        (dict(score="additive", combine="concat"), 120),
        (dict(window=2, positions="relative", head_dim=12), 120),
    ],
    ids=str,
)
def test_it_learns_to_write_backwards(variant: dict[str, Any], steps: int) -> None:
    """Source a b c, target c b a: new sentences, written by greedy steps."""
    shape = dict(encoder_layers=1, decoder_layers=1, dropout=0.0, norm="pre", num_heads=2)
    model = build(shape | variant, vocabulary=8).train()
    generator = torch.Generator().manual_seed(2)
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3, fused=True)

    def draw(count: int) -> tuple[Tokens, Tensor]:
        """Sources, which end in the end symbol, and targets."""
        words = torch.randint(3, 8, (count, 3), generator=generator)
        return Padded.of(F.pad(words, (0, 1), value=2), torch.full((count,), 4)), words.flip(1)

    for _ in range(steps):
        source, tgt = draw(64)
        logits = model(source, Padded.of(F.pad(tgt[:, :-1], (1, 0), value=1), torch.full((64,), 3))).logits()
        optimizer.zero_grad()
        F.cross_entropy(logits.flatten(0, 1), tgt.flatten()).backward()
        optimizer.step()
    source, tgt = draw(200)
    with torch.inference_mode():
        state = model.eval().start(source)
        newest, written = torch.ones(200, 1, dtype=torch.long), []
        for _ in range(3):
            logits, state = model.step(newest, state)
            newest = logits.argmax(-1)
            written.append(newest)
    assert (torch.cat(written, dim=1) == tgt).float().mean() > 0.9
