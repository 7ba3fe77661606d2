"""Beam search: keep the W likeliest beginnings of every sentence in view, and stop when nothing can become better.

Three decisions make it exact about what it promises:

- A step considers 2W candidates. At most W of them can be endings (one for each hypothesis), so at least W go on and
  the beam never starves. An ending counts when it is among the W best candidates.
- Ended hypotheses wait in a pool, ranked by log P / lp (Wu et al. 2016, eq. 14). As log P only falls and lp only
  grows, log P(live) / lp(limit) bounds all that a live hypothesis can become. A sentence stops when no live one can
  still enter the pool, so that stopping early never changes the answer.
- A sentence that has stopped leaves the batch, together with others where the batch is large.

Shapes: B sentences still in the batch, W hypotheses a sentence, T tokens written so far, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.decoding.constraints import ForcedPrefix, Rules
from regard.decoding.hypothesis import DEAD, Hypothesis, Texts, length_penalty, may_leave
from regard.decoding.stepper import S, Stepper


@dataclass(frozen=True)
class Candidates:
    """The best continuations (B, 2W) of the live hypotheses, best first; minus infinity where there is none."""

    log_prob: Tensor
    parents: Tensor
    tokens: Tensor

    @classmethod
    def best(cls, live: Tensor, log_probs: Tensor, tokens: Tensor, count: int) -> "Candidates":
        """Of the likeliest continuations (B, W, n) of each hypothesis the `count` likeliest of all:

        log P(Y_<t, y) = log P(Y_<t) + log P(y | Y_<t)
        """
        each = tokens.size(2)
        scores = (live[:, :, None] + log_probs).flatten(1)
        best, place = scores.topk(min(count, scores.size(1)), dim=1)
        missing = (0, count - best.size(1))  # a beam wider than the vocabulary has fewer continuations than places
        if missing[1]:
            best, place = F.pad(best, missing, value=DEAD), F.pad(place, missing)
        return cls(best, place // each, tokens.flatten(1).gather(1, place))

    def pick(self, places: Tensor) -> "Candidates":
        """The candidates at `places` (B, n)."""
        return Candidates(*(column.gather(1, places) for column in (self.log_prob, self.parents, self.tokens)))

    def but(self, log_prob: Tensor) -> "Candidates":
        """The same with other log probabilities."""
        return Candidates(log_prob, self.parents, self.tokens)


@torch.no_grad()
def beam_search(
    stepper: Stepper[S],
    source: Any,
    limits: Tensor,
    rules: Rules,
    *,
    width: int = 4,
    nbest: int = 1,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """The `nbest` best hypotheses of each sentence; fewer if fewer ended, and cut ones only if none did."""
    prefix = ForcedPrefix.of(prefixes, limits, rules.symbols)
    answers: list[list[Hypothesis]] = [[] for _ in range(len(limits))]
    if not answers:
        return answers
    totals = limits + prefix.lengths
    sentences = torch.arange(len(limits), device=limits.device)
    pool = Texts.blank(len(limits), nbest, limits.device, log_prob=DEAD)
    # One hypothesis, the empty one; the first step widens it to W.
    live = torch.zeros((len(limits), 1), device=limits.device)
    history = limits.new_zeros((len(limits), 1, 0))
    tokens = limits.new_full((len(limits), 1), rules.symbols.bos)
    state = stepper.start(source)
    soonest = int(totals.min())

    for step in range(int(totals.max())):
        logits, state = stepper.step(tokens, state)
        candidates = Candidates.best(live, *rules.likeliest(logits, history, prefix, step, 2 * width), 2 * width)
        endings, chosen = _divide(candidates, rules.symbols.eos, width)
        pool = _collect(pool, endings, history, rules, finished=True)
        live, parents, tokens = chosen.log_prob, chosen.parents, chosen.tokens

        grown = _extend(history, chosen)
        looped = rules.loops(grown, prefix, step)
        if looped is not None or step + 1 >= soonest:
            over = (step + 1 >= totals)[:, None]
            cut = over.expand_as(live) if looped is None else over | looped
            pool = _collect(
                pool, chosen.but(live.masked_fill(~cut, DEAD)), history, rules, finished=False, looped=looped
            )
            live = live.masked_fill(cut, DEAD)

        done = ~(_bound(live, totals, rules.alpha) > pool.worst_finished())
        live = live.masked_fill(done[:, None], DEAD)  # who is done and still here writes nothing more
        if may_leave(done):
            for sentence, found in zip(sentences[done].tolist(), pool.keep(done).hypotheses(), strict=True):
                ended = [hypothesis for hypothesis in found if hypothesis.finished]
                answers[sentence] = ended or found
            stay = (~done).nonzero()[:, 0]
            if not len(stay):
                break
            state, prefix, pool = state.keep(stay), prefix.keep(stay), pool.keep(stay)
            sentences, totals, soonest, live = sentences[stay], totals[stay], int(totals[stay].min()), live[stay]
            parents, tokens, grown = parents[stay], tokens[stay], grown[stay]
        state, history = state.reorder(parents), grown
    return answers


def _divide(candidates: Candidates, eos: int, width: int) -> tuple[Candidates, Candidates]:
    """The endings among the W best candidates, and the W best that go on."""
    ending = candidates.tokens == eos
    endings = candidates.but(candidates.log_prob.masked_fill(~ending, DEAD))
    going = candidates.log_prob.masked_fill(ending, DEAD)
    first = torch.arange(width, device=going.device).expand(len(going), -1)
    return endings.pick(first), candidates.but(going).pick(going.topk(width, dim=1).indices)


def _extend(history: Tensor, candidates: Candidates) -> Tensor:
    """(B, W, T) and n candidates -> (B, n, T + 1): each candidate behind the text of its parent."""
    parents = candidates.parents[:, :, None].expand(-1, -1, history.size(2))
    return torch.cat([history.gather(1, parents), candidates.tokens[:, :, None]], dim=-1)


def _collect(
    pool: Texts, ended: Candidates, history: Tensor, rules: Rules, *, finished: bool, looped: Tensor | None = None
) -> Texts:
    """The pool after the candidates that are not dead have entered it; most steps nothing ends, and nothing is done."""
    here = ended.log_prob != DEAD  # not "greater than": what is not a number must come to light, not vanish
    if not bool(here.any()):
        return pool
    length = torch.full_like(ended.tokens, history.size(2) + 1)
    score = ended.log_prob / length_penalty(length, rules.alpha)
    looped = torch.zeros_like(here) if looped is None else looped & here
    texts = Texts(_extend(history, ended), length, ended.log_prob, score, here & finished, looped)
    return pool.merge(texts)


def _bound(live: Tensor, totals: Tensor, alpha: float) -> Tensor:
    """(B,) The best score any live hypothesis can still reach: log P as it is now, lp as large as it can become."""
    return live.amax(dim=1) / length_penalty(totals, alpha)
