"""What a language model has read, as a state: carried from stretch to stretch of a stream, or from step to step.

A model that carries its past reads a long text in stretches and hands on what it remembers; a stretch of one token is
a step of a search. So one `forward` serves training, scoring and generation, and `start` and `step` follow from it.

B columns of a stream or sentences of a search, W hypotheses, T tokens, V vocabulary.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention.layouts import Tokens
from regard.layers.embeddings import OutputProjection
from regard.models.attentions import Attentions

RecurrentState = dict[str, Tensor]  # by name, columns first


@dataclass(frozen=True)
class LanguageSearchState:
    """What B x W hypotheses remember: each tensor (B, W, ...)."""

    tensors: RecurrentState

    def reorder(self, parents: Tensor) -> "LanguageSearchState":
        """parents (B, W'): hypothesis w of sentence b continues what was hypothesis parents[b, w]."""
        sentences = torch.arange(parents.size(0), device=parents.device)[:, None]
        return LanguageSearchState({name: x[sentences, parents] for name, x in self.tensors.items()})

    def keep(self, sentences: Tensor) -> "LanguageSearchState":
        """Only these sentences remain, in this order."""
        return LanguageSearchState({name: x.index_select(0, sentences) for name, x in self.tensors.items()})


class StatefulLanguageModel(nn.Module, ABC):
    """A language model that hands on what it has read; `forward` and `initial_state` are its own."""

    is_stateful = True

    @abstractmethod
    def forward(self, ids: Tensor, state: RecurrentState | None = None) -> tuple[OutputProjection, RecurrentState]:
        """ids (B, T) -> projection to (B, T, V), and the state after the last token."""

    @abstractmethod
    def initial_state(self, columns: int) -> RecurrentState:
        """The state before anything was read."""

    def start(self, source: Tokens) -> LanguageSearchState:
        """A language model has no source: of it only the number of sentences is taken."""
        return LanguageSearchState({name: x.unsqueeze(1) for name, x in self.initial_state(source.ids.size(0)).items()})

    def step(self, tokens: Tensor, state: LanguageSearchState) -> tuple[Tensor, LanguageSearchState]:
        """One more token for each hypothesis, (B, W) -> logits (B, W, V): a stretch of length one."""
        columns = {name: x.flatten(0, 1) for name, x in state.tensors.items()}
        projection, after = self(tokens.reshape(-1, 1), columns)
        return projection.logits().view(*tokens.shape, -1), LanguageSearchState(
            {name: x.unflatten(0, tokens.shape) for name, x in after.items()}
        )

    def attentions(self, ids: Tensor) -> Attentions:
        """These models look at their state, not back at words."""
        return Attentions()
