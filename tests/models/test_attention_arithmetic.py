"""The steps of a head, computed again from the inputs of its layer, are what the model computed itself."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.attention.arithmetic import AttentionCall, HeadArithmetic, SourceAttentionCalls, record_attention, stacks
from regard.attention.layouts import Padded
from regard.models.bert import Bert, BertSettings
from regard.models.recurrent import RecurrentModel, RecurrentSettings
from regard.models.transformer import Transformer, TransformerSettings

V = 30
TRANSFORMERS: list[dict[str, Any]] = [
    dict(norm="post"),
    dict(positions="rotary"),
    dict(positions="relative", max_distance=2),
    dict(positions="alibi"),
    dict(positions="buckets", buckets=4, max_distance=8, score="dot"),
    dict(decoder_layer="ssru"),
    dict(window=2, share_qk=True),
    *(dict(score=score) for score in ("dot", "general", "additive", "concat", "cosine")),
]
RECURRENT: list[dict[str, Any]] = [
    dict(decoder="bahdanau"),
    dict(decoder="luong", score="general", input_feeding=False),
    dict(decoder="luong", score="concat"),
    dict(decoder="luong", encoder="backward", score="dot"),
    *(dict(decoder="luong", attention=kind, window=2) for kind in ("local-m", "local-p", "hard-gumbel")),
]


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    """Compute in double precision: in single precision sums differ by rounding, depending on the processor."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def ids(count: int, seed: int) -> Tensor:
    return torch.randint(3, V, (1, count), generator=torch.Generator().manual_seed(seed))


def padded(ids: Tensor) -> Any:
    return Padded.of(ids, torch.tensor([ids.size(1)]))


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


def check_steps(steps: HeadArithmetic) -> None:
    """Each step follows from the one before, in plain sums."""
    T, S = steps.products.shape
    for i in range(T):
        for j in range(S):
            q, k = steps.queries[i], steps.keys[j]
            product = q @ k if steps.vector is None else torch.tanh(q + k) @ steps.vector
            close(steps.products[i, j], product)
    bias = 0 if steps.bias is None else steps.bias
    close(steps.scores, steps.products * steps.scale + bias)
    assert not steps.weights[~steps.mask].any()
    if not steps.hard:
        exponentials = steps.scores.exp() * steps.mask
        factor = 1 if steps.factor is None else steps.factor
        close(steps.weights, exponentials / exponentials.sum(dim=-1, keepdim=True) * factor)
    else:
        assert steps.weights.sum(dim=-1).tolist() == [1.0] * T
    summed = torch.stack(
        [sum((w * v for w, v in zip(row, steps.values, strict=True)), torch.zeros(())) for row in steps.weights]
    )
    close(steps.outputs, summed + (0 if steps.value_bias is None else steps.value_bias))


@pytest.mark.parametrize("variant", TRANSFORMERS, ids=str)
def test_transformer(variant: dict[str, Any]) -> None:
    torch.manual_seed(0)
    settings = dict(size="tiny", d_model=16, num_heads=2, d_ff=32, encoder_layers=2, decoder_layers=1) | variant
    model = Transformer(TransformerSettings.model_validate(settings), V, V).eval()
    src, tgt = padded(ids(6, 1)), padded(ids(4, 2))
    plain = model.attentions(src, tgt)
    with record_attention(model) as calls:
        recorded = model.attentions(src, tgt)
    assert plain.cross is not None and recorded.cross is not None and torch.equal(plain.cross, recorded.cross)
    groups = stacks(calls)
    maps = [weights for weights in (plain.encoder, plain.decoder, plain.cross) if weights is not None]
    assert [len(group) for group in groups] == [weights.size(1) for weights in maps] and len(groups[0]) == 2
    for group, weights in zip(groups, maps, strict=True):
        close(torch.stack([call.weights() for call in group]), weights[0])
        for call in group:
            assert isinstance(call, AttentionCall)
            heads = [call.head(head) for head in range(call.num_heads)]
            close(call.module.output(torch.cat([head.outputs for head in heads], dim=-1)), call.output[0])
            check_steps(heads[-1])
    with record_attention(model) as calls:
        pass
    model.attentions(src, tgt)
    assert not calls, "nothing is recorded after the block"


@pytest.mark.parametrize("variant", RECURRENT, ids=str)
def test_recurrent(variant: dict[str, Any]) -> None:
    torch.manual_seed(0)
    settings: dict[str, Any] = dict(d_model=8, d_embedding=6, layers=1) | variant
    model = RecurrentModel(RecurrentSettings.model_validate(settings), V, V).eval()
    src, tgt = padded(ids(6, 1)), padded(ids(4, 2))
    with record_attention(model) as calls:
        weights = model.attentions(src, tgt).cross
    (call,) = calls
    assert isinstance(call, SourceAttentionCalls) and weights is not None
    steps = call.head()
    close(steps.weights, weights[0, 0, 0])
    close(steps.outputs, torch.cat([output.context[0] for *_, output in call.calls]))
    check_steps(steps)


def test_bert_with_padding() -> None:
    torch.manual_seed(0)
    settings = dict(size="tiny", d_model=16, num_heads=2, d_ff=32, layers=2, max_positions=16)
    model = Bert(BertSettings.model_validate(settings), V).eval()
    batch = Padded.of(ids(10, 3).view(2, 5), torch.tensor([5, 3]))
    with record_attention(model) as calls:
        weights = model.attentions(batch).encoder
    assert weights is not None and len(calls) == 2
    for layer, call in enumerate(calls):
        steps = call.head(1, sentence=1)
        close(steps.weights, weights[1, layer, 1])
        assert steps.mask.tolist() == [[True] * 3 + [False] * 2] * 5
        check_steps(steps)
