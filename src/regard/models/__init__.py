"""Whole models, put together from layers."""

from regard.models.attentions import Attentions
from regard.models.convolutional import Convolutional, ConvolutionalSettings
from regard.models.masked import MaskedSettings, MaskedTransformer
from regard.models.recurrent import RecurrentModel, RecurrentSettings
from regard.models.settings import ModelSettings
from regard.models.transformer import Transformer, TransformerSettings, TransformerState
from regard.models.translation import TranslationModelSettings, build_translation_model

__all__ = [
    "Attentions",
    "Convolutional",
    "ConvolutionalSettings",
    "MaskedSettings",
    "MaskedTransformer",
    "ModelSettings",
    "RecurrentModel",
    "RecurrentSettings",
    "Transformer",
    "TransformerSettings",
    "TransformerState",
    "TranslationModelSettings",
    "build_translation_model",
]
