"""Continuous batching on a GPU for requests that arrive while others are decoded (`choose.ContinuousSearch`).

`DeviceEngine.decode` knows all sentences at its start. Here sentences enter free slots between two steps, and `step`
returns those that are done. The slots have one shape, chosen once, so that one CUDA graph serves all of them; a
sentence that is too long for it is refused.
"""

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

import torch

from regard.decoding.engine import DecodingRequest
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import DecodingSettings
from regard.engines.device import DeviceEngine
from regard.engines.device_decoder import SlotShape

SLOTS, SOURCE, POSITIONS = 64, 128, 256
"""The shape: sentences at a time, and the longest source and output."""
Name = TypeVar("Name", bound=Hashable)
"""What the caller calls a sentence."""


class SlotSearch(Generic[Name]):
    """Sentences in the slots of a `DeviceEngine`."""

    def __init__(self, engine: DeviceEngine, settings: DecodingSettings) -> None:
        width = settings.beam if settings.search == "beam" else 1
        self.engine, self.settings = engine, settings
        with self._on_device():
            self.batch = engine.slot_batch(SlotShape(SLOTS, width, POSITIONS, SOURCE), settings)
        self.free = list(range(SLOTS))
        self.running: dict[int, Name | None] = {}
        """The sentence in each slot that is used; None for one that was removed and is not done yet."""

    def __len__(self) -> int:
        return sum(name is not None for name in self.running.values())

    def add(self, names: Sequence[Name], request: DecodingRequest) -> None:
        """Encode the sources of a request into free slots; an error if there are too few, or a sentence is too long."""
        longest = max(map(len, request.sources), default=0), max(request.max_new_tokens, default=0)
        if len(names) > len(self.free) or longest[0] > SOURCE or longest[1] > POSITIONS:
            raise ValueError(f"{len(names)} sentences of at most {longest} tokens do not fit into the slots")
        if not self.engine.supports(request):
            raise ValueError("slots cannot decode this request")
        if names:
            slots = self.free[: len(names)]
            with self._on_device():
                self.batch.prefill(slots, request)
            del self.free[: len(names)]
            self.running |= dict(zip(slots, names, strict=True))

    def remove(self, name: Name) -> None:
        """Forget a sentence; its slot is free when its search is done."""
        for slot, other in self.running.items():
            if other == name:
                self.running[slot] = None

    def step(self) -> list[tuple[Name, list[Hypothesis]]]:
        if not self.running:
            return []
        with self._on_device():
            flags = self.batch.step.launch().read()
            ended = [slot for slot in self.running if flags[slot]]
            collected = self.batch.collect(ended).hypotheses() if ended else []
        self.free.extend(ended)
        named = [(self.running.pop(slot), hypotheses) for slot, hypotheses in zip(ended, collected, strict=True)]
        return [
            (name, [item for item in hypotheses if item.finished] or hypotheses)
            for name, hypotheses in named
            if name is not None
        ]

    def partial(self) -> dict[Name, list[int]]:
        """Nothing: what is in the slots stays on the device until a sentence is done."""
        return {}

    @contextmanager
    def _on_device(self) -> Iterator[None]:
        device = self.engine.device
        no_autocast = torch.autocast(device.type, enabled=False)
        with torch.inference_mode(), no_autocast, torch.cuda.device_of(self.engine.model.tgt_embedding.weight):
            yield
