"""Writing hypotheses each on its own, without a look at the others: what greedy search and sampling share.

Shapes: B sentences still in the batch, W hypotheses a sentence, T tokens written so far, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.decoding.constraints import ForcedPrefix, Rules
from regard.decoding.hypothesis import Hypothesis, HypothesisBatch, length_penalty, should_compact
from regard.decoding.stepper import S, Stepper


@dataclass(frozen=True)
class StepContext:
    """What may be written next: what the model said after `history` (B, W, T), and the rules it stands under."""

    rules: Rules
    logits: Tensor
    history: Tensor
    prefix: ForcedPrefix
    step: int

    def log_probs(self) -> Tensor:
        """(B, W, V) of all tokens; see `Rules.log_probs`."""
        return self.rules.log_probs(self.logits, self.history, self.prefix, self.step)

    def top_k_log_probs(self, count: int) -> tuple[Tensor, Tensor]:
        """(B, W, n) log probabilities and tokens of the likeliest alone; see `Rules.top_k_log_probs`."""
        return self.rules.top_k_log_probs(self.logits, self.history, self.prefix, self.step, count)


class TokenSelector(Protocol):
    """Picks the next token of every hypothesis."""

    def __call__(self, context: StepContext, sentences: Tensor) -> tuple[Tensor, Tensor]:
        """For `sentences` (B,), their places in the whole batch -> tokens and their log probabilities, (B, W) each."""
        ...


@torch.no_grad()
def rollout(
    stepper: Stepper[S],
    source: Any,
    max_new_tokens: Tensor,
    rules: Rules,
    select: TokenSelector,
    *,
    width: int = 1,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """Write `width` hypotheses for each sentence until each has ended, looped or reached its limit; best first."""
    prefix = ForcedPrefix.of(prefixes, max_new_tokens, rules.symbols)
    results: list[list[Hypothesis]] = [[] for _ in range(len(max_new_tokens))]
    if not results:
        return results
    max_lengths = (max_new_tokens + prefix.lengths)[:, None]
    sentences = torch.arange(len(max_new_tokens), device=max_new_tokens.device)
    texts = HypothesisBatch.blank(len(max_new_tokens), width, max_new_tokens.device)
    unwritten: list[tuple[Tensor, Tensor]] = []  # the newest tokens and log probabilities, not yet part of the texts
    earliest, going = int(max_lengths.min()), torch.ones_like(texts.finished)
    tokens = torch.full_like(texts.length, rules.symbols.bos)
    state = stepper.start(source)
    if width > 1:
        state = state.reorder(torch.zeros_like(tokens))

    for step in range(int(max_lengths.max())):
        logits, state = stepper.step(tokens, state)
        tokens, log_probs = select(StepContext(rules, logits, texts.tokens, prefix, step), sentences)
        unwritten.append((tokens, log_probs))
        calm = not rules.constraints and not rules.checks_loops(step + 1) and step + 1 < earliest
        if calm and not bool(((tokens == rules.symbols.eos) & going).any()):
            continue  # nothing can have ended, and nobody asks what was written
        texts, unwritten = _append(texts, unwritten, going, rules.symbols.eos), []
        looped = rules.find_loops(texts.tokens, prefix, step)
        if looped is not None:
            texts = texts.but(looped=texts.looped | (looped & going & ~texts.finished))
        going = ~(texts.finished | texts.looped) & (step + 1 < max_lengths)

        done = ~going.any(dim=1)
        if should_compact(done):
            for sentence, found in zip(sentences[done].tolist(), _scored(texts.keep(done), rules), strict=True):
                results[sentence] = found
            stay = (~done).nonzero()[:, 0]
            if not len(stay):
                break
            state, prefix, texts = state.keep(stay), prefix.keep(stay), texts.keep(stay)
            sentences, max_lengths, going, tokens = sentences[stay], max_lengths[stay], going[stay], tokens[stay]
            earliest = int(max_lengths.min())
    return results


def _append(texts: HypothesisBatch, steps: list[tuple[Tensor, Tensor]], going: Tensor, eos: int) -> HypothesisBatch:
    """Write the tokens (B, W) of some steps behind the texts that were going all the while and may have ended with the
    last; those that had ended before stay as long as they are."""
    log_prob, last = texts.log_prob, steps[-1][0]
    for _, more in steps:
        log_prob = log_prob + more.masked_fill(~going, 0.0)
    return texts.but(
        tokens=torch.cat([texts.tokens, *(tokens[:, :, None] for tokens, _ in steps)], dim=-1),
        length=texts.length + going * len(steps),
        log_prob=log_prob,
        finished=texts.finished | (going & (last == eos)),
    )


def _scored(texts: HypothesisBatch, rules: Rules) -> list[list[Hypothesis]]:
    return texts.but(score=texts.log_prob / length_penalty(texts.length, rules.alpha)).hypotheses()
