"""A trained run in Python: predict, evaluate, explain and embed. The command line uses the same class.

from regard import Model
Model.load("runs/sst-2").predict("A film to remember.")["label"]

from regard import Translator
Translator.load("runs/dates").translate(["Sunday, November 15, 2026"])
"""

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self, overload

import torch
from torch import nn

from regard.config import build
from regard.data.sources import Source
from regard.decoding.engine import Engine
from regard.engines.choose import ENGINES, EXPORTED_ENGINES
from regard.errors import UserError
from regard.files import JsonObject
from regard.metrics.score import Score
from regard.metrics.significance import Comparison
from regard.run import translating
from regard.run.embedding import Embedding, Features, embed
from regard.run.recording import Heads, Layers, Recording, record, without
from regard.run.run import Run
from regard.runtime import RuntimeSettings, open_world
from regard.tasks.base import AnyTask, Example, Prediction, ProgressCallback
from regard.tasks.operations import (
    call_model,
    check_outputs,
    decoding_engine,
    empty_prediction,
    engine_names,
    force_decode,
    open_store,
    pivot_example,
)
from regard.tasks.seq2seq import ensemble
from regard.tasks.translation import Translation
from regard.training.checkpoint import read_progress
from regard.training.progress import RANDOM_WEIGHTS
from regard.viz.report import AttentionMap

PROGRESS_EVERY = 100

Input = str | Mapping[str, object]


@dataclass(frozen=True)
class Evaluation:
    """Scores of a run on a data set, with every example and prediction, so that another run can be compared."""

    run: str
    checkpoint: str
    data: str
    options: JsonObject
    scores: list[Score]
    seconds: float
    examples: list[Example] = field(repr=False)
    predictions: list[Prediction] = field(repr=False)
    task: AnyTask = field(repr=False)
    """The task, configured by `options`."""
    samples: list[tuple[Example, Prediction]] = field(default_factory=list, repr=False)
    """Some examples of a task without scores by examples, for a report."""

    @property
    def pairs(self) -> list[tuple[Example, Prediction]]:
        """Each example with its prediction."""
        return list(zip(self.examples, self.predictions, strict=True)) or self.samples

    def to_json(self, texts: bool = True) -> JsonObject:
        """Plain values; without `texts`, the number of examples in place of examples and predictions."""
        values = {name: getattr(self, name) for name in ("run", "checkpoint", "data", "options", "seconds")}
        values["scores"] = [asdict(score) for score in self.scores]
        if not texts:
            return {**values, "examples": len(self.examples)}
        pairs = zip(self.examples, map(self.task.output, self.predictions), strict=True)
        return {**values, "examples": [{**example, "prediction": prediction} for example, prediction in pairs]}


@dataclass(frozen=True)
class Explanation:
    """One example, its prediction, and the attention weights of every layer and head."""

    example: Example
    prediction: Prediction
    maps: list[AttentionMap]


class Model:
    """One trained run, or several runs with the same tokenizers as an ensemble."""

    def __init__(
        self,
        runs: Sequence[Run],
        checkpoint: str = "best",
        device: str = "auto",
        precision: str = "fp32",
        engine: str = "torch",
        quantization: str | None = None,
    ) -> None:
        """`engine` is one of engines/choose.py; `quantization` is for ctranslate2 and onnx.

        These two use the CPU by default, and onnx has no other device.
        """
        check_engine(len(runs), precision, engine, quantization, device)
        device = "cpu" if engine in EXPORTED_ENGINES and device == "auto" else device
        self.world = open_world(
            build(RuntimeSettings, {"device": device, "precision": precision}, "--device, --precision"), alone=True
        )
        self.run, self.runs, self.checkpoint = runs[0], runs, checkpoint
        self.task: AnyTask = replace(ensemble([run.task for run in runs]), random_weights=self.random_weights)
        if engine not in engine_names(self.task):
            raise UserError(
                f"the task {self.task.name} does not support the engine {engine}",
                "leave --engine out",
                code="unsupported-option",
                where="engine",
            )
        self._engine_name, self._quantization = engine, quantization

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
        return cls([Run.open(run) for run in runs], checkpoint, device, precision, engine, quantization)

    @cached_property
    def models(self) -> list[nn.Module]:
        """The model of every run. Not every engine needs them; attention weights always come from them."""
        return [self._precise(run.model(self.checkpoint, self.world.device)) for run in self.runs]

    @property
    def model(self) -> nn.Module:
        """The model of the first run."""
        return self.models[0]

    def _precise(self, model: nn.Module) -> nn.Module:
        """bf16 weights if precision is bf16; the counts of an n-gram model stay exact."""
        counted = next(model.parameters(), None) is None
        return model if counted or self.world.precision == "fp32" else model.to(torch.bfloat16)

    @cached_property
    def engine(self) -> nn.Module | Engine:
        """The model, or an engine that decodes with it: the first argument of `Task.predict`."""
        if self._engine_name in EXPORTED_ENGINES:
            from regard.run.exported_engine import exported_engine

            name, device = self._engine_name, self.world.device
            return exported_engine(name, self.run, self.checkpoint, self._quantization, device)
        return decoding_engine(self.task, self.models, self.world.device, self._engine_name)

    @cached_property
    def random_weights(self) -> tuple[str, ...]:
        """Names of weights that an import filled with random values."""
        return random_weights(self.run, self.checkpoint)

    # ---- predict ----------------------------------------------------------------------------------------------------

    @overload
    def predict(self, inputs: Input, **options: Any) -> Prediction: ...

    @overload
    def predict(self, inputs: Iterable[Input], **options: Any) -> list[Prediction]: ...

    def predict(self, inputs: Input | Iterable[Input], **options: Any) -> Prediction | list[Prediction]:
        """The prediction for one input (a text or a dictionary), or a list of predictions for several inputs.

        Options are those of the task: beam=8, nbest=5, ... An input without text has an empty prediction: None in place
        of a class.
        """
        if isinstance(inputs, str | Mapping):
            return next(self.stream([inputs], **options))
        return list(self.stream(inputs, **options))

    def stream(self, inputs: Iterable[Input], *, where: str = "example", **options: Any) -> Iterator[Prediction]:
        """A prediction for each input, any number of them, in order and in bounded memory.

        An input is a dictionary or plain text (see `Task.parse`). Errors name the input as "`where` N".
        """
        return (prediction for _, prediction in self.stream_pairs(inputs, where=where, **options))

    def stream_pairs(
        self, inputs: Iterable[Input], *, where: str = "example", **options: Any
    ) -> Iterator[tuple[Example, Prediction]]:
        """Predictions as in `stream`, each with its example."""
        task = self.task.configure(**options)
        check_outputs(task)
        examples = (task.parse(value, f"{where} {number}") for number, value in enumerate(inputs, 1))
        return self._stream(task, examples)

    def _stream(self, task: AnyTask, examples: Iterable[Example]) -> Iterator[tuple[Example, Prediction]]:
        """Each example with its prediction, in order; the model does not read examples without text."""
        waiting: deque[tuple[Example, Prediction | None]] = deque()

        def with_text() -> Iterator[Example]:
            for example in examples:
                empty = empty_prediction(task, example)
                waiting.append((example, empty))
                if empty is None:
                    yield example

        for prediction in task.predict(self.engine, with_text()):
            yield from pop_empty(waiting)
            yield waiting.popleft()[0], prediction
        yield from pop_empty(waiting)

    # ---- evaluate ---------------------------------------------------------------------------------------------------

    def evaluate(
        self,
        split: str = "test",
        sources: Sequence[Source] | None = None,
        *,
        name: str = "",
        examples: Sequence[Example] | None = None,
        progress: ProgressCallback | None = None,
        with_samples: bool = False,
        **options: object,
    ) -> Evaluation:
        """Scores on a split of the recipe, on other `sources`, or on `examples`; nothing is left out.

        `with_samples` adds some examples if the scores of the task are not computed by examples, for a report.
        """
        started, task = time.perf_counter(), self.task.configure(**options)
        if options and not task.scored_by_examples:
            raise UserError(
                f"{', '.join(options)}: the scores of task {task.name} are computed without a search",
                "leave it out",
                code="unsupported-option",
                where=next(iter(options)),
            )
        scores: list[Score] = []
        read: list[Example] = []
        predictions: list[Prediction] = []
        samples: list[tuple[Example, Prediction]] = []
        if task.scored_by_examples:
            read = list(examples if examples is not None else list(task.read(split, sources)))
            for prediction in task.predict(self.engine, read):
                predictions.append(prediction)
                if progress is not None and len(predictions) % PROGRESS_EVERY == 0:
                    progress(len(predictions), len(read))
            scores += task.score(read, predictions).values()
        if task.scored_by_store and examples is None:
            with TemporaryDirectory() as folder:  # the run folder may be read-only
                store = open_store(task, Path(folder), split, None, sources)
                scores += task.score_store(self.model, store)
                samples = task.checks.store_samples(task, self.model, store) if with_samples and not read else []
        return Evaluation(
            run=str(self.run.folder),
            checkpoint=self.checkpoint,
            data=name or split,
            options=options,
            scores=scores,
            seconds=round(time.perf_counter() - started, 2),
            examples=read,
            predictions=predictions,
            task=task,
            samples=samples,
        )

    def compare(self, base: Evaluation, other: Evaluation) -> list[Comparison]:
        """A paired bootstrap test of two evaluations on the same examples."""
        return other.task.compare(other.examples, base.predictions, other.predictions)

    # ---- explain and embed ------------------------------------------------------------------------------------------

    def explain(self, value: Input, target: str | None = None, **options: object) -> Explanation:
        """A prediction and the attention weights behind it; with `target`, those of this output instead."""
        task = self.task.configure(**options)
        example = task.parse(value, "the text")
        if empty_prediction(task, example) is not None:
            raise UserError("the text is blank", "give a text", code="blank-input", where="text")
        example = pivot_example(task, self.engine, example) if target is None else example
        predicted = task.predict(self.engine, [example])
        prediction = next(iter(predicted)) if target is None else force_decode(task, example, target)
        return Explanation(example, prediction, task.attention(self.model, example, prediction))

    def record(self, value: Input, target: str | None = None, **options: object) -> Recording:
        """Every activation of the model for one input, by name (run/recording.py); with `target`, for this output."""
        task = self.task.configure(**options)
        example = task.parse(value, "the text")
        if empty_prediction(task, example) is not None:
            raise UserError("the text is blank", "give a text", code="blank-input", where="text")
        prediction = (
            next(iter(task.predict(self.engine, [example]))) if target is None else force_decode(task, example, target)
        )
        return record(self.model, lambda: call_model(task, self.model, example, prediction), prediction)

    @contextmanager
    def without(self, heads: Heads = (), layers: Layers = ()) -> Iterator[Self]:
        """Run the model without some heads and layers until the end of a `with` block.

        model.without(heads={"encoder.0.self": [1], "decoder.1.cross": [0]}, layers={"encoder.2"})

        The output of a head is zero before the output projection; a layer hands on its input unchanged. A model with
        one stack takes pairs (layer, head) and numbers of layers too.
        """
        if self._engine_name in EXPORTED_ENGINES:
            raise UserError(
                f"the engine {self._engine_name} cannot switch off heads and layers",
                'load the model with engine="torch"',
                code="unsupported-option",
                where="engine",
            )
        engine = self.__dict__.pop("engine", None)  # a fast engine has weights of its own
        with ExitStack() as stack:
            for model in self.models:
                stack.enter_context(without(model, heads, layers))
            try:
                yield self
            finally:
                self.__dict__.pop("engine", None)
                self.__dict__ |= {} if engine is None else {"engine": engine}

    @overload
    def embed(self, inputs: Input, features: Features | None = None, **options: Any) -> Embedding: ...

    @overload
    def embed(
        self, inputs: Iterable[Input], features: Features | None = None, *, where: str = "text", **options: Any
    ) -> Iterator[Embedding]: ...

    def embed(
        self, inputs: Input | Iterable[Input], features: Features | None = None, *, where: str = "text", **options: Any
    ) -> Embedding | Iterator[Embedding]:
        """The vector of one input (a text, or a dictionary with a pair of texts), or of each of several, one by one.

        Options are those of run/embedding.py: layers="-4:", pool="mean", ...
        """
        features = features or Features(**options)
        if isinstance(inputs, str | Mapping):
            return next(embed(self, [inputs], features, where))
        return embed(self, inputs, features, where)


class Translator(Model):
    """A model of task translation."""

    task: Translation

    @classmethod
    def load(cls, *runs: str | Path, **options: Any) -> Self:
        """Open one run folder, or several as an ensemble."""
        return cls([Run.open(run, "translation") for run in runs], **options)

    @overload
    def translate(self, sentences: str, **options: Any) -> str: ...

    @overload
    def translate(self, sentences: Sequence[str], **options: Any) -> list[str]: ...

    def translate(self, sentences: str | Sequence[str], **options: Any) -> str | list[str]:
        """The best translation of a text (a string for a string) or of each of several (a list for a list).

        Options are `source` and `target` (language codes), those of `translating.predict_texts`, and of the search.
        """
        names = {"from": "source", "to": "target"}
        options = {names.get(name, name): value for name, value in options.items()}
        if isinstance(sentences, str):
            return next(translating.translate_texts(self, [sentences], **options))
        return list(translating.translate_texts(self, sentences, **options))


def pop_empty(waiting: "deque[tuple[Example, Prediction | None]]") -> Iterator[tuple[Example, Prediction]]:
    """The examples at the front that have a prediction already."""
    while waiting and (prediction := waiting[0][1]) is not None:
        yield waiting.popleft()[0], prediction


def random_weights(run: Run, checkpoint: str) -> tuple[str, ...]:
    """Names of the weights of a checkpoint that an import filled with random values."""
    return tuple(read_progress(run.checkpoints.resolve(checkpoint)).get(RANDOM_WEIGHTS) or ())


def check_engine(runs: int, precision: str, engine: str, quantization: str | None, device: str = "auto") -> None:
    """Raise UserError for options that contradict each other, before anything is loaded."""
    if engine not in ENGINES:
        raise UserError(
            f"unknown engine {engine!r}", f"write one of {', '.join(ENGINES)}", code="invalid-option", where="engine"
        )
    if engine not in EXPORTED_ENGINES and quantization is not None:
        raise UserError(
            f"quantization {quantization} has no effect with the engine {engine}",
            f"add --engine {' or '.join(EXPORTED_ENGINES)}, or leave it out",
            code="unsupported-option",
            where="quantization",
        )
    if engine in EXPORTED_ENGINES and runs > 1:
        raise UserError(
            f"the {engine} engine does not support ensembles",
            "use the engine torch, or give one run",
            code="unsupported-option",
            where="engine",
        )
    if engine == "onnx" and device not in ("auto", "cpu"):
        raise UserError(
            f"the engine onnx computes on a CPU, not on {device}",
            "leave --device out, or use the engine torch or ctranslate2",
            code="unsupported-option",
            where="device",
        )
    if engine in EXPORTED_ENGINES and precision == "bf16":
        raise UserError(
            "precision bf16 is for the engine torch",
            "write --quantization int8, or with the engine ctranslate2 bfloat16 or int8_bfloat16",
            code="unsupported-option",
            where="precision",
        )
