"""Work for the worker of a run: predictions of any task, and sentences of translations with a cache and events.

The steps of a translation are those of run/translating.py.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, TypeVar, cast

from regard.documents.segment import Link, Segment, SegmentTranslation
from regard.engines.choose import ContinuousSearch, continuous_search
from regard.errors import UserError
from regard.files import JsonObject
from regard.run import translating
from regard.run.alignment import align
from regard.run.memory import TranslationMemory
from regard.run.model import Model, Translator
from regard.serve.errors import ServiceError
from regard.serve.worker import OnResult, Unit, Worker
from regard.tasks.base import AnyTask, Example, Prediction, Search
from regard.tasks.inputs import chunk
from regard.tasks.languages import Languages
from regard.tasks.translation import Translation

T = TypeVar("T")
CHUNK, CHUNK_CHARACTERS = 256, 8192
"""Sentences and characters of one request that wait at the same time, so that a long document does not fill the
queue."""
LONG_TEXT = 4000
"""Characters from which a text is split and put together in another thread than that of the connections."""
OnSegment = Callable[[int, str, bool], None]
"""Called in the event loop with the number of a segment, its translation, and True if it is complete.

If the engine can, it is also called with the beginning of a translation after each token; beam search may change it.
"""


class Predict:
    """The predictions of a list of examples, with some options of the task."""

    def __init__(self, options: JsonObject, continuous: bool = True) -> None:
        """`continuous` is False for examples that give the beginning of their output: only batches support them."""
        self.options, self.continuous = options, continuous
        self.key = ("predict", continuous, tuple(sorted(options.items())))
        """Equal for equal options."""

    def __call__(self, model: Model, examples: list[Example]) -> list[Prediction]:
        return list(model.stream(examples, **self.options))

    def start(self, model: Model) -> "ContinuousPredictions | None":
        """A continuous batch, if the engine accepts new sentences while it decodes others."""
        task = model.task.configure(**self.options)
        if not self.continuous or task.search is None or task.search.request is None:
            return None
        running = continuous_search(model.engine, task.search.settings)
        return None if running is None else ContinuousPredictions(task.search, running)


class ContinuousPredictions:
    """Examples of a sequence-to-sequence task in a running search; a long example is several sentences of it."""

    def __init__(self, how: Search, search: ContinuousSearch[tuple[Unit, int]]) -> None:
        assert how.request is not None and how.join is not None
        self.request, self.join, self.decode, self.search = how.request, how.join, how.tokenizer.decode, search
        self.parts: dict[Unit, list[Any]] = {}
        """The hypotheses of each part of an example; None for parts in progress."""

    def __len__(self) -> int:
        return len(self.parts)

    def add(self, units: Sequence[Unit]) -> None:
        request, counts = self.request([unit.value for unit in units], 0)
        if any(request.prefixes):
            raise ValueError("a running search does not take outputs with a given beginning")
        names = [(unit, part) for unit, count in zip(units, counts, strict=True) for part in range(count)]
        self.search.add(names, request)
        self.parts |= {unit: [None] * count for unit, count in zip(units, counts, strict=True)}

    def remove(self, unit: Unit) -> None:
        for part in range(len(self.parts.pop(unit, ()))):
            self.search.remove((unit, part))

    def step(self) -> list[tuple[Unit, Prediction]]:
        for (unit, part), hypotheses in self.search.step():
            self.parts[unit][part] = hypotheses
        done = [unit for unit, parts in self.parts.items() if None not in parts]
        return [(unit, self.join(self.parts.pop(unit))) for unit in done]

    def partial(self, units: Sequence[Unit]) -> list[tuple[Unit, str]]:
        """The beginning of the best output so far; beam search may still change it. Of a long example: nothing."""
        running, decode = self.search.partial(), self.decode
        alone = [unit for unit in units if (unit, 0) in running and len(self.parts[unit]) == 1]
        return [(unit, decode(running[unit, 0])) for unit in alone]


def align_batch(model: Model, pairs: list[tuple[Example, str]]) -> list[tuple[Link, ...]]:
    """The links of a batch of sources and translations."""
    examples, translations = [example for example, _ in pairs], [translation for _, translation in pairs]
    return align(cast(Translator, model), examples, translations)


class SegmentEvents:
    """Notifies a request of the translations of its segments as soon as they are known, and of their beginnings."""

    def __init__(self, segments: range, on_segment: OnSegment) -> None:
        """`segments` are the numbers of the segments in their document."""
        self.first, self.waiting = segments.start, set(segments)
        self.on_segment, self.loop = on_segment, asyncio.get_running_loop()

    def notify(self, numbers: translating.Numbers, translation: str, complete: bool = True) -> None:
        """Report the translation of segments; a segment is complete once."""
        for number in (self.first + number for number in numbers):
            if number in self.waiting:
                self.on_segment(number, translation, complete)
            if complete:
                self.waiting.discard(number)

    def on_result(self, work: translating.SearchStep, index: int, prediction: Prediction) -> None:
        """For the thread of a worker: report the translation of an input; not yet if it is searched again."""
        translation = str(prediction["translation"])
        if not prediction["looped"] and work.is_right(work.examples[index], translation):
            self.on_partial(work, index, translation, complete=True)

    def on_partial(self, work: translating.SearchStep, index: int, translation: str, complete: bool = False) -> None:
        """For the thread of a worker: report the beginning of the translation of an input."""
        with suppress(RuntimeError):  # the event loop is closed, with all requests
            self.loop.call_soon_threadsafe(self.notify, work.numbers[index], translation, complete)


class SegmentTranslator:
    """Translates segments with one run, joined with those of other requests."""

    def __init__(
        self,
        worker: Worker,
        task: Translation,
        languages: Languages,
        cache: int,
        memory: TranslationMemory | None = None,
    ) -> None:
        self.worker, self.task, self.languages, self.memory = worker, task, languages, memory
        self.cache = translating.SentenceCache(cache)

    async def translate(
        self,
        segments: Sequence[Segment],
        direction: translating.Direction,
        *,
        alternatives: int = 0,
        links: bool = False,
        formality: str = "default",
        on_segment: OnSegment | None = None,
    ) -> list[SegmentTranslation]:
        """A translation of each segment, with `alternatives` others at most; with links where they are needed."""
        source, target = (self.task.languages.find(code) if code else None for code in direction)
        job = translating.SegmentTask(
            self.task, self.languages, {}, alternatives, links, self.cache, memory=self.memory, formality=formality
        )
        results: list[SegmentTranslation] = []
        for part in chunk(segments, lambda segment: len(segment.text), CHUNK, CHUNK_CHARACTERS):
            numbers = range(len(results), len(results) + len(part))
            events = SegmentEvents(numbers, on_segment) if on_segment else None
            steps = replace(job, notify=events.notify if events else None).translate(part, (source, target))
            try:
                work = next(steps)
                while True:
                    work = steps.send(await self._compute(work, events))
            except StopIteration as end:
                results += end.value
        return results

    async def predict(self, task: Translation, function: Predict, examples: Sequence[Example]) -> list[Prediction]:
        """Predictions of examples, of which those that are too long for the model are cut and joined again."""
        cuts = [translating.cut_source(task, example) for example in examples]
        pieces = [
            {**example, "src": example["src"][slice(*span)], **({"prefix": ""} if index else {})}
            for example, spans in zip(examples, cuts, strict=True)
            for index, span in enumerate(spans)
        ]
        costs = await count_tokens(task, pieces)
        found = await asyncio.wrap_future(self.worker.submit(function.key, function, pieces, costs))
        translations = (SegmentTranslation(str(item["translation"]), prediction=item) for item in found)
        joined = [
            translating.join_pieces(example["src"], spans, list(islice(translations, len(spans))))
            for example, spans in zip(examples, cuts, strict=True)
        ]
        return [item.prediction or {} for item in joined]

    async def _compute(
        self, work: translating.SearchStep | translating.AlignmentStep, events: SegmentEvents | None
    ) -> list[Any]:
        """Let the worker do the work of a step."""
        if isinstance(work, translating.AlignmentStep):
            pairs = list(zip(work.examples, work.translations, strict=True))
            costs = await count_tokens(self.task, work.examples, width=1)
            return await asyncio.wrap_future(self.worker.submit("align", align_batch, pairs, costs))
        function, callbacks = Predict(dict(work.options)), dict[str, OnResult]()
        if events is not None and work.numbers:
            callbacks = {
                "on_result": partial(events.on_result, work),
                "on_partial": partial(events.on_partial, work),
            }
        costs = await count_tokens(self.task.configure(**work.options), work.examples)
        future = self.worker.submit(function.key, function, work.examples, costs, **callbacks)
        return await asyncio.wrap_future(future)


async def count_tokens(task: AnyTask, examples: Sequence[Example], width: int = 0) -> list[int]:
    """The cost of each example: the tokens of its texts, times the `width` of the search.

    If an eighth of the longest output that is allowed has more tokens than the texts, these are counted instead.
    """
    tokenizer = next(iter(task.tokenizers.values()), None)
    settings = None if task.search is None else task.search.settings
    if settings is not None and not width:
        width = {"beam": settings.beam, "sample": settings.nbest}.get(settings.search, 1)

    def cost(example: Example) -> int:
        texts = [value if isinstance(value, str) else str(value) for key, value in example.items() if key != "to"]
        tokens = 1 + (sum(map(len, tokenizer.encode_batch(texts))) if tokenizer else sum(map(len, texts)))
        if settings is not None:
            longest = tokens + settings.extra_length if settings.max_length is None else settings.max_length
            tokens = max(tokens, longest // 8)
        return tokens * max(1, width)

    return await in_thread_if_long(sum(len(str(example)) for example in examples), lambda: list(map(cost, examples)))


async def in_thread_if_long(size: int, function: Callable[..., T], *arguments: object) -> T:
    """The value of a function, which is called in another thread if it reads long texts."""
    with too_large_is_too_long():
        return function(*arguments) if size < LONG_TEXT else await asyncio.to_thread(function, *arguments)


@contextmanager
def too_large_is_too_long() -> Iterator[None]:
    """A document or a glossary that is too large has the code of other requests that are."""
    try:
        yield
    except UserError as error:
        if error.code == "too-large":
            raise ServiceError("too-long", error.problem, error.remedy) from error
        raise
