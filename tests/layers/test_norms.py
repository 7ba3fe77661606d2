"""Norms and residual connections against torch's and their formulas, in both layouts, and a model that uses them."""

from typing import Any, TypeVar

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from regard.attention.layouts import Layout, Packed, Padded
from regard.decoding.stepper import Symbols
from regard.engines.choose import fastest_engine
from regard.engines.fused import FusedTransformer
from regard.errors import UserError
from regard.exchange.marian import check_exportable
from regard.layers.norms import BatchNorm, LayerNorm, NoNorm, RMSNorm, SequenceLayerNorm
from regard.layers.residual import PostNormOnly, PreNormOnly
from regard.models.transformer import Transformer, TransformerSettings
from regard.run.train import check_processes
from regard.runtime import World
from regard.tasks.registry import load_recipe

D = 5
LENGTHS = st.lists(st.integers(1, 6), min_size=2, max_size=4)


def sentences(lengths: list[int], seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(length, D, generator=generator, dtype=torch.float64) * 3 + 1 for length in lengths]


def arranged(rows: list[Tensor], packed: bool) -> tuple[Tensor, Layout]:
    """The sentences in a layout, with arbitrary numbers at padding."""
    lengths = torch.tensor([len(row) for row in rows])
    if not packed:
        x = torch.full((len(rows), int(lengths.max()), D), 7.0, dtype=torch.float64)
        for b, row in enumerate(rows):
            x[b, : len(row)] = row
        return x, Padded(lengths, x.size(1))
    count, filler = int(lengths.sum()), 3
    offsets = torch.cat([torch.zeros(1), lengths.cumsum(0), torch.tensor([count])]).to(torch.int32)
    owners = torch.cat([torch.repeat_interleave(lengths), torch.full((filler,), len(rows))])
    positions = torch.cat([*(torch.arange(len(row)) for row in rows), torch.zeros(filler, dtype=torch.long)])
    return torch.cat([*rows, torch.full((filler, D), 7.0, dtype=torch.float64)]), Packed(offsets, owners, positions)


N = TypeVar("N", bound=nn.Module)


def with_weights(norm: N) -> N:
    generator = torch.Generator().manual_seed(5)
    for parameter in norm.parameters():
        nn.init.normal_(parameter, generator=generator)
    return norm.double()


@settings(max_examples=15, deadline=None, derandomize=True)
@given(lengths=LENGTHS, packed=st.booleans())
def test_batch_norm_is_torchs_over_all_tokens(lengths: list[int], packed: bool) -> None:
    """Outputs, gradients and running statistics; then evaluation, where a sentence depends on no other."""
    ours, theirs = with_weights(BatchNorm(D)), with_weights(nn.BatchNorm1d(D))
    for seed in range(3):
        rows = sentences(lengths, seed)
        x, layout = arranged(rows, packed)
        x.requires_grad_()
        tokens = torch.cat(rows).requires_grad_()
        y, expected = ours(x, layout)[layout.not_padding], theirs(tokens)
        torch.testing.assert_close(y, expected)
        y.pow(3).sum().backward()
        expected.pow(3).sum().backward()
        assert x.grad is not None and not x.grad[~layout.not_padding].any()
        torch.testing.assert_close(x.grad[layout.not_padding], tokens.grad)
        torch.testing.assert_close(ours.weight.grad, theirs.weight.grad)
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_var, theirs.running_var)
    alone = sentences(lengths, 9)[0]
    torch.testing.assert_close(ours.eval()(alone[None]), theirs.eval()(alone)[None])


@settings(max_examples=15, deadline=None, derandomize=True)
@given(lengths=LENGTHS, packed=st.booleans())
def test_sequence_layer_norm_is_that_of_each_sentence_alone(lengths: list[int], packed: bool) -> None:
    norm = with_weights(SequenceLayerNorm(D))
    rows = sentences(lengths, 1)
    x, layout = arranged(rows, packed)
    expected = [F.layer_norm(row, row.shape, eps=norm.eps) * norm.weight + norm.bias for row in rows]
    torch.testing.assert_close(norm(x, layout)[layout.not_padding], torch.cat(expected))
    torch.testing.assert_close(norm(rows[0][None]), expected[0][None])


def test_only_the_norm_over_a_sequence_shows_the_future() -> None:
    rows = sentences([6], 2)
    x, layout = arranged(rows, packed=False)
    changed = x.clone()
    changed[0, 5] += 1
    for norm in (LayerNorm(D), NoNorm(), BatchNorm(D), SequenceLayerNorm(D)):
        norm.double().eval()
        difference = (norm(x, layout) - norm(changed, layout))[0, :5]
        assert bool(difference.any()) == isinstance(norm, SequenceLayerNorm)


def test_without_residual_the_sublayer_replaces_its_input() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(3, D), torch.randn(3, D)
    post, pre = PostNormOnly(LayerNorm(D), 0.0), PreNormOnly(LayerNorm(D), 0.0)
    torch.testing.assert_close(post.pre(x), x)
    torch.testing.assert_close(post.post(x, y), F.layer_norm(y, (D,)))
    torch.testing.assert_close(pre.pre(x), F.layer_norm(x, (D,)))
    torch.testing.assert_close(pre.post(x, y), y)


def test_a_compiled_layer_updates_the_statistics() -> None:
    """As in training on a GPU: the layers of a stack are compiled in place, batches are packed."""

    def trained(compiled: bool) -> dict[str, Tensor]:
        torch.manual_seed(0)
        model = Transformer(TransformerSettings(**SHAPE, norm_kind="batch", dropout=0.0), 20, 20)
        for layer in model.encoder if compiled else []:
            layer.compile(backend="eager", dynamic=False)
        ids = torch.arange(3, 15).view(3, 4)
        tokens = Packed.of(ids, torch.tensor([4, 2, 3]))
        for _ in range(2):
            model(tokens, tokens).logits().square().sum().backward()
        gradients = {f"{name}.grad": p.grad for name, p in model.named_parameters() if p.grad is not None}
        return {**model.state_dict(), **gradients}

    eager, compiled = trained(False), trained(True)
    assert eager.keys() == compiled.keys() and bool(eager["encoder.0.attention_residual.norm.running_mean"].all())
    for name, tensor in eager.items():
        torch.testing.assert_close(compiled[name], tensor)


SHAPE: dict[str, Any] = dict(size="tiny", d_model=16, num_heads=2, d_ff=24)
ABLATIONS: list[dict[str, Any]] = [
    dict(norm_kind="batch"),
    dict(norm_kind="none"),
    dict(residual=False),
    dict(d_ff=0),
    dict(self_attention=False),
    dict(relative_positions="rotary"),
]


@pytest.mark.parametrize("ablation", ABLATIONS, ids=str)
def test_engines_that_have_no_such_part_are_not_used(ablation: dict[str, Any]) -> None:
    model = Transformer(TransformerSettings(**(SHAPE | ablation)), 20, 20).eval()
    engine = fastest_engine([model], Symbols(bos=1, eos=2, pad=0), torch.device("cpu"))
    assert not isinstance(getattr(engine, "stepper", None), FusedTransformer)
    with pytest.raises(UserError) as raised:
        check_exportable(model.settings)
    assert (raised.value.code, raised.value.where) == ("unsupported", f"model.{next(iter(ablation))}")


def test_the_fused_engine_refuses_batch_norm() -> None:
    with pytest.raises(TypeError):
        FusedTransformer(Transformer(TransformerSettings(**SHAPE, norm_kind="batch"), 20, 20))


def test_several_processes_refuse_batch_norm() -> None:
    recipe = load_recipe("small-numbers", ["model.norm_kind=batch"])
    world = World(rank=0, size=2, local_rank=0, device=torch.device("cpu"), precision="fp32", seed=1)
    with pytest.raises(UserError) as raised:
        check_processes(recipe, world)
    assert (raised.value.code, raised.value.where) == ("unsupported", "model.norm_kind")


def test_the_root_mean_square_norm_is_that_of_torch() -> None:
    ours, theirs, x = with_weights(RMSNorm(D)), torch.nn.RMSNorm(D, eps=1e-6), torch.randn(3, 4, D).double() * 5
    theirs.weight = ours.weight
    torch.testing.assert_close(ours(x), theirs(x))
