"""With the same weights, our Transformer and torch.nn.Transformer give the same logits and the same gradients."""

import math

import pytest
import torch
from torch import Tensor, nn

from regard.attention.layouts import Padded
from regard.attention.multihead import MultiHeadAttention
from regard.layers.positions import sinusoid
from regard.losses.crossentropy import cross_entropy
from regard.models.transformer import Transformer, TransformerSettings

V, D, PAD = 40, 32, 0


def copy_attention(theirs: nn.MultiheadAttention, ours: MultiHeadAttention) -> None:
    parts = zip(
        (ours.query, ours.key, ours.value), theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3), strict=True
    )
    for linear, weight, bias in parts:
        linear.weight.data.copy_(weight)
        linear.bias.data.copy_(bias)
    ours.output.load_state_dict(theirs.out_proj.state_dict())


def copy_weights(theirs: nn.Transformer, ours: Transformer) -> None:
    for their_layer, layer in zip(theirs.encoder.layers, ours.encoder, strict=True):
        copy_attention(their_layer.self_attn, layer.attention)
        copy_rest(their_layer, layer, ("attention_residual", "feedforward_residual"))
    for their_layer, decoder_layer in zip(theirs.decoder.layers, ours.decoder, strict=True):
        copy_attention(their_layer.self_attn, decoder_layer.attention)
        copy_attention(their_layer.multihead_attn, decoder_layer.cross_attention)
        copy_rest(
            their_layer, decoder_layer, ("attention_residual", "cross_attention_residual", "feedforward_residual")
        )
    ours.encoder_norm.load_state_dict(theirs.encoder.norm.state_dict() if theirs.encoder.norm else {})
    ours.decoder_norm.load_state_dict(theirs.decoder.norm.state_dict() if theirs.decoder.norm else {})


def copy_rest(theirs: nn.Module, ours: nn.Module, residuals: tuple[str, ...]) -> None:
    for number, name in enumerate(residuals, 1):
        ours.get_submodule(name).get_submodule("norm").load_state_dict(
            theirs.get_submodule(f"norm{number}").state_dict()
        )
    ours.get_submodule("feedforward.fc1").load_state_dict(theirs.get_submodule("linear1").state_dict())
    ours.get_submodule("feedforward.fc2").load_state_dict(theirs.get_submodule("linear2").state_dict())


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_logits_and_gradients_equal_torch(norm: str) -> None:
    torch.manual_seed(3)
    settings = TransformerSettings.model_validate(
        dict(size="tiny", d_model=D, num_heads=4, d_ff=64, dropout=0.1, norm=norm, activation="relu")
    )
    ours = Transformer(settings, V, V).eval()
    theirs = nn.Transformer(D, 4, 2, 2, 64, norm_first=norm == "pre", batch_first=True).eval()
    if norm == "post":  # torch adds a last norm to both stacks; the paper has none
        theirs.encoder.norm = theirs.decoder.norm = None
    for parameter in theirs.parameters():  # biases and gains must matter too
        nn.init.normal_(parameter, std=0.2)
    copy_weights(theirs, ours)

    src, src_lengths = torch.randint(1, V, (5, 9)), torch.tensor([9, 4, 1, 7, 9])
    tgt, tgt_lengths = torch.randint(1, V, (5, 8)), torch.tensor([2, 8, 5, 1, 8])
    labels = torch.randint(1, V, (5, 8)).masked_fill(torch.arange(8) >= tgt_lengths[:, None], PAD)
    embedding = ours.tgt_embedding.weight.detach().clone().requires_grad_()

    def embed(ids: Tensor) -> Tensor:
        return embedding[ids] * math.sqrt(D) + sinusoid(torch.arange(ids.size(1)), D)

    padding = torch.arange(9) >= src_lengths[:, None]
    causal = torch.ones(8, 8, dtype=torch.bool).triu(1)
    hidden = theirs(
        embed(src), embed(tgt), tgt_mask=causal, src_key_padding_mask=padding, memory_key_padding_mask=padding
    )
    expected = hidden @ embedding.T
    actual = ours(Padded.of(src, src_lengths), Padded.of(tgt, tgt_lengths)).logits()
    real = torch.arange(8) < tgt_lengths[:, None]
    torch.testing.assert_close(actual[real], expected[real], atol=1e-5, rtol=1e-5)

    their_loss = nn.functional.cross_entropy(
        expected.flatten(0, 1), labels.flatten(), ignore_index=PAD, label_smoothing=0.1, reduction="sum"
    )
    our_loss = cross_entropy(actual, labels, smoothing=0.1, ignore=PAD)
    assert int(our_loss.count) == int(tgt_lengths.sum())
    (their_loss / our_loss.count).backward()
    (our_loss.sum / our_loss.count).backward()
    torch.testing.assert_close(our_loss.sum, their_loss, atol=1e-5, rtol=1e-5)
    assert ours.tgt_embedding.weight.grad is not None and embedding.grad is not None
    torch.testing.assert_close(ours.tgt_embedding.weight.grad, embedding.grad, atol=1e-5, rtol=1e-4)

    # Move their gradients through the same copying as the weights, then compare all of them.
    gradients = Transformer(settings, V, V)
    for parameter in theirs.parameters():
        assert parameter.grad is not None
        parameter.data.copy_(parameter.grad)
    copy_weights(theirs, gradients)
    for (name, parameter), (_, expected_gradient) in zip(
        ours.named_parameters(), gradients.named_parameters(), strict=True
    ):
        if "embedding" not in name:
            assert parameter.grad is not None, name
            torch.testing.assert_close(parameter.grad, expected_gradient.detach(), atol=1e-5, rtol=1e-4, msg=name)
