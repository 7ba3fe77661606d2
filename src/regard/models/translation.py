"""Translation models: their settings by kind, and how each is built."""

from collections.abc import Callable
from typing import Annotated

from pydantic import Tag
from torch import nn

from regard.config import by_kind
from regard.models.convolutional import Convolutional, ConvolutionalSettings
from regard.models.masked import MaskedSettings, MaskedTransformer
from regard.models.recurrent import RecurrentModel, RecurrentSettings
from regard.models.transformer import Transformer, TransformerSettings
from regard.plugins import Registry

TranslationModelSettings = Annotated[
    Annotated[TransformerSettings, Tag("transformer")]
    | Annotated[RecurrentSettings, Tag("recurrent")]
    | Annotated[ConvolutionalSettings, Tag("convolutional")]
    | Annotated[MaskedSettings, Tag("mask-predict")],
    by_kind("transformer"),
]
TRANSLATION_MODELS: Registry[Callable[..., nn.Module]] = Registry(
    "translation model",
    {
        "transformer": Transformer,
        "recurrent": RecurrentModel,
        "convolutional": Convolutional,
        "mask-predict": MaskedTransformer,
    },
)
"""The model of each kind: `Model(settings, source vocabulary size, target vocabulary size)`."""
