"""Sampling: draw every token from the model's distribution, flattened, sharpened or cut to its likeliest part.

A draw inverts the cumulative distribution at a uniform number, and the numbers of a sentence depend on the seed and the
sentence's number alone. So a sentence gets the same samples in any batch, in any order and on any device.

Shapes: B sentences, W hypotheses, T tokens, V vocabulary.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.decoding.constraints import Rules
from regard.decoding.hypothesis import DEAD, Hypothesis
from regard.decoding.rollout import Prospects, rollout
from regard.decoding.stepper import S, Stepper


def keep_top_k(log_probs: Tensor, k: int) -> Tensor:
    """Only the k likeliest tokens remain (Fan et al. 2018); of tokens equal to the k-th, all do."""
    kth = log_probs.topk(min(k, log_probs.size(-1)), dim=-1).values[..., -1:]
    return log_probs.masked_fill(log_probs < kth, DEAD)


def keep_top_p(log_probs: Tensor, p: float) -> Tensor:
    """Only the nucleus remains: the fewest likeliest tokens whose mass reaches p (Holtzman et al. 2020)."""
    ordered, order = log_probs.softmax(dim=-1).sort(dim=-1, descending=True, stable=True)
    mass_before = ordered.cumsum(dim=-1) - ordered
    outside = torch.zeros_like(order, dtype=torch.bool).scatter(-1, order, mass_before >= p)
    return log_probs.masked_fill(outside, DEAD)


def invert_cdf(log_probs: Tensor, uniform: Tensor) -> Tensor:
    """The token whose share of the cumulative distribution (..., V) holds `uniform` (...), a number in [0, 1)."""
    cumulative = log_probs.softmax(dim=-1).cumsum(dim=-1)
    # Scaled by the mass as it was summed: rounding can neither reach past the last token nor pick an impossible one.
    position = (uniform[..., None] * cumulative[..., -1:]).contiguous()
    token = torch.searchsorted(cumulative, position, right=True)[..., 0]
    last_possible = torch.searchsorted(cumulative, cumulative[..., -1:].contiguous())[..., 0]
    return torch.minimum(token, last_possible)


def uniform_numbers(seed: int, sentence: int, width: int, steps: int) -> Tensor:
    """(W, T) numbers in [0, 1): a function of the seed and the sentence's number."""
    key = hashlib.blake2b(f"{seed}:{sentence}".encode(), digest_size=8).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(key, "little", signed=True))
    return torch.rand((steps, width), generator=generator).T


@dataclass(frozen=True)
class Sampler:
    """How to draw: temperature first, then the k likeliest, then the nucleus of what is left."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1

    def narrow(self, log_probs: Tensor) -> Tensor:
        """The distribution to draw from, as log probabilities that need not sum to one."""
        log_probs = log_probs / self.temperature
        if self.top_k:
            log_probs = keep_top_k(log_probs, self.top_k)
        return keep_top_p(log_probs, self.top_p) if self.top_p < 1.0 else log_probs


def sample(
    stepper: Stepper[S],
    source: Any,
    limits: Tensor,
    rules: Rules,
    *,
    sampler: Sampler,
    samples: int = 1,
    prefixes: Sequence[Sequence[int]] | None = None,
    numbers: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """`samples` draws for each sentence, best score first; `numbers` are the sentences' numbers in the whole corpus.

    A hypothesis' log probability is the model's own, not that of the narrowed distribution it was drawn from.
    """
    numbers = range(len(limits)) if numbers is None else numbers
    if len(numbers) != len(limits):
        raise ValueError(f"{len(numbers)} sentence numbers for {len(limits)} sentences")
    if not numbers:
        return []
    steps = int(limits.max()) + max((len(prefix) for prefix in prefixes or ()), default=0)
    uniform = torch.stack([uniform_numbers(sampler.seed, number, samples, steps) for number in numbers]).to(
        limits.device
    )

    def draw(prospects: Prospects, sentences: Tensor) -> tuple[Tensor, Tensor]:
        log_probs = prospects.log_probs()
        tokens = invert_cdf(sampler.narrow(log_probs), uniform[sentences, :, prospects.step])
        return tokens, log_probs.gather(-1, tokens[:, :, None])[:, :, 0]

    return rollout(stepper, source, limits, rules, draw, width=samples, prefixes=prefixes)
