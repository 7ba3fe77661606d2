"""Whole models, put together from layers."""

from regard.models.attentions import Attentions
from regard.models.bert import Bert, BertPretraining, BertSettings
from regard.models.convolutional import Convolutional, ConvolutionalSettings
from regard.models.masked import MaskedSettings, MaskedTransformer
from regard.models.recurrent import RecurrentModel, RecurrentSettings
from regard.models.settings import ModelSettings
from regard.models.transformer import Transformer, TransformerSettings, TransformerState
from regard.models.translation import TranslationModelSettings, build_translation_model
from regard.models.understanding import ReaderSettings, Understander, build_reader

__all__ = [
    "Attentions",
    "Bert",
    "BertPretraining",
    "BertSettings",
    "Convolutional",
    "ConvolutionalSettings",
    "MaskedSettings",
    "MaskedTransformer",
    "ModelSettings",
    "ReaderSettings",
    "RecurrentModel",
    "RecurrentSettings",
    "Transformer",
    "TransformerSettings",
    "TransformerState",
    "TranslationModelSettings",
    "Understander",
    "build_reader",
    "build_translation_model",
]
