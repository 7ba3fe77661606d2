"""Greedy search, and the loop that it shares with sampling: every hypothesis grows independently of the others.

Shapes: B sentences still in the batch, W hypotheses a sentence, T tokens generated so far, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from regard.decoding.constraints import ForcedPrefix, Rules, StepContext
from regard.decoding.hypothesis import Hypothesis, HypothesisBatch, length_penalty, should_compact
from regard.decoding.stepper import S, Source, Stepper


class TokenSelector(Protocol):
    """Selects the next token of every hypothesis."""

    def __call__(self, context: StepContext, sentences: Tensor) -> tuple[Tensor, Tensor]:
        """`sentences` (B,) are indices into the whole batch -> tokens and their log probabilities, (B, W) each."""


@torch.no_grad()
def rollout(
    stepper: Stepper[Source, S],
    source: Source,
    max_new_tokens: Tensor,
    rules: Rules,
    select: TokenSelector,
    *,
    width: int = 1,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """Generate `width` hypotheses for each sentence until each ends, loops or is too long; best first."""
    count, device = len(max_new_tokens), max_new_tokens.device
    prefix = ForcedPrefix.of(prefixes, max_new_tokens, rules.symbols)
    results: list[list[Hypothesis]] = [[] for _ in range(count)]
    if not results:
        return results
    max_lengths = (max_new_tokens + prefix.lengths)[:, None]
    sentences = torch.arange(count, device=device)
    batch = HypothesisBatch.empty(count, width, device)
    pending: list[tuple[Tensor, Tensor]] = []  # newest tokens and log probabilities, not yet appended to the batch
    shortest, active = int(max_lengths.min()), torch.ones_like(batch.finished)
    tokens = torch.full_like(batch.length, rules.symbols.bos)
    state = stepper.start(source)
    if width > 1:
        state = state.reorder(torch.zeros_like(tokens))

    for step in range(int(max_lengths.max())):
        logits, state = stepper.step(tokens, state)
        tokens, log_probs = select(StepContext(rules, logits, batch.tokens, prefix, step), sentences)
        pending.append((tokens, log_probs))
        needs_history = rules.constraints or rules.checks_loops(step + 1) or step + 1 >= shortest
        if not needs_history and not bool(((tokens == rules.symbols.eos) & active).any()):
            continue  # nothing can have ended
        batch, pending = _append(batch, pending, active, rules.symbols.eos), []
        looped = rules.find_loops(batch.tokens, prefix, step)
        if looped is not None:
            batch = replace(batch, looped=batch.looped | (looped & active & ~batch.finished))
        active = ~(batch.finished | batch.looped) & (step + 1 < max_lengths)

        done = ~active.any(dim=1)
        if should_compact(done):
            ended = batch.keep(done)
            ended = replace(ended, score=ended.log_prob / length_penalty(ended.length, rules.alpha))
            for sentence, hypotheses in zip(sentences[done].tolist(), ended.hypotheses(), strict=True):
                results[sentence] = hypotheses
            keep = (~done).nonzero()[:, 0]
            if not len(keep):
                break
            state, prefix, batch = state.keep(keep), prefix.keep(keep), batch.keep(keep)
            sentences, max_lengths, active, tokens = sentences[keep], max_lengths[keep], active[keep], tokens[keep]
            shortest = int(max_lengths.min())
    return results


def greedy_search(
    stepper: Stepper[Source, S],
    source: Source,
    max_new_tokens: Tensor,
    rules: Rules,
    *,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """One hypothesis for each sentence: y_t = argmax log P(y | y_<t, X)."""
    return rollout(stepper, source, max_new_tokens, rules, _select_best, prefixes=prefixes)


def _select_best(context: StepContext, sentences: Tensor) -> tuple[Tensor, Tensor]:
    log_probs, tokens = context.top_k(1)
    best = log_probs.max(dim=-1, keepdim=True)
    return tokens.gather(-1, best.indices)[..., 0], best.values[..., 0]


def _append(batch: HypothesisBatch, steps: list[tuple[Tensor, Tensor]], active: Tensor, eos: int) -> HypothesisBatch:
    """Append the tokens (B, W) of some steps to the active hypotheses, which may have ended only in the last step."""
    log_prob, last = batch.log_prob, steps[-1][0]
    for _, log_probs in steps:
        log_prob = log_prob + log_probs.masked_fill(~active, 0.0)
    return replace(
        batch,
        tokens=torch.cat([batch.tokens, *(tokens[:, :, None] for tokens, _ in steps)], dim=-1),
        length=batch.length + active * len(steps),
        log_prob=log_prob,
        finished=batch.finished | (active & (last == eos)),
    )
