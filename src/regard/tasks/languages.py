"""Languages of a translation model: directions, language codes, and pivot languages.

A model that was not trained from German to French may translate from German to English and from English to French;
English is the pivot language. Errors of both steps add up.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

from regard.data.examples import Example
from regard.errors import UserError
from regard.tasks.inputs import chunk

Direction = tuple[str, str]
"""Codes of the source and the target language."""
FIRST_PIVOT = "en"
"""The pivot language, if there are several."""
TRADITIONAL = "zh-hant"
OTHER_CODES = {
    "zh": ("zh-cn", "zh-sg", "zh-hans", "zh-hans-cn", "zh-hans-sg"),
    TRADITIONAL: ("zt", "zh-tw", "zh-hk", "zh-mo", "zh-hant-tw", "zh-hant-hk", "zh-hant-mo"),
    "pt-br": ("pb",),
}
"""Codes of simplified and traditional Chinese and Brazilian Portuguese, and others of the same meaning."""


@dataclass(frozen=True)
class Languages:
    """What a translation model knows about languages.

    directions     trained directions; () if the recipe names no languages
    tags           the token of each target language; {} if the model has only one
    placeholders   symbols that the model copies from a source to its translation; () if it has none
    """

    directions: tuple[Direction, ...] = ()
    tags: Mapping[str, int] = field(default_factory=dict)
    placeholders: tuple[str, ...] = ()
    source: str = ""
    """The source language of examples that name none; it is needed for a direction through a pivot language."""
    target: str = ""
    """The target language of examples that name none; "" if the model has only one."""

    @cached_property
    def codes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*(code for pair in self.directions for code in pair), *self.tags]))

    @cached_property
    def pairs(self) -> tuple[Direction, ...]:
        """All directions: trained ones, then those through a pivot language."""
        return (*self.directions, *(pair for pair in product(self.codes, self.codes) if self.pivot(*pair)))

    def pivot(self, source: str | None, target: str | None) -> str | None:
        """The language between source and target; None if there is a direct way, or none at all."""
        if not source or not target or source == target or (source, target) in self.directions:
            return None
        pivots = sorted(to for start, to in self.directions if start == source and (to, target) in self.directions)
        return FIRST_PIVOT if FIRST_PIVOT in pivots else next(iter(pivots), None)

    def pivot_for(self, example: Example) -> str | None:
        """The language through which an example is translated; None if there is a direct way, or none at all."""
        return self.pivot(example.get("from") or self.source, example.get("to") or self.target)

    def with_direction(self, source: str | None, target: str | None) -> "Languages":
        """These languages; with the given direction if the model names none."""
        return self if self.directions or not source or not target else replace(self, directions=((source, target),))

    def find(self, code: str) -> str:
        """This model's code for a language: codes are case-insensitive, and Chinese has several."""
        known = {own.lower(): own for own in self.codes}
        mains = {main_code(own): own for own in sorted(known)}
        main = main_code(code)
        return known.get(code.lower()) or known.get(mains.get(main, ""), main)

    def find_pair(self, source: str | None, target: str | None) -> tuple[str | None, str | None]:
        """This model's codes for a source and a target language. A model that reads Chinese reads traditional
        characters too, and writes them only if it has a code for them."""
        source, target = (self.find(code) if code else None for code in (source, target))
        if source == TRADITIONAL and source not in self.codes and (chinese := self.find("zh")) in self.codes:
            if target == chinese:
                raise self._unknown_pair(source, target)
            source = chinese
        return source, target

    def choose(self, source: str | None, target: str | None) -> tuple[str | None, str | None]:
        """This model's codes for a direction; a missing target is the only one. Raise UserError for an unknown language
        ("unknown-language") or direction ("unknown-pair"). Equal codes are allowed: such a text stays as it is."""
        source, target = self.find_pair(source, target)
        for name, code in (("source", source), ("target", target)):
            if code and self.codes and code not in self.codes:
                raise UserError(
                    f"unknown {name} language {code[:40]!r}", self.known, code="unknown-language", where=code[:40]
                )
        if target is None:
            targets = {to for start, to in self.directions if source in (None, start)}
            if len(targets) > 1 or (self.tags and not targets):
                raise UserError("the target language is missing", self.known, code="unknown-language", where="target")
            target = next(iter(targets), None)
        sources = {start for start, to in self.pairs if to == target}
        if self.directions and source != target and not (source in sources if source else sources):
            raise self._unknown_pair(source or "any language", target)
        return source, target

    @property
    def known(self) -> str:
        """The directions, or the codes, for the remedy of an error."""
        trained = ", ".join(f"{source}-{target}" for source, target in self.directions)
        return f"directions: {trained}" if trained else f"known languages: {', '.join(self.codes) or 'none'}"

    def _unknown_pair(self, source: str, target: str | None) -> UserError:
        to = f" to {target}" if target else ""
        where = f"{source}:{target or ''}"
        return UserError(f"no translation from {source}{to}", self.known, code="unknown-pair", where=where)


def main_code(code: str) -> str:
    """A code in lowercase with "-", and one code for languages that have several: "zh" for zh_CN."""
    code = code.lower().replace("_", "-")
    return next((main for main, others in OTHER_CODES.items() if code in others), code)


def through_pivots(task: Any, engine: object, examples: Iterable[Example], max_lines: int) -> Iterator[Example]:
    """The examples; those without a direct way as their translations into the pivot language."""
    for lines in chunk(examples, lambda example: len(example["src"]), max_lines):
        pivots = [task.languages.pivot_for(example) for example in lines]
        first = [{"src": line["src"], "to": pivot} for line, pivot in zip(lines, pivots, strict=True) if pivot]
        predictions = task.predict(engine, first) if first else iter(())
        for line, pivot in zip(lines, pivots, strict=True):
            yield {**line, "src": next(predictions)["translation"], "from": pivot} if pivot else line
