"""Which engine executes a model: the choice is made here, once, and nowhere else."""

from collections.abc import Sequence
from typing import Any

import torch

from regard.decoding.engine import Engine
from regard.decoding.ensemble import Ensemble
from regard.decoding.stepper import Symbols
from regard.engines.mask_predict import MaskPredict
from regard.engines.stepper_engine import StepperEngine
from regard.errors import UserError
from regard.kernels import kernels_available
from regard.models.masked import MaskedTransformer
from regard.models.settings import ModelSettings
from regard.models.transformer_settings import TransformerSettings

ENGINES = {
    "torch": "the fastest way that torch has on the device",
    "readable": "the model itself, as it is written and trained",
    "ctranslate2": "the library CTranslate2, in 8 bits",
}


def is_standard_transformer(settings: ModelSettings) -> bool:
    """Whether a model is the Transformer that the faster engines are written for."""
    return settings.kind == "transformer" and isinstance(settings, TransformerSettings) and settings.is_standard


def readable_engine(steppers: Sequence[Any], symbols: Symbols, device: torch.device) -> Engine:
    """Our searches over a model, or over several that vote; a model that fills in masked words has its own."""
    if any(isinstance(stepper, MaskedTransformer) for stepper in steppers):
        if len(steppers) > 1:
            raise UserError("masked models write all words at once and cannot vote", "give one run")
        return MaskPredict(steppers[0], symbols, device)
    return StepperEngine(steppers[0] if len(steppers) == 1 else Ensemble(steppers), symbols, device)


def fastest_engine(models: Sequence[Any], symbols: Symbols, device: torch.device) -> Engine:
    """The same answers, sooner: recorded steps on a GPU, products laid out beforehand on a CPU."""
    if not all(is_standard_transformer(model.settings) for model in models):
        return readable_engine(models, symbols, device)
    if device.type == "cuda" and len(models) == 1 and kernels_available():
        from regard.engines.device import DeviceEngine

        return DeviceEngine(models[0], symbols)
    if device.type == "cpu" and all(model.output.weight.dtype == torch.float32 for model in models):
        from regard.engines.fused import FusedTransformer

        return readable_engine([FusedTransformer(model) for model in models], symbols, device)
    return readable_engine(models, symbols, device)
