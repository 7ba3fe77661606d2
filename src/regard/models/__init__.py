"""Whole models, put together from layers."""

from regard.models.attentions import Attentions
from regard.models.settings import ModelSettings
from regard.models.transformer import Transformer, TransformerSettings, TransformerState

__all__ = ["Attentions", "ModelSettings", "Transformer", "TransformerSettings", "TransformerState"]
