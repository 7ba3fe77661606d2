"""Continuous batching on a CPU: a search that sentences enter and leave between two steps (Yu et al. 2022, "Orca").

    waiting sentences -> encode -> join -> [ sentence at step 7 | at step 2 | at step 1 ] -> done -> hypotheses
                                             ^   one step for all of them   |
                                             +------------------------------+

The batches of `decoding` start and end together, so all their sentences are at the same position. Here each sentence
has its own: positions, lengths and histories are tensors. The search is that of `decoding.beam`, line by line, and for
greedy search the one with a beam of 1 that stops at the first end symbol. Tests compare the results with both. The KV
cache is the tree of `tree_cache.py`: a sentence that enters late gets nodes that no path sees for the steps it missed.

Shapes: B sentences, W hypotheses, R = B W rows, T history, P hypotheses in the pool, S source, n nodes of a tree.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Generic, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.layouts import Padded
from regard.decoding.beam import Candidates, split_candidates
from regard.decoding.constraints import ForcedPrefix, Rules, StepContext
from regard.decoding.engine import DecodingRequest
from regard.decoding.hypothesis import NEG_INF, Hypothesis, HypothesisBatch, length_penalty, should_compact
from regard.decoding.search import build_rules
from regard.decoding.settings import DecodingSettings
from regard.decoding.stepper import Symbols
from regard.engines.fused import FusedTransformer, SourceKV
from regard.engines.stepper_engine import pad_rows
from regard.engines.tree_cache import NodeBuffer, TreeKVCache

Name = TypeVar("Name", bound=Hashable)
"""What the caller calls a sentence."""


@dataclass(frozen=True)
class Sentences:
    """The sentences of a running search."""

    memory: SourceKV
    cache: TreeKVCache
    source_lengths: Tensor  # (B,)
    tokens: Tensor  # (B, W) the newest tokens
    live: Tensor  # (B, W) log P; minus infinity for hypotheses that are not used
    history: Tensor  # (B, W, T), zeros behind the length of a sentence
    lengths: Tensor  # (B,) tokens of the hypotheses so far
    max_lengths: Tensor  # (B,)
    pool: HypothesisBatch  # (B, P)

    def __len__(self) -> int:
        return len(self.lengths)

    def keep(self, rows: Tensor) -> "Sentences":
        """Only these sentences (B',), in this order."""
        memory = self.memory.keep(rows)
        size = int(self.source_lengths[rows].max()) if len(rows) else 0
        mask = None if memory.mask is None else memory.mask[..., :size]
        return replace(
            self,
            memory=SourceKV(memory.keys[..., :size], memory.values[..., :size, :], mask),
            cache=self.cache.keep(rows),
            pool=self.pool.keep(rows),
            **{name: getattr(self, name)[rows] for name in ROW_TENSORS},
        )

    def join(self, other: "Sentences") -> "Sentences":
        """These sentences and others behind them."""
        return Sentences(
            join_memory(self.memory, other.memory),
            join_caches(self.cache, other.cache),
            history=join_last(self.history, other.history, 2),
            pool=HypothesisBatch(
                join_last(self.pool.tokens, other.pool.tokens, 2),
                *(torch.cat([getattr(item.pool, field.name) for item in (self, other)]) for field in POOL_COLUMNS),
            ),
            **{
                name: torch.cat([getattr(self, name), getattr(other, name)])
                for name in ROW_TENSORS
                if name != "history"
            },
        )


ROW_TENSORS = ("source_lengths", "tokens", "live", "history", "lengths", "max_lengths")
POOL_COLUMNS = fields(HypothesisBatch)[1:]


def join_last(first: Tensor, second: Tensor, dim: int, value: float = 0) -> Tensor:
    """Concatenate along the first dimension; the shorter one is padded at the end of dimension `dim`."""
    size = max(first.size(dim), second.size(dim))
    padded = [F.pad(x, [0, 0] * (x.dim() - 1 - dim) + [0, size - x.size(dim)], value=value) for x in (first, second)]
    return torch.cat(padded)


def join_memory(first: SourceKV, second: SourceKV) -> SourceKV:
    """The keys, values and masks of the sources of both."""
    size = max(first.keys.size(4), second.keys.size(4))
    parts = []
    for memory in (first, second):
        _, sentences, heads, _, length = memory.keys.shape
        mask = memory.keys.new_zeros(sentences, heads, 1, length) if memory.mask is None else memory.mask
        more = size - length
        parts.append(
            (
                F.pad(memory.keys, [0, more]),
                F.pad(memory.values, [0, 0, 0, more]),
                F.pad(mask, [0, more], value=NEG_INF),
            )
        )
    all_keys, all_values, masks = zip(*parts, strict=True)
    return SourceKV(torch.cat(all_keys, dim=1), torch.cat(all_values, dim=1), torch.cat(masks))


def join_caches(first: TreeKVCache, second: TreeKVCache) -> TreeKVCache:
    """The trees of both; one with fewer nodes gets zeros that no path sees."""
    count, capacity = max(first.count, second.count), max(first.nodes.capacity, second.nodes.capacity)
    trees = first.trees + second.trees
    shape = list(first.nodes.tensor.shape)
    tensor = first.nodes.tensor.new_empty(*shape[:2], trees, shape[3], capacity, shape[5])
    masks, start = [], 0
    for cache in (first, second):
        nodes = tensor.narrow(2, start, cache.trees)
        nodes[..., : cache.count, :] = cache.nodes.tensor[..., : cache.count, :]
        nodes[..., cache.count : count, :] = 0.0
        assert cache.path_mask is not None
        masks.append(F.pad(cache.path_mask, [0, count - cache.count], value=NEG_INF))
        start += cache.trees
    return TreeKVCache(NodeBuffer(tensor, count), count, torch.cat(masks))


class FusedContinuousSearch(Generic[Name]):
    """Greedy or beam search with a fused Transformer."""

    def __init__(self, stepper: FusedTransformer, symbols: Symbols, settings: DecodingSettings) -> None:
        self.stepper, self.symbols, self.settings = stepper, symbols, settings
        self.rules: Rules = build_rules(settings, symbols)
        self.greedy = settings.search == "greedy"
        self.width = 1 if self.greedy else settings.beam
        self.names: list[Name] = []
        self._done: set[int] = set()  # rows of sentences that have ended, and are still computed
        self._removed = False  # True if some of them did not end: the next step does not compute them
        self._sentences: Sentences | None = None

    def __len__(self) -> int:
        return len(self.names) - len(self._done)

    @torch.inference_mode()
    def add(self, names: Sequence[Name], request: DecodingRequest) -> None:
        """Encode the sources of a request and let them take part in the next step; `names` are theirs in `step`."""
        if not names:
            return
        new = self._start(request)
        running = self._without_done()
        self._sentences = new if running is None else running.join(new)
        self.names += names

    def remove(self, name: Name) -> None:
        if name in self.names:
            self._done.add(self.names.index(name))
            self._removed = True

    @torch.inference_mode()
    def step(self) -> list[tuple[Name, list[Hypothesis]]]:
        if self._removed or not len(self):
            self._sentences = self._without_done()
        if self._sentences is None:
            return []
        self._sentences, done = self._advance(self._sentences)
        rows = [row for row in done.nonzero()[:, 0].tolist() if row not in self._done]
        hypotheses = self._sentences.pool.keep(torch.tensor(rows)).hypotheses() if rows else []
        finished = [
            (self.names[row], [item for item in sentence if item.finished] or sentence)
            for row, sentence in zip(rows, hypotheses, strict=True)
        ]
        self._done.update(rows)
        if should_compact(torch.tensor([row in self._done for row in range(len(self.names))])):
            self._sentences = self._without_done()
        return finished

    def partial(self) -> dict[Name, list[int]]:
        """The tokens of the best unfinished hypothesis of each sentence in progress."""
        if self._sentences is None:
            return {}
        best, lengths = self._sentences.live.argmax(dim=1).tolist(), self._sentences.lengths.tolist()
        return {
            name: self._sentences.history[row, best[row], : lengths[row]].tolist()
            for row, name in enumerate(self.names)
            if row not in self._done
        }

    def _advance(self, s: Sentences) -> tuple[Sentences, Tensor]:
        """One step of `decoding.beam.beam_search`, where every sentence has its own length; and which are done (B,)."""
        width, lengths = self.width, s.lengths
        positions = lengths.repeat_interleave(width)
        logits, cache = self.stepper.decode(s.tokens, s.memory, s.cache, positions, int(lengths.max()) + 1)
        no_prefix = ForcedPrefix(lengths.new_zeros(len(s), 0), torch.zeros_like(lengths))
        seen = last_tokens(s.history, lengths, s.history.size(2)) if self.rules.constraints else s.history
        candidates = Candidates.best(s.live, *StepContext(self.rules, logits, seen, no_prefix, 0).top_k(2 * width),
                                     2 * width)  # fmt: skip
        ended, beam = split_candidates(candidates, self.symbols.eos, width)
        pool = self._collect(s.pool, ended, s.history, lengths, finished=True)
        live, history = beam.log_prob, extend(s.history, beam, lengths)
        full = (lengths + 1 >= s.max_lengths)[:, None]
        guard, looped = self.rules.loop_guard, None
        if guard is not None and int(lengths.max()) + 1 >= guard.min_tokens:
            size = max(guard.max_unit * guard.min_repeats, guard.min_tokens + guard.max_unit)
            looped = guard(last_tokens(history, lengths + 1, size))
        cut = full.expand_as(live) if looped is None else full | looped
        truncated = replace(beam, log_prob=live.masked_fill(~cut, NEG_INF))
        pool = self._collect(pool, truncated, s.history, lengths, finished=False, looped=looped)
        live = live.masked_fill(cut, NEG_INF)
        if self.greedy:
            done = (ended.log_prob > NEG_INF).any(dim=1) | cut.all(dim=1)
        else:
            bound = live.amax(dim=1) / length_penalty(s.max_lengths, self.rules.alpha)
            done = ~(bound > pool.worst_finished())
        live = live.masked_fill(done[:, None], NEG_INF)
        cache = cache.reorder(beam.parents)
        return replace(
            s, cache=cache, tokens=beam.tokens, live=live, history=history, lengths=lengths + 1, pool=pool
        ), done

    def _collect(
        self,
        pool: HypothesisBatch,
        candidates: Candidates,
        history: Tensor,
        lengths: Tensor,
        *,
        finished: bool,
        looped: Tensor | None = None,
    ) -> HypothesisBatch:
        """Merge the candidates whose log P is not minus infinity into the pool."""
        used = candidates.log_prob != NEG_INF  # "!=" and not ">": NaN must reach the pool, where it raises an error
        if not bool(used.any()):
            return pool
        length = (lengths + 1)[:, None].expand_as(candidates.tokens)
        score = candidates.log_prob / length_penalty(length, self.rules.alpha)
        looped = torch.zeros_like(used) if looped is None else looped & used
        tokens = extend(history, candidates, lengths)
        return pool.merge(HypothesisBatch(tokens, length, candidates.log_prob, score, used & finished, looped))

    def _start(self, request: DecodingRequest) -> Sentences:
        """New sentences, with one empty hypothesis each."""
        ids, source_lengths = pad_rows(request.sources, self.symbols.pad, torch.device("cpu"))
        state = self.stepper.start(Padded.of(ids, source_lengths))
        count, width, nbest = len(request), self.width, self.settings.nbest
        live = torch.full((count, width), NEG_INF)
        live[:, 0] = 0.0
        empty = HypothesisBatch.empty(count, nbest, live.device, log_prob=NEG_INF)
        return Sentences(
            SourceKV(state.memory.keys, state.memory.values, state.memory.mask),
            replace(state.cache, path_mask=live.new_zeros(count, width, 0)),
            source_lengths,
            torch.full((count, width), self.symbols.bos),
            live,
            torch.zeros(count, width, 0, dtype=torch.long),
            torch.zeros(count, dtype=torch.long),
            torch.tensor(list(request.max_new_tokens)),
            replace(empty, tokens=torch.zeros(count, nbest, 0, dtype=torch.long)),
        )

    def _without_done(self) -> Sentences | None:
        rows = [row for row in range(len(self.names)) if row not in self._done]
        sentences = self._sentences
        if sentences is not None and self._done:
            sentences = sentences.keep(torch.tensor(rows, dtype=torch.long)) if rows else None
        self.names, self._done, self._removed = [self.names[row] for row in rows], set(), False
        return sentences


def extend(history: Tensor, candidates: Candidates, lengths: Tensor) -> Tensor:
    """(B, W, T) and n candidates -> (B, n, T'): each candidate behind the tokens of its parent, at lengths[b]."""
    size = int(lengths.max()) + 1
    if history.size(2) < size:
        history = F.pad(history, [0, size - history.size(2)])
    index = candidates.parents[:, :, None].expand(-1, -1, history.size(2))
    position = lengths[:, None, None].expand(-1, candidates.parents.size(1), 1)
    return history.gather(1, index).scatter(2, position, candidates.tokens[:, :, None])


def last_tokens(history: Tensor, lengths: Tensor, size: int) -> Tensor:
    """The last `size` tokens (B, W, n) of each hypothesis; missing ones are distinct negative numbers."""
    position = lengths[:, None] - size + torch.arange(size)  # (B, n)
    index = position.clamp(min=0)[:, None].expand(-1, history.size(1), -1)
    missing = -1 - torch.arange(size).expand_as(index)
    return torch.where(position[:, None] >= 0, history.gather(2, index), missing)
