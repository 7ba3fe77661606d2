"""Language models: the probability of the next token given the earlier ones.

    p(w_1 .. w_N) = prod_t p(w_t | w_1 .. w_{t-1})

The kinds differ in the context they use:

    ngram            the last n - 1 tokens, by counts                              ngram.py
    markov           the last tau tokens, as vectors (Bengio et al. 2003)          language_markov.py
    rnn, gru, lstm   all tokens, through a state of fixed size                     language_recurrent.py
                     (also rnn-sigmoid, gru-cho, flstm and glstm-N, cells of layers/recurrent.py)
    bilstm           the same, and another model from right to left (ELMo)         language_bidirectional.py
    transformer      all tokens of the segment, by attention                       language_transformer.py
"""

from collections.abc import Callable
from typing import Annotated

from pydantic import Tag

from regard.config import by_kind
from regard.layers.recurrent import CELLS
from regard.models.language_bidirectional import BidirectionalLanguageModel, BidirectionalLanguageSettings
from regard.models.language_markov import MarkovLanguageModel, MarkovLanguageSettings
from regard.models.language_recurrent import RecurrentLanguageModel, RecurrentLanguageSettings
from regard.models.language_transformer import TransformerLanguageModel, TransformerLanguageSettings
from regard.models.ngram import NGram, NGramSettings
from regard.plugins import Registry

LanguageModelSettings = Annotated[
    Annotated[RecurrentLanguageSettings, Tag("rnn")]
    | Annotated[RecurrentLanguageSettings, Tag("gru")]
    | Annotated[RecurrentLanguageSettings, Tag("lstm")]
    | Annotated[RecurrentLanguageSettings, Tag("rnn-sigmoid")]
    | Annotated[RecurrentLanguageSettings, Tag("gru-cho")]
    | Annotated[RecurrentLanguageSettings, Tag("flstm")]
    | Annotated[RecurrentLanguageSettings, Tag("glstm-2")]
    | Annotated[RecurrentLanguageSettings, Tag("glstm-4")]
    | Annotated[RecurrentLanguageSettings, Tag("glstm-8")]
    | Annotated[BidirectionalLanguageSettings, Tag("bilstm")]
    | Annotated[MarkovLanguageSettings, Tag("markov")]
    | Annotated[TransformerLanguageSettings, Tag("transformer")]
    | Annotated[NGramSettings, Tag("ngram")],
    by_kind("lstm"),
]
LanguageModel = (
    RecurrentLanguageModel | BidirectionalLanguageModel | MarkovLanguageModel | TransformerLanguageModel | NGram
)
LANGUAGE_MODELS: Registry[Callable[..., LanguageModel]] = Registry(
    "language model",
    {
        **dict.fromkeys(CELLS, RecurrentLanguageModel),
        "bilstm": BidirectionalLanguageModel,
        "markov": MarkovLanguageModel,
        "transformer": TransformerLanguageModel,
        "ngram": NGram,
    },
)
"""The model of each kind: `Model(settings, vocabulary size)`."""


def build_language_model(settings: LanguageModelSettings, vocabulary: int) -> LanguageModel:
    """Build the model of these settings for a vocabulary of this size; an n-gram model has no counts yet."""
    return LANGUAGE_MODELS[settings.kind](settings, vocabulary)
