"""Language models: how likely is the next word, given those before it?

    p(w_1 .. w_N) = prod_t p(w_t | w_1 .. w_{t-1})

and what of the past each kind can see:

    ngram            the last n - 1 words, as they were counted                     ngram.py
    markov           the last tau words, as vectors (Bengio et al. 2003)            language_markov.py
    rnn, gru, lstm   everything, through a state of fixed size                      language_recurrent.py
    transformer      every word of the stretch, looked at one by one                language_transformer.py

B columns of a stream, T tokens, D model, V vocabulary, W hypotheses.
"""

from typing import Annotated, Any, Protocol

from pydantic import Tag
from torch import Tensor, nn

from regard.attention.layouts import Tokens
from regard.config import by_kind
from regard.layers.embeddings import OutputProjection
from regard.models.attentions import Attentions
from regard.models.language_markov import MarkovLanguageModel, MarkovLanguageSettings
from regard.models.language_recurrent import RecurrentLanguageModel, RecurrentLanguageSettings
from regard.models.language_transformer import TransformerLanguageModel, TransformerLanguageSettings
from regard.models.ngram import NGram, NGramSettings

LanguageModelSettings = Annotated[
    Annotated[RecurrentLanguageSettings, Tag("rnn")]
    | Annotated[RecurrentLanguageSettings, Tag("gru")]
    | Annotated[RecurrentLanguageSettings, Tag("lstm")]
    | Annotated[MarkovLanguageSettings, Tag("markov")]
    | Annotated[TransformerLanguageSettings, Tag("transformer")]
    | Annotated[NGramSettings, Tag("ngram")],
    by_kind("lstm"),
]


class LanguageModel(Protocol):
    """What training, scoring and searching ask of a language model, beside being a module."""

    is_stateful: bool

    def __call__(
        self, ids: Tensor, state: dict[str, Tensor] | None = None
    ) -> tuple[OutputProjection, dict[str, Tensor]]:
        """ids (B, T), the next segment of B streams -> projection to (B, T, V), and the state after it."""
        ...

    def initial_state(self, columns: int) -> dict[str, Tensor]:
        """The state before anything was read, columns first; empty where nothing is carried."""
        ...

    def start(self, source: Tokens) -> Any: ...

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]: ...

    def attentions(self, ids: Tensor) -> Attentions: ...


def build_language_model(settings: LanguageModelSettings, vocabulary: int) -> nn.Module:
    """The model the settings describe, over a vocabulary of this size; an n-gram that has counted nothing yet."""
    match settings:
        case RecurrentLanguageSettings():
            return RecurrentLanguageModel(settings, vocabulary)
        case MarkovLanguageSettings():
            return MarkovLanguageModel(settings, vocabulary)
        case TransformerLanguageSettings():
            return TransformerLanguageModel(settings, vocabulary)
        case NGramSettings():
            return NGram(settings, vocabulary)
