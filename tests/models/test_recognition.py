"""Models over frames: padding changes nothing, and one token at a time equals all at once."""

from typing import Any

import pytest
import torch

from regard.attention.layouts import Padded
from regard.layers.subsampling import Subsampling
from regard.models.recognition import CTCModel, CTCSettings, FrameTransformer, FrameTransformerSettings

SIZES: dict[str, Any] = dict(d_model=16, num_heads=2, d_ff=32, encoder_layers=2, dropout=0.0)
F, V = 5, 11


def frames(lengths: list[int], size: int, seed: int = 1) -> torch.Tensor:
    x = torch.randn(len(lengths), size, F, generator=torch.Generator().manual_seed(seed))
    return x.masked_fill(torch.arange(size)[None, :, None] >= torch.tensor(lengths)[:, None, None], 0.0)


@pytest.mark.parametrize("factor", [1, 2, 4, 8])
def test_subsampling_does_not_depend_on_padding(factor: int) -> None:
    layer, x = Subsampling(F, 6, factor), frames([13], 13)
    alone, padded = Padded.of(x, torch.tensor([13])), torch.cat([x, torch.full((1, 9, F), 7.0)], dim=1)
    longer = layer(Padded.of(padded, torch.tensor([13])))
    shorter = layer(alone)
    size = -(-13 // factor)
    assert shorter.layout.lengths.tolist() == longer.layout.lengths.tolist() == [size]
    torch.testing.assert_close(shorter.ids[:, :size], longer.ids[:, :size])


def test_ctc_logits_do_not_depend_on_other_recordings() -> None:
    model = CTCModel(CTCSettings(**SIZES), F, V).eval()
    x = frames([20, 9], 20)
    both, layout = model(Padded.of(x, torch.tensor([20, 9])))
    alone, _ = model(Padded.of(x[1:, :9], torch.tensor([9])))
    assert layout.lengths.tolist() == [5, 3] and both.shape == (2, 5, V)
    torch.testing.assert_close(both[1:, :3], alone, atol=1e-5, rtol=1e-4)


def test_steps_equal_the_forward_pass() -> None:
    settings = FrameTransformerSettings(size="custom", decoder_layers=2, **SIZES)
    model = FrameTransformer(settings, F, V).eval()
    assert not model.is_standard and "src_embedding.weight" not in model.state_dict()
    src = Padded.of(frames([20, 9], 20), torch.tensor([20, 9]))
    ids = torch.randint(3, V, (2, 6), generator=torch.Generator().manual_seed(2))
    whole = model(src, Padded.of(ids, torch.tensor([6, 6]))).logits()
    state = model.start(src)
    for position in range(6):
        logits, state = model.step(ids[:, position : position + 1], state)
        torch.testing.assert_close(logits[:, 0], whole[:, position], atol=1e-5, rtol=1e-4)


def test_attention_is_over_positions_after_subsampling() -> None:
    model = FrameTransformer(FrameTransformerSettings(size="custom", decoder_layers=1, **SIZES), F, V).eval()
    src = Padded.of(frames([20], 20), torch.tensor([20]))
    weights = model.attentions(src, Padded.of(torch.tensor([[1, 4, 5]]), torch.tensor([3])))
    assert weights.cross is not None and weights.encoder is not None
    assert weights.cross.shape == (1, 1, 2, 3, 5) and weights.encoder.shape == (1, 2, 2, 5, 5)
