"""What the model checks share: the recipe's own model, task and data, prepared as training prepares them."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.attention.layouts import Packed, Padded
from regard.data.batch import Batch
from regard.data.pairs import PairExamples, Pairs
from regard.data.planning import Batches
from regard.run.translation import TranslationRun
from regard.runtime import World, autocast, seed_everything
from regard.tasks import Translation

FEW = 8  # sentences


@dataclass(frozen=True)
class Patient:
    """A run in a temporary folder, on a sample of the recipe's data, where `pairs` is the size of the whole."""

    run: TranslationRun
    world: World
    pairs: int

    @cached_property
    def store(self) -> Pairs:
        return self.run.store("train")

    @cached_property
    def examples(self) -> PairExamples:
        """The pairs as the first epoch sees them: with BPE-dropout they are longer than the store's."""
        return self.run.training_store().at_epoch(0)

    @cached_property
    def task(self) -> Translation:
        return self.run.task()

    @property
    def layout(self) -> type[Padded] | type[Packed]:
        """As training lays tokens out on this device."""
        return Packed if self.run.packs(self.world) else Padded

    @cached_property
    def batches(self) -> Batches:
        return self.run.batches(self.world)

    @property
    def kept_pairs(self) -> float:
        """About how many training pairs the filters leave of the whole."""
        return self.pairs * len(self.store) / max(1, self.store.report.read)

    def new_model(self, dropout: bool = True) -> Any:
        """The model as training begins with it; without dropout the same weights."""
        run = self.run if dropout else without_dropout(self.run)
        seed_everything(run.recipe.runtime.seed, "weights")
        return run.new_model().to(self.world.device)

    def few(self) -> Batch:
        """A few sentence pairs of about median length, no two with the same source or target."""
        lengths = np.maximum(self.store.src_lengths, self.store.tgt_lengths)
        usual = np.argsort(np.abs(lengths - np.median(lengths)), kind="stable")
        indices: list[int] = []
        texts: set[tuple[str, bytes]] = set()
        for index in usual[: 64 * FEW].tolist():
            pair = {("src", self.store.src(index).tobytes()), ("tgt", self.store.tgt(index).tobytes())}
            if not pair & texts:
                indices.append(index)
                texts |= pair
            if len(indices) == FEW:
                break
        return self.store.pad(np.array(indices)).to(self.world.device)

    def logits(self, model: Any, batch: Batch) -> Tensor:
        """The scores of every real target token, one row each, computed as in training."""
        src = self.layout.of(batch["source"], batch["source_lengths"])
        tgt = self.layout.of(batch["target"], batch["target_lengths"])
        with autocast(self.world):
            scores = model(src, tgt).logits()
        return (scores if self.layout is Packed else scores[real(batch)]).float()

    def without_smoothing(self) -> Translation:
        """The task asking for nothing but the right word."""
        return replace(self.task, objective=replace(self.task.objective, label_smoothing=0.0, r_drop=0.0))


def real(batch: Batch) -> Tensor:
    """(B, T): True where the target is a word, False where it is padding."""
    return torch.arange(batch["target"].size(1), device=batch["target"].device) < batch["target_lengths"][:, None]


def without_dropout(run: Any) -> Any:
    """The same run, with a model that leaves nothing out by lot."""
    shape = run.recipe.model
    model = shape.model_copy(update={name: 0.0 for name in shape.model_dump() if name.endswith("dropout")})
    return replace(run, recipe=run.recipe.model_copy(update={"model": model}))
