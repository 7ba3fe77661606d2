"""Every corpus of a recipe read once: how many pairs there are, a fair sample of them, and which occur twice.

Memory holds the sample, a hash for each held-out pair, and eight bytes for each training pair.
"""

import json
import random
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np

from regard.data.examples import Example
from regard.data.fields import PAIRS
from regard.data.formats import read_locations
from regard.data.records import Location
from regard.data.settings import PairDataSettings
from regard.data.sources import Source
from regard.files import write_text

PARTS = ("train", "valid", "test")
SAMPLE, QUICK_SAMPLE = 50_000, 10_000
TELL_EVERY = 10_000

Progress = Callable[[str, int], None]


@dataclass
class Part:
    """One of train, valid and test: how many pairs were read, and a sample of them in their order."""

    pairs: int = 0
    sample: list[tuple[str, str]] = field(default_factory=list)

    @property
    def sampled(self) -> bool:
        return len(self.sample) < self.pairs


@dataclass
class Survey:
    """What reading found. Where `whole` is False only the beginning of each corpus was read."""

    whole: bool
    parts: dict[str, Part] = field(default_factory=dict)
    repeated: int = 0
    """Training pairs that occurred before in the training data."""
    held_out: dict[str, set[int]] = field(default_factory=dict)
    """A hash for each distinct pair of valid and test."""
    leaked: dict[str, set[int]] = field(default_factory=dict)
    """Those of them that occur in the training data too."""
    first_leak: dict[str, str] = field(default_factory=dict)
    """Where in the training data the first such pair stands."""


def survey(data: PairDataSettings, seed: int, quick: bool = False, progress: Progress | None = None) -> Survey:
    """Read valid and test, then the training data with an eye on what they hold; a defect of a file is raised."""
    result = Survey(whole=not quick)
    size = QUICK_SAMPLE if quick else SAMPLE
    for name in ("valid", "test", "train"):
        hashes = array("q")
        reservoir = Reservoir(size, seed)
        for location, pair in _read(getattr(data, name), data.folder, size if quick else None):
            reservoir.offer(pair)
            number = hash((pair["src"].strip(), pair["tgt"].strip()))
            hashes.append(number)
            if name == "train":
                _note_leak(result, number, str(location))
            if progress is not None and reservoir.seen % TELL_EVERY == 0:
                progress(name, reservoir.seen)
        result.parts[name] = Part(reservoir.seen, reservoir.in_order())
        if name == "train":
            result.repeated = len(hashes) - len(np.unique(np.frombuffer(hashes, np.int64)))
        else:
            result.held_out[name], result.leaked[name] = set(hashes), set()
    return result


def _read(corpora: list[Source], root: Path, most: int | None) -> Iterator[tuple[Location, Example]]:
    """The pairs of all corpora; with `most`, its share of them from the beginning of each."""
    share = None if most is None else max(1, most // max(1, len(corpora)))
    for corpus in corpora:
        yield from islice(read_locations(corpus, root, PAIRS), share)


def _note_leak(result: Survey, number: int, place: str) -> None:
    for name, known in result.held_out.items():
        if number in known:
            result.leaked[name].add(number)
            result.first_leak.setdefault(name, place)


class Reservoir:
    """A uniform sample of a stream of unknown length (Vitter 1985, algorithm R), remembered with its order."""

    def __init__(self, size: int, seed: int) -> None:
        self.seen = 0
        self._size, self._rng = size, random.Random(seed)
        self._kept: list[tuple[int, str, str]] = []

    def offer(self, pair: Example) -> None:
        """Let the pair into the sample with probability size / seen."""
        entry = (self.seen, pair["src"], pair["tgt"])
        self.seen += 1
        if len(self._kept) < self._size:
            self._kept.append(entry)
        elif (place := self._rng.randrange(self.seen)) < self._size:
            self._kept[place] = entry

    def in_order(self) -> list[tuple[str, str]]:
        """The sample in the order of the stream."""
        return [(src, tgt) for _, src, tgt in sorted(self._kept)]


def write_sample(folder: Path, data: PairDataSettings, found: Survey) -> PairDataSettings:
    """The sample as files in `folder`, and the settings that read them in the place of the corpora."""
    corpora: dict[str, list[Source]] = {name: [] for name in PARTS}
    for name, part in found.parts.items():
        if part.sample:
            path = folder / f"{name}.jsonl"
            lines = (json.dumps({"src": src, "tgt": tgt}, ensure_ascii=False) for src, tgt in part.sample)
            write_text(path, "\n".join(lines) + "\n")
            corpora[name] = [Source(file=str(path.absolute()))]
    return data.model_copy(update={**corpora, "workers": 1})
