"""With the same weights, our Transformer and Hugging Face's MarianMTModel give the same logits and gradients."""

import pytest
import torch
from torch import nn

from regard.attention.layouts import Padded
from regard.layers.positions import Learned
from regard.models.transformer import Transformer, TransformerSettings

V, D, LENGTH = 50, 32, 16


def marian_names() -> dict[str, str]:
    """Ours -> theirs, for everything inside a layer."""
    attention = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
    names = {f"attention.{ours}": f"self_attn.{theirs}" for ours, theirs in attention.items()}
    names |= {f"cross_attention.{ours}": f"encoder_attn.{theirs}" for ours, theirs in attention.items()}
    return names | {
        "attention_residual.norm": "self_attn_layer_norm",
        "cross_attention_residual.norm": "encoder_attn_layer_norm",
        "feedforward_residual.norm": "final_layer_norm",
        "feedforward.fc1": "fc1",
        "feedforward.fc2": "fc2",
    }


@pytest.mark.filterwarnings("ignore")  # transformers' own deprecations are not ours to mend
def test_logits_and_gradients_equal_marian() -> None:
    from transformers import MarianConfig, MarianMTModel

    torch.manual_seed(5)
    config = MarianConfig(
        vocab_size=V, d_model=D, encoder_layers=2, decoder_layers=3,
        encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=48, decoder_ffn_dim=48, activation_function="relu", scale_embedding=True, dropout=0.0,
        attention_dropout=0.0, activation_dropout=0.0, max_position_embeddings=LENGTH, pad_token_id=0, eos_token_id=2,
        decoder_start_token_id=1, static_position_embeddings=True,
    )  # fmt: skip
    theirs = MarianMTModel(config).eval()
    for name, parameter in theirs.named_parameters():
        if "embed" not in name:
            nn.init.normal_(parameter, std=0.2)
    settings = TransformerSettings(
        size="tiny", d_model=D, num_heads=4, d_ff=48, encoder_layers=2, decoder_layers=3, dropout=0.0,
        positions="learned", max_positions=LENGTH,
    )  # fmt: skip
    ours = Transformer(settings, V, V).eval()
    pairs: list[tuple[nn.Parameter, nn.Parameter]] = [(ours.tgt_embedding.weight, theirs.model.shared.weight)]
    for side in ("encoder", "decoder"):
        for number, layer in enumerate(getattr(ours, side)):
            their_layer = theirs.get_submodule(f"model.{side}.layers.{number}")
            for name, parameter in layer.named_parameters():
                module, _, kind = name.rpartition(".")
                pairs.append((parameter, their_layer.get_parameter(f"{marian_names()[module]}.{kind}")))
    for mine, other in pairs:
        mine.data.copy_(other.data)
    assert isinstance(ours.positions, Learned)  # Marian orders its sinusoids otherwise: take its table as it is
    ours.positions.table.weight.data.copy_(theirs.model.encoder.embed_positions.weight.data)

    src, src_lengths = torch.randint(3, V, (4, 9)), torch.tensor([9, 3, 6, 1])
    tgt, tgt_lengths = torch.randint(3, V, (4, 7)), torch.tensor([7, 2, 5, 4])
    attention_mask = (torch.arange(9) < src_lengths[:, None]).long()
    expected = theirs(input_ids=src, attention_mask=attention_mask, decoder_input_ids=tgt).logits
    actual = ours(Padded.of(src, src_lengths), Padded.of(tgt, tgt_lengths)).logits()
    real = torch.arange(7) < tgt_lengths[:, None]
    torch.testing.assert_close(actual[real], expected[real], atol=1e-5, rtol=1e-5)

    weights = torch.randn(int(real.sum()), V) / 10
    (actual[real] * weights).sum().backward()
    (expected[real] * weights).sum().backward()
    for mine, other in pairs:
        assert mine.grad is not None and other.grad is not None
        torch.testing.assert_close(mine.grad, other.grad, atol=1e-5, rtol=1e-4)
