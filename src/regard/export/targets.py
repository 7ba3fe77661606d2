"""The targets of `regard export --to`: ONNX, torch.export, CTranslate2 and Hugging Face transformers."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from regard.decoding.engine import Engine
from regard.engines.choose import is_standard_transformer
from regard.engines.ctranslate2 import CTranslate2Engine
from regard.engines.graphs import GraphModel, GraphStepper, open_graphs, open_onnx, torch_runner
from regard.engines.stepper_engine import StepperEngine
from regard.exchange import ctranslate2, graphs
from regard.exchange.ctranslate2 import write_ctranslate2
from regard.exchange.graphs import graphs_of, import_onnx, write_graphs
from regard.export.huggingface import HuggingFace
from regard.export.target import Pair, Target, Trained, count_weights
from regard.models.transformer import Transformer
from regard.text.symbols import EOS
from regard.training.weights import weights_of


class TorchExport(Target):
    name = "torch-export"
    packages: tuple[str, ...] = ("torch",)

    def write(self, folder: Path) -> int:
        model = self.trained.model
        graphs = graphs_of(model)
        if graphs is None:
            raise self.trained.unsupported(self.name, "export a Transformer, a BERT or a recurrent model")
        write_graphs(folder, graphs, self.name, self.quantization)
        self.trained.copy_artifacts(folder)
        return count_weights(weights_of(model))

    def open(self, folder: Path, device: torch.device | None = None) -> nn.Module | Engine:
        opened = self.open_graphs(folder)
        if isinstance(opened, GraphModel):
            return opened
        return StepperEngine(opened, self.trained.symbols, torch.device("cpu"))

    def open_graphs(self, folder: Path) -> GraphStepper | GraphModel:
        return open_graphs(folder, self.name, torch_runner)


class Onnx(TorchExport):
    name = "onnx"
    packages = ("onnxruntime", "torch")
    quantizations = graphs.QUANTIZATIONS

    def __init__(self, trained: Trained, quantization: str | None = None) -> None:
        super().__init__(trained, quantization)
        import_onnx()

    def open_graphs(self, folder: Path) -> GraphStepper | GraphModel:
        return open_onnx(folder)


class CTranslate2(Target):
    """Transformers for CTranslate2; it gives log-probabilities of the written tokens, not all logits."""

    name = "ctranslate2"
    packages = ("ctranslate2",)
    quantizations = ctranslate2.QUANTIZATIONS
    search_bound = 0.95
    output = "log-probabilities"

    def __init__(self, trained: Trained, quantization: str | None = None) -> None:
        super().__init__(trained, quantization)
        if trained.exchange.script != "translate" or not is_standard_transformer(trained.task.recipe.model):
            remedy = "use the engine torch, which runs every model; CTranslate2 runs standard Transformers only"
            raise trained.unsupported("CTranslate2", remedy)
        ctranslate2.import_ctranslate2()

    def write(self, folder: Path) -> int:
        model = cast(Transformer, self.trained.model)
        write_ctranslate2(model, self.trained.symbols, folder, self.quantization)
        self.trained.copy_artifacts(folder)
        return count_weights(weights_of(model))

    def open(self, folder: Path, device: torch.device | None = None) -> CTranslate2Engine:
        return CTranslate2Engine(folder, self.trained.symbols, self.quantization, device)

    def batch_difference(self, engine: CTranslate2Engine, pairs: Sequence[Pair], ours: Tensor) -> float:
        sources, targets = ([[str(token) for token in row] for row in rows] for rows in zip(*pairs, strict=True))
        scored = engine.pool.score_batch(sources, targets, max_input_length=0)
        return max(
            float((row[range(len(target) + 1), [*target, EOS]] - torch.tensor(result.log_probs)).abs().max())
            for row, (_, target), result in zip(ours.log_softmax(dim=-1), pairs, scored, strict=True)
        )


TARGETS: dict[str, type[Target]] = {target.name: target for target in (HuggingFace, CTranslate2, Onnx, TorchExport)}
"""The targets by name."""
