"""Whole models, put together from layers."""

from regard.models.transformer import Attentions, Transformer, TransformerSettings, TransformerState

__all__ = ["Attentions", "Transformer", "TransformerSettings", "TransformerState"]
