"""Using a trained language model from Python: the same path that the command line takes.

from regard import Writer
next(Writer.load("runs/wikitext-2-lstm").generate(["The meaning of life is"])).texts
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from regard.config import build
from regard.data.sources import Source
from regard.decoding.settings import DecodingSettings
from regard.metrics.score import Score
from regard.run.language import LanguageRun, open_language, open_text
from regard.run.translator import searching
from regard.runtime import RuntimeSettings, open_world
from regard.tasks import Generation


@dataclass(frozen=True)
class TextEvaluation:
    """What was measured, and on what."""

    run: str
    checkpoint: str
    texts: list[str]
    scores: list[Score]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Writer:
    """One language model, ready to be asked."""

    def __init__(
        self, run: LanguageRun, checkpoint: str = "best", device: str = "auto", precision: str = "fp32"
    ) -> None:
        world = open_world(build(RuntimeSettings, {"device": device, "precision": precision}, "runtime"))
        self.run, self.checkpoint, self.world = run, checkpoint, world
        self.task = run.task()

    @classmethod
    def load(cls, run: str | Path, checkpoint: str = "best", device: str = "auto", precision: str = "fp32") -> "Writer":
        """Open a run's folder."""
        return cls(open_language(run), checkpoint, device, precision)

    @cached_property
    def model(self) -> Any:
        model = self.run.model(self.checkpoint, self.world.device)
        counted = next(model.parameters(), None) is None  # an n-gram's shares are sums of millions: they stay exact
        return model if counted or self.world.precision == "fp32" else model.to(torch.bfloat16)

    def decoding(self, **changes: Any) -> DecodingSettings:
        """The run's search settings with some of them changed: nbest=5, temperature=0.8, search="beam", ..."""
        return build(DecodingSettings, searching(self.task.decoding, changes), "decoding")

    def generate(self, prompts: Iterable[str], **changes: Any) -> Iterator[Generation]:
        """Lines that begin with each prompt; an empty one lets the model begin."""
        return self.task.generate(self.model, prompts, self.decoding(**changes))

    def evaluate(self, texts: Sequence[Source], root: Path) -> TextEvaluation:
        """How well the model expects `texts`, read as its training text was."""
        started = time.perf_counter()
        run = self.run
        with TemporaryDirectory() as aside:  # not in the run, which may be somebody else's to write to
            stream = open_text(Path(aside) / "text", texts, root, run.vocabulary, run.reading, run.recipe.data.workers)
            scores = self.task.score(self.model, stream)
        seconds = round(time.perf_counter() - started, 2)
        return TextEvaluation(str(run.folder), self.checkpoint, [str(text) for text in texts], scores, seconds)
