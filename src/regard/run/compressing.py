"""A small copy of a run, to ship: its weights in 8 bits, without training state and data.

    recipe.toml, manifest.json       without the folder of the data and without other runs
    tokenizers, labels               the same JSON without line ends
    checkpoints/step-NNNNNNNN/       the chosen weights as 8-bit integers (training/quantization.py)

The copy is a run: every command that uses a run can use it.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import torch

from regard.exchange.folders import require_new_folder
from regard.files import replacing, require_writable, write_text
from regard.reading import parse_json, read_text
from regard.recipe import Recipe
from regard.run.alignment import ALIGNMENT_FILE
from regard.run.facts import write_changes
from regard.run.run import Run
from regard.run_files import CHECKPOINTS, MODEL, RECIPE
from regard.tasks.registry import task_of
from regard.training.checkpoint import name_of, read_progress, read_weights, write_checkpoint
from regard.training.quantization import dequantize, quantize


@dataclass(frozen=True)
class Compressed:
    """The folder of a small copy, and how much smaller and how different it is."""

    folder: Path
    bytes_before: int
    """The weights of the run."""
    bytes: int
    """The weights of the copy."""
    error: float
    """The largest difference of a weight, as a share of the largest weight of its row."""


def compress(run: Run, folder: Path, checkpoint: str = "best") -> Compressed:
    """Write a small copy of a run into a new folder."""
    require_writable(folder)
    require_new_folder(folder)
    source = run.checkpoints.resolve(checkpoint)
    weights, progress = read_weights(source), read_progress(source)
    progress.pop("averaged", None)  # the copy has one checkpoint, which training can start from
    small = quantize(weights)
    step = int(progress.get("step") or 0)
    with replacing(folder, folder=True) as temporary:
        for name in (*task_of(run.recipe).artifacts(run.recipe), ALIGNMENT_FILE):
            if (run.folder / name).exists():
                content = parse_json(read_text(run.folder / name))
                write_text(temporary / name, json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n")
        recipe = without_paths(run.recipe)
        write_text(temporary / RECIPE, recipe.to_toml() + "\n")
        write_changes(temporary, recipe)
        Run(temporary, recipe).write_manifest()
        path = temporary / CHECKPOINTS / name_of(step)
        path.parent.mkdir()
        write_checkpoint(path, {MODEL: small}, progress | {"best_step": step})
        size = (path / MODEL).stat().st_size
    restored = dequantize(small)
    error = max((row_error(weights[name].float(), restored[name].float()) for name in weights), default=0.0)
    return Compressed(folder, (source / MODEL).stat().st_size, size, error)


def without_paths(recipe: Recipe) -> Recipe:
    """The recipe without the folder of its data and without other runs, which the copy does not need."""
    text = recipe.text
    if getattr(text, "tokenizer_from", ""):
        text = text.model_copy(update={"tokenizer_from": ""})
    data = recipe.data.model_copy(update={"root": "."})
    return recipe.model_copy(update={"data": data, "text": text, "start_from": ""})


def row_error(before: torch.Tensor, after: torch.Tensor) -> float:
    """The largest difference of two tensors, as a share of the largest number in its row."""
    rows = before.reshape(before.size(0), -1) if before.dim() else before.view(1, 1)
    difference = (after.reshape(rows.shape) - rows).abs().amax(1)
    return float((difference / rows.abs().amax(1).clamp(min=1e-30)).max()) if rows.numel() else 0.0
