"""Beam search: keep the W most likely partial hypotheses of every sentence, and stop when nothing better can follow.

Three decisions make the search exact:

- A step considers 2W candidates. At most W of them can end (one for each hypothesis), so at least W continue and the
  beam never becomes empty. An ended candidate counts if it is among the W best candidates.
- Ended hypotheses are collected in a pool, ranked by log P / lp (Wu et al. 2016, eq. 14). log P only decreases and lp
  only increases. So log P(live) / lp(maximum length) is an upper bound for every continuation of a live hypothesis. A
  sentence stops when no live hypothesis can still enter the pool: early stopping never changes the result.
- A large batch is compacted when enough of its sentences have stopped (`should_compact`).

Shapes: B sentences still in the batch, W hypotheses a sentence, T tokens generated so far, V vocabulary.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.decoding.constraints import ForcedPrefix, Rules, StepContext
from regard.decoding.hypothesis import NEG_INF, Hypothesis, HypothesisBatch, length_penalty, should_compact
from regard.decoding.stepper import S, Source, Stepper


@dataclass(frozen=True)
class Candidates:
    """The best continuations (B, 2W) of the live hypotheses, best first; log P is minus infinity for unused entries."""

    log_prob: Tensor
    parents: Tensor
    tokens: Tensor

    @classmethod
    def best(cls, live: Tensor, log_probs: Tensor, tokens: Tensor, count: int) -> "Candidates":
        """Select the `count` best from the n best continuations (B, W, n) of each hypothesis:

        log P(Y_<t, y) = log P(Y_<t) + log P(y | Y_<t)
        """
        n = tokens.size(2)
        scores = (live[:, :, None] + log_probs).flatten(1)
        best, index = scores.topk(min(count, scores.size(1)), dim=1)
        missing = (0, count - best.size(1))  # a beam wider than the vocabulary has fewer continuations than `count`
        if missing[1]:
            best, index = F.pad(best, missing, value=NEG_INF), F.pad(index, missing)
        return cls(best, index // n, tokens.flatten(1).gather(1, index))

    def pick(self, indices: Tensor) -> "Candidates":
        """The candidates at `indices` (B, n)."""
        return Candidates(*(column.gather(1, indices) for column in (self.log_prob, self.parents, self.tokens)))


@dataclass(frozen=True)
class BeamStep:
    """One step of a search, for an observer: what was considered and what became of it.

    sentences   (B,) the index of each sentence in the batch that the search began with
    candidates  (B, 2W) the continuations considered, best first; `parents` are positions in the last step's `beam`
    ended       (B, W) those that end and count
    beam        (B, W) those that continue
    cut         (B, W) of `beam`: True if it is truncated here; None if nothing is
    continues   (B, W) of `beam`: False if the search goes on without it
    """

    sentences: Tensor
    candidates: Candidates
    ended: Candidates
    beam: Candidates
    cut: Tensor | None
    continues: Tensor


BeamObserver = Callable[[BeamStep], None]
"""Called after each step of a search; it must not change the tensors."""


@torch.no_grad()
def beam_search(
    stepper: Stepper[Source, S],
    source: Source,
    max_new_tokens: Tensor,
    rules: Rules,
    *,
    width: int = 4,
    nbest: int = 1,
    prefixes: Sequence[Sequence[int]] | None = None,
    observe: BeamObserver | None = None,
) -> list[list[Hypothesis]]:
    """The `nbest` best hypotheses of each sentence; fewer if fewer ended, and truncated ones only if none ended."""
    count, device = len(max_new_tokens), max_new_tokens.device
    prefix = ForcedPrefix.of(prefixes, max_new_tokens, rules.symbols)
    results: list[list[Hypothesis]] = [[] for _ in range(count)]
    if not results:
        return results
    max_lengths = max_new_tokens + prefix.lengths
    sentences = torch.arange(count, device=device)
    pool = HypothesisBatch.empty(count, nbest, device, log_prob=NEG_INF)
    # One empty hypothesis for each sentence; the first step expands it to W.
    live = torch.zeros((count, 1), device=device)
    history = max_new_tokens.new_zeros((count, 1, 0))
    tokens = max_new_tokens.new_full((count, 1), rules.symbols.bos)
    state = stepper.start(source)
    shortest = int(max_lengths.min())

    for step in range(int(max_lengths.max())):
        logits, state = stepper.step(tokens, state)
        context = StepContext(rules, logits, history, prefix, step)
        candidates = Candidates.best(live, *context.top_k(2 * width), 2 * width)
        ended, beam = split_candidates(candidates, rules.symbols.eos, width)
        pool = _collect(pool, ended, history, rules, finished=True)
        live, parents, tokens = beam.log_prob, beam.parents, beam.tokens

        new_history = _extend(history, beam)
        looped, cut = rules.find_loops(new_history, prefix, step), None
        if looped is not None or step + 1 >= shortest:
            full = (step + 1 >= max_lengths)[:, None]
            cut = full.expand_as(live) if looped is None else full | looped
            truncated = replace(beam, log_prob=live.masked_fill(~cut, NEG_INF))
            pool = _collect(pool, truncated, history, rules, finished=False, looped=looped)
            live = live.masked_fill(cut, NEG_INF)

        done = ~(_bound(live, max_lengths, rules.alpha) > pool.worst_finished())
        live = live.masked_fill(done[:, None], NEG_INF)  # a done sentence that is still in the batch generates nothing
        if observe is not None:
            observe(BeamStep(sentences, candidates, ended, beam, cut, live != NEG_INF))
        if should_compact(done):
            for sentence, hypotheses in zip(sentences[done].tolist(), pool.keep(done).hypotheses(), strict=True):
                results[sentence] = [hypothesis for hypothesis in hypotheses if hypothesis.finished] or hypotheses
            keep = (~done).nonzero()[:, 0]
            if not len(keep):
                break
            state, prefix, pool = state.keep(keep), prefix.keep(keep), pool.keep(keep)
            sentences, max_lengths, live = sentences[keep], max_lengths[keep], live[keep]
            parents, tokens, new_history = parents[keep], tokens[keep], new_history[keep]
            shortest = int(max_lengths.min())
        state, history = state.reorder(parents), new_history
    return results


def split_candidates(candidates: Candidates, eos: int, width: int) -> tuple[Candidates, Candidates]:
    """The candidates among the W best that end, and the W best that continue."""
    is_end = candidates.tokens == eos
    ended = replace(candidates, log_prob=candidates.log_prob.masked_fill(~is_end, NEG_INF))
    log_prob = candidates.log_prob.masked_fill(is_end, NEG_INF)
    first = torch.arange(width, device=log_prob.device).expand(len(log_prob), -1)
    return ended.pick(first), replace(candidates, log_prob=log_prob).pick(log_prob.topk(width, dim=1).indices)


def _extend(history: Tensor, candidates: Candidates) -> Tensor:
    """(B, W, T) and n candidates -> (B, n, T + 1): each candidate appended to the tokens of its parent."""
    parents = candidates.parents[:, :, None].expand(-1, -1, history.size(2))
    return torch.cat([history.gather(1, parents), candidates.tokens[:, :, None]], dim=-1)


def _collect(
    pool: HypothesisBatch,
    candidates: Candidates,
    history: Tensor,
    rules: Rules,
    *,
    finished: bool,
    looped: Tensor | None = None,
) -> HypothesisBatch:
    """Merge the candidates whose log P is not minus infinity into the pool. In most steps there are none."""
    used = candidates.log_prob != NEG_INF  # "!=" and not ">": NaN must reach the pool, where it raises an error
    if not bool(used.any()):
        return pool
    length = torch.full_like(candidates.tokens, history.size(2) + 1)
    score = candidates.log_prob / length_penalty(length, rules.alpha)
    looped = torch.zeros_like(used) if looped is None else looped & used
    tokens = _extend(history, candidates)
    return pool.merge(HypothesisBatch(tokens, length, candidates.log_prob, score, used & finished, looped))


def _bound(live: Tensor, max_lengths: Tensor, alpha: float) -> Tensor:
    """(B,) Upper bound of the score of every continuation: today's log P divided by the largest possible lp."""
    return live.amax(dim=1) / length_penalty(max_lengths, alpha)
