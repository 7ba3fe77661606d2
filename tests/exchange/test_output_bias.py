"""A bias of the output is the same number everywhere: in training, step by step, prepared, and in CTranslate2."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.layouts import Packed, Padded
from regard.engines.fused import FusedTransformer
from regard.exchange.ctranslate2 import import_ctranslate2, write_ctranslate2
from regard.models.transformer import Transformer, TransformerSettings
from regard.tasks.seq2seq import SYMBOLS

V = 29
SOURCE, TARGET = [5, 9, 11, 7, 2], [1, 6, 8, 20]


def model(**changes: Any) -> Transformer:
    torch.manual_seed(2)
    shape: dict[str, Any] = dict(size="tiny", d_model=16, num_heads=2, d_ff=24, output_bias=True, dropout=0.0)
    built = Transformer(TransformerSettings(**(shape | changes)), V, V).eval()
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return built


def at_once(built: Transformer, layout: type[Padded] | type[Packed] = Padded) -> Tensor:
    src, tgt = (layout.of(torch.tensor([ids]), torch.tensor([len(ids)])) for ids in (SOURCE, TARGET))
    return built(src, tgt).logits().reshape(len(TARGET), V)


def step_by_step(stepper: Any) -> Tensor:
    state, rows = stepper.start(Padded.of(torch.tensor([SOURCE]), torch.tensor([len(SOURCE)]))), []
    for word in TARGET:
        logits, state = stepper.step(torch.tensor([[word]]), state)
        rows.append(logits[0, 0])
    return torch.stack(rows)


@pytest.mark.parametrize("tie", ["all", "output", "none"])
def test_the_output_bias_is_added_once_by_every_engine(tie: str) -> None:
    built = model(tie=tie)
    bias = built.output.bias
    assert bias is not None
    logits = at_once(built)
    for other in (at_once(built, Packed), step_by_step(built), step_by_step(FusedTransformer(built))):
        torch.testing.assert_close(other, logits, atol=1e-5, rtol=1e-5)
    with torch.no_grad():
        before, added = bias.clone(), torch.randn(V)
        bias.add_(added)
        torch.testing.assert_close(at_once(built), logits + added, atol=1e-5, rtol=1e-5)
        bias.copy_(before)
    (gradient,) = torch.autograd.grad(F.log_softmax(at_once(built), -1)[:, 3].sum(), bias)
    expected = F.one_hot(torch.tensor(3), V) * len(TARGET) - at_once(built).softmax(-1).sum(0)
    torch.testing.assert_close(gradient, expected, atol=1e-5, rtol=1e-5)


def test_ctranslate2_has_the_output_bias(tmp_path: Path) -> None:
    built = model()
    write_ctranslate2(built, SYMBOLS, tmp_path / "model", "float32")
    pool = import_ctranslate2().Translator(str(tmp_path / "model"), compute_type="float32", intra_threads=1)
    (scored,) = pool.score_batch([[str(n) for n in SOURCE]], [[str(n) for n in TARGET[1:]]])
    rows = at_once(built).log_softmax(-1).detach()
    expected = [float(row[word]) for row, word in zip(rows, [*TARGET[1:], 2], strict=True)]
    assert scored.log_probs == pytest.approx(expected, abs=1e-4)
