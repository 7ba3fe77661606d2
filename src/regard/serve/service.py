"""What a server can do with its runs, without HTTP: translate, detect, predict. All APIs call this.

Every method may raise a ServiceError, and a UserError for an input that its task cannot read.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TypeVar, cast

from regard.documents.document import RESULTS, SegmentTranslation, file_format, open_file
from regard.documents.protecting import Glossary
from regard.documents.segment import LANGUAGE, Link
from regard.documents.sentences import Span
from regard.errors import UserError
from regard.run.memory import TranslationMemory, bundled_memory, check_directions
from regard.run.model import Input, Model, identifier
from regard.run.translating import open_text
from regard.run_files import FOLDER, TRANSLATOR
from regard.serve import segments
from regard.serve.errors import ServiceError
from regard.serve.languages import ServedLanguages, parse_languages
from regard.serve.segments import SegmentTranslator
from regard.serve.settings import ServeSettings
from regard.serve.worker import Worker
from regard.tasks.base import AnyTask, Prediction
from regard.tasks.identification import Detected, identify, is_unsure, known_languages, page_words
from regard.tasks.languages import Direction, Languages
from regard.tasks.operations import check_outputs
from regard.tasks.translation import Translation

T = TypeVar("T")
OnTextSegment = Callable[[int, int, str, bool], None]
"""The number of a text, and the arguments of `OnSegment`."""
Identify = Callable[[Sequence[str], int], list[list[Detected]]]
DETECTED = 3
"""Languages of a detection."""


@dataclass(frozen=True)
class TranslateRequest:
    """Texts to translate, and how.

    source   the language of all texts; None: detect that of each
    target   the language to translate to; None: the only one that there is
    format   text, or html
    run      the run to use; None: the first one that translates from source to target
    formality   form of address, a key of `address.WANTED`
    links    also say which part of each translation comes from which part of its text (format text)
    """

    texts: Sequence[str]
    source: str | None
    target: str | None
    format: str = "text"
    alternatives: int = 0
    glossary: Mapping[str, str] = field(default_factory=dict)
    run: str | None = None
    links: bool = False
    formality: str = "default"


@dataclass(frozen=True)
class TranslatedText:
    """The translation of one text; `source` is its language, `detected` what was detected if it was not given.

    `problems` are keys of `segment.PROBLEMS`; `memory` is the number of sentences from a translation memory.
    `confidences` has one for each sentence, None if no model translated it; `sentences` has their spans in plain text.
    """

    text: str
    alternatives: list[str]
    source: str
    detected: list[Detected] | None
    links: list[Link]
    problems: list[str] = field(default_factory=list)
    memory: int = 0
    confidences: list[float | None] = field(default_factory=list)
    sentences: list[Span] = field(default_factory=list)


@dataclass(frozen=True)
class ServedRun:
    """A run with its worker."""

    name: str
    model: Model
    languages: Languages | None
    """None if it is not a translation run."""
    worker: Worker
    segments: SegmentTranslator | None

    @property
    def task(self) -> AnyTask:
        return self.model.task

    @cached_property
    def directions(self) -> tuple[Direction, ...]:
        """All directions in lowercase codes, those through a pivot language too; () if they are unknown."""
        pairs = self.languages.pairs if self.languages else ()
        return tuple((source.lower(), target.lower()) for source, target in pairs)

    @property
    def info(self) -> dict[str, object]:
        """Facts about the run, for clients."""
        directions = [{"source": source, "target": target} for source, target in self.directions]
        return {"name": self.name, "task": self.task.name, "directions": directions, "ready": self.ready}

    @property
    def ready(self) -> bool:
        """True if the model is loaded."""
        return self.worker.loaded.done() and self.worker.loaded.exception() is None


@dataclass(frozen=True)
class Plan:
    """What is done with one text: a run and a direction; no run if the text is already in the target language."""

    run: ServedRun | None
    direction: Direction
    detected: list[Detected] | None


class Service:
    """Runs and their workers."""

    def __init__(self, models: Mapping[str, Model], settings: ServeSettings, identify: Identify | None = None) -> None:
        """`identify` replaces the language identification that comes with regard."""
        self.settings, self.memory = settings, TranslationMemory.read(*settings.memory)
        self.stopping = False
        given = parse_languages(settings.languages, models)
        self.runs: Mapping[str, ServedRun] = {
            name: self._serve(name, model, given.get(name, ())) for name, model in models.items()
        }
        check_directions(self.memory, [run.languages for run in self.runs.values() if run.languages is not None])
        self._identify = identify
        self._identifier: Worker | None = None

    def _serve(self, name: str, model: Model, directions: tuple[Direction, ...]) -> ServedRun:
        """Give a run its worker; `directions` replace those of its recipe."""
        if model.task.reads_files:
            problem = f"{model.run.folder}: inputs of task {model.task.name} are files, which a server does not read"
            raise UserError(problem, "use `regard predict`", code="unsupported-task", where=model.run.folder)
        settings, languages = self.settings, model.task.languages
        limits = settings.model_dump(include={"max_batch", "batch_tokens", "max_queue", "max_queue_tokens"})
        worker = Worker(name, partial(load, model), **limits, delay=settings.batch_delay / 1000)
        translator = None
        if languages is not None:
            languages = replace(languages, directions=directions or languages.directions)
            translator = SegmentTranslator(
                worker, cast(Translation, model.task), languages, settings.cache, self._memory(model, languages)
            )
        return ServedRun(name, model, languages, worker, translator)

    def _memory(self, model: Model, languages: Languages) -> TranslationMemory | None:
        """The translation memories for a run: those of the settings, if they have one of its directions, then that of
        the bundled translator."""
        files, is_bundled = self.memory, self.settings.bundled_memory and model.run.folder == FOLDER / TRANSLATOR
        found = (files if files.serves(languages) else TranslationMemory()) + bundled_memory(is_bundled)
        return found if len(found) else None

    # ---- start and stop ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start to load all models, each in its thread."""
        for run in self.runs.values():
            run.worker.start()
        if self._identify is None and self.languages().directions:
            self._start_identifier()

    async def loaded(self) -> None:
        """Wait until all models are loaded; raise the error of one that cannot be."""
        await asyncio.gather(*(asyncio.wrap_future(run.worker.loaded) for run in self.runs.values()))

    @property
    def ready(self) -> bool:
        """True if every run can answer."""
        return not self.stopping and all(run.ready for run in self.runs.values())

    async def stop(self) -> None:
        """Refuse new work, compute what is in the queues, and end the threads."""
        self.stopping = True
        workers = [run.worker for run in self.runs.values()] + ([self._identifier] if self._identifier else [])
        for worker in workers:
            worker.stop()
        for worker in workers:
            await asyncio.to_thread(worker.join)

    # ---- languages --------------------------------------------------------------------------------------------------

    def languages(self, only: str | None = None) -> ServedLanguages:
        """The languages of all runs, or of one."""
        runs = [run for run in self.runs.values() if only in (None, run.name)]
        return ServedLanguages(tuple((*direction, run.name) for run in runs for direction in run.directions))

    async def detect(self, texts: Sequence[str], top: int = DETECTED) -> list[list[Detected]]:
        """The most probable languages of each text, best first; none for a text without letters."""
        if self._identify is not None:
            return self._identify(texts, top)
        worker = self._start_identifier()
        async with self._time_limit():
            return await asyncio.wrap_future(
                worker.submit(top, lambda model, batch: identify(model, batch, top), texts)
            )

    def _start_identifier(self) -> Worker:
        """The worker of language identification; the server does not need it to be ready."""
        if self._identifier is None:
            self._identifier = Worker("languages", identifier, max_batch=self.settings.max_batch)
            self._identifier.start()
        return self._identifier

    # ---- translate --------------------------------------------------------------------------------------------------

    async def translate(
        self, request: TranslateRequest, on_segment: OnTextSegment | None = None
    ) -> list[TranslatedText]:
        """Translate all texts; `on_segment` is called with each sentence as soon as it is known."""
        self.check_size(request)
        async with self._time_limit():
            glossary = await segments.in_thread_if_long(glossary_size(request.glossary), Glossary, request.glossary)
            plans = await self._plan(request)
            texts = (
                self._translate_text(request, number, plan, glossary, on_segment) for number, plan in enumerate(plans)
            )
            return list(await asyncio.gather(*texts))

    async def _translate_text(
        self, request: TranslateRequest, number: int, plan: Plan, glossary: Glossary, on_segment: OnTextSegment | None
    ) -> TranslatedText:
        text = request.texts[number]
        if plan.run is None:
            links = [(0, len(text), 0, len(text))] if request.links and text else []
            return TranslatedText(text, [], plan.direction[0], plan.detected, links)
        assert plan.run.languages is not None
        read = partial(open_text, text, plan.run.languages, plan.direction, request.format, glossary)
        document = await segments.in_thread_if_long(len(text), read)
        tell: segments.OnSegment | None = None if on_segment is None else partial(on_segment, number)
        links_too = request.links and request.format == "text"
        translations = await require_translation(plan.run).translate(
            document.segments,
            plan.direction,
            alternatives=request.alternatives,
            links=links_too,
            formality=request.formality,
            on_segment=tell,
        )
        rendered = await segments.in_thread_if_long(len(text), document.render, translations)
        alternatives = document.render_alternatives(translations, request.alternatives) if request.alternatives else []
        links = await segments.in_thread_if_long(len(text), document.word_links, translations) if links_too else []
        problems = find_problems(translations, plan)
        remembered = sum(item.remembered for item in translations)
        confidences = [item.confidence for item in translations]
        language = plan.direction[0]
        spans = document.sentence_spans() if request.format == "text" else []
        return TranslatedText(
            rendered, alternatives, language, plan.detected, links, problems, remembered, confidences, spans
        )

    async def translate_file(
        self, name: str, content: bytes, source: str | None, target: str, glossary: Mapping[str, str] = {}
    ) -> tuple[bytes, list[str]]:
        """Translate a file, and say its problems as in `TranslatedText`; the ending of its name says its format."""
        self.check_size(TranslateRequest([], source, target, glossary=glossary))
        limit = self.settings.max_file_characters
        with segments.too_large_is_too_long():
            async with self._time_limit(self.settings.file_timeout):
                terms = await segments.in_thread_if_long(glossary_size(glossary), Glossary, glossary)
                read = partial(open_file, name, content, glossary=terms, max_characters=limit)
                sample = ""
                if source is None:
                    document = await asyncio.to_thread(read)
                    sample = " ".join(segment.text for segment in document.segments[:50])
                (plan,) = await self._plan(TranslateRequest([sample], source, target))
                if plan.run is None:
                    document = await asyncio.to_thread(read)
                    same = [SegmentTranslation(segment.text) for segment in document.segments]
                    return (document.render(same) if file_format(name) in RESULTS else content), []
                placeholders = require_translation(plan.run).task.languages.placeholders
                language, to = plan.direction
                read = partial(read, language=language, target=to, placeholders=placeholders)
                document = await asyncio.to_thread(read)
                translations = await require_translation(plan.run).translate(document.segments, plan.direction)
                return await asyncio.to_thread(document.render, translations), find_problems(translations, plan)

    def check_size(self, request: TranslateRequest) -> None:
        """Raise a ServiceError if a request is larger than the settings allow."""
        settings = self.settings
        counts = {
            "characters": (sum(map(len, request.texts)), settings.max_characters),
            "characters in the glossary": (glossary_size(request.glossary), settings.max_characters),
            "texts": (len(request.texts), settings.max_batch_texts),
            "alternatives": (request.alternatives, settings.max_alternatives),
        }
        for name, (count, limit) in counts.items():
            if count > limit:
                raise ServiceError("too-long", f"the request has {count} {name}; at most {limit} are allowed")

    async def _plan(self, request: TranslateRequest) -> list[Plan]:
        """The run and the direction of each text."""
        run = None if request.run is None else self.run(request.run)
        if run is not None and not run.directions:  # its languages are unknown, and it has one direction only
            require_translation(run)
            return [Plan(run, (request.source or "", request.target or ""), None) for _ in request.texts]
        languages = self.languages(request.run)
        source, target = languages.find_codes(request.source, request.target)
        chosen: list[tuple[str, list[Detected] | None]] = [(source or "", None)] * len(request.texts)
        if source is None:
            sources = [source for source, other, _ in languages.directions if target in (None, other)]
            texts = request.texts
            if request.format == "html":
                texts = [page_words(text) for text in texts]
            among = await self._detect_among(texts, sources, target)
            chosen = [(found[0].language if found else (sources or [""])[0], found) for found in among]
        directions = [(languages.choose(source, target), detected) for source, detected in chosen]
        return [Plan(self.runs.get(name), (start, end), detected) for (start, end, name), detected in directions]

    async def _detect_among(
        self, texts: Sequence[str], sources: Sequence[str], target: str | None
    ) -> list[list[Detected]]:
        """The languages of each text among those that the runs know; none if languages cannot be identified."""
        try:
            detected = await self.detect(texts, top=100)
        except ServiceError:
            raise
        except UserError:
            return [[] for _ in texts]
        return [known_languages(found, sources, target)[:DETECTED] for found in detected]

    # ---- any task ---------------------------------------------------------------------------------------------------

    def run(self, name: str) -> ServedRun:
        """The run of this name."""
        if name not in self.runs:
            raise ServiceError("unknown-run", f"there is no run {name!r}", f"write one of {', '.join(self.runs)}")
        return self.runs[name]

    async def predict(self, run: str, inputs: Sequence[Input], **options: object) -> list[Prediction]:
        """A prediction for each input, joined with those of other requests that have the same options."""
        served = self.run(run)
        task = served.task.configure(**options)
        check_outputs(task)
        examples = [task.parse(value, f"input {number}") for number, value in enumerate(inputs, 1)]
        languages = task.languages or Languages()
        plain = any("prefix" in example or languages.pivot_for(example) for example in examples)  # or in two steps
        function = segments.Predict(options, continuous=not plain)
        async with self._time_limit():
            if task.search and task.search.settings.search == "sample":  # samples depend on the order of the inputs
                tokens, limit = sum(await segments.count_tokens(task, examples)), self.settings.batch_tokens
                if tokens > limit:
                    raise ServiceError("too-long", f"the samples need {tokens} tokens; at most {limit} are allowed")
                return await self.call(run, lambda model: function(model, list(examples)))
            if served.segments is not None:
                return await served.segments.predict(cast(Translation, task), function, examples)
            costs = await segments.count_tokens(task, examples)
            return await asyncio.wrap_future(served.worker.submit(function.key, function, examples, costs))

    async def call(self, run: str, function: Callable[[Model], T]) -> T:
        """Any function of the model, called in its thread between two batches."""
        future = self.run(run).worker.submit(object(), lambda model, _: [function(model)], [None])
        async with self._time_limit():
            results: list[T] = await asyncio.wrap_future(future)
        return results[0]

    @asynccontextmanager
    async def _time_limit(self, seconds: float | None = None) -> AsyncIterator[None]:
        """Raise a ServiceError if the work inside takes too long; what waits in a queue is removed from it."""
        try:
            async with asyncio.timeout(seconds or self.settings.timeout):
                yield
        except TimeoutError as error:
            problem = f"the response took more than {seconds or self.settings.timeout:g} seconds"
            raise ServiceError("timeout", problem, "send less text") from error


# ---- helpers --------------------------------------------------------------------------------------------------------


def find_problems(translations: Sequence[SegmentTranslation], plan: Plan) -> list[str]:
    """The kinds of problems that translations have."""
    return sorted({item.problem for item in translations} - {""}) + [LANGUAGE] * is_unsure(plan.detected or ())


def glossary_size(terms: Mapping[str, str]) -> int:
    """Characters of the terms and their translations."""
    return sum(len(term) + len(translation) for term, translation in terms.items())


def load(model: Model) -> Model:
    """Load the weights of a model, in the thread that uses them."""
    _ = model.engine
    return model


def require_translation(run: ServedRun) -> SegmentTranslator:
    """The translator of a run; a ServiceError if it has another task."""
    if run.segments is None:
        raise ServiceError("wrong-task", f"the run {run.name} is of task {run.task.name}, not translation")
    return run.segments
