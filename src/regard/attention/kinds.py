"""From scores to weights: how much of each source word is taken.

    global    a_t = softmax(e_t) over the whole sentence                    Luong et al. 2015, section 3.1
    local-m   the same over a window, |s - p_t| <= D, with p_t = t          Luong et al. 2015, section 3.2
    local-p   a window around a place the model predicts, and a Gaussian over it:
              p_t = S sigmoid(v^T tanh(W q_t))                              equation 9
              a_ts = softmax(e_t)_s exp(-(s - p_t)^2 / (2 sigma^2)),  sigma = D / 2        equation 10

Hard attention, which draws one place, is in hard.py. Every kind is a part with one call, which takes the scores, the
queries they came from, where the source words lie and the places of the queries in the target; it returns the
weights and, if it drew by lot, what it drew.

Each sentence has its own S, and one word at least, if only its end: a softmax always has something to choose from.

B sentences, W queries of a sentence, S source words (from 0), Q query size, A hidden size, D reach of a window.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.layouts import Padded


def softmax_over(scores: Tensor, seen: Tensor) -> Tensor:
    """Softmax of scores (B, W, S) over the words seen; the others get exactly 0."""
    exact = torch.promote_types(scores.dtype, torch.float32)
    return torch.where(seen, scores, -torch.inf).softmax(dim=-1, dtype=exact)


def window(centres: Tensor, keys: Padded, reach: int) -> Tensor:
    """The words within reach of each centre (B, W): |s - p| <= D, never padding -> (B, W, S)."""
    return ((keys.positions - centres[..., None]).abs() <= reach) & keys.real[:, None]


def monotonic(keys: Padded, places: int | Tensor) -> Tensor:
    """p_t = t: source and target go on in step (local-m). One place for all queries, or (W,) -> (B, 1) or (B, W).

    Where the target is longer than its source the centre waits at the end, as it does in the authors' program.
    """
    return (keys.lengths[:, None] - 1).clamp(max=places)


def predicted(query: Tensor, keys: Padded, w: Tensor, v: Tensor) -> Tensor:
    """p_t = S sigmoid(v^T tanh(W q_t)), a real number between 0 and S: (B, W, Q), W (A, Q), v (A,) -> (B, W)."""
    share = torch.tanh(F.linear(query, w)) @ v
    return keys.lengths[:, None] * share.to(torch.promote_types(share.dtype, torch.float32)).sigmoid()


def gaussian(centres: Tensor, keys: Padded, sigma: float) -> Tensor:
    """exp(-(s - p)^2 / (2 sigma^2)) for centres (B, W) -> (B, W, S)."""
    return torch.exp(-((keys.positions - centres[..., None]) ** 2) / (2 * sigma**2))


class Global(nn.Module):
    """Look at all words."""

    def forward(self, scores: Tensor, query: Tensor, keys: Padded, places: int | Tensor) -> tuple[Tensor, None]:
        return softmax_over(scores, keys.real[:, None]), None


class LocalM(nn.Module):
    """Look at the words around the same place in the source: alignment is taken to be monotonic."""

    def __init__(self, reach: int) -> None:
        super().__init__()
        self.reach = check_reach("local-m", reach)

    def forward(self, scores: Tensor, query: Tensor, keys: Padded, places: int | Tensor) -> tuple[Tensor, None]:
        return softmax_over(scores, window(monotonic(keys, places), keys, self.reach)), None


class LocalP(nn.Module):
    """Predict where to look, and look around there.

    As in the paper the window is cut at D (two sigma, where the Gaussian has fallen to e^-2) and the softmax is over
    the window alone; what the Gaussian takes away is not given back, so weights sum to less than 1. The edge of a
    window passes no gradient: W and v learn through the Gaussian.
    """

    def __init__(self, query_dim: int, hidden: int, reach: int) -> None:
        super().__init__()
        self.reach = check_reach("local-p", reach)
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(hidden, query_dim)))
        self.vector = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, hidden))[0])

    def forward(self, scores: Tensor, query: Tensor, keys: Padded, places: int | Tensor) -> tuple[Tensor, None]:
        centres = predicted(query, keys, self.weight, self.vector)
        weights = softmax_over(scores, window(centres, keys, self.reach))
        return weights * gaussian(centres, keys, self.reach / 2), None


def check_reach(kind: str, reach: int) -> int:
    """A window of no reach would see one word at most, and its Gaussian would have no width."""
    if reach < 1:
        raise ValueError(f"attention = {kind} needs a window of 1 or more to either side, not {reach}")
    return reach
