"""A causal language model as a text encoder: equal to GPT-2 of Hugging Face transformers with the same weights."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.attention.layouts import Packed, Padded, Tokens
from regard.layers.embeddings import TokenEmbedding
from regard.models.language_transformer import TransformerLanguageModel, TransformerLanguageSettings, unpadded
from regard.models.text_encoder import EncoderWithHead, TransformerEncoder, TransformerEncoderSettings
from regard.tasks.encoders import LANGUAGE, encoder_settings, start_weights
from regard.training.weights import load_weights, weights_of

pytestmark = pytest.mark.filterwarnings("ignore")  # deprecations inside transformers
V, D = 20, 16
SHAPE: dict[str, Any] = dict(
    layers=2, d_model=D, num_heads=4, d_ff=24, max_positions=12, positions="learned", dropout=0.0
)
IDS = torch.randint(1, V, (3, 9), generator=torch.Generator().manual_seed(0))
LENGTHS = torch.tensor([9, 4, 1])


def reference_model() -> Any:
    """A small GPT-2 with a linear layer on the last token, in 64 bits, with random weights."""
    import transformers

    torch.manual_seed(1)
    config = transformers.GPT2Config(
        vocab_size=V, n_positions=12, n_embd=D, n_layer=2, n_head=4, n_inner=24, activation_function="gelu",
        num_labels=3, pad_token_id=0, bos_token_id=1, eos_token_id=1, attn_implementation="eager",
    )  # fmt: skip
    model = transformers.GPT2ForSequenceClassification(config).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model


def weights_from(reference: Any) -> dict[str, Tensor]:
    """The weights of GPT-2 as those of a language model of this toolkit, which multiplies embeddings by sqrt(D)."""
    theirs = reference.transformer.state_dict()
    ours = {
        "embedding.weight": theirs["wte.weight"] / D**0.5,
        "positions.table.weight": theirs["wpe.weight"],
        "norm.weight": theirs["ln_f.weight"],
        "norm.bias": theirs["ln_f.bias"],
    }
    for number in range(2):
        layer, other = f"layers.{number}.", f"h.{number}."
        for kind in ("weight", "bias"):
            for name, part in zip(
                ("query", "key", "value"), theirs[f"{other}attn.c_attn.{kind}"].chunk(3, dim=-1), strict=True
            ):
                ours[f"{layer}attention.{name}.{kind}"] = part.T
            for name, conv in (
                ("attention.output", "attn.c_proj"), ("feedforward.fc1", "mlp.c_fc"), ("feedforward.fc2", "mlp.c_proj"),
            ):  # fmt: skip
                ours[f"{layer}{name}.{kind}"] = theirs[f"{other}{conv}.{kind}"].T
            for name, norm in (("attention_residual", "ln_1"), ("feedforward_residual", "ln_2")):
                ours[f"{layer}{name}.norm.{kind}"] = theirs[f"{other}{norm}.{kind}"]
    return ours


def build(weights: dict[str, Tensor], pooled: bool = True) -> EncoderWithHead:
    """A text encoder that starts from a language model."""
    language = TransformerLanguageSettings.model_validate(SHAPE | {"norm": "pre"})
    settings = TransformerEncoderSettings.model_validate(encoder_settings(language.model_dump(exclude_none=True)))
    encoder = TransformerEncoder(settings, V).double()
    load_weights(encoder, start_weights(LANGUAGE, encoder, weights), "the language model")
    return EncoderWithHead(encoder, 3, pooled, dropout=0.0).double().eval()


@pytest.mark.parametrize("packed", [False, True])
def test_classes_are_those_of_gpt2(packed: bool) -> None:
    reference = reference_model()
    model = build(weights_from(reference))
    nn.init.zeros_(model.head.bias)
    model.head.weight.data = reference.score.weight.data.clone()
    ids = IDS.masked_fill(torch.arange(9) >= LENGTHS[:, None], 0)
    tokens = Packed.of(ids, LENGTHS) if packed else Padded.of(ids, LENGTHS)
    expected = reference(input_ids=ids, attention_mask=(ids > 0).long()).logits
    found = model(Tokens(*tokens))
    torch.testing.assert_close(found, expected)
    losses = [torch.nn.functional.cross_entropy(logits, torch.tensor([0, 2, 1])) for logits in (found, expected)]
    for loss in losses:
        loss.backward()
    embedding = model.get_submodule("encoder.words")
    assert isinstance(embedding, TokenEmbedding) and embedding.weight.grad is not None
    torch.testing.assert_close(
        embedding.weight.grad / D**0.5, reference.transformer.wte.weight.grad, atol=1e-10, rtol=1e-6
    )


@pytest.mark.parametrize("tie", ["output", "none"])
@pytest.mark.parametrize("positions", ["learned", "rotary", "sinusoidal", "relative"])
def test_hidden_states_are_those_of_the_language_model(positions: str, tie: str) -> None:
    torch.manual_seed(2)
    values = {**SHAPE, "positions": positions, "tie": tie, "norm": "post" if tie == "none" else "pre"}
    language = TransformerLanguageModel(TransformerLanguageSettings.model_validate(values), V).double().eval()
    for parameter in language.parameters():
        nn.init.normal_(parameter, std=0.3)
    settings = encoder_settings(language.settings.model_dump(exclude_none=True))
    encoder = TransformerEncoder(TransformerEncoderSettings.model_validate(settings), V).double().eval()
    load_weights(encoder, start_weights(LANGUAGE, encoder, weights_of(language)), "the language model")
    tokens, segments = unpadded(IDS), (torch.arange(9) > 4).long().expand(3, 9)
    hidden = encoder(tokens, segments)
    torch.testing.assert_close(hidden, language.encode(tokens))
    torch.testing.assert_close(encoder.pool(hidden, tokens.layout), hidden[:, -1])
