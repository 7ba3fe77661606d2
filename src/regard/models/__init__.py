"""Whole models, put together from layers."""

from regard.models.attentions import Attentions
from regard.models.settings import ModelSettings
from regard.models.transformer import Transformer, TransformerSettings, TransformerState
from regard.models.translation import TranslationModelSettings, build_translation_model

__all__ = [
    "Attentions",
    "ModelSettings",
    "Transformer",
    "TransformerSettings",
    "TransformerState",
    "TranslationModelSettings",
    "build_translation_model",
]
