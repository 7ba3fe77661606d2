"""Which models translate: the settings that name them, and how each is built."""

from collections.abc import Callable
from typing import Any

from torch import nn

from regard.models.settings import ModelSettings
from regard.models.transformer import Transformer, TransformerSettings

TranslationModelSettings = TransformerSettings

BUILDERS: dict[str, Callable[[Any, int, int], nn.Module]] = {
    "transformer": Transformer,
}


def build_translation_model(settings: ModelSettings, src_vocabulary: int, tgt_vocabulary: int) -> Any:
    """The model its settings describe, with fresh weights, between vocabularies of these sizes."""
    return BUILDERS[settings.kind](settings, src_vocabulary, tgt_vocabulary)
