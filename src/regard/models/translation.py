"""Which models translate: the settings that name them, and how each is built."""

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import Tag
from torch import nn

from regard.config import by_kind
from regard.models.convolutional import Convolutional, ConvolutionalSettings
from regard.models.masked import MaskedSettings, MaskedTransformer
from regard.models.recurrent import RecurrentModel
from regard.models.recurrent_settings import RecurrentSettings
from regard.models.settings import ModelSettings
from regard.models.transformer import Transformer
from regard.models.transformer_settings import TransformerSettings

TranslationModelSettings = Annotated[
    Annotated[TransformerSettings, Tag("transformer")]
    | Annotated[RecurrentSettings, Tag("recurrent")]
    | Annotated[ConvolutionalSettings, Tag("convolutional")]
    | Annotated[MaskedSettings, Tag("masked")],
    by_kind("transformer"),
]

BUILDERS: dict[str, Callable[[Any, int, int], nn.Module]] = {
    "transformer": Transformer,
    "recurrent": RecurrentModel,
    "convolutional": Convolutional,
    "masked": MaskedTransformer,
}


def build_translation_model(settings: ModelSettings, src_vocabulary: int, tgt_vocabulary: int) -> Any:
    """The model its settings describe, with fresh weights, between vocabularies of these sizes."""
    return BUILDERS[settings.kind](settings, src_vocabulary, tgt_vocabulary)
