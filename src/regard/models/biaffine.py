"""Biaffine attention: scores of every word as the head of every other, and of the relation between them.

    d_i = MLP_1(h_i)      word i as a dependent        s_ij  = d_i^T U a_j + w^T a_j
    a_j = MLP_2(h_j)      word j as a head             p(j is the head of i) = softmax_j s_ij

    e_i = MLP_3(h_i)      the same for relations       s_ijl = e_i^T V_l b_j + W_l [e_i; b_j] + c_l
    b_j = MLP_4(h_j)                                   p(l | j is the head of i) = softmax_l s_ijl

This is attention with multiplicative scores: d_i is the query and a_j the key; w^T a_j is a bias for words that are
often heads, as verbs are. The weights of the softmax are the prediction, and the heads of the treebank supervise them.
An MLP is a linear layer with a leaky ReLU: it keeps of h what this decision needs, and makes U and V_l small.

The first token of a word stands for the word, and [CLS] for the root of the sentence. Other tokens are no heads, and no
word is its own head: their scores are the lowest number there is.

Dozat and Manning 2017, "Deep Biaffine Attention for Neural Dependency Parsing", section 2.2. Their encoder is a
recurrent network; any text encoder is one here.

B sentences, T tokens, D model, A and K the sizes of the vectors for arcs and for relations, L relations.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.layouts import Tokens
from regard.models.text_encoder import EncoderModel, TextEncoder

SLOPE = 0.1
"""Slope of the leaky ReLU below 0."""


class ArcScores(NamedTuple):
    """Scores of heads (B, T, T), and of relations: (B, T, L) for one head of each word, (B, T, T, L) for all heads."""

    arcs: Tensor
    relations: Tensor


class BiaffineArcs(nn.Module):
    """Scores of heads: d (B, T, A), a (B, T, A) -> s (B, T, T)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size, size))
        self.bias = nn.Parameter(torch.zeros(size))
        nn.init.normal_(self.weight, std=1 / size)

    def forward(self, dependents: Tensor, heads: Tensor) -> Tensor:
        """s_ij = d_i^T U a_j + w^T a_j."""
        return (dependents @ self.weight + self.bias) @ heads.transpose(1, 2)


class BiaffineRelations(nn.Module):
    """Relation scores s, from e (words as dependents) and b (words as heads): for one head of each word, or for all."""

    def __init__(self, size: int, relations: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(relations, size, size))
        self.linear = nn.Linear(2 * size, relations)
        nn.init.normal_(self.weight, std=1 / size)

    def forward(self, dependents: Tensor, heads: Tensor) -> Tensor:
        """Relation scores s (B, T, L): e (B, T, K) each word as dependent, b (B, T, K) the head of each word."""
        products = torch.einsum("bik,lkm,bim->bil", dependents, self.weight, heads)
        return products + self.linear(torch.cat([dependents, heads], dim=-1))

    def all_heads(self, dependents: Tensor, heads: Tensor) -> Tensor:
        """Relation scores s (B, T, T, L) for all pairs: e (B, T, K) word i as dependent, b (B, T, K) word j as head."""
        products = torch.einsum("bik,lkm,bjm->bijl", dependents, self.weight, heads)
        of_dependent, of_head = self.linear.weight.chunk(2, dim=1)
        return products + (dependents @ of_dependent.T)[:, :, None] + (heads @ of_head.T)[:, None] + self.linear.bias


class BiaffineHead(nn.Module):
    """Four MLPs and two biaffine layers on the hidden states of a text."""

    def __init__(self, d_model: int, arc_size: int, relation_size: int, relations: int, dropout: float) -> None:
        super().__init__()
        self.dependent_arc, self.head_arc = mlp(d_model, arc_size, dropout), mlp(d_model, arc_size, dropout)
        self.dependent_relation = mlp(d_model, relation_size, dropout)
        self.head_relation = mlp(d_model, relation_size, dropout)
        self.arcs = BiaffineArcs(arc_size)
        self.relations = BiaffineRelations(relation_size, relations)

    def forward(self, h: Tensor, words: Tensor, heads: Tensor | None = None) -> ArcScores:
        """h (B, T, D); `words` and `heads` as in `BiaffineParser`."""
        arcs = self.arcs(self.dependent_arc(h), self.head_arc(h))
        arcs = arcs.masked_fill(~possible_heads(words), torch.finfo(arcs.dtype).min)
        dependents, as_heads = self.dependent_relation(h), self.head_relation(h)
        if heads is None:
            return ArcScores(arcs, self.relations.all_heads(dependents, as_heads))
        chosen = as_heads.gather(1, heads[:, :, None].expand(-1, -1, as_heads.shape[2]))
        return ArcScores(arcs, self.relations(dependents, chosen))


class BiaffineParser(EncoderModel):
    def __init__(self, encoder: TextEncoder, head: BiaffineHead, dropout: float) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head
        self.dropout = nn.Dropout(dropout)
        # An unused pooler must not require a gradient: distributed training waits for the gradients of all parameters.
        encoder.pooler.requires_grad_(False)

    def forward(self, tokens: Tokens, segments: Tensor | None, words: Tensor, heads: Tensor | None = None) -> ArcScores:
        """Padded tokens -> scores.

        words (B, T)    True for the first token of each word
        heads (B, T)    the position of the head of each word, whose relation is scored; None: of every head
        """
        return self.head(self.dropout(self.encoder(tokens, segments)), words, heads)


def mlp(inputs: int, outputs: int, dropout: float) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, outputs), nn.LeakyReLU(SLOPE), nn.Dropout(dropout))


def possible_heads(words: Tensor) -> Tensor:
    """words (B, T) -> (B, T, T): True where the token of the column, a word or [CLS], may be the head of the row."""
    candidates = words.clone()
    candidates[:, 0] = True
    own = torch.eye(words.shape[1], dtype=torch.bool, device=words.device) & words[:, :, None]
    return candidates[:, None] & ~own
