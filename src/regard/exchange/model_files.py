"""The files of a model to import: config.json, and weights in one of several formats.

*.safetensors       tensors by name, of 16 or 32 bits
*.onnx              tensors of a graph, also quantized (onnx_weights.py)
pytorch_model.bin   a pickle, which can hold code: read only when asked, and then only its tensors
"""

from dataclasses import dataclass
from pathlib import Path

from regard.errors import UserError
from regard.exchange.folders import CONFIG, PICKLED, WEIGHTS, Config, Tensors, read_config, read_pickled, read_weights

ONNX = "model.onnx"


@dataclass(frozen=True)
class ModelFiles:
    """The content of config.json and all tensors of a model, and where they were read."""

    folder: Path
    config: Config
    tensors: Tensors
    weights_path: Path

    @property
    def config_path(self) -> Path:
        return self.folder / CONFIG


def open_model(model: Path | ModelFiles, allow_pickle: bool = False, weights: Path | None = None) -> ModelFiles:
    """Read a folder, with the weights of the file `weights` or of the first that is found; what is read already stays.

    With `allow_pickle` the weights may be in pytorch_model.bin.
    """
    if isinstance(model, ModelFiles):
        return model
    config, path = read_config(model / CONFIG), weights or find_weights(model, allow_pickle)
    if path.suffix == ".onnx":
        from regard.exchange.onnx_weights import read_onnx_weights

        return ModelFiles(model, config, read_onnx_weights(path), path)
    if path.suffix == ".bin" and not allow_pickle:
        raise UserError(
            f"{path} is a pickle, which can hold code",
            "write --allow-pickle to read only its tensors",
            code="unsupported",
            where=path,
        )
    return ModelFiles(model, config, read_pickled(path) if path.suffix == ".bin" else read_weights(path), path)


def find_weights(folder: Path, allow_pickle: bool) -> Path:
    """The file of weights in a folder; model.safetensors if there is none, which is then missing."""
    others = sorted(folder.glob("*.safetensors"))
    graphs = sorted([*folder.glob("*.onnx"), *folder.glob("onnx/*.onnx")], key=lambda path: (path.name != ONNX, path))
    if (folder / WEIGHTS).exists() or len(others) > 1:
        return folder / WEIGHTS
    if others:
        return others[0]
    if allow_pickle and (folder / PICKLED).exists():
        return folder / PICKLED
    return graphs[0] if graphs and (graphs[0].name == ONNX or len(graphs) == 1) else folder / WEIGHTS
