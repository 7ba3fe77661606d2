"""The fused Transformer gives the logits of the model: every variant, every search, any reordering."""

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.attention.layouts import Padded, Tokens
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search import decode
from regard.decoding.settings import DecodingSettings
from regard.decoding.stepper import Ensemble, Symbols
from regard.engines import fused
from regard.engines.fused import FoldedSourceKV, FusedTransformer, Linear
from regard.engines.tree_cache import INITIAL_CAPACITY
from regard.losses.crossentropy import cross_entropy
from regard.models.transformer import Transformer, TransformerSettings

SYMBOLS = Symbols(bos=1, eos=2, pad=0)
VOCABULARY = 23
PROPERTY = settings(max_examples=25)
TINY: dict[str, Any] = dict(size="tiny", d_model=16, num_heads=2, d_ff=24, encoder_layers=2, decoder_layers=2)


def model(seed: int = 1, **changes: Any) -> Transformer:
    """A small model whose weights, biases and norms included, are large enough to have opinions."""
    torch.manual_seed(seed)
    built = Transformer(TransformerSettings(**(TINY | changes)), VOCABULARY, VOCABULARY).eval()
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return built


def batch(lengths: list[int], seed: int = 0) -> Tokens:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, VOCABULARY, (len(lengths), max(lengths)), generator=generator)
    sizes = torch.tensor(lengths)
    return Padded.of(ids.masked_fill(torch.arange(max(lengths)) >= sizes[:, None], SYMBOLS.pad), sizes)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("rows", [1, 3, 4, 9, 70])
def test_linear_is_that_of_torch_for_any_number_of_rows(
    rows: int, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not packed:
        monkeypatch.setattr(fused, "has_packed_product", lambda: False)
    torch.manual_seed(rows)
    layers, x = [torch.nn.Linear(24, size) for size in (16, 40)], torch.randn(rows, 24)
    expected = torch.cat([layer(x) for layer in layers], dim=1).detach()
    with torch.no_grad():
        linear, other = Linear(*layers), torch.randn(rows, 56)
        torch.testing.assert_close(linear(x), expected)
        torch.testing.assert_close(linear.relu(x), expected.relu())
        unchanged = other.clone()
        torch.testing.assert_close(linear.add(x, other), expected + other)
        assert torch.equal(other, unchanged)


Move = Tensor | tuple[str, Tensor]
"""Tokens (B, W) are a step; ("reorder", parents) and ("keep", sentences) rearrange."""


def walk(stepper: Any, src: Tokens, moves: list[Move]) -> list[Tensor]:
    """The logits along the way."""
    state, actual = stepper.start(src), []
    for move in moves:
        if isinstance(move, tuple):
            state = getattr(state, move[0])(move[1])
        else:
            logits, state = stepper.step(move, state)
            actual.append(logits)
    return actual


def random_moves(seed: int, sentences: int, steps: int, widen_first: bool = False) -> list[Move]:
    """Steps, and between them hypotheses that are copied, dropped, added, and sentences that leave or change places."""
    generator = torch.Generator().manual_seed(seed)

    def draw(low: int, high: int, *shape: int) -> Tensor:
        return torch.randint(low, high, shape, generator=generator)

    width, moves = 1, list[Move]()
    if widen_first:
        width = 3
        moves.append(("reorder", torch.zeros(sentences, width, dtype=torch.long)))
    for _ in range(steps):
        moves.append(draw(3, VOCABULARY, sentences, width))
        if draw(0, 4).item():
            wanted = int(draw(1, 5)) if draw(0, 3).item() == 0 else width
            moves.append(("reorder", draw(0, width, sentences, wanted)))
            width = wanted
        if sentences > 1 and draw(0, 5).item() == 0:
            kept = torch.randperm(sentences, generator=generator)[: int(draw(1, sentences + 1))]
            moves.append(("keep", kept))
            sentences = len(kept)
    return moves


def assert_same_walk(reference: Transformer, src: Tokens, moves: list[Move]) -> None:
    with torch.no_grad():
        actual, expected = walk(FusedTransformer(reference), src, moves), walk(reference, src, moves)
    for ours, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


VARIANTS: list[dict[str, Any]] = [
    {"norm": norm, "positions": positions, "activation": activation, "tie": tie}
    for (norm, positions), activation, tie in zip(
        itertools.product(["post", "pre"], ["sinusoidal", "learned", "rotary", "none"]),
        ["relu", "gelu", "silu", "relu", "silu", "relu", "gelu", "gelu"],
        ["all", "output", "none", "all", "none", "output", "all", "none"],
        strict=True,
    )
]
ABLATIONS: list[dict[str, Any]] = [
    {"share_qk": True, "norm": "pre"},
    {"share_qk": True, "positions": "rotary", "tie": "none"},
    {"scale_embeddings": False, "tie": "output"},
]


@pytest.mark.parametrize("variant", [*VARIANTS, *ABLATIONS], ids=str)
def test_logits_equal_the_model_for_every_variant(variant: dict[str, Any]) -> None:
    assert_same_walk(model(**variant), batch([5, 1, 7]), random_moves(2, sentences=3, steps=9))


@PROPERTY
@given(seed=st.integers(0, 10_000), widen_first=st.booleans())
def test_any_sequence_of_reorder_and_keep(seed: int, widen_first: bool) -> None:
    moves = random_moves(seed, sentences=4, steps=12, widen_first=widen_first)
    assert_same_walk(model(), batch([4, 6, 2, 6], seed), moves)


@pytest.mark.parametrize("variant", VARIANTS[:6:5], ids=lambda variant: "-".join(variant.values()))
@pytest.mark.parametrize("length", [1, 7, 8, 11])  # heads of 8: shorter sources are multiplied into the weights
def test_one_sentence(length: int, variant: dict[str, Any]) -> None:
    for seed in range(3):
        moves = random_moves(seed, sentences=1, steps=8)
        moves[5:5] = [("keep", torch.tensor([0]))]
        assert_same_walk(model(**variant), batch([length]), moves)
    memory = FusedTransformer(model()).start(batch([length])).memory
    assert isinstance(memory, FoldedSourceKV) == (length < 8)
    twice = memory.keep(torch.tensor([0, 0]))
    assert not isinstance(twice, FoldedSourceKV) and twice.keys.size(1) == 2


@pytest.mark.parametrize("width", [1, 3])
def test_the_cache_grows(width: int) -> None:
    generator = torch.Generator().manual_seed(4)
    moves: list[Move] = [torch.full((2, 1), SYMBOLS.bos), ("reorder", torch.zeros(2, width, dtype=torch.long))]
    for index in range(3 * INITIAL_CAPACITY):
        moves.append(torch.randint(3, VOCABULARY, (2, width), generator=generator))
        # Now and then hypotheses live side by side for long, so that nothing can be swept out.
        parents = torch.randint(width, (2, width), generator=generator)
        moves.append(("reorder", torch.arange(width).expand(2, -1) if index // INITIAL_CAPACITY == 1 else parents))
    assert_same_walk(model(), batch([3, 5]), moves)


def test_unused_nodes_are_removed() -> None:
    stepper, parents = FusedTransformer(model()), torch.tensor([[0, 0, 1, 1]])
    _, state = stepper.step(torch.full((1, 1), SYMBOLS.bos), stepper.start(batch([4])))
    for index in range(60):
        state = state.reorder(parents if index else torch.zeros(1, 4, dtype=torch.long))
        _, state = stepper.step(torch.full((1, 4), 5), state)
    assert state.length == 61
    assert state.cache.nodes.capacity == 4 * INITIAL_CAPACITY  # 241 nodes were written; every path has 61 of its own


def test_states_are_not_modified() -> None:
    stepper, src = FusedTransformer(model()), batch([4, 2])
    begin = stepper.start(src)
    first, second = torch.tensor([[3, 4], [5, 6]]), torch.tensor([[7, 8], [9, 3]])
    _, state = stepper.step(torch.full((2, 1), SYMBOLS.bos), begin)
    state = state.reorder(torch.zeros(2, 2, dtype=torch.long))
    _, one = stepper.step(first, state)
    _, other = stepper.step(second, state)  # the same state goes on in another way ...
    _, again = stepper.step(first, state)
    after_one, after_again = stepper.step(first, one)[0], stepper.step(first, again)[0]
    assert torch.equal(after_one, after_again)  # ... and neither disturbs the other
    assert not torch.allclose(after_one, stepper.step(first, other)[0])
    assert torch.equal(stepper.step(torch.full((2, 1), 4), begin)[0], stepper.step(torch.full((2, 1), 4), begin)[0])


def test_padding_and_batch_do_not_matter() -> None:
    stepper, src = FusedTransformer(model()), batch([6, 2, 4])
    together = walk(stepper, src, [torch.full((3, 1), SYMBOLS.bos), torch.full((3, 1), 5)])
    for index, length in enumerate([6, 2, 4]):
        alone = Padded.of(src.ids[index : index + 1, :length], torch.tensor([length]))
        actual = walk(stepper, alone, [torch.full((1, 1), SYMBOLS.bos), torch.full((1, 1), 5)])
        for ours, theirs in zip(actual, together, strict=True):
            torch.testing.assert_close(ours[0], theirs[index], atol=1e-5, rtol=1e-5)


def test_an_empty_source_gives_finite_logits() -> None:
    src = batch([3, 2])
    empty = Padded.of(src.ids, torch.tensor([3, 0]))
    assert_same_walk(model(), empty, [torch.full((2, 1), SYMBOLS.bos), torch.full((2, 1), 5)])


SEARCHES = [
    DecodingSettings(search="greedy"),
    DecodingSettings(beam=4, nbest=4),
    DecodingSettings(beam=3, no_repeat_ngram=2),
    DecodingSettings(search="sample", nbest=3, top_k=8, seed=4),
]


def assert_same_answers(actual: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    assert [[h.tokens for h in sentence] for sentence in actual] == [[h.tokens for h in s] for s in expected]
    for ours, theirs in zip(itertools.chain(*actual), itertools.chain(*expected), strict=True):
        assert (ours.finished, ours.looped) == (theirs.finished, theirs.looped)
        assert ours.score == pytest.approx(theirs.score, abs=1e-4)


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: search.search)
@pytest.mark.parametrize("prefixes", [None, [[5, 6], [], [7], []]], ids=["free", "prefixes"])
def test_every_search_gives_the_same_results(search: DecodingSettings, prefixes: list[list[int]] | None) -> None:
    reference, src = model(3), batch([5, 9, 1, 4])
    max_new_tokens = torch.tensor([20, 40, 8, 30])
    actual = decode(FusedTransformer(reference), src, max_new_tokens, SYMBOLS, search, prefixes=prefixes)
    assert_same_answers(actual, decode(reference, src, max_new_tokens, SYMBOLS, search, prefixes=prefixes))


def test_an_ensemble_of_fused_models() -> None:
    models, src = [model(seed) for seed in (1, 2)], batch([5, 3])
    max_new_tokens, search = torch.tensor([12, 12]), DecodingSettings(beam=3, nbest=2)
    actual = decode(Ensemble([FusedTransformer(each) for each in models]), src, max_new_tokens, SYMBOLS, search)
    assert_same_answers(actual, decode(Ensemble(models), src, max_new_tokens, SYMBOLS, search))


def test_a_trained_model_gives_the_same_results() -> None:
    torch.manual_seed(1)
    trained = Transformer(TransformerSettings(**(TINY | dict(d_model=32, dropout=0.0))), VOCABULARY, VOCABULARY)
    optimizer = torch.optim.Adam(trained.parameters(), 5e-3)
    for step in range(150):  # the task: the source backwards
        src = batch([5] * 24, seed=step)
        backwards = src.ids.flip(1)
        tgt = torch.cat([torch.full((24, 1), SYMBOLS.bos), backwards], dim=1)
        labels = torch.cat([backwards, torch.full((24, 1), SYMBOLS.eos)], dim=1)
        loss = cross_entropy(
            trained(src, Padded.of(tgt, torch.full((24,), 6))).logits(), labels, 0.0, ignore=SYMBOLS.pad
        )
        optimizer.zero_grad()
        (loss.sum / loss.count).backward()
        optimizer.step()
    trained.eval()
    src, max_new_tokens = batch([5] * 8, seed=999), torch.full((8,), 12)
    for search in SEARCHES:
        actual = decode(FusedTransformer(trained), src, max_new_tokens, SYMBOLS, search)
        assert_same_answers(actual, decode(trained, src, max_new_tokens, SYMBOLS, search))
    assert sum(best.finished for best, *_ in actual) >= 6  # it has learnt when to end


def test_more_positions_than_learned_are_refused() -> None:
    stepper = FusedTransformer(model(positions="learned", max_positions=3))
    moves: list[Move] = [torch.full((1, 1), 4)] * 3
    assert len(walk(stepper, batch([3]), moves)) == 3
    with pytest.raises(ValueError, match="position 3 is beyond"):
        walk(stepper, batch([3]), [*moves, torch.full((1, 1), 4)])


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_other_precisions_are_kept(positions: str) -> None:
    reference = model(positions=positions).double()
    src, moves = batch([5, 1, 7]), random_moves(2, sentences=3, steps=5)
    for ours, theirs in zip(walk(FusedTransformer(reference), src, moves), walk(reference, src, moves), strict=True):
        assert ours.dtype == torch.float64
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
