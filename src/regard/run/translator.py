"""Using a trained run from Python: the same path that the command line, the evaluation and the report take.

from regard import Translator
Translator.load("runs/dates").translate(["Sunday, November 15, 2026"])
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self, overload

import torch

from regard.config import build
from regard.decoding.engine import Engine
from regard.decoding.settings import SEARCH_SETTINGS, DecodingSettings
from regard.engines.choose import ENGINES, fastest_engine, readable_engine
from regard.errors import UserError
from regard.run.translation import TranslationRun, open_translation
from regard.runtime import RuntimeSettings, open_world
from regard.tasks import Prediction, Translation
from regard.tasks.translation import SYMBOLS
from regard.viz import Map, attention_maps


class Translator:
    """One run, or several of the same vocabulary voting together."""

    def __init__(
        self,
        runs: Sequence[TranslationRun],
        checkpoint: str = "best",
        device: str = "auto",
        precision: str = "fp32",
        engine: str = "torch",
        quantization: str | None = None,
    ) -> None:
        """`engine` is one of engines/choose.py's; `quantization` is for ctranslate2, which computes on the CPU unless
        told otherwise."""
        refuse_disagreeing(len(runs), precision, engine, quantization)
        device = "cpu" if (engine, device) == ("ctranslate2", "auto") else device
        world = open_world(build(RuntimeSettings, {"device": device, "precision": precision}, "runtime"))
        self.run, self.runs, self.checkpoint, self.world = runs[0], runs, checkpoint, world
        for other in runs[1:]:
            if [v.to_json() for v in other.vocabularies] != [v.to_json() for v in self.run.vocabularies]:
                raise UserError(
                    f"{other.folder} and {self.run.folder} have different vocabularies and cannot vote on one text",
                    "train the runs of an ensemble with the same data, [text] settings, and another runtime.seed",
                )
        self.task: Translation = task_for_all(runs)
        self.engine: Engine = self._engine(engine, quantization or "int8")

    open = staticmethod(open_translation)
    """Opens a folder of the task."""

    @classmethod
    def load(
        cls,
        *runs: str | Path,
        checkpoint: str = "best",
        device: str = "auto",
        precision: str = "fp32",
        engine: str = "torch",
        quantization: str | None = None,
    ) -> Self:
        """Open one run folder, or several as an ensemble."""
        return cls([cls.open(run) for run in runs], checkpoint, device, precision, engine, quantization)

    @cached_property
    def models(self) -> list[Any]:
        """The model of every run. Not every engine needs them; attention is always theirs."""
        dtype = torch.bfloat16 if self.world.precision == "bf16" else torch.float32
        return [run.model(self.checkpoint, self.world.device).to(dtype) for run in self.runs]

    def _engine(self, name: str, quantization: str) -> Engine:
        if name == "ctranslate2":
            from regard.run.exports import ctranslate2_engine

            return ctranslate2_engine(self.run, self.checkpoint, SYMBOLS, quantization, self.world.device)
        chosen = readable_engine if name == "readable" else fastest_engine
        return chosen(self.models, SYMBOLS, self.world.device)

    def decoding(self, **changes: Any) -> DecodingSettings:
        """The run's search settings with some of them changed: beam=1, nbest=5, search="sample", ..."""
        return build(type(self.task.decoding), searching(self.task.decoding, changes), "decoding")

    @overload
    def translate(self, sentences: str, **changes: Any) -> str: ...

    @overload
    def translate(self, sentences: Sequence[str], **changes: Any) -> list[str]: ...

    def translate(self, sentences: str | Sequence[str], **changes: Any) -> str | list[str]:
        """The best translation of a sentence (a string for a string) or of each of several (a list for a list)."""
        if isinstance(sentences, str):
            return next(self.predict([sentences], **changes)).text
        return [prediction.text for prediction in self.predict(sentences, **changes)]

    def predict(
        self, lines: Iterable[str], prefixes: Iterable[str] | None = None, **changes: Any
    ) -> Iterator[Prediction]:
        """Translate a stream of any length in bounded memory; each prediction holds all hypotheses and their scores."""
        settings = self.decoding(**changes)
        return self.task.predict(self.engine, lines, settings, prefixes)

    def explain(self, source: str, **changes: Any) -> tuple[Prediction, list[Map]]:
        """A translation and what attended to what while it was written: every layer and head."""
        prediction = next(self.predict([source], **changes))
        tokens = prediction.hypotheses[0].tokens if prediction.hypotheses else []
        return prediction, self.attention(source, tokens)

    def attention(self, source: str, target: Sequence[int] | str) -> list[Map]:
        """The attention of the (first) model between a source and any target, text or tokens."""
        tokens = self.task.tgt_vocabulary.encode(target) if isinstance(target, str) else target
        rows, columns, weights = self.task.attentions(self.models[0], source, tokens)
        encoder, decoder, cross = (
            None if x is None else x[0].float().cpu().numpy() for x in (weights.encoder, weights.decoder, weights.cross)
        )
        return attention_maps(rows, columns, encoder, decoder, cross, start=self.task.start)


def task_for_all(runs: Sequence[TranslationRun]) -> Translation:
    """The task of the first run, with sentences no longer than every one of them has room for."""
    tasks = [run.task() for run in runs]
    bounds = [task.max_target for task in tasks if task.max_target is not None]
    return replace(tasks[0], max_source=min(task.max_source for task in tasks), max_target=min(bounds, default=None))


def refuse_disagreeing(runs: int, precision: str, engine: str, quantization: str | None) -> None:
    """What one engine can and another cannot is said before anything is loaded."""
    if engine not in ENGINES:
        raise UserError(f"the engine is {engine!r}", f"write one of {', '.join(ENGINES)}")
    if engine != "ctranslate2" and quantization is not None:
        raise UserError(
            f"quantization {quantization} is for the engine ctranslate2, not for {engine}",
            "write --engine ctranslate2 too, or leave it out",
        )
    if engine == "ctranslate2" and runs > 1:
        raise UserError("CTranslate2 cannot let several runs vote", "choose the engine torch, or give one run")
    if engine == "ctranslate2" and precision == "bf16":
        raise UserError("precision bf16 is for torch", "write --quantization bfloat16, or int8_bfloat16")


def searching(settings: DecodingSettings, changes: dict[str, Any]) -> dict[str, Any]:
    """`settings` with `changes`, as whoever wrote only the changes means them.

    A setting that one search alone reads asks for that search (beam=5 for beam, top_k=10 for sample), and several
    translations ask for a search that finds them. What the recipe said for another search is left behind.
    """
    search = changes.get("search") or next(
        (search for search, names in SEARCH_SETTINGS.items() if any(name in changes for name in names)), settings.search
    )
    if search == "greedy" and "search" not in changes and changes.get("nbest", 1) > 1:
        search = "beam"
    values = settings.model_dump() | {"search": search}
    if search != settings.search:
        unread = {name for other, names in SEARCH_SETTINGS.items() if other != search for name in names} | {"nbest"}
        values = {name: value for name, value in values.items() if name not in unread}
    if search != "sample":
        values.pop("seed")
    if search == "beam":  # as many texts in view as are asked for, and no more asked for than are in view
        beam = changes.get("beam") or max(values.get("beam", DecodingSettings().beam), changes.get("nbest", 1))
        values |= {"beam": beam, "nbest": min(values.get("nbest", 1), beam)}
    return values | changes
