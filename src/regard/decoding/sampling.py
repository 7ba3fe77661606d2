"""Sampling: draw every token from the model's distribution, with temperature, top-k and top-p (nucleus) filtering.

A token is drawn by inverting the cumulative distribution at a uniform random number. The random numbers of a sentence
depend only on the seed and the sentence's index. So a sentence gets the same samples in any batch, in any order and on
any device.

Shapes: B sentences, W hypotheses, T tokens, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.decoding.constraints import Rules, StepContext
from regard.decoding.hypothesis import NEG_INF, Hypothesis
from regard.decoding.rollout import rollout
from regard.decoding.stepper import S, Source, Stepper
from regard.seeding import hash_bytes


def keep_top_k(log_probs: Tensor, k: int) -> Tensor:
    """Keep the k most likely tokens (Fan et al. 2018), and all that are as likely as the k-th."""
    kth = log_probs.topk(min(k, log_probs.size(-1)), dim=-1).values[..., -1:]
    return log_probs.masked_fill(log_probs < kth, NEG_INF)


def keep_top_p(log_probs: Tensor, p: float) -> Tensor:
    """Keep the nucleus: the smallest set of most likely tokens with total probability p (Holtzman et al. 2020)."""
    ordered, order = log_probs.softmax(dim=-1).sort(dim=-1, descending=True, stable=True)
    probability_before = ordered.cumsum(dim=-1) - ordered
    outside = torch.zeros_like(order, dtype=torch.bool).scatter(-1, order, probability_before >= p)
    return log_probs.masked_fill(outside, NEG_INF)


def invert_cdf(log_probs: Tensor, uniform: Tensor) -> Tensor:
    """The token whose interval of the cumulative distribution (..., V) contains `uniform` (...), a number in [0, 1)."""
    cumulative = log_probs.softmax(dim=-1).cumsum(dim=-1)
    # Scaled by the sum as computed: rounding can neither go past the last token nor pick one with probability 0.
    position = (uniform[..., None] * cumulative[..., -1:]).contiguous()
    token = torch.searchsorted(cumulative, position, right=True)[..., 0]
    last_possible = torch.searchsorted(cumulative, cumulative[..., -1:].contiguous())[..., 0]
    return torch.minimum(token, last_possible)


def uniform_samples(seed: int, sentence: int, width: int, steps: int) -> Tensor:
    """(W, T) numbers in [0, 1): a function of the seed and the sentence's index."""
    key = int.from_bytes(hash_bytes(seed, sentence, separator=":"), "little", signed=True)
    generator = torch.Generator().manual_seed(key)
    return torch.rand((steps, width), generator=generator).T


@dataclass(frozen=True)
class Sampler:
    """Settings of sampling: temperature first, then top-k, then top-p of the remaining tokens."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1

    def filter(self, log_probs: Tensor) -> Tensor:
        """Apply temperature, top-k and top-p. The result need not sum to one."""
        log_probs = log_probs / self.temperature
        if self.top_k:
            log_probs = keep_top_k(log_probs, self.top_k)
        return keep_top_p(log_probs, self.top_p) if self.top_p < 1.0 else log_probs


def sample(
    stepper: Stepper[Source, S],
    source: Source,
    max_new_tokens: Tensor,
    rules: Rules,
    *,
    sampler: Sampler,
    samples: int = 1,
    prefixes: Sequence[Sequence[int]] | None = None,
    sentence_ids: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """`samples` hypotheses for each sentence, best score first; `sentence_ids` are indices in the whole corpus.

    The log probability of a hypothesis is that of the model, not that of the filtered distribution.
    """
    sentence_ids = range(len(max_new_tokens)) if sentence_ids is None else sentence_ids
    if len(sentence_ids) != len(max_new_tokens):
        raise ValueError(f"{len(sentence_ids)} sentence_ids for {len(max_new_tokens)} sentences")
    if not sentence_ids:
        return []
    steps = int(max_new_tokens.max()) + max((len(prefix) for prefix in prefixes or ()), default=0)
    draws = [uniform_samples(sampler.seed, sentence, samples, steps) for sentence in sentence_ids]
    uniform = torch.stack(draws).to(max_new_tokens.device)

    def draw(context: StepContext, sentences: Tensor) -> tuple[Tensor, Tensor]:
        log_probs = context.log_probs()
        tokens = invert_cdf(sampler.filter(log_probs), uniform[sentences, :, context.step])
        return tokens, log_probs.gather(-1, tokens[:, :, None])[:, :, 0]

    return rollout(stepper, source, max_new_tokens, rules, draw, width=samples, prefixes=prefixes)
