"""Writing hypotheses each on its own, without a look at the others: what greedy search and sampling share.

Shapes: B sentences still in the batch, W hypotheses a sentence, T tokens written so far, V vocabulary.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.decoding.constraints import ForcedPrefix, Rules
from regard.decoding.hypothesis import Hypothesis, Texts, length_penalty
from regard.decoding.stepper import S, Stepper


class Choose(Protocol):
    """Picks the next token of every hypothesis."""

    def __call__(self, log_probs: Tensor, sentences: Tensor, step: int) -> Tensor:
        """`log_probs` (B, W, V) of `sentences` (B,), their places in the whole batch -> tokens (B, W)."""
        ...


@torch.no_grad()
def rollout(
    stepper: Stepper[S],
    source: Any,
    limits: Tensor,
    rules: Rules,
    choose: Choose,
    *,
    width: int = 1,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """Write `width` hypotheses for each sentence until each has ended, looped or reached its limit; best first."""
    prefix = ForcedPrefix.of(prefixes, limits, rules.symbols)
    answers: list[list[Hypothesis]] = [[] for _ in range(len(limits))]
    if not answers:
        return answers
    totals = (limits + prefix.lengths)[:, None]
    sentences = torch.arange(len(limits), device=limits.device)
    texts = Texts.blank(len(limits), width, limits.device)
    going = torch.ones_like(texts.finished)
    tokens = torch.full_like(texts.length, rules.symbols.bos)
    state = stepper.start(source)
    if width > 1:
        state = state.reorder(torch.zeros_like(tokens))

    for step in range(int(totals.max())):
        logits, state = stepper.step(tokens, state)
        log_probs = rules.log_probs(logits, texts.tokens, prefix, step)
        tokens = choose(log_probs, sentences, step)
        texts = _append(texts, tokens, log_probs, going, rules)
        looped = rules.loops(texts.tokens, prefix, step) & going & ~texts.finished
        texts = texts.but(looped=texts.looped | looped)
        going = ~(texts.finished | texts.looped) & (step + 1 < totals)

        done = ~going.any(dim=1)
        if bool(done.any()):
            for sentence, found in zip(sentences[done].tolist(), texts.keep(done).hypotheses(), strict=True):
                answers[sentence] = found
            stay = (~done).nonzero()[:, 0]
            if not len(stay):
                break
            state, prefix, texts = state.keep(stay), prefix.keep(stay), texts.keep(stay)
            sentences, totals, going, tokens = sentences[stay], totals[stay], going[stay], tokens[stay]
    return answers


def _append(texts: Texts, tokens: Tensor, log_probs: Tensor, going: Tensor, rules: Rules) -> Texts:
    """Write `tokens` (B, W) behind the texts that are still going; those that have ended stay as long as they are."""
    gain = log_probs.gather(-1, tokens[:, :, None])[:, :, 0]
    log_prob = texts.log_prob + gain.masked_fill(~going, 0.0)
    length = texts.length + going
    return texts.but(
        tokens=torch.cat([texts.tokens, tokens[:, :, None]], dim=-1),
        length=length,
        log_prob=log_prob,
        score=log_prob / length_penalty(length, rules.alpha),
        finished=texts.finished | (going & (tokens == rules.symbols.eos)),
    )
