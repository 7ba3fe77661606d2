"""A trained run in Python: predict, evaluate, explain and embed. The command line uses the same class.

from regard import Model
Model.load("runs/sst-2").predict("A film to remember.")["label"]

from regard import Translator
Translator.load("runs/dates").translate(["Sunday, November 15, 2026"])
"""

import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Self, TypeVar, Unpack, cast, overload

import torch
from torch import nn

from regard import __version__
from regard.config import build
from regard.data.digests import Digests
from regard.data.sources import Source
from regard.data.store import DIGESTS
from regard.decoding.engine import Engine
from regard.decoding.settings import DecodingOptions
from regard.documents.address import Formality
from regard.documents.protecting import Glossary
from regard.engines.choose import ENGINES, EXPORTED_ENGINES
from regard.errors import UserError
from regard.files import JsonObject, checksum, digest, require_writable, write_json
from regard.messages import Message
from regard.metrics.score import Score
from regard.metrics.significance import Comparison, paired_bootstrap
from regard.reading import read_json
from regard.run import translating
from regard.run.architecture import task_architecture
from regard.run.checking import CheckResults, check
from regard.run.embedding import Embedding, Features, embed
from regard.run.memory import MemoryInput
from regard.run.recording import Heads, Layers, Recording, record, without
from regard.run.results import Evaluation as Evaluation
from regard.run.results import Explanation as Explanation
from regard.run.results import Frame, Prediction, Predictions, frame_examples, is_frame, parse_input
from regard.run.results import Input as Input
from regard.run.run import Run
from regard.run_files import MANIFEST, RECIPE, STORES, TRANSLATOR, bundled_run, shown_name
from regard.runtime import RuntimeSettings, open_world
from regard.tasks import operations
from regard.tasks.base import AnyTask, Example, ProgressCallback
from regard.tasks.base import Prediction as PlainPrediction
from regard.tasks.identification import Detected, identify
from regard.tasks.inputs import option_names
from regard.tasks.seq2seq import ensemble
from regard.tasks.translation import Translation
from regard.training.checkpoint import read_progress, weights_sum
from regard.training.progress import RANDOM_WEIGHTS
from regard.training.weights import count_parameters
from regard.viz.architecture import Architecture
from regard.viz.progress import ProgressLine
from regard.work import Work, join_work

FrameType = TypeVar("FrameType", bound=Frame)


Watching = bool | ProgressCallback
"""True to show progress on stderr; or a function that is called with the number of inputs done, and the total."""


@contextmanager
def watch(progress: Watching, inputs: object) -> Iterator[Work]:
    """Work on inputs, with progress if it is wanted."""
    total = len(inputs) if isinstance(inputs, Sized) else None
    if not progress:
        yield Work()
    else:
        with ProgressLine(Message("predicted:")) as line, Work(line if progress is True else progress, total) as work:
            yield work


class TranslateOptions(DecodingOptions, total=False):
    """Options of a translation: languages, the form of the texts, and those of the search."""

    source: str
    """The source language; default: detected for each text."""
    target: str
    """The target language."""
    format: str
    """text, or html."""
    glossary: Mapping[str, str] | Glossary
    """Terms of the texts and their translations."""
    memory: MemoryInput
    """Known translations of sentences: TMX, TSV or CSV files, or {sentence: translation}. False: none, not even the
    bundled one."""
    formality: Formality
    """Form of address: more (Sie, vous, usted), less (du, tu, tú), prefer_more or prefer_less (no error if the target
    language has no such forms), or default: as the model says it."""
    split: bool
    """False: each line is one sentence, also if it looks like several."""
    progress: bool | ProgressCallback
    """True to show rate and time left; or a function that gets the number of texts done, and the total."""


class PredictOptions(DecodingOptions, total=False):
    """Options of a prediction: those of the search, the languages of a translation, and of single tasks."""

    source: str
    """The source language."""
    target: str
    """The target language."""
    top: int
    """Classification: the number of classes to show."""
    split_punctuation: bool
    """Parsing: True to separate punctuation from the words of a text."""
    tokenize: str
    """Translation: the tokenizer of BLEU."""


class Model:
    """One trained run, or several runs with the same tokenizers as an ensemble."""

    task_names: ClassVar[tuple[str, ...]] = ()
    """The tasks of its runs; empty: any."""
    default_runs: ClassVar[tuple[str, ...]] = ()
    """What `load` opens if no run is given."""

    def __init__(
        self,
        runs: Sequence[Run],
        checkpoint: str = "best",
        device: str = "auto",
        precision: str = "fp32",
        engine: str = "torch",
        quantization: str | None = None,
    ) -> None:
        """`engine` is one of engines/choose.py; `quantization` is for ctranslate2 and onnx. These two use the CPU by
        default, and onnx has no other device."""
        check_engine(len(runs), precision, engine, quantization, device)
        device = "cpu" if engine in EXPORTED_ENGINES and device == "auto" else device
        self.world = open_world(
            build(RuntimeSettings, {"device": device, "precision": precision}, "device, precision"), alone=True
        )
        self.run, self.runs, self.checkpoint = runs[0], runs, checkpoint
        self.task: AnyTask = replace(ensemble([run.task for run in runs]), random_weights=self.random_weights)
        if engine not in operations.engine_names(self.task):
            problem = f"the task {self.task.name} does not support the engine {engine}"
            raise UserError(problem, "leave `engine` out", code="unsupported-option", where="engine")
        self._engine_name, self._quantization = engine, quantization

    def __repr__(self) -> str:
        runs, task = " + ".join(shown_name(run.folder) for run in self.runs), self.task
        parameters = count_parameters(operations.model_on_meta(task))
        return f"{type(self).__name__}({runs}: {task.name}, {task.recipe.model.summary}, {parameters:,} parameters)"

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
        if not (runs := runs or cls.default_runs):
            raise UserError("no run is given", 'pass a run folder, e.g. "runs/dates"', code="missing-run")
        opened = [Run.open(run, *cls.task_names) for run in runs]
        return cls(opened, checkpoint, device, precision, engine, quantization)

    def made_from(self) -> JsonObject:
        """What predictions depend on besides inputs and options, for work that is continued (regard/work.py)."""
        files = [[run.folder / name for name in (RECIPE, MANIFEST)] for run in self.runs]
        return {
            "version": __version__,
            "run": [[digest(path) for path in paths if path.exists()] for paths in files],
            "checkpoint": [weights_sum(run.checkpoints.resolve(self.checkpoint)) for run in self.runs],
            "engine": [self._engine_name, self._quantization, self.world.device.type, self.world.precision],
        }

    @cached_property
    def models(self) -> list[nn.Module]:
        """The model of every run. Not every engine needs them; attention weights always come from them."""
        models = [run.model(self.checkpoint, self.world.device) for run in self.runs]
        if self.world.precision == "fp32":
            return models
        counted = [next(model.parameters(), None) is None for model in models]  # counts of n-grams stay exact
        return [model if exact else model.to(torch.bfloat16) for model, exact in zip(models, counted, strict=True)]

    @property
    def model(self) -> nn.Module:
        return self.models[0]

    @cached_property
    def engine(self) -> nn.Module | Engine:
        """The model, or an engine that decodes with it: the first argument of `Task.predict`."""
        if self._engine_name in EXPORTED_ENGINES:
            from regard.run.exported_engine import exported_engine

            name, device = self._engine_name, self.world.device
            return exported_engine(name, self.run, self.checkpoint, self._quantization, device)
        return operations.decoding_engine(self.task, self.models, self.world.device, self._engine_name)

    @cached_property
    def random_weights(self) -> tuple[str, ...]:
        """Names of weights that an import filled with random values."""
        return random_weights(self.run, self.checkpoint)

    # ---- predict ----------------------------------------------------------------------------------------------------

    @overload
    def predict(  # type: ignore[overload-overlap]
        self, inputs: Input, *, progress: Watching = False, **options: Unpack[PredictOptions]
    ) -> Prediction: ...

    @overload
    def predict(
        self, inputs: FrameType, *, progress: Watching = False, **options: Unpack[PredictOptions]
    ) -> FrameType: ...

    @overload
    def predict(
        self, inputs: Iterable[Input], *, progress: Watching = False, **options: Unpack[PredictOptions]
    ) -> Predictions: ...

    def predict(
        self,
        inputs: Input | Iterable[Input] | Frame,
        *,
        progress: Watching = False,
        **options: Unpack[PredictOptions],
    ) -> Prediction | Predictions | Frame:
        """The prediction for one input (a text or a dictionary), or a list of predictions for several inputs.

        For a pandas DataFrame, the same frame with columns `predicted_...`, as in the tables of `regard predict`.
        Options are those of the task: beam=8, nbest=5, ... An input without text has an empty prediction: None in place
        of a class. `progress=True` shows rate and time left; a function gets the number of inputs done, and the total.
        """
        task, one = self._configured(options), isinstance(inputs, str | Mapping)
        if is_frame(inputs):
            rows = enumerate(frame_examples(inputs, self.task))
            with watch(progress, inputs) as work:
                parsed = (parse_input(task, row, f"row {number}") for number, row in work.feed(rows))
                pairs = work.count(self._stream(task, parsed))
                columns = [operations.output_columns(task, prediction) for _, prediction in pairs]
            return inputs.assign(**{name: [row[name] for row in columns] for name in columns[0]}) if columns else inputs
        values = cast(Iterable[Input], [inputs] if one else inputs)
        with watch(progress, values) as work:
            pairs = work.count(self.stream_pairs(work.feed(values), **options))
            predictions = Predictions(Prediction(prediction, example, task) for example, prediction in pairs)
        return predictions[0] if one else predictions

    def _configured(self, options: Mapping[str, object]) -> AnyTask:
        """The task with options of prediction, ready to predict."""
        task = self.task.configure(**options)
        operations.check_outputs(task)
        return task

    def stream(
        self, inputs: Iterable[Input], *, where: str = "example", **options: Unpack[PredictOptions]
    ) -> Iterator[PlainPrediction]:
        """A prediction for each input, any number of them, in order and in bounded memory. An input is a dictionary or
        plain text (see `Task.parse`). Errors name the input as "`where` N"."""
        return (prediction for _, prediction in self.stream_pairs(inputs, where=where, **options))

    def stream_pairs(
        self, inputs: Iterable[Input], *, where: str = "example", **options: Unpack[PredictOptions]
    ) -> Iterator[tuple[Example, PlainPrediction]]:
        """Predictions as in `stream`, each with its example."""
        task = self._configured(options)
        examples = (parse_input(task, value, f"{where} {number}") for number, value in enumerate(inputs, 1))
        return self._stream(task, examples)

    def _stream(self, task: AnyTask, examples: Iterable[Example]) -> Iterator[tuple[Example, PlainPrediction]]:
        """Each example with its prediction, in order; the model does not read examples without text."""
        waiting: deque[tuple[Example, PlainPrediction | None]] = deque()

        def with_text() -> Iterator[Example]:
            for example in examples:
                empty = operations.empty_prediction(task, example)
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
        split: str | Iterable[Example] | Frame = "test",
        sources: Sequence[Source] | None = None,
        *,
        name: str = "",
        examples: Iterable[Example] | Frame | None = None,
        progress: Watching = False,
        with_samples: bool = False,
        **options: Unpack[PredictOptions],
    ) -> Evaluation:
        """Scores on a split of the recipe, on other `sources`, or on `examples`; nothing is left out.

        Examples are dictionaries with targets, or a pandas DataFrame; they may be the first argument.
        `with_samples` adds some examples if the scores of the task are not computed by examples, for a report.
        """
        started, task = time.perf_counter(), self.task.configure(**options)
        given = examples if isinstance(split, str) else split
        split, name = (split, name) if isinstance(split, str) else ("test", name or "examples")
        examples = frame_examples(given, task, targets=True) if is_frame(given) else given
        if options and not task.scored_by_examples:
            problem = f"{option_names(options)} has no effect: task {task.name} is scored without a search"
            raise UserError(problem, "leave it out", code="unsupported-option", where=next(iter(options)))
        scores: list[Score] = []
        read: list[Example] = []
        predictions: list[PlainPrediction] = []
        samples: list[tuple[Example, PlainPrediction]] = []
        if task.scored_by_examples:
            read = list(cast(Iterable[Example], examples) if examples is not None else task.read(split, sources))
            with join_work(len(read)) or watch(progress, read) as work:
                predictions += work.count(task.predict(self.engine, work.feed(read)))
            scores += task.score(read, predictions).values()
        if task.scored_by_store and examples is None:
            with TemporaryDirectory() as folder:  # the run folder may be read-only
                store = operations.open_store(task, Path(folder), split, None, sources)
                scores += task.score_store(self.model, store)
                samples = task.checks.store_samples(task, self.model, store) if with_samples and not read else []
        return Evaluation(
            run=str(self.run.folder),
            checkpoint=self.checkpoint,
            data=name or split,
            options=dict(options),
            scores=scores,
            seconds=round(time.perf_counter() - started, 2),
            examples=read,
            predictions=predictions,
            task=task,
            samples=samples,
            identity=self.identity(split, sources, options) if examples is None else "",
        )

    def evaluation_path(
        self, name: str, options: Mapping[str, object], sources: Sequence[Source] | None = None
    ) -> Path:
        """The file of an evaluation; its name has all options, so that one search does not overwrite another. For other
        `sources`, a checksum of where and how they are read keeps files of one name apart."""
        if sources is not None:
            read = [
                (str(Path(item.file or item.src or "").absolute()), item.model_dump(mode="json")) for item in sources
            ]
            name += f"-{checksum(read)[:8]}"
        title = "-".join([name, self.checkpoint, *(f"{key}={value}" for key, value in options.items())])
        return self.run.outputs / "evaluations" / f"{title}.json"

    def stored_evaluation(self, name: str, sources: Sequence[Source] | None = None) -> Evaluation:
        """The stored evaluation with the recipe's options if it is up to date, or a new one, which is stored."""
        path = self.evaluation_path(name, {}, sources)
        require_writable(path)
        with suppress(UserError, TypeError, KeyError):  # missing, damaged, or of an earlier version
            values = read_json(path, JsonObject)
            if values["identity"] == self.identity(name, sources, {}):
                scores = [Score(**score) for score in values.pop("scores")]
                predictions = [example.pop("prediction") for example in values["examples"]]
                return Evaluation(**values, scores=scores, predictions=predictions, task=self.task)
        evaluation = self.evaluate(name if sources is None else "test", sources, name=name)
        write_json(path, evaluation.to_json())
        return evaluation

    def identity(self, split: str, sources: Sequence[Source] | None, options: Mapping[str, object]) -> str:
        """A digest of all that an evaluation depends on: data, options, and what predictions are made from."""
        data = self.task.content(split, sources, Digests(self.run.folder / STORES / "train" / DIGESTS))
        return checksum([data, dict(options), self.made_from()])

    def compare(self, base: Evaluation, other: Evaluation) -> list[Comparison]:
        """A paired bootstrap test of two evaluations on the same examples, for every score by examples."""
        operations.check_comparable(other.task)
        if checksum(base.examples) != checksum(other.examples):
            problem = f"{base.run} and {other.run} were evaluated on different examples ({base.data}, {other.data})"
            remedy = "evaluate both runs on the same data"
            raise UserError(problem, remedy, code="different-data", where="against")
        first, second = (other.task.scorer(other.examples, item.predictions) for item in (base, other))
        return list(paired_bootstrap(first, second, len(other.examples)).values())

    # ---- explain and embed ------------------------------------------------------------------------------------------

    def explain(self, value: Input, output: str | None = None, **options: Unpack[PredictOptions]) -> Explanation:
        """A prediction and the attention weights behind it; with `output`, those of this output instead."""
        prediction = self._predict_one(value, output, options)
        maps = prediction.task.attention(self.model, prediction.example, prediction)
        return Explanation(prediction.example, prediction, maps)

    def record(self, value: Input, output: str | None = None, **options: Unpack[PredictOptions]) -> Recording:
        """Every activation of the model for one input, by name (run/recording.py); with `output`, for this output."""
        prediction = self._predict_one(value, output, options)
        task, example = prediction.task, prediction.example
        return record(self.model, lambda: operations.call_model(task, self.model, example, prediction), prediction)

    def architecture(self) -> Architecture:
        """The parts of the model with shapes and parameters; a notebook draws them, `.svg()` is the picture."""
        return task_architecture(self.task)

    def _predict_one(self, value: Input, output: str | None, options: Mapping[str, object]) -> Prediction:
        """The prediction for a text that is not blank, or the given output, with the example that the model reads."""
        task = self.task.configure(**options)  # attention needs no trained outputs
        example = parse_input(task, value, "the text")
        if operations.empty_prediction(task, example) is not None:
            raise UserError("the text is blank", "give a text", code="blank-input", where="text")
        if output is not None:
            return Prediction(operations.force_decode(task, example, output), example, task)
        example = operations.pivot_example(task, self.engine, example)
        return Prediction(next(iter(task.predict(self.engine, [example]))), example, task)

    @contextmanager
    def without(self, heads: Heads = (), layers: Layers = (), parts: Collection[str] = ()) -> Iterator[Self]:
        """Run the model without some heads, layers or parts until the end of a `with` block.

        model.without(heads={"encoder.0.self": [1], "decoder.1.cross": [0]}, layers={"encoder.2"})

        The output of a head is zero before the output projection; a layer hands on its input unchanged. A model with
        one stack takes pairs (layer, head) and numbers of layers too. `parts` are positions, residual or feedforward.
        """
        if self._engine_name in EXPORTED_ENGINES:
            problem = f"the engine {self._engine_name} cannot switch off heads and layers"
            raise UserError(problem, 'load the model with engine="torch"', code="unsupported-option", where="engine")
        engine = self.__dict__.pop("engine", None)  # a fast engine has weights of its own
        with ExitStack() as stack:
            for model in self.models:
                stack.enter_context(without(model, heads, layers, parts))
            try:
                yield self
            finally:
                self.__dict__.pop("engine", None)
                self.__dict__ |= {} if engine is None else {"engine": engine}

    @overload
    def embed(self, inputs: Input, features: Features | None = None, **options: Any) -> Embedding: ...

    @overload
    def embed(self, inputs: Iterable[Input], features: Features | None = None, **options: Any) -> list[Embedding]: ...

    def embed(
        self, inputs: Input | Iterable[Input], features: Features | None = None, **options: Any
    ) -> Embedding | list[Embedding]:
        """The vector of one input (a text, or a dictionary with a pair of texts), or a list for several. Options are
        those of run/embedding.py: layers="-4:", pool="mean", ..."""
        if isinstance(inputs, str | Mapping):
            return next(self.stream_embeddings([inputs], features, **options))
        with watch(options.pop("progress", False), inputs) as work:
            return list(work.count(self.stream_embeddings(work.feed(inputs), features, **options)))

    def stream_embeddings(
        self, inputs: Iterable[Input], features: Features | None = None, *, where: str = "text", **options: Any
    ) -> Iterator[Embedding]:
        """The vectors of any number of inputs, in order and in bounded memory. Errors name an input as "`where` N"."""
        return embed(self, inputs, features or Features(**options), where)


@cache
def identifier() -> Model:
    """The bundled language classifier, loaded at the first call."""
    return Model.load(bundled_run("languages"), device="cpu")


def identify_languages(texts: Sequence[str]) -> list[list[Detected]]:
    """The languages that each text may have, the most probable first."""
    return identify(identifier(), texts, top=100)


class Translator(Model):
    """A model of task translation; without a run, `load` opens the bundled translator."""

    task: Translation
    task_names, default_runs = ("translation",), (TRANSLATOR,)

    identify = staticmethod(identify_languages)

    @overload
    def translate(  # type: ignore[overload-overlap]
        self, texts: str, **options: Unpack[TranslateOptions]
    ) -> str: ...

    @overload
    def translate(self, texts: Iterable[str], **options: Unpack[TranslateOptions]) -> list[str]: ...

    def translate(self, texts: str | Iterable[str], **options: Unpack[TranslateOptions]) -> str | list[str]:
        """The best translation of a text (a string for a string) or of each of several (a list for a list).

        `source` and `target` are language codes; without `source`, each text's language is detected. Other options
        are those of the search: beam=8, ...
        """
        given: JsonObject = {**options}
        given |= {new: given.pop(old) for old, new in (("from", "source"), ("to", "target")) if old in given}
        progress = given.pop("progress", False)
        if isinstance(texts, str):
            return next(translating.translate_texts(self, [texts], **given))
        with watch(progress, texts) as work:
            return list(work.count(translating.translate_texts(self, work.feed(texts), **given)))

    def check(
        self,
        examples: Iterable[tuple[str, Example]] = (),
        source: str | None = None,
        target: str | None = None,
        *,
        heads: bool = True,
        progress: ProgressCallback | None = None,
        **options: Unpack[DecodingOptions],
    ) -> CheckResults:
        """Check numbers, names, negation, language and more on bundled sentences, and on `examples` of your own: (name
        of a set, {"src", "tgt"}). Options are those of run/checking.py and of the search."""
        return check(self, examples, source, target, heads=heads, progress=progress, **options)


@overload
def translate(texts: str, **options: Unpack[TranslateOptions]) -> str: ...  # type: ignore[overload-overlap]


@overload
def translate(texts: Iterable[str], **options: Unpack[TranslateOptions]) -> list[str]: ...


def translate(texts: str | Iterable[str], **options: Unpack[TranslateOptions]) -> str | list[str]:
    """Translate a text, or each of several, with the bundled translator: translate("Hello", target="de"). Options are
    those of `Translator.translate`. The translator stays in memory for the next call."""
    return bundled_translator().translate(texts, **options)


@cache
def bundled_translator() -> Translator:
    """The bundled translator, loaded at the first call."""
    return Translator.load()


def pop_empty(waiting: "deque[tuple[Example, PlainPrediction | None]]") -> Iterator[tuple[Example, PlainPrediction]]:
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
            f"unknown engine {engine!r}", f"choose one of {', '.join(ENGINES)}", code="invalid-option", where="engine"
        )
    if engine not in EXPORTED_ENGINES and quantization is not None:
        problem = f"quantization {quantization} has no effect with the engine {engine}"
        remedy = f"choose the engine {' or '.join(EXPORTED_ENGINES)}, or leave `quantization` out"
        raise UserError(problem, remedy, code="unsupported-option", where="quantization")
    if engine in EXPORTED_ENGINES and runs > 1:
        problem = f"the {engine} engine does not support ensembles"
        raise UserError(problem, "use the engine torch, or only one run", code="unsupported-option", where="engine")
    if engine == "onnx" and device not in ("auto", "cpu"):
        problem = f"the engine onnx computes on a CPU, not on {device}"
        remedy = "leave `device` out, or use the engine torch or ctranslate2"
        raise UserError(problem, remedy, code="unsupported-option", where="device")
    if engine in EXPORTED_ENGINES and precision == "bf16":
        remedy = "choose the quantization int8, or with the engine ctranslate2 bfloat16 or int8_bfloat16"
        raise UserError("precision bf16 needs the engine torch", remedy, code="unsupported-option", where="precision")
