"""Sentences of documents through the worker of a translation run.

sentence -> without letters? unchanged -> in the cache? -> search -> looped? search again, or cut -> links if needed
"""

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from regard.documents.segment import Link, Segment, SegmentTranslation, join_steps
from regard.run.alignment import align
from regard.run.model import Model, Translator
from regard.serve.predicting import Predict
from regard.serve.worker import OnResult, Worker
from regard.tasks.base import Example, Prediction
from regard.tasks.translation import Translation

CHUNK = 256
"""Sentences of one request that wait at the same time, so that a long document does not fill the queue."""
MAX_CACHED = 500
"""Characters of the longest sentence that is kept in the cache."""
NO_REPEAT = 3
"""A sentence whose translation loops is translated again without repeated n-grams of this size."""
REPEATED = re.compile(r"(.{1,100}?)\1{2,}", re.DOTALL)

OnSegment = Callable[[int, str, bool], None]
"""Called in the event loop with the number of a segment, its translation, and True if it is complete.

If the engine can, it is also called with the beginning of a translation after each token; beam search may change it.
"""
Found = tuple[str, tuple[str, ...]]
"""The best translation of a sentence, and others."""


def align_batch(model: Model, pairs: list[tuple[Example, str]]) -> list[tuple[Link, ...]]:
    """The links of a batch of sources and translations."""
    examples, translations = [example for example, _ in pairs], [translation for _, translation in pairs]
    return align(cast(Translator, model), examples, translations)


def cut_repetition(text: str) -> str:
    """A text in which a part that is repeated three times or more in a row stands once."""
    return REPEATED.sub(r"\1", text).strip()


@dataclass
class SentenceCache:
    """The most recently used sentences and their translations, in memory only."""

    size: int

    def __post_init__(self) -> None:
        self._found: OrderedDict[tuple[str, str, int], Found] = OrderedDict()

    def get(self, key: tuple[str, str, int]) -> Found | None:
        """The translation that is kept, or None."""
        found = self._found.get(key)
        if found is not None:
            self._found.move_to_end(key)
        return found

    def put(self, key: tuple[str, str, int], found: Found) -> None:
        """Keep a translation; the least recently used one makes place."""
        if self.size and len(key[1]) <= MAX_CACHED:
            self._found[key] = found
            self._found.move_to_end(key)
            if len(self._found) > self.size:
                self._found.popitem(last=False)

    def __len__(self) -> int:
        return len(self._found)


class Announcer:
    """Tells a request the translations of its segments as soon as they are known, and their beginnings before."""

    def __init__(self, texts: Sequence[str], first: int, on_segment: OnSegment) -> None:
        """`first` is the number of the first text."""
        self.numbers: dict[str, list[int]] = {}
        for number, text in enumerate(texts, first):
            self.numbers.setdefault(text, []).append(number)
        self.on_segment, self.loop = on_segment, asyncio.get_running_loop()

    def __call__(self, text: str, translation: str, complete: bool = True) -> None:
        numbers = self.numbers.pop(text, ()) if complete else self.numbers.get(text, ())
        for number in numbers:
            self.on_segment(number, translation, complete)

    def on_result(self, texts: Sequence[str], index: int, prediction: Prediction) -> None:
        """For the thread of a worker: report the translation of texts[index]; not yet if it repeats itself."""
        if not prediction["looped"]:
            self._tell(texts[index], str(prediction["translation"]), True)

    def on_partial(self, texts: Sequence[str], index: int, translation: str) -> None:
        """For the thread of a worker: report the beginning of the translation of texts[index]."""
        self._tell(texts[index], translation, False)

    def _tell(self, text: str, translation: str, complete: bool) -> None:
        with suppress(RuntimeError):  # the event loop is closed, with all requests
            self.loop.call_soon_threadsafe(self, text, translation, complete)


class SegmentTranslator:
    """Translates segments with one run, joined with those of other requests."""

    def __init__(self, worker: Worker, model: Model, several: bool, cache: int) -> None:
        """`several`: the run has more than one target language, so an example names it."""
        assert isinstance(model.task, Translation)
        self.worker, self.task, self.several = worker, model.task, several
        self.cache = SentenceCache(cache)

    def example(self, text: str, direction: tuple[str, str]) -> Example:
        """The example of a sentence."""
        return {"src": text, "from": direction[0], "to": direction[1]} if self.several else {"src": text}

    async def translate(
        self,
        segments: Sequence[Segment],
        direction: tuple[str, str],
        *,
        alternatives: int = 0,
        links: bool = False,
        on_segment: OnSegment | None = None,
    ) -> list[SegmentTranslation]:
        """A translation of each segment, with `alternatives` others at most; with links where they are needed."""
        results: list[SegmentTranslation] = []
        pivot = self.task.languages.pivot(*direction)
        if pivot is not None:
            before = await self.translate(segments, (direction[0], pivot), links=links)
            between = [Segment(item.text, s.needs_links) for item, s in zip(before, segments, strict=True)]
            direction = (pivot, direction[1])
            after = await self.translate(
                between, direction, alternatives=alternatives, links=links, on_segment=on_segment
            )
            return [join_steps(*pair) for pair in zip(before, after, strict=True)]
        for first in range(0, len(segments), CHUNK):
            chunk = segments[first : first + CHUNK]
            texts = [segment.text for segment in chunk]
            tell = None if on_segment is None else Announcer(texts, first, on_segment)
            found = await self._search(texts, direction, alternatives, tell)
            chosen = [links or segment.needs_links for segment in chunk]
            linked = await self._links(texts, found, chosen, direction)
            results += [SegmentTranslation(*pair, item) for pair, item in zip(found, linked, strict=True)]
        return results

    async def _search(
        self, texts: Sequence[str], direction: tuple[str, str], alternatives: int, tell: "Announcer | None"
    ) -> list[Found]:
        """Translations from the cache, or of the model; equal sentences are translated once."""
        found: dict[str, Found] = {}
        for text in dict.fromkeys(texts):
            if not any(map(str.isalpha, text)):
                found[text] = (text, ())
            elif (kept := self.cache.get((direction[1], text, alternatives))) is not None:
                found[text] = kept
            if tell is not None and text in found:
                tell(text, found[text][0])
        new = [text for text in dict.fromkeys(texts) if text not in found]
        for text, item in zip(new, await self._decode(new, direction, alternatives, tell), strict=True):
            found[text] = item
            self.cache.put((direction[1], text, alternatives), item)
            if tell is not None:
                tell(text, item[0])
        return [found[text] for text in texts]

    async def _decode(
        self, texts: Sequence[str], direction: tuple[str, str], alternatives: int, tell: "Announcer | None"
    ) -> list[Found]:
        """Translations of the model. The best one does not depend on the number of alternatives."""
        examples = [self.example(text, direction) for text in texts]
        nbest, decoding = alternatives + 1, self.task.decoding
        same_search = decoding.search == "beam" and decoding.beam >= nbest
        options = {"nbest": nbest} if alternatives and same_search else {}
        tellers = () if tell is None else (partial(tell.on_result, texts), partial(tell.on_partial, texts))
        best = await self._predict(examples, options, *tellers)
        others = best
        if alternatives and not same_search:
            others = await self._predict(examples, {"nbest": nbest})
        found = await self._without_loops(examples, best)
        return [(text, other_texts(text, item, alternatives)) for text, item in zip(found, others, strict=True)]

    async def _without_loops(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> list[str]:
        """The best texts; one that repeats itself endlessly is searched again, and cut if it still does."""
        texts = [str(prediction["translation"]) for prediction in predictions]
        looped = [number for number, prediction in enumerate(predictions) if prediction["looped"]]
        if looped and self.task.decoding.search in ("greedy", "beam"):
            again = await self._predict([examples[number] for number in looped], {"no_repeat_ngram": NO_REPEAT})
            for number, prediction in zip(looped, again, strict=True):
                texts[number] = str(prediction["translation"])
        for number in looped:
            texts[number] = cut_repetition(texts[number])
        return texts

    async def _predict(
        self, examples: Sequence[Example], options: dict[str, Any], *tellers: OnResult
    ) -> list[Prediction]:
        function = Predict(options)
        return await asyncio.wrap_future(self.worker.submit(function.key, function, examples, *tellers))

    async def _links(
        self, texts: Sequence[str], found: Sequence[Found], chosen: Sequence[bool], direction: tuple[str, str]
    ) -> list[tuple[Link, ...]]:
        """The links of the chosen sentences, () for others; an unchanged sentence is one link."""
        results: list[tuple[Link, ...]] = [()] * len(texts)
        pairs, numbers = [], []
        for number, (text, (translation, _)) in enumerate(zip(texts, found, strict=True)):
            if not chosen[number] or not text or not translation:
                continue
            if text == translation:
                results[number] = ((0, len(text), 0, len(text)),)
            else:
                pairs.append((self.example(text, direction), translation))
                numbers.append(number)
        computed = await asyncio.wrap_future(self.worker.submit("align", align_batch, pairs))
        for number, links in zip(numbers, computed, strict=True):
            results[number] = links
        return results


def other_texts(best: str, prediction: Prediction, count: int) -> tuple[str, ...]:
    """At most `count` other translations, none twice; none if the text was translated in parts, or if they loop."""
    if not count or prediction["parts"] != 1:
        return ()
    texts = (str(item["text"]) for item in prediction["hypotheses"] if not item["looped"])
    return tuple(text for text in dict.fromkeys(texts) if text != best)[:count]


def text_links(
    text: str, rendered: str, segments: Sequence[Segment], translations: Sequence[SegmentTranslation]
) -> list[Link]:
    """The links of all segments, in characters of the whole text and of its translation.

    A segment that is not found as it is, because a part of it is protected, has no links.
    """
    links: list[Link] = []
    source = target = 0
    for segment, translation in zip(segments, translations, strict=True):
        start, place = text.find(segment.text, source), rendered.find(translation.text, target)
        if start < 0 or place < 0:
            continue
        links += [
            (start + a, start + b, place + c, place + d) for a, b, c, d in translation.links
        ]  # fmt: skip
        source, target = start + len(segment.text), place + len(translation.text)
    return links
