"""n-gram language model with modified Kneser-Ney smoothing: the next token by counts after the last n - 1.

    p_k(w | u) = (c_k(u w) - D(c_k(u w))) / c_k(u .)  +  g_k(u) p_{k-1}(w | u'),    p_0(w) = 1 / V
    g_k(u)     = (D_1 N_1(u .) + D_2 N_2(u .) + D_3 N_3+(u .)) / c_k(u .)

(Chen & Goodman 1998, section 3, interpolated.) u are the k - 1 tokens before w and u' the same without the first; `.`
is any token and N_i(u .) the number of tokens that occur i times after u. The discount D is D_1, D_2 or D_3 for a count
of one, two or more, g is the probability that the discounts free, and where u never occurs, p_k = p_{k-1}. c_n counts
the occurrences of the longest n-grams; c_k(v) of a shorter one is the number of different tokens before v (Kneser & Ney
1995): "Francisco" is frequent, but only after "San", and is unlikely elsewhere. The text is one stream: n-grams cross
the ends of lines, which are tokens like others.

The tables are a tree of sorted integers. An n-gram is identified by its row in the table of its order; its key is

    (row of its first k - 1 tokens in the table of order k - 1) * V + (its last token)

so a lookup is a binary search, all tokens that follow a context are neighbours, and a text is counted, scored or
continued with one vectorised search for each order.

B sentences, W hypotheses, V vocabulary, N tokens of a text, M n-grams of an order, C contexts: the n-grams one shorter.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from regard.attention.layouts import Attentions, Tokens
from regard.config import Field
from regard.errors import UserError
from regard.messages import Message
from regard.models.language_recurrent import LanguageSearchState
from regard.models.settings import ModelSettings

# Discounts of a text that is too small or too unusual to estimate them.
DEFAULT_DISCOUNTS = (0.5, 1.0, 1.5)


class NGramSettings(ModelSettings):
    """Settings of an n-gram model."""

    kind: Literal["ngram"] = "ngram"
    d_model: Literal[0] = Field(0, description="always 0: an n-gram model has no hidden states")
    order: int = Field(5, gt=0, le=100, description="n-gram order: the next token and the n - 1 tokens before it")

    @property
    def has_attention(self) -> bool:
        return False

    @property
    def summary(self) -> str:
        return Message("{order}-gram language model, modified Kneser-Ney", **dict(self))


def discounts(counts: npt.NDArray[np.int64]) -> Tensor:
    """D_1, D_2 and D_3+ of an order (Chen & Goodman 1998, section 3), n_i the number of n-grams that occur i times:

        Y = n_1 / (n_1 + 2 n_2),    D_i = i - (i + 1) Y n_{i+1} / n_i

    A discount cannot exceed its count or be negative: outside 0 .. i all three are the default ones.
    """
    n = np.bincount(np.minimum(counts, 5), minlength=6)
    i = np.arange(1, 4)
    default = torch.tensor(DEFAULT_DISCOUNTS, dtype=torch.float64)
    if not n[i].all():
        return default
    d = i - (i + 1) * n[1] / (n[1] + 2 * n[2]) * n[i + 1] / n[i]
    return torch.from_numpy(d) if ((d >= 0) & (d <= i)).all() else default


def check_tables(tables: Sequence[Sequence[Tensor | None]], vocabulary: int) -> None:
    """Raise a UserError if saved tables are not those of an n-gram model with this vocabulary."""
    contexts = 1
    for number, (keys, counts, estimated) in enumerate(tables, 1):
        if (
            keys is None
            or counts is None
            or estimated is None
            or (keys.dtype, counts.dtype, estimated.dtype) != (torch.int64, torch.int32, torch.float64)
            or (keys.dim(), counts.shape, estimated.shape) != (1, keys.shape, (3,))
            or not bool((keys.diff() > 0).all())
            or (len(keys) and not 0 <= int(keys[0]) <= int(keys[-1]) < contexts * vocabulary)
            or not bool((counts >= 0).all())
        ):
            problem = f"the table of {number}-grams is missing, damaged, or from a different vocabulary"
            raise UserError(problem, "use a different checkpoint", code="other-model", where="model")
        contexts = len(keys)


class Order(nn.Module):
    """The n-grams of one order. Keys, counts and discounts are saved; the other tensors follow from them."""

    keys: Tensor  # (M,) int64, ascending
    counts: Tensor  # (M,) int32
    discounts: Tensor  # (3,) float64
    shares: Tensor  # (M + 1,) float64: (c - D) / c(u .), and 0 for unknown n-grams (row -1)
    rests: Tensor  # (C + 1,) float64: g(u), and 1 for unknown contexts (row -1)

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        for name, tensor in dict(
            keys=torch.zeros(0, dtype=torch.long),
            counts=torch.zeros(0, dtype=torch.int32),
            discounts=torch.tensor(DEFAULT_DISCOUNTS, dtype=torch.float64),
        ).items():
            self.register_buffer(name, tensor)
        for name in ("shares", "rests"):
            self.register_buffer(name, torch.zeros(0, dtype=torch.float64), persistent=False)

    def fill(self, keys: Tensor, counts: Tensor, discounts: Tensor, contexts: int) -> None:
        """Set the tables of an order with this number of contexts, and compute the terms of the equation."""
        self.keys, self.counts, self.discounts = keys, counts, discounts
        owner = keys // self.vocabulary
        zero, one = discounts.new_zeros(1), discounts.new_ones(1)
        taken = torch.cat([zero, discounts])[counts.clamp(max=3).long()]
        total = zero.repeat(contexts).index_add(0, owner, counts.double())
        freed = zero.repeat(contexts).index_add(0, owner, taken)
        self.shares = torch.cat([(counts - taken) / total[owner].clamp(min=1), zero])
        self.rests = torch.cat([torch.where(total > 0, freed / total.clamp(min=1), one), one])

    def find(self, contexts: Tensor, words: Tensor) -> Tensor:
        """The rows of contexts followed by tokens, of equal shape; -1 if unknown."""
        if not len(self.keys):
            return torch.full_like(words, -1)
        keys = contexts * self.vocabulary + words
        rows = torch.searchsorted(self.keys, keys).clamp(max=len(self.keys) - 1)
        return torch.where((contexts >= 0) & (self.keys[rows] == keys), rows, -1)

    def followers(self, contexts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """All tokens that follow each of R contexts: index of the context, the token, and its share."""
        edges = torch.stack([contexts, contexts + 1]).clamp(min=0) * self.vocabulary
        begin, end = torch.searchsorted(self.keys, edges)
        sizes = end - begin
        which = torch.repeat_interleave(sizes)
        rows = torch.arange(len(which), device=which.device) + (begin - (sizes.cumsum(0) - sizes))[which]
        return which, self.keys[rows] % self.vocabulary, self.shares[rows]


class NGram(nn.Module):
    """An n-gram language model: counts, no weights. `NGram.count` makes it; a state dict of any size fills it."""

    is_stateful = False
    orders: Sequence[Order]

    def __init__(self, settings: NGramSettings, vocabulary: int) -> None:
        super().__init__()
        self.settings, self.vocabulary = settings, vocabulary
        self.orders = nn.ModuleList(Order(vocabulary) for _ in range(settings.order))  # type: ignore[assignment]
        self.fill([(order.keys, order.counts, order.discounts) for order in self.orders])

    @classmethod
    def count(cls, ids: npt.NDArray[np.integer], order: int, vocabulary: int) -> "NGram":
        """Count a text: ids (N,) below `vocabulary`."""
        words = np.asarray(ids, dtype=np.int64)
        keys: list[npt.NDArray[np.int64]] = []
        counts: list[npt.NDArray[np.int64]] = []
        rows = before = np.zeros(len(words), dtype=np.int64)  # the row of the (k - 1)-gram before each token
        for k in range(1, order + 1):
            unique, first, inverse, count = np.unique(
                before * vocabulary + words[k - 1 :], return_index=True, return_inverse=True, return_counts=True
            )
            if k > 1:  # each different k-gram has its last k - 1 tokens after one more token
                counts[-1] = np.bincount(rows[first + 1], minlength=len(keys[-1]))
            keys.append(unique)
            counts.append(count)
            rows, before = inverse, inverse[:-1]
        model = cls(NGramSettings(order=order), vocabulary)
        tables = zip(keys, counts, strict=True)
        model.fill([(torch.from_numpy(k), torch.from_numpy(c).int(), discounts(c)) for k, c in tables])
        return model

    def fill(self, tables: Sequence[tuple[Tensor, Tensor, Tensor]]) -> None:
        """Set keys, counts and discounts of every order, shortest first."""
        contexts = 1  # the empty one
        for order, (keys, counts, estimated) in zip(self.orders, tables, strict=True):
            order.fill(keys, counts, estimated, contexts)
            contexts = len(keys)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Load tables of any size."""
        device = self.orders[0].keys.device
        names = [[f"orders.{k}.{name}" for name in ("keys", "counts", "discounts")] for k in range(len(self.orders))]
        check_tables([[state_dict.get(name) for name in order] for order in names], self.vocabulary)
        self.fill([tuple(state_dict[name].to(device) for name in order) for order in names])
        return super().load_state_dict(state_dict, strict, assign)

    def forward(self, *_: object, **__: object) -> NoReturn:
        """Not available: an n-gram model is not trained."""
        raise NotImplementedError("an n-gram is counted, not trained: use NGram.count, and log_probs or step")

    def initial_state(self, batch_size: int) -> dict[str, Tensor]:
        """An empty state: a text is scored as a whole."""
        return {}

    @torch.no_grad()
    def log_probs(self, ids: Tensor) -> Tensor:
        """ids (N,), a text -> log p of each token given those before it, (N,) in float64."""
        p = torch.full(ids.shape, 1 / self.vocabulary, dtype=torch.float64, device=ids.device)
        before = torch.zeros_like(ids)
        for order in self.orders:
            rows = order.find(before, ids)
            p = order.shares[rows] + order.rests[before] * p
            before = nn.functional.pad(rows[:-1], (1, 0), value=-1)
        return p.log()

    def start(self, source: Tokens) -> LanguageSearchState:
        """The initial state: rows of the contexts of length 0 .. n - 1, (B, 1, n); only the empty one is known."""
        contexts = torch.full((source.ids.size(0), 1, len(self.orders)), -1, device=self.orders[0].keys.device)
        return LanguageSearchState({"contexts": contexts.index_fill(-1, contexts.new_zeros(1), 0)})

    @torch.no_grad()
    def step(self, tokens: Tensor, state: LanguageSearchState) -> tuple[Tensor, LanguageSearchState]:
        """The last token of every hypothesis, (B, W) -> log p (B, W, V) of the next."""
        old = state.tensors["contexts"]
        longer = [order.find(old[..., k], tokens) for k, order in enumerate(self.orders[:-1])]
        contexts = torch.stack([torch.zeros_like(tokens), *longer], dim=-1)
        p = self.distribution(contexts.flatten(0, 1)).log().float()
        return p.view(*tokens.shape, -1), LanguageSearchState({"contexts": contexts})

    def distribution(self, contexts: Tensor) -> Tensor:
        """contexts (R, n), the rows of the last 0 .. n - 1 tokens -> p (R, V) in float64."""
        p = torch.full(
            (len(contexts), self.vocabulary), 1 / self.vocabulary, dtype=torch.float64, device=contexts.device
        )
        for order, context in zip(self.orders, contexts.unbind(-1), strict=True):
            p *= order.rests[context][:, None]
            which, words, shares = order.followers(context)
            p[which, words] += shares
        return p

    def attentions(self, ids: Tensor) -> Attentions:
        return Attentions()
