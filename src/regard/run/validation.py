"""Validation of a checkpoint of a run, computed as in training."""

from collections.abc import Mapping

import torch

from regard.run.run import Run
from regard.runtime import autocast, close_world, open_world
from regard.tasks.operations import adapt_world


def validate_checkpoint(run: Run, checkpoint: str) -> Mapping[str, float]:
    """The metrics of a checkpoint on the validation data of the run."""
    world = open_world(run.recipe.runtime)
    try:
        store = run.store("valid", lambda _: None)
        data = run.task.validation_data(run.folder, store, adapt_world(run.task, world))
        model = run.model(checkpoint, world.device)
        with torch.no_grad(), autocast(world):
            return run.task.validate(model, data).metrics
    finally:
        close_world()
