"""The engines ctranslate2 and onnx, which read an export of the model.

It is written into the run at first use, for example to exports/ctranslate2-int8-best, and again if the checkpoint
changed or a file is damaged. If the run is read-only, the export is in a temporary folder that is deleted with its
engine.
"""

import weakref
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import torch

from regard.decoding.engine import Engine
from regard.errors import UserError
from regard.export.target import Target, Trained
from regard.export.targets import TARGETS
from regard.files import JsonObject, Manifest, replacing, require_writable
from regard.run.run import Run
from regard.run_files import MANIFEST
from regard.training.checkpoint import weights_sum

EXPORTS, FORMAT = "exports", 2


def exported_engine(name: str, run: Run, checkpoint: str, quantization: str | None, device: torch.device) -> Engine:
    """The engine ctranslate2 or onnx of a checkpoint."""
    target = open_target(name, run, checkpoint, quantization)
    folder, temporary = engine_folder(target, run, checkpoint), None
    if not is_current(target, run, checkpoint):
        try:
            require_writable(folder)
        except UserError:
            temporary = TemporaryDirectory(prefix="regard-")
            folder = Path(temporary.name) / folder.name
        with replacing(folder, folder=True) as path:
            target.write(path)
            names = sorted(file.name for file in path.iterdir())
            inputs = manifest_inputs(target, run, checkpoint)
            Manifest.describe(path, names, format=FORMAT, inputs=inputs).write(path / MANIFEST)
    engine = target.open(folder, device)
    if temporary is not None:
        weakref.finalize(engine, temporary.cleanup)
    return cast(Engine, engine)


def is_exported(name: str, run: Run, checkpoint: str, quantization: str | None) -> bool:
    """True if the export of an engine is there, complete and of these weights."""
    return is_current(open_target(name, run, checkpoint, quantization), run, checkpoint)


def open_target(name: str, run: Run, checkpoint: str, quantization: str | None) -> Target:
    return TARGETS[name](Trained(run.task, run.folder, lambda: run.model(checkpoint)), quantization)


def engine_folder(target: Target, run: Run, checkpoint: str) -> Path:
    return run.outputs / EXPORTS / f"{target.name}-{target.quantization}-{checkpoint}"


def is_current(target: Target, run: Run, checkpoint: str) -> bool:
    """True if the folder of an engine has a complete export of these weights."""
    folder = engine_folder(target, run, checkpoint)
    manifest = Manifest.read_or_none(folder / MANIFEST)
    inputs = manifest_inputs(target, run, checkpoint)
    return manifest is not None and manifest.is_current(inputs, FORMAT) and not manifest.damaged(folder)


def manifest_inputs(target: Target, run: Run, checkpoint: str) -> JsonObject:
    """JSON that identifies a converted model."""
    return {**identity(run, checkpoint), target.name: version(target.packages[0])}


def identity(run: Run, checkpoint: str) -> JsonObject:
    """JSON that identifies the weights of a checkpoint; their checksum is checked."""
    return {"weights": weights_sum(run.checkpoints.resolve(checkpoint))}
