"""Texts translated by a model: one path for the command, Python and the server.

text -> sentences (documents) -> in the memory? done -> too long for the model? pieces -> capitals? lowercase
     -> no letters? unchanged -> search
     -> looped? search again, then cut -> numbers changed? search again with other numbers, which are replaced
     -> du instead of Sie? the best translation with the wanted form of address -> links
     -> capitals again -> pieces joined with the blanks between them -> text

`translate_segments` is a generator: it yields work for a model and is sent the results. A command does the work at
once (`compute`); a server joins it with the work of other requests, and adds a cache and events.
"""

import re
import warnings
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from regard.documents.address import WANTED, check_formality, choose_form, is_other, may_be_other, swap_form
from regard.documents.capitals import in_capitals, without_capitals
from regard.documents.document import open_document
from regard.documents.numbers import STAND_INS, mask_numbers, numbers_agree
from regard.documents.passage import TemplateDocument, blank_between
from regard.documents.projecting import is_word
from regard.documents.protecting import NO_TERMS, Glossary
from regard.documents.restoring import restore
from regard.documents.scripts import is_unknown
from regard.documents.segment import LANGUAGE, NUMBERS, PROBLEMS, SCRIPT, Link, Segment, SegmentTranslation, join_steps
from regard.documents.sentences import WORD, Span, without_blanks
from regard.files import JsonObject
from regard.run.alignment import align
from regard.run.memory import MemoryInput, TranslationMemory, choose_memory
from regard.run_files import FOLDER, TRANSLATOR
from regard.tasks.base import Example, Prediction
from regard.tasks.identification import Detected, describe_languages, is_unsure, known_languages, page_words
from regard.tasks.inputs import chunk
from regard.tasks.languages import Languages
from regard.tasks.seq2seq import CHUNK_LINES, joined_prediction, source_parts
from regard.tasks.translation import Translation
from regard.work import Work

if TYPE_CHECKING:
    from regard.run.model import Translator

NO_REPEAT = 3
"""A sentence whose translation loops is translated again without repeated n-grams of this size."""
REPEATED = re.compile(r"(.{1,100}?)\1{2,}", re.DOTALL)
LOST, CANDIDATES = 0.3, 5
"""If more than this share of the words in a sentence with tags is lost, so many translations are compared."""
FORMS = 12
"""So many translations are compared if the best one has the wrong form of address."""
MAX_CACHED = 500
"""Characters of the longest sentence that is kept in the cache."""

Key = tuple[str | None, str, int, str]
"""Target language, sentence, number of alternatives, and form of address."""
Options = JsonObject
Direction = tuple[str | None, str | None]
Numbers = Sequence[int]
Identify = Callable[[Sequence[str]], list[list[Detected]]]
"""Detects the languages of texts."""
Notify = Callable[[Numbers, str], None]
"""Called with the numbers of equal segments and their translation as soon as that is known."""


@dataclass(frozen=True)
class SearchStep:
    """Sentences to translate with options of the task; the result is a prediction for each.

    `numbers` are the segments that each sentence stands for; () if nobody waits for these translations. A translation
    that `is_right` refuses will be searched again.
    """

    examples: Sequence[Example]
    options: Options
    numbers: Sequence[Numbers] = ()
    is_right: Callable[[Example, str], bool] = lambda example, translation: True


@dataclass(frozen=True)
class AlignmentStep:
    """Sentences and translations to link; the result is a tuple of links for each."""

    examples: Sequence[Example]
    translations: Sequence[str]


Steps = Generator[SearchStep | AlignmentStep, list[Any], list[SegmentTranslation]]


class SentenceCache:
    """The most recently used sentences and their translations, in memory only."""

    def __init__(self, size: int) -> None:
        self.size, self._kept = size, OrderedDict[Key, SegmentTranslation]()

    def get(self, key: Key) -> SegmentTranslation | None:
        """The translation that is kept, or None."""
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def put(self, key: Key, translation: SegmentTranslation) -> None:
        """Keep a translation; the least recently used one makes place."""
        if self.size and len(key[1]) <= MAX_CACHED:
            self._kept[key] = translation
            self._kept.move_to_end(key)
            if len(self._kept) > self.size:
                self._kept.popitem(last=False)

    def __len__(self) -> int:
        return len(self._kept)


@dataclass(frozen=True)
class SegmentTask:
    """How segments are translated.

    task           the task of the model, configured by `options`
    languages      those of the task, or those that the caller names
    options        options of the search
    alternatives   how many other translations of a segment are wanted
    links          True: all segments need links
    notify         called as soon as a translation is known
    memory         known translations of sentences; samples and n-best lists are always the model's
    formality      the form of address, a key of `address.WANTED`
    """

    task: Translation
    languages: Languages
    options: Options
    alternatives: int = 0
    links: bool = False
    cache: SentenceCache | None = None
    notify: Notify | None = None
    memory: TranslationMemory | None = None
    formality: str = "default"

    def translate(self, segments: Sequence[Segment], direction: Direction) -> Steps:
        """Translate each segment; equal ones once. A pivot direction is two translations, each with its own links."""
        source, target = direction
        check_formality(self.formality, target)
        segments = [self._recall(item, source, target) for item in segments]
        pivot = self.languages.pivot(source, target)
        if pivot is not None:
            second = replace(self, memory=self.memory and self.memory.named)
            first = replace(second, alternatives=0, notify=None, formality="default")
            before = yield from first.translate([replace(item, prefix="") for item in segments], (source, pivot))
            pairs = list(zip(before, segments, strict=True))
            between = [replace(segment, text=item.text) for item, segment in pairs]
            after = yield from second.translate(between, (pivot, target))
            return [join_steps(*steps) for steps in zip(before, after, strict=True)]
        if source and source == target and direction not in self.languages.directions:
            return [SegmentTranslation(item.text, links=copy_links(item.text)) for item in segments]
        whole = ([(0, len(item.text))] if item.known is not None else None for item in segments)
        cuts = [
            known or cut_source(self.task, self.example(item, target))
            for item, known in zip(segments, whole, strict=True)
        ]
        pieces = [self._lower(replace(item, text=item.text[slice(*span)], prefix=item.prefix * (index == 0)), source)
                  for item, spans in zip(segments, cuts, strict=True) for index, span in enumerate(spans)]  # fmt: skip
        owners = [number if len(spans) == 1 else -1 for number, spans in enumerate(cuts) for _ in spans]
        translations = yield from self._search(pieces, target, owners)
        remaining = iter((yield from self._link(pieces, translations, target)))
        joined = [
            join_pieces(item.text, spans, [next(remaining) for _ in spans])
            for item, spans in zip(segments, cuts, strict=True)
        ]
        if self.notify is not None:
            for number in (number for number, spans in enumerate(cuts) if len(spans) > 1):
                self.notify([number], joined[number].text)
        return joined

    def _recall(self, segment: Segment, source: str | None, target: str | None) -> Segment:
        """A segment with its translation from the memory, if that has it."""
        is_model = self.task.decoding.search == "sample" or self.task.decoding.nbest > 1
        if self.memory is None or segment.known is not None or segment.prefix or source == target or is_model:
            return segment
        text, symbols = segment.text, self.languages.placeholders
        known = small = self.memory.find(text, source, target, symbols)
        if known and in_capitals(text):  # "IHR" is your in both forms
            small = self.memory.find(without_capitals(text, source), source, target, symbols) or known
        wanted = WANTED[self.formality]
        if known and small and may_be_other(small, target, wanted, text, source):
            known = swap_form(known, target, wanted)
        return replace(segment, known=known)

    def _lower(self, segment: Segment, source: str | None) -> Segment:
        """A segment in lowercase if it is in capitals and its languages are known."""
        sources = {source for source, _ in self.languages.directions}
        is_text = sources and not segment.prefix and segment.known is None and not is_unknown(segment.text, sources)
        if not is_text or not in_capitals(segment.text):
            return segment
        return replace(segment, text=without_capitals(segment.text, source), capitals=True)

    def example(self, segment: Segment, target: str | None) -> Example:
        values = {"prefix": segment.prefix, "to": target if self.languages.tags else None}
        return {"src": segment.text, **{name: value for name, value in values.items() if value}}

    def _search(self, segments: Sequence[Segment], target: str | None, owners: Numbers) -> Steps:
        """Translate without links; if the languages are known, copy what has no letters, or letters of other scripts.

        `owners` are the numbers for `notify`; those of pieces are below 0.
        """
        results = [SegmentTranslation(item.text) for item in segments]
        sources = {source for source, _ in self.languages.directions}
        groups: dict[tuple[str, str, int, bool], list[int]] = {}
        drawn = self.task.decoding.search == "sample"  # equal sentences have different samples
        for number, item in enumerate(segments):
            is_number = self.languages.directions and not any(map(str.isalpha, item.text))
            if item.known is not None:
                self._report([number], results, SegmentTranslation(item.known, remembered=True), owners)
            elif sources and is_unknown(item.text, sources):
                self._report([number], results, replace(results[number], problem=SCRIPT), owners)
            elif item.text.strip() and not is_number:
                groups.setdefault((item.text, item.prefix, number * drawn, item.capitals), []).append(number)
            else:
                self._report([number], results, results[number], owners)
        for key in list(groups):
            if self.cache is not None and (cached := self.cache.get(self._key(target, key[0]))) is not None:
                self._report(groups.pop(key), results, cached.upper() if key[3] else cached, owners)
        examples = [self.example(segments[numbers[0]], target) for numbers in groups.values()]
        named = [  # the model writes lowercase, so nobody is told what it writes for capitals
            [owners[number] for number in numbers if owners[number] >= 0 and not key[3]]
            for key, numbers in groups.items()
        ]
        translations = yield from self._decode(examples, named)
        for (key, numbers), translation in zip(groups.items(), translations, strict=True):
            self._report(numbers, results, translation.upper() if key[3] else translation, owners)
            if self.cache is not None:
                name = self._key(target, segments[numbers[0]].text)
                self.cache.put(name, replace(translation, prediction=None))
        return results

    def _key(self, target: str | None, text: str) -> Key:
        return target, text, self.alternatives, WANTED[self.formality]

    def _report(
        self, numbers: Numbers, results: list[SegmentTranslation], translation: SegmentTranslation, owners: Numbers
    ) -> None:
        for number in numbers:
            results[number] = translation
        if self.notify is not None:
            self.notify([owners[number] for number in numbers if owners[number] >= 0], translation.text)

    def _decode(self, examples: Sequence[Example], numbers: Sequence[Numbers]) -> Steps:
        """Translations by the model. The best one does not depend on the number of alternatives."""
        if not examples:
            return []
        nbest, decoding = {"nbest": self.alternatives + 1} if self.alternatives else {}, self.task.decoding
        same_search = decoding.search == "beam" and decoding.beam > self.alternatives
        options = {**self.options, **nbest} if same_search else self.options
        best = yield SearchStep(examples, options, numbers if self.notify else (), self.is_right)
        others = best
        if self.alternatives and not same_search:
            others = yield SearchStep(examples, {**self.options, **nbest})
        whole = [item["hypotheses"] if self.alternatives and item["parts"] == 1 else () for item in others]
        texts = [dict.fromkeys(str(item["text"]) for item in found if not item["looped"]) for found in whole]
        repaired = yield from self._repair_loops(examples, best)
        repaired = yield from self._repair_numbers(examples, repaired)
        repaired = yield from self._repair_address(examples, repaired)
        return [
            replace(item, alternatives=tuple(text for text in other if text != item.text)[: self.alternatives])
            for item, other in zip(repaired, texts, strict=True)
        ]

    def _repair_loops(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> Steps:
        """SearchStep again for a translation that repeats itself endlessly, and cut it if it still does."""
        repaired = list(predictions)
        looped = [number for number, prediction in enumerate(predictions) if prediction["looped"]]
        if looped and self.task.decoding.search in ("greedy", "beam"):
            options = {**self.options, "no_repeat_ngram": NO_REPEAT}
            again = yield SearchStep([examples[number] for number in looped], options)
            for number, prediction in zip(looped, again, strict=True):
                repaired[number] = prediction
        for number in looped:
            text = cut_repetition(str(repaired[number]["translation"]))
            repaired[number] = {**repaired[number], "translation": text}
        return [
            SegmentTranslation(str(item["translation"]), prediction=item, confidence=item.get("confidence"))
            for item in repaired
        ]

    def _repair_numbers(self, examples: Sequence[Example], translations: Sequence[SegmentTranslation]) -> Steps:
        """SearchStep again for a translation with other numbers than its source, with numbers that a model copies."""
        repaired, languages = list(translations), self.languages
        for symbols in (STAND_INS, languages.placeholders):
            wrong = [n for n, item in enumerate(repaired) if not self.has_numbers(examples[n], item.text)]
            masked = [mask_numbers(str(examples[n]["src"]), symbols, self._target(examples[n])) for n in wrong]
            if not wrong or not symbols:
                continue
            hidden = [{**examples[n], "src": item.rewriting.text} for n, item in zip(wrong, masked, strict=True)]
            again = yield SearchStep(hidden, self.options)
            for n, item, prediction in zip(wrong, masked, again, strict=True):
                is_copied = all(symbol in prediction["translation"] for symbol in item.symbols.values())
                text = restore(item, str(prediction["translation"]), (), symbols).text
                if (is_copied or symbols != STAND_INS) and numbers_agree(str(examples[n]["src"]), text):
                    repaired[n] = replace(translations[n], text=text)
        return [
            item if self.has_numbers(example, item.text) else replace(item, problem=NUMBERS)
            for example, item in zip(examples, repaired, strict=True)
        ]

    def _repair_address(self, examples: Sequence[Example], translations: Sequence[SegmentTranslation]) -> Steps:
        """For a translation with the wrong form of address, the best of several with the wanted one, if any."""
        repaired, wanted, wrong = list(translations), WANTED[self.formality], list[int]()
        for n, item in enumerate(translations):
            if self.has_form(examples[n], item.text):
                continue
            if (swapped := swap_form(item.text, self._target(examples[n]), wanted)) is None:
                wrong.append(n)
            else:
                repaired[n] = replace(item, text=swapped)
        if not wrong or self.task.decoding.search not in ("greedy", "beam"):
            return repaired
        options = {**self.options, "search": "beam", "beam": FORMS, "nbest": FORMS}
        found = yield SearchStep([examples[n] for n in wrong], options)
        for n, prediction in zip(wrong, found, strict=True):
            source, target = str(examples[n]["src"]), self._target(examples[n])
            whole = prediction["hypotheses"] if prediction["parts"] == 1 else ()
            right = [item for item in whole if not item["looped"] and self.has_numbers(examples[n], str(item["text"]))]
            if (index := choose_form([str(item["text"]) for item in right], source, target, wanted)) is not None:
                best = {**prediction, **right[index], "translation": right[index]["text"], "hypotheses": [right[index]]}
                best = {name: value for name, value in best.items() if name not in ("text", "tokens")}
                text, confidence = str(right[index]["text"]), right[index]["confidence"]
                repaired[n] = replace(repaired[n], text=text, prediction=best, confidence=confidence)
        return repaired

    def _target(self, example: Example) -> str:
        return str(example.get("to") or (self.languages.directions[0][1] if self.languages.directions else ""))

    def has_form(self, example: Example, translation: str) -> bool:
        """True if a translation has the wanted form of address, or none, or if its beginning is given."""
        wanted, target = WANTED[self.formality], self._target(example)
        return bool(example.get("prefix")) or not is_other(translation, target, wanted, str(example["src"]))

    def is_right(self, example: Example, translation: str) -> bool:
        """True if a translation will not be searched again."""
        return self.has_numbers(example, translation) and self.has_form(example, translation)

    def has_numbers(self, example: Example, translation: str) -> bool:
        """True if a translation has the numbers of its source, or need not: the run names no languages."""
        is_text = self.languages.directions and not example.get("prefix")
        return not is_text or numbers_agree(str(example["src"]), translation)

    def _link(self, segments: Sequence[Segment], translations: list[SegmentTranslation], target: str | None) -> Steps:
        """The translations, with links where they are needed; an unchanged sentence is one link."""
        linked = list(translations)
        waiting: dict[tuple[str, str], list[int]] = {}
        for number, (segment, item) in enumerate(zip(segments, translations, strict=True)):
            if not (self.links or segment.needs_links) or not segment.text or not item.text:
                continue
            if segment.text == item.text:
                linked[number] = replace(item, links=copy_links(item.text))
            else:
                text = item.text.lower() if segment.capitals else item.text
                waiting.setdefault((segment.text, text), []).append(number)
        if waiting:
            examples = [self.example(Segment(text), target) for text, _ in waiting]
            found = yield AlignmentStep(examples, [translation for _, translation in waiting])
            for numbers, links in zip(waiting.values(), found, strict=True):
                for number in numbers:
                    linked[number] = replace(linked[number], links=links)
        return (yield from self._repair_losses(segments, linked, target))

    def _repair_losses(
        self, segments: Sequence[Segment], linked: list[SegmentTranslation], target: str | None
    ) -> Steps:
        """For a sentence with tags or protected parts that lost words, the best translation that lost the fewest."""
        pairs = list(zip(segments, linked, strict=True))
        tagged = [
            n for n, (segment, item) in enumerate(pairs) if segment.needs_links and item.links and not item.remembered
        ]
        wrong = [n for n in tagged if lost_words(segments[n].text, linked[n]) > LOST * len(segments[n].text.split())]
        if not wrong or self.task.decoding.search not in ("greedy", "beam"):
            return linked
        examples = [self.example(segments[n], target) for n in wrong]
        options = {**self.options, "search": "beam", "beam": CANDIDATES, "nbest": CANDIDATES}
        found = yield SearchStep(examples, options)
        others = [
            (n, example, str(other["text"]))
            for n, example, item in zip(wrong, examples, found, strict=True)
            for other in item["hypotheses"]
            if item["parts"] == 1 and self.has_numbers(example, str(other["text"]))
        ]
        aligned = (yield AlignmentStep([item[1] for item in others], [item[2] for item in others])) if others else []
        for (n, _, text), links in zip(others, aligned, strict=True):
            other = replace(linked[n], text=text, links=links)
            if segments[n].capitals:
                other = replace(other, text=text.upper(), links=links if len(text) == len(text.upper()) else ())
            if lost_words(segments[n].text, other) < lost_words(segments[n].text, linked[n]):
                linked[n] = other
        return linked


def cut_source(task: Translation, example: Example) -> list[Span]:
    """The pieces of a source that the model reads at once, without the blanks around them; often it is one."""
    spans, whole = [span for span, _ in source_parts(task, example)], [(0, len(example["src"]))]
    return whole if len(spans) < 2 else without_blanks(example["src"], spans) or whole


def join_pieces(text: str, spans: Sequence[Span], translations: Sequence[SegmentTranslation]) -> SegmentTranslation:
    """The translation of a segment from those of its pieces, which are spans of its text."""
    if list(spans) == [(0, len(text))]:
        return translations[0]
    joined, links, end = "", list[Link](), 0
    for (start, stop), item in zip(spans, translations, strict=True):
        gap = text[end:start]
        joined += blank_between(text[end - 1], gap, joined[-1:], item.text[:1]) if end else gap
        links += [(a + start, b + start, c + len(joined), d + len(joined)) for a, b, c, d in item.links]
        joined, end = joined + item.text, stop
    joined += text[end:]
    best = [item.prediction["hypotheses"][0] for item in translations if item.prediction]
    prediction = joined_prediction(joined, best, len(best), best) if best else None  # None: no model translated a piece
    problem = max((item.problem for item in translations), default="")
    confidence = min((item.confidence for item in translations if item.confidence is not None), default=None)
    return SegmentTranslation(joined, links=tuple(links), prediction=prediction, problem=problem, confidence=confidence)


def lost_words(text: str, translation: SegmentTranslation) -> int:
    """How many words of a text no word of its translation was read from."""
    words = [match.span() for match in WORD.finditer(text) if match[0][0].isalpha()]
    read = [link[:2] for link in translation.links if is_word(translation.text[link[2] : link[3]])]
    return sum(not any(first < end and start < last for first, last in read) for start, end in words)


def copy_links(text: str) -> tuple[Link, ...]:
    """The link of a text that stays as it is."""
    return ((0, len(text), 0, len(text)),) if text else ()


def cut_repetition(text: str) -> str:
    """A text in which a part that is repeated three times or more in a row stands once."""
    return REPEATED.sub(r"\1", text).strip()


# ---- with a model at hand --------------------------------------------------------------------------------------------


def finish(model: "Translator", steps: Steps) -> list[SegmentTranslation]:
    """Do all work of a translation at once."""
    try:
        work = next(steps)
        while True:
            if isinstance(work, AlignmentStep):
                work = steps.send(align(model, work.examples, work.translations))
            else:
                work = steps.send(model.predict(work.examples, **work.options))
    except StopIteration as end:
        translations: list[SegmentTranslation] = end.value
        return translations


def memory_for(model: "Translator", memory: MemoryInput, languages: Languages) -> TranslationMemory | None:
    """The translation memory that an argument means; the bundled translator has one of its own."""
    return choose_memory(memory, [run.folder for run in model.runs] == [FOLDER / TRANSLATOR], languages)


def translate_segments(
    model: "Translator",
    segments: Sequence[Segment],
    source: str | None = None,
    target: str | None = None,
    work: Work | None = None,
    memory: MemoryInput = None,
    formality: str = "default",
    **options: object,
) -> list[SegmentTranslation]:
    """Translate each segment of a document; equal sentences once. Options are those of the search: beam=8, ..."""
    source, target = model.task.languages.choose(source, target)
    languages = model.task.languages.with_direction(source, target)
    task, memories = model.task.configure(**options), memory_for(model, memory, languages)
    job = SegmentTask(task, languages, options, memory=memories, formality=formality)
    if source is None:
        text = " ".join(segment.text for segment in segments)
        ((source, _),) = detect_sources(languages, target, [text], model.identify)
    direction, work, translations = languages.choose(source, target), work or Work(), list[SegmentTranslation]()
    for part in chunk(work.feed(segments), lambda segment: len(segment.text), CHUNK_LINES):
        translations += work.count(finish(model, job.translate(part, direction)))
    return translations


def detect_sources(
    languages: Languages, target: str | None, texts: Sequence[str], identify: Identify
) -> list[tuple[str | None, list[Detected]]]:
    """The language of each text: the target, or one that the model translates to it. None if it is probably another
    one, and if the model names no languages. If it is unsure, also the most probable languages."""
    if not languages.directions:
        return [(None, [])] * len(texts)
    sources = [source for source, to in languages.pairs if to == target]
    both = [(known_languages(found, sources, target), found) for found in identify(texts)]
    return [(known[0].language if known else None, found if is_unsure(known) else []) for known, found in both]


def open_text(
    text: str, languages: Languages, direction: Direction, format: str, glossary: Glossary, split: bool = True
) -> TemplateDocument:
    """A text as a document for a model. If its languages are unknown, a line is one sentence: it may be anything."""
    split = split and bool(languages.directions)
    source, target = (code or "" for code in direction)
    symbols = languages.placeholders
    return open_document(
        text, format, language=source, target=target, glossary=glossary, placeholders=symbols, split=split
    )


def translate_texts(
    model: "Translator", texts: Iterable[str], source: str | None = None, target: str | None = None, **options: Any
) -> Iterator[str]:
    """The translation of each text; arguments are those of `predict_texts`."""
    for example, prediction in predict_texts(model, texts, source, target, **options):
        for problem in prediction.get("problems", ()):
            values = {"text": example["src"][:60], "detected": describe_languages(prediction.get("detected", ()))}
            warnings.warn(PROBLEMS[problem].format(**values), stacklevel=3)
        yield str(prediction["translation"])


def predict_texts(
    model: "Translator",
    texts: Iterable[str | Mapping[str, object]],
    source: str | None = None,
    target: str | None = None,
    *,
    format: str = "text",
    glossary: Mapping[str, str] | Glossary = NO_TERMS,
    memory: MemoryInput = None,
    split: bool = True,
    detect: bool = True,
    where: str = "text",
    **options: object,
) -> Iterator[tuple[Example, Prediction]]:
    """Each text and its prediction as in `Task.predict`, in order and in bounded memory.

    texts             strings, or {"src", "prefix"}
    source, target    language codes, see `Languages.choose`; without a source, the language of each text is detected
    format            text, or html
    glossary          terms of the texts and their translations
    memory            known translations of sentences, see `MemoryInput`
    formality         form of address, see `address.WANTED`
    split             False: each line is one sentence, also if it looks like several
    detect            False: without a source language, the languages of the texts are not detected
    options           options of the search: beam=8, nbest=4, ...
    """
    formality = str(options.pop("formality", "default"))
    source, target = model.task.languages.choose(source, target)
    languages, terms = model.task.languages.with_direction(source, target), Glossary.of(glossary)
    task, memories = model.task.configure(**options), memory_for(model, memory, languages)
    job = SegmentTask(task, languages, options, memory=memories, formality=formality)
    examples = (model.task.parse(value, f"{where} {number}") for number, value in enumerate(texts, 1))
    for number, lines in enumerate(chunk(examples, lambda example: len(example["src"]), CHUNK_LINES)):
        detected: list[tuple[str | None, list[Detected]]] = [(source, [])] * len(lines)
        if source is None and detect:
            inputs = [page_words(line["src"]) if format == "html" else line["src"] for line in lines]
            detected = detect_sources(languages, target, inputs, model.identify)
        sources = [language for language, _ in detected]
        opened = [
            open_text(line["src"], languages, (language, target), format, terms, split)
            for line, language in zip(lines, sources, strict=True)
        ]
        if number and job.task.decoding.search == "sample":  # samples depend on the seed and the number of a sentence
            job = replace(job, options={**options, "seed": job.task.decoding.seed + number})
        translations: dict[int, list[SegmentTranslation]] = {}
        for language in dict.fromkeys(sources):
            chosen = [index for index, other in enumerate(sources) if other == language]
            segments = [
                replace(item, prefix=str(lines[index].get("prefix", "")) * (place == 0))
                for index in chosen
                for place, item in enumerate(opened[index].segments)
            ]
            done = iter(finish(model, job.translate(segments, languages.choose(language, target))))
            translations |= {index: [next(done) for _ in opened[index].segments] for index in chosen}
        for index, line in enumerate(lines):
            yield line, join_predictions(opened[index], translations[index], detected[index][1])


def join_predictions(
    document: TemplateDocument, translations: Sequence[SegmentTranslation], detected: Sequence[Detected]
) -> Prediction:
    """The prediction for a text from those of its sentences; the hypotheses of a single sentence as whole texts.

    `sentences` is the number of sentences that the model translated; `parts` is larger if some are too long for it.
    `memory` is the number of sentences from a translation memory, `detected` the most probable languages if the
    language is unsure. `confidences` has one for each sentence, None if no model translated it.
    """
    text = document.render(translations)
    predictions = [item.prediction for item in translations if item.prediction]
    parts = sum(prediction["parts"] for prediction in predictions)
    used = [item for prediction in predictions for item in prediction["hypotheses"][: prediction["parts"]]]
    hypotheses = used
    if len(translations) == parts == 1:
        others = predictions[0]["hypotheses"][1:]
        texts = [text, *(document.render([SegmentTranslation(item["text"])]) for item in others)]
        hypotheses = [item | {"text": new} for item, new in zip([*used, *others], texts, strict=True)]
    problems = sorted({item.problem for item in translations} - {""}) + [LANGUAGE] * bool(detected)
    remembered = sum(item.remembered for item in translations)
    counts: JsonObject = {"sentences": len(predictions), "confidences": [item.confidence for item in translations]}
    counts |= {"problems": problems} if problems else {}
    counts |= ({"memory": remembered} if remembered else {}) | ({"detected": detected} if detected else {})
    return joined_prediction(text, used, parts, hypotheses) | counts
