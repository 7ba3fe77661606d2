"""One glance at the source, as a recurrent decoder takes it at every word (Bahdanau et al. 2015, section 3.1):

    e_ts = score(q_t, k_s)        how well the decoder's state fits each source word        scoring.py
    a_t  = weigh(e_t)             how much of each is taken; in the simplest case a softmax   kinds.py, hard.py
    c_t  = sum_s a_ts m_s         the context

Score and kind of attention are parts handed in. `remember` does once a sentence what depends on the source alone.

B sentences, W queries of a sentence (all T positions in training, the W hypotheses in a search), S source words,
Q query size, M memory size.
"""

from dataclasses import dataclass

from torch import Tensor, nn

from regard.attention.hard import Choices, HardGumbel, HardReinforce
from regard.attention.kinds import Global, LocalM, LocalP
from regard.attention.layouts import Padded
from regard.attention.scoring import SCORINGS, Scoring

Kind = Global | LocalM | LocalP | HardGumbel | HardReinforce


@dataclass(frozen=True)
class Memory:
    """A source that has been read: prepared keys (B, S, *), values (B, S, M), and where its padding begins."""

    keys: Tensor
    values: Tensor
    layout: Padded

    def keep(self, sentences: Tensor) -> "Memory":
        """Only these sentences remain, in this order; all hypotheses of a sentence share its memory."""
        keys, values, lengths = (x.index_select(0, sentences) for x in (self.keys, self.values, self.layout.lengths))
        return Memory(keys, values, Padded(lengths, self.layout.size))


@dataclass(frozen=True)
class Look:
    """What was seen (B, W, M), where it was looked for (B, W, S), and, if places were drawn by lot, what was drawn."""

    context: Tensor
    weights: Tensor
    choices: Choices | None


class Glance(nn.Module):
    """A score and a kind of attention put together."""

    def __init__(self, scoring: Scoring, kind: Kind) -> None:
        super().__init__()
        self.scoring, self.kind = scoring, kind

    def remember(self, memory: Tensor, lengths: Tensor) -> Memory:
        """memory (B, S, M) of sentences of these lengths (B,), each of one word at least."""
        return Memory(self.scoring.keys(memory), memory, Padded(lengths, memory.size(1)))

    def forward(self, query: Tensor, memory: Memory, places: int | Tensor) -> Look:
        """query (B, W, Q), written at target positions `places`: one for all, or (W,)."""
        scores = self.scoring(query, memory.keys)
        weights, choices = self.kind(scores, query, memory.layout, places)
        return Look(weights.to(memory.values.dtype) @ memory.values, weights, choices)


def build_glance(score: str, kind: str, query_dim: int, memory_dim: int, hidden: int, window: int) -> Glance:
    """A glance by the names of its parts: score "dot", "scaled_dot", "general", "additive", "concat" or "cosine", kind
    "global", "local-m", "local-p", "hard-gumbel" or "hard-reinforce"; `window` is the reach D of the local kinds."""
    return Glance(SCORINGS[score](query_dim, memory_dim, hidden), build_kind(kind, query_dim, hidden, window))


def build_kind(kind: str, query_dim: int, hidden: int, window: int) -> Kind:
    match kind:
        case "global":
            return Global()
        case "local-m":
            return LocalM(window)
        case "local-p":
            return LocalP(query_dim, hidden, window)
        case "hard-gumbel":
            return HardGumbel()
        case "hard-reinforce":
            return HardReinforce(query_dim)
    raise ValueError(f"there is no attention called {kind}")
