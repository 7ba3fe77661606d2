"""Hard attention: one word is looked at instead of a mean of all (Xu et al. 2015, section 4.1).

    s_t ~ softmax(e_t)        a place is drawn
    c_t = m_{s_t}             and what stands there is all that is seen

A draw has no derivative, so how does the score learn? In one of two ways, each a part:

    straight-through   the gradient is that of a softmax beside the draw. Little noise, some bias, any loss.
                       Jang et al. 2017, section 2.2
    score function     what was drawn is made likelier if the words after it went well (REINFORCE, Williams 1992).
                       No bias, much noise, and the loss must be told what was drawn: losses/reinforce.py.

Both draw while training only. Afterwards the likeliest place is taken, so that a search or a picture can be repeated.

B sentences, W queries of a sentence, S source words, Q query size.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn

from regard.attention.layouts import Padded


@dataclass(frozen=True)
class Choices:
    """Places drawn by lot, (B, W) each: how likely they were, how open the choice was, and what was expected of it."""

    log_p: Tensor
    """log p(s_t) of the place that was drawn; its gradient is the score function."""
    entropy: Tensor
    """H(s_t) = -sum_s p(s) log p(s), in nats."""
    baseline: Tensor
    """b_t, what the query alone lets one expect of the words from t on; it never saw the draw."""

    @classmethod
    def join(cls, parts: "Sequence[Choices]") -> "Choices":
        """The choices of one position after another -> (B, T)."""
        return cls(*(torch.cat([getattr(part, field.name) for part in parts], dim=1) for field in fields(cls)))


def gumbel(like: Tensor) -> Tensor:
    """Noise g = -log(-log u), u uniform; argmax(log p + g) is then a draw from p (Jang et al. 2017, equation 1)."""
    return -torch.empty_like(like).exponential_().log()  # -log u is exponentially distributed


def likeliest(scores: Tensor) -> Tensor:
    """1 at the highest score of each row, 0 elsewhere: (..., S) -> (..., S)."""
    return torch.zeros_like(scores).scatter_(-1, scores.argmax(dim=-1, keepdim=True), 1.0)


def straight_through(scores: Tensor, temperature: float) -> Tensor:
    """Draw a place from softmax(scores); to the gradient, the draw was a softmax (Jang et al. 2017, section 2.2).

        y = softmax((e + g) / tau)                  a draw, not quite hard: the Gumbel-softmax, equation 2
        s = one_hot(argmax y),   ds/de := dy/de

    The lower tau, the closer y is to s and the wilder its gradient.
    """
    y = ((scores + gumbel(scores)) / temperature).softmax(dim=-1)
    return likeliest(y.detach()) + (y - y.detach())


def draw(scores: Tensor, seen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Draw a place from softmax(scores) over the words seen -> s one-hot (B, W, S), log p(s) and H (B, W)."""
    log_p = scores.masked_fill(~seen, -torch.inf).log_softmax(dim=-1)
    drawn = likeliest(log_p.detach() + gumbel(log_p))
    finite = log_p.masked_fill(~seen, 0.0)  # p log p is 0 where p is 0
    return drawn, (drawn * finite).sum(dim=-1), -(log_p.exp() * finite).sum(dim=-1)


class HardGumbel(nn.Module):
    """Draw, and let the gradient pass straight through."""

    def __init__(self, temperature: float = 1.0) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, scores: Tensor, query: Tensor, keys: Padded, places: int | Tensor) -> tuple[Tensor, None]:
        scores = exactly(scores).masked_fill(~keys.real[:, None], -torch.inf)
        return (straight_through(scores, self.temperature) if self.training else likeliest(scores)), None


class HardReinforce(nn.Module):
    """Draw, and report what was drawn; the loss makes a gradient of it.

    The baseline b_t = w^T q_t + b is learned. It judges the decoder's state without changing it: no gradient goes back
    into the query.
    """

    def __init__(self, query_dim: int) -> None:
        super().__init__()
        self.baseline = nn.Linear(query_dim, 1)

    def forward(
        self, scores: Tensor, query: Tensor, keys: Padded, places: int | Tensor
    ) -> tuple[Tensor, Choices | None]:
        scores, seen = exactly(scores), keys.real[:, None]
        if not self.training:
            return likeliest(scores.masked_fill(~seen, -torch.inf)), None
        drawn, log_p, entropy = draw(scores, seen)
        return drawn, Choices(log_p, entropy, exactly(self.baseline(query.detach())[..., 0]))


def exactly(x: Tensor) -> Tensor:
    """In single precision at least: places are compared, and a draw in half of that would tie."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
