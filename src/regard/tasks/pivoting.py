"""Translation through a third language, for directions that a model was not trained on: German - English - French.

The best translation into the third language is translated again. Errors of both steps add up.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from regard.data.examples import Example
from regard.errors import UserError
from regard.tasks.inputs import chunk

Directions = Sequence[tuple[str, str]]
FIRST = "en"
"""The third language, if there are several."""


def pivot_language(directions: Directions, source: str | None, target: str | None) -> str | None:
    """The language between source and target; None if there is a direct way, or none at all."""
    if not source or not target or source == target or (source, target) in directions:
        return None
    found = sorted(between for start, between in directions if start == source and (between, target) in directions)
    return FIRST if FIRST in found else next(iter(found), None)


def with_pivots(directions: Directions) -> tuple[tuple[str, str], ...]:
    """The directions, and those through a third language."""
    languages = dict.fromkeys(language for direction in directions for language in direction)
    pairs = [(source, target) for source in languages for target in languages]
    return (*directions, *(pair for pair in pairs if pivot_language(directions, *pair)))


def check_language(directions: Directions, tags: Iterable[str], language: str) -> str:
    """The code of a target language; a UserError if a model does not translate into it."""
    known = dict.fromkeys([target for _, target in directions] or tags)
    if known and language not in known:
        raise UserError(
            f"the model does not translate into {language!r}",
            f"it translates into {', '.join(known)}",
            code="unknown-language",
            where="to",
        )
    return language


def through_pivots(task: Any, engine: Any, examples: Iterable[Example], max_lines: int) -> Iterator[Example]:
    """The examples; those without a direct way as their translations into a third language."""
    for lines in chunk(examples, lambda example: len(example["src"]), max_lines):
        pivots = [task.pivot(example) for example in lines]
        first = [{"src": line["src"], "to": pivot} for line, pivot in zip(lines, pivots, strict=True) if pivot]
        found = task.predict(engine, first) if first else iter(())
        for line, pivot in zip(lines, pivots, strict=True):
            yield {**line, "src": next(found)["translation"], "from": pivot} if pivot else line
