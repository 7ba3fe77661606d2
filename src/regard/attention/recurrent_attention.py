"""Attention of a recurrent decoder to the source (Bahdanau et al. 2015, section 3.1):

    e_ts = score(q_t, k_s)        a score for the decoder state and every source token     scoring.py
    a_t  = weights(e_t)           attention weights; in the simplest case a softmax        this file
    c_t  = sum_s a_ts m_s         the context vector

The kinds of attention differ in how scores become weights:

    global    a_t = softmax(e_t) over the whole sentence                    Luong et al. 2015, section 3.1
    local-m   softmax over a window, |s - p_t| <= D, with p_t = t           Luong et al. 2015, section 3.2
    local-p   a window around a predicted position, times a Gaussian:
              p_t = S sigmoid(v^T tanh(W q_t))                              equation 9
              a_ts = softmax(e_t)_s exp(-(s - p_t)^2 / (2 sigma^2)),  sigma = D / 2        equation 10
    hard      one position s_t ~ softmax(e_t) is sampled, c_t = m_{s_t}     Xu et al. 2015, section 4.1

A sample has no derivative. Hard attention learns in one of two ways:

    hard-gumbel      straight-through: the gradient is that of a softmax. Low variance, some bias, any loss.
                     Jang et al. 2017, section 2.2
    hard-reinforce   score function: a sample becomes more likely if the tokens after it are predicted well (REINFORCE,
                     Williams 1992). No bias, high variance. The loss needs the samples: losses/reinforce.py.

Both sample in training only. Otherwise they take the most likely position, so that a search can be repeated.

Every kind is a module with one call. It takes the scores, the queries, the layout of the source tokens and the target
positions of the queries; it returns the weights and, for hard-reinforce, the samples. Every sentence has at least one
token, so a softmax always has something to choose from.

B sentences, W queries of a sentence (all T positions in training, the W hypotheses in a search), S source tokens (from
0), Q query size, M memory size, A hidden size, D window.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.attend import masked_softmax, to_float32
from regard.attention.layouts import Padded
from regard.attention.scoring import SCORINGS, Scoring


@dataclass(frozen=True)
class SampledAlignments:
    """Sampled source positions: log-probability, entropy and REINFORCE baseline, (B, W) each."""

    log_p: Tensor
    """log p(s_t) of the sample; its gradient is the score function. 0 where nothing was sampled."""
    entropy: Tensor
    """H(s_t) = -sum_s p(s) log p(s), in nats."""
    baseline: Tensor
    """b_t, the expected return given the query alone; it does not depend on the sample."""

    @classmethod
    def concatenate(cls, samples: "Sequence[SampledAlignments]") -> "SampledAlignments":
        """Samples of one position after another -> (B, T)."""
        return cls(*(torch.cat([getattr(sample, field.name) for sample in samples], dim=1) for field in fields(cls)))


@dataclass(frozen=True)
class AttentionOutput:
    """Context vectors (B, W, M), attention weights (B, W, S) and, for hard-reinforce attention, the samples."""

    context: Tensor
    weights: Tensor
    samples: SampledAlignments | None

    @classmethod
    def concatenate(cls, outputs: "Sequence[AttentionOutput]") -> "AttentionOutput":
        """Outputs of one position after another as one output for all of them."""
        context = torch.cat([output.context for output in outputs], dim=1)
        weights = torch.cat([output.weights for output in outputs], dim=1)
        samples = [output.samples for output in outputs if output.samples is not None]
        return cls(context, weights, SampledAlignments.concatenate(samples) if samples else None)


@dataclass(frozen=True)
class SourceMemory:
    """An encoded source: prepared keys (B, S, *), values (B, S, M) and the layout of the source tokens."""

    keys: Tensor
    values: Tensor
    layout: Padded

    def keep(self, sentences: Tensor) -> "SourceMemory":
        """Keep only these sentences, in this order; all hypotheses of a sentence share its memory."""
        keys, values, lengths = (x.index_select(0, sentences) for x in (self.keys, self.values, self.layout.lengths))
        return SourceMemory(keys, values, Padded(lengths, self.layout.size))


class Global(nn.Module):
    """Softmax over all source tokens."""

    def forward(self, scores: Tensor, query: Tensor, keys: Padded, positions: int | Tensor) -> tuple[Tensor, None]:
        return masked_softmax(to_float32(scores), keys.not_padding[:, None]), None


class LocalM(nn.Module):
    """Softmax over the source tokens around the query's own position: a monotonic alignment is assumed."""

    def __init__(self, window: int) -> None:
        super().__init__()
        self.window = check_window("local-m", window)

    def forward(self, scores: Tensor, query: Tensor, keys: Padded, positions: int | Tensor) -> tuple[Tensor, None]:
        centres = monotonic_positions(keys, positions)  # (B, 1) or (B, W)
        return masked_softmax(to_float32(scores), local_window(centres, keys, self.window)), None


class LocalP(nn.Module):
    """Softmax over a window around a predicted position, times a Gaussian.

    As in the paper the window ends at D (two sigma, where the Gaussian is e^-2) and the softmax is over the window
    alone. The Gaussian is not normalised, so weights sum to less than 1. The edge of the window passes no gradient: W
    and v learn through the Gaussian.
    """

    def __init__(self, query_dim: int, hidden: int, window: int) -> None:
        super().__init__()
        self.window = check_window("local-p", window)
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(hidden, query_dim)))
        self.vector = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, hidden))[0])

    def forward(self, scores: Tensor, query: Tensor, keys: Padded, positions: int | Tensor) -> tuple[Tensor, None]:
        centres = predicted_positions(query, keys, self.weight, self.vector)  # (B, W)
        weights = masked_softmax(to_float32(scores), local_window(centres, keys, self.window))  # (B, W, S)
        return weights * gaussian(centres, keys, self.window / 2), None


class HardGumbel(nn.Module):
    """Sample a position; the gradient passes straight through."""

    def __init__(self, temperature: float = 1.0) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, scores: Tensor, query: Tensor, keys: Padded, positions: int | Tensor) -> tuple[Tensor, None]:
        scores = to_float32(scores).masked_fill(~keys.not_padding[:, None], -torch.inf)
        return (straight_through(scores, self.temperature) if self.training else one_hot_argmax(scores)), None


class HardReinforce(nn.Module):
    """Sample a position and return the sample; the loss gives it a gradient.

    With probability `soft` a query gets the expected context of softmax(e_t) in training instead of that of a sample
    (Xu et al. 2015, section 4.1, who choose this for whole sentences). The scores then also learn by a gradient without
    variance; without it they learn little in a short training. The baseline b_t = w^T q_t + b is learned. No gradient
    goes back from it into the query.
    """

    def __init__(self, query_dim: int, soft: float = 0.5) -> None:
        super().__init__()
        self.baseline = nn.Linear(query_dim, 1)
        self.soft = soft

    def forward(
        self, scores: Tensor, query: Tensor, keys: Padded, positions: int | Tensor
    ) -> tuple[Tensor, SampledAlignments | None]:
        scores, mask = to_float32(scores), keys.not_padding[:, None]
        if not self.training:
            return one_hot_argmax(scores.masked_fill(~mask, -torch.inf)), None
        weights, log_p, entropy = sample(scores, mask)
        if self.soft:
            is_soft = torch.rand_like(log_p) < self.soft  # (B, W)
            weights = torch.where(is_soft[..., None], masked_softmax(scores, mask), weights)
            log_p = log_p.masked_fill(is_soft, 0.0)  # nothing was sampled
        return weights, SampledAlignments(log_p, entropy, to_float32(self.baseline(query.detach())[..., 0]))


Kind = Global | LocalM | LocalP | HardGumbel | HardReinforce


class SourceAttention(nn.Module):
    """Attention of a recurrent decoder: a score and a kind of attention."""

    def __init__(self, scoring: Scoring, kind: Kind) -> None:
        super().__init__()
        self.scoring, self.kind = scoring, kind

    def prepare(self, memory: Tensor, lengths: Tensor) -> SourceMemory:
        """Compute the keys of a memory (B, S, M) once; lengths (B,) of the sentences are 1 or more."""
        return SourceMemory(self.scoring.keys(memory), memory, Padded(lengths, memory.size(1)))

    def forward(self, query: Tensor, memory: SourceMemory, positions: int | Tensor) -> AttentionOutput:
        """query (B, W, Q) at target positions `positions`: one for all queries, or (W,)."""
        scores = self.scoring(query, memory.keys)  # (B, W, S)
        weights, samples = self.kind(scores, query, memory.layout, positions)  # (B, W, S)
        return AttentionOutput(weights.to(memory.values.dtype) @ memory.values, weights, samples)


def build_source_attention(
    score: str, kind: str, query_dim: int, memory_dim: int, hidden: int, window: int
) -> SourceAttention:
    """Build attention by the names of its parts: a score of `SCORINGS` and a kind, "global", "local-m", "local-p",
    "hard-gumbel" or "hard-reinforce"; `window` is D of the local kinds."""
    return SourceAttention(SCORINGS[score](query_dim, memory_dim, hidden), build_kind(kind, query_dim, hidden, window))


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
    raise ValueError(f"unknown kind of attention: {kind}")


def local_window(centres: Tensor, keys: Padded, window: int) -> Tensor:
    """Mask of the source tokens near each centre (B, W): |s - p| <= D, never padding -> (B, W, S)."""
    return ((keys.positions - centres[..., None]).abs() <= window) & keys.not_padding[:, None]


def monotonic_positions(keys: Padded, positions: int | Tensor) -> Tensor:
    """p_t = t (local-m). One position for all queries, or (W,) -> (B, 1) or (B, W).

    Where the target is longer than its source, p_t is the last source token, as in the authors' code.
    """
    return (keys.lengths[:, None] - 1).clamp(max=positions)


def predicted_positions(query: Tensor, keys: Padded, w: Tensor, v: Tensor) -> Tensor:
    """p_t = S sigmoid(v^T tanh(W q_t)), a real number between 0 and S: (B, W, Q), W (A, Q), v (A,) -> (B, W)."""
    return keys.lengths[:, None] * to_float32(torch.tanh(F.linear(query, w)) @ v).sigmoid()


def gaussian(centres: Tensor, keys: Padded, sigma: float) -> Tensor:
    """exp(-(s - p)^2 / (2 sigma^2)) for centres (B, W) -> (B, W, S)."""
    return torch.exp(-((keys.positions - centres[..., None]) ** 2) / (2 * sigma**2))


def check_window(kind: str, window: int) -> int:
    """Return the window; raise ValueError if it is below 1, because the Gaussian would have width 0."""
    if window < 1:
        raise ValueError(f"attention = {kind} needs a window of 1 or more to either side, not {window}")
    return window


def gumbel(like: Tensor) -> Tensor:
    """Noise g = -log(-log u), u uniform; argmax(log p + g) is then a sample of p (Jang et al. 2017, equation 1)."""
    return -torch.empty_like(like).exponential_().log()  # -log u is exponentially distributed


def one_hot_argmax(scores: Tensor) -> Tensor:
    """1 at the highest score of each row, 0 elsewhere: (..., S) -> (..., S)."""
    return torch.zeros_like(scores).scatter_(-1, scores.argmax(dim=-1, keepdim=True), 1.0)


def straight_through(scores: Tensor, temperature: float) -> Tensor:
    """Sample from softmax(scores), with the gradient of a softmax (Jang et al. 2017, section 2.2).

        y = softmax((e + g) / tau)                  the Gumbel-softmax, equation 2
        s = one_hot(argmax y),   ds/de := dy/de

    With a lower tau y is closer to s, and its gradient has more variance.
    """
    y = ((scores + gumbel(scores)) / temperature).softmax(dim=-1)
    return one_hot_argmax(y.detach()) + (y - y.detach())


def sample(scores: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Sample a position from softmax(scores) where mask is True -> s one-hot (B, W, S), log p(s) and H (B, W)."""
    log_p = scores.masked_fill(~mask, -torch.inf).log_softmax(dim=-1)
    one_hot = one_hot_argmax(log_p.detach() + gumbel(log_p))
    finite = log_p.masked_fill(~mask, 0.0)  # p log p is 0 where p is 0
    return one_hot, (one_hot * finite).sum(dim=-1), -(log_p.exp() * finite).sum(dim=-1)
