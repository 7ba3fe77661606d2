"""A mixture of experts in place of a feed-forward network (Shazeer et al. 2017).

    y      = sum_i G(x)_i E_i(x)                                   equation 1; only k experts have G > 0
    G(x)   = softmax(KeepTopK(H(x), k))                            equation 3; all but the k largest are -inf
    H(x)_i = (x W_g)_i + Normal(0, 1) softplus((x W_noise)_i)      equation 4; the noise in training only

A gate that prefers some experts trains them most and prefers them even more. Two losses keep the experts in use, each
the squared coefficient of variation over the experts i of a batch X:

    L = w CV(sum_x G(x)_i)^2 + w CV(sum_x P(x, i))^2,    CV = standard deviation / mean      equations 6, 7 and 11
    P(x, i) = Phi(((x W_g)_i - kth largest of the other H(x)) / softplus((x W_noise)_i))       equation 9

P is the probability that expert i would be chosen with other noise: a smooth count of its tokens. `AddLoss` adds the
gradient of L in the backward pass, so that no layer has to pass the loss on; a reported loss does not include it.

`*` any shape of tokens, N tokens, D model, n experts.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.layouts import Layout


class AddLoss(torch.autograd.Function):
    """y unchanged; in the backward pass `loss` is a part of the objective."""

    @staticmethod
    def forward(ctx: object, y: Tensor, loss: Tensor) -> Tensor:
        return y.view_as(y)

    @staticmethod
    def backward(ctx: object, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        return gradients[0], torch.ones((), device=gradients[0].device)


class MixtureOfExperts(nn.Module):
    """Feed-forward experts, of which a noisy gate chooses `used` for each token: (*, D) -> (*, D)."""

    def __init__(
        self, build: Callable[[], nn.Module], d_model: int, experts: int, used: int, balance: float = 0.0
    ) -> None:
        """`build` makes one expert; `balance` is w."""
        super().__init__()
        self.experts = nn.ModuleList(build() for _ in range(experts))
        self.used, self.balance = used, balance
        self.gate = nn.Parameter(torch.zeros(d_model, experts))  # zeros: all experts are used alike at first
        self.noise = nn.Parameter(torch.zeros(d_model, experts))

    def forward(self, x: Tensor, layout: Layout | None = None) -> Tensor:
        """Padding is computed too, and does not count for the balance."""
        rows = x.flatten(0, -2)  # (N, D)
        gates, loss = self.route(rows, None if layout is None else layout.not_padding.flatten())
        y = torch.zeros_like(rows)
        for number, expert in enumerate(self.experts):
            chosen = gates[:, number].nonzero()[:, 0]
            y = y.index_add(0, chosen, (gates[chosen, number, None] * expert(rows[chosen])).to(y.dtype))
        y = y.view_as(x)
        return AddLoss.apply(y, loss) if self.training and self.balance else y  # type: ignore[no-untyped-call]

    def route(self, x: Tensor, counted: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x (N, D) -> G (N, n), of which `used` are above zero, and L over the tokens that are `counted` (N,)."""
        with torch.autocast(x.device.type, enabled=False):
            x = x.float()
            clean, spread = x @ self.gate.float(), F.softplus(x @ self.noise.float()) + 1e-6
            scores = clean + torch.randn_like(clean) * spread if self.training else clean
            top, chosen = scores.topk(min(self.used + 1, scores.size(-1)))
            kept = top[:, : self.used].softmax(dim=-1)
            gates = torch.zeros_like(scores).scatter(1, chosen[:, : self.used], kept)
            counted = torch.ones(len(x), dtype=torch.bool, device=x.device) if counted is None else counted
            loss = variation((gates * counted[:, None]).sum(dim=0))
            if self.used < len(self.experts):  # otherwise every expert gets every token
                is_chosen = gates > 0
                rival = torch.where(is_chosen, top[:, self.used, None], top[:, self.used - 1, None])
                load = torch.distributions.Normal(0.0, 1.0).cdf((clean - rival) / spread)
                loss = loss + variation((load * counted[:, None]).sum(dim=0))
        return gates, self.balance * loss

    @property
    def idle_parameters(self) -> int:
        """Number of parameters of the experts that a token does not use."""
        per_expert = sum(parameter.numel() for parameter in self.experts[0].parameters())
        return (len(self.experts) - self.used) * per_expert


def variation(x: Tensor) -> Tensor:
    """The squared coefficient of variation, (variance / mean^2), as in the paper's program; 0 for one number."""
    return x.var() / (x.mean() ** 2 + 1e-10) if len(x) > 1 else x.new_zeros(())
