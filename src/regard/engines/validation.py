"""An engine that follows a model in training: asked again, it has the weights of now and the recorded steps of before.

To record a step takes seconds, to copy weights takes none; so a copy of the model is kept, its tensors stay where they
are, and each validation writes the new weights into them.
"""

import torch

from regard.decoding.stepper import Symbols
from regard.engines.choose import is_standard_transformer
from regard.engines.device import DeviceEngine
from regard.models.settings import ModelSettings
from regard.models.transformer import Transformer


class ValidationEngine:
    """Call it with the model to get an engine for the model as it is."""

    def __init__(self, symbols: Symbols, dtype: torch.dtype) -> None:
        self.symbols, self.dtype = symbols, dtype
        self.engine: DeviceEngine | None = None

    @staticmethod
    def suits(settings: ModelSettings) -> bool:
        """Whether the steps of such a model can be recorded."""
        return is_standard_transformer(settings)

    def __call__(self, model: Transformer) -> DeviceEngine:
        with torch.autocast(model.tgt_embedding.weight.device.type, enabled=False), torch.inference_mode():
            if self.engine is None:
                self.engine = DeviceEngine(self._copy(model), self.symbols)
            else:
                self.engine.model.load_state_dict(model.state_dict())
                self.engine.reload_weights()
        return self.engine

    def _copy(self, model: Transformer) -> Transformer:
        sizes = (len(embedding.weight) for embedding in (model.src_embedding, model.tgt_embedding))
        weight = model.tgt_embedding.weight
        copy = Transformer(model.settings, *sizes).to(weight.device, self.dtype).eval()
        copy.load_state_dict(model.state_dict())
        return copy
