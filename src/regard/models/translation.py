"""Translation models: their settings by kind, and how each is built."""

from typing import Annotated

from pydantic import Tag

from regard.config import by_kind
from regard.models.convolutional import Convolutional, ConvolutionalSettings
from regard.models.masked import MaskedSettings, MaskedTransformer
from regard.models.recurrent import RecurrentModel, RecurrentSettings
from regard.models.settings import ModelSettings
from regard.models.transformer import Transformer, TransformerSettings

TranslationModelSettings = Annotated[
    Annotated[TransformerSettings, Tag("transformer")]
    | Annotated[RecurrentSettings, Tag("recurrent")]
    | Annotated[ConvolutionalSettings, Tag("convolutional")]
    | Annotated[MaskedSettings, Tag("mask-predict")],
    by_kind("transformer"),
]

TranslationModel = Transformer | RecurrentModel | Convolutional | MaskedTransformer


def build_translation_model(settings: ModelSettings, src_vocabulary: int, tgt_vocabulary: int) -> TranslationModel:
    """Build the model of these settings, with new weights, for vocabularies of these sizes."""
    match settings:
        case MaskedSettings():  # before its base class
            return MaskedTransformer(settings, src_vocabulary, tgt_vocabulary)
        case TransformerSettings():
            return Transformer(settings, src_vocabulary, tgt_vocabulary)
        case RecurrentSettings():
            return RecurrentModel(settings, src_vocabulary, tgt_vocabulary)
        case ConvolutionalSettings():
            return Convolutional(settings, src_vocabulary, tgt_vocabulary)
    raise TypeError(f"no translation model has settings of {type(settings).__name__}")
