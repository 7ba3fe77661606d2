"""A prepared model says what the model says: every variant, every search, however hypotheses and sentences move."""

import itertools
from typing import Any

import pytest
import torch
from hypothesis import settings
from torch import Tensor

from regard.attention import Padded, Tokens
from regard.decoding import Symbols
from regard.engines.prepared import Prepared
from regard.models import Transformer, TransformerSettings

SYMBOLS = Symbols(bos=1, eos=2, pad=0)
VOCABULARY = 23
SEEDS = settings(deadline=None, max_examples=25, derandomize=True, database=None)


def model(seed: int = 1, **changes: Any) -> Transformer:
    """A small model with weights large enough to have opinions, biases and norms included."""
    torch.manual_seed(seed)
    values: dict[str, Any] = dict(size="tiny", d_model=16, num_heads=2, d_ff=24, encoder_layers=2, decoder_layers=2)
    built = Transformer(TransformerSettings(**(values | changes)), VOCABULARY, VOCABULARY).eval()
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return built


def batch(lengths: list[int], seed: int = 0) -> Tokens:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, VOCABULARY, (len(lengths), max(lengths)), generator=generator)
    sizes = torch.tensor(lengths)
    return Padded.of(ids.masked_fill(torch.arange(max(lengths)) >= sizes[:, None], SYMBOLS.pad), sizes)


def walk(stepper: Any, src: Tokens, moves: list[Any]) -> list[Tensor]:
    """The logits along a walk: tokens (B, W) are a step, ("reorder", parents) and ("keep", sentences) rearrange."""
    state, found = stepper.start(src), []
    for move in moves:
        if isinstance(move, tuple):
            state = getattr(state, move[0])(move[1])
        else:
            logits, state = stepper.step(move, state)
            found.append(logits)
    return found


VARIANTS: list[dict[str, Any]] = [
    {"norm": norm, "positions": positions, "activation": activation, "tie": tie}
    for (norm, positions), activation, tie in zip(
        itertools.product(["post", "pre"], ["sinusoidal", "learned", "rotary", "none"]),
        ["relu", "gelu", "silu", "relu", "silu", "relu", "gelu", "gelu"],
        ["all", "output", "none", "all", "none", "output", "all", "none"],
        strict=True,
    )
]


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: "-".join(variant.values()))
@torch.no_grad()
def test_every_variant_gives_the_models_logits(variant: dict[str, Any]) -> None:
    reference = model(**variant)
    src = batch([5, 1, 7])
    generator = torch.Generator().manual_seed(2)
    moves: list[Any] = [torch.full((3, 1), SYMBOLS.bos), ("reorder", torch.zeros(3, 3, dtype=torch.long))]
    for _ in range(6):
        moves.append(torch.randint(3, VOCABULARY, (3, 3), generator=generator))
        moves.append(("reorder", torch.randint(3, (3, 3), generator=generator)))
    found, expected = (walk(stepper, src, moves) for stepper in (Prepared(reference), reference))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
