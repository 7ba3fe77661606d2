"""The choice of the engine that executes a model. It is made here and nowhere else."""

from collections.abc import Hashable, Sequence
from typing import Any, Protocol, TypeVar

import torch
from torch import nn

from regard.decoding.engine import DecodingRequest, Engine
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import DecodingSettings
from regard.decoding.stepper import Ensemble, NoBosStepper, Symbols
from regard.engines.mask_predict import MaskPredict
from regard.engines.stepper_engine import StepperEngine
from regard.errors import UserError
from regard.kernels import kernels_available
from regard.models.masked import MaskedTransformer
from regard.models.settings import ModelSettings
from regard.models.transformer import Transformer, TransformerSettings

Name = TypeVar("Name", bound=Hashable)
EXPORTED_ENGINES = {
    "ctranslate2": "the library CTranslate2, with 8-bit weights",
    "onnx": "the library onnxruntime on a CPU",
}
"""Engines that run an export of the model (run/exported_engine.py)."""
ENGINES = {
    "torch": "the fastest engine that torch has on the device",
    "readable": "the reference: the model exactly as it is trained",
    **EXPORTED_ENGINES,
}


def is_standard_transformer(settings: ModelSettings) -> bool:
    """True if the settings describe the Transformer that the fast engines implement; a model may have other parts."""
    return settings.kind == "transformer" and isinstance(settings, TransformerSettings) and settings.is_standard


def readable_engine(models: Sequence[Any], symbols: Symbols, device: torch.device) -> Engine:
    """The reference engine: mask-predict for a masked model, else a search over the model or the ensemble."""
    if any(isinstance(model, MaskedTransformer) for model in models):
        if len(models) > 1:
            raise UserError("mask-predict models cannot be ensembled", "use one run", code="unsupported", where="run")
        return MaskPredict(models[0], symbols, device)
    return StepperEngine(models[0] if len(models) == 1 else Ensemble(models), symbols, device)


def fastest_engine(models: Sequence[Any], symbols: Symbols, device: torch.device) -> Engine:
    """The fastest engine with the same results: CUDA graphs on a GPU, fused weights on a CPU.

    A model with a part that the fast engines do not know, or with hooks, runs in the reference engine.
    """
    if not all(isinstance(model, Transformer) and model.is_standard for model in models):
        return readable_engine(models, symbols, device)
    if device.type == "cuda" and len(models) == 1 and kernels_available():
        from regard.engines.device import DeviceEngine

        return DeviceEngine(models[0], symbols)
    if device.type == "cpu" and all(model.output.weight.dtype == torch.float32 for model in models):
        from regard.engines.fused import FusedTransformer

        return readable_engine([FusedTransformer(model) for model in models], symbols, device)
    return readable_engine(models, symbols, device)


class ContinuousSearch(Protocol[Name]):
    """A running search that sentences enter and leave between two steps."""

    def __len__(self) -> int:
        """The number of sentences in progress."""

    def add(self, names: Sequence[Name], request: DecodingRequest) -> None:
        """Let the sentences of a request take part in the next step; if that fails, nothing has changed."""

    def remove(self, name: Name) -> None:
        """Forget a sentence."""

    def step(self) -> list[tuple[Name, list[Hypothesis]]]:
        """One token for every sentence; those that are done now, with their hypotheses, best first."""

    def partial(self) -> dict[Name, list[int]]:
        """The tokens of the best hypothesis so far, for sentences in progress; {} if they are not known."""


def continuous_search(engine: nn.Module | Engine, settings: DecodingSettings) -> ContinuousSearch[Any] | None:
    """The search of an engine for continuous batching; None if it has none for these settings."""
    from regard.engines.continuous import FusedContinuousSearch
    from regard.engines.device import DeviceEngine
    from regard.engines.device_continuous import SlotSearch
    from regard.engines.fused import FusedTransformer

    if settings.search not in ("greedy", "beam"):
        return None
    if isinstance(engine, DeviceEngine):
        return None if settings.no_repeat_ngram else SlotSearch(engine, settings)
    if isinstance(engine, StepperEngine) and isinstance(engine.stepper, FusedTransformer):
        return FusedContinuousSearch(engine.stepper, engine.symbols, settings)
    return None


def as_engine(model: nn.Module | Engine, symbols: Symbols) -> Engine:
    """An engine unchanged; for a model the reference engine, on the device of its weights."""
    if not isinstance(model, nn.Module):
        return model
    tensor = next(model.parameters(), None)  # an n-gram model has buffers and no parameters
    return readable_engine([model], symbols, (next(model.buffers()) if tensor is None else tensor).device)


def prompt_engine(engine: Engine, settings: ModelSettings) -> Engine:
    """The engine of a language model for prompts, with or without the beginning symbol as the settings say."""
    if getattr(settings, "begin_symbol", True) or not isinstance(engine, StepperEngine):
        return engine
    return StepperEngine(NoBosStepper(engine.stepper), engine.symbols, engine.device, engine.observe)
