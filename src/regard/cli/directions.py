"""The direction of a translation: --from, --to, and the language of the text if --from is not given."""

from typing import TYPE_CHECKING, Any

from regard.cli.options import Options
from regard.cli.screen import report
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.tasks.base import AnyTask
    from regard.tasks.translation import TranslationTask

CERTAIN = 0.9
"""The least confidence with which a detected language is used."""


def choose_direction(task: "TranslationTask[Any]", source: str | None, target: str | None) -> Options:
    """The options of the direction; a UserError if the run does not translate in it, not even through a third language.

    The source language matters only for a direction through a third one.
    """
    from regard.tasks.pivoting import with_pivots

    tags, directions = task.src_tokenizer.language_tags, task.directions
    if target is None and tags:
        targets = {pair[1] for pair in directions if source in (None, pair[0])}
        if source is None or len(targets) != 1:
            raise UserError(
                "the target language is not given", f"write --to CODE, one of {', '.join(tags)}",
                code="unknown-language", where="to",
            )  # fmt: skip
        target = targets.pop()
    if (source or target) and directions:
        possible = with_pivots(directions)
        pairs = [pair for pair in possible if source in (None, pair[0]) and target in (None, pair[1])]
        if not pairs:
            raise UserError(
                f"the run does not translate from {source or 'any language'} to {target or 'any language'}",
                f"its directions: {', '.join(f'{a}-{b}' for a, b in directions)}",
                code="unknown-language",
                where="from" if source else "to",
            )
    named = {"from": source} if source and (source, target) not in directions else {}
    return {"to": target, **named} if tags else {}


def target_option(task: "AnyTask") -> str:
    """The option --to in a command for a run of several languages, as an example; "" for other runs."""
    tags = getattr(getattr(task, "src_tokenizer", None), "language_tags", {})
    return f" --to {next(iter(tags))}" if tags else ""


def with_detected_source(task: "TranslationTask[Any]", options: Options, text: str) -> Options:
    """The options, and the language of the text if the run translates from it through a third language only.

    A model reads no source language, so the language of a text with a direct translation does not matter.
    """
    from regard.tasks.pivoting import pivot_language, with_pivots

    target = options.get("to")
    indirect = {source for source, to in with_pivots(task.directions) if to == target} - {
        source for source, to in task.directions if to == target
    }
    if not indirect or "from" in options:
        return options
    from regard.bundled.identification import identify

    for found in identify([text], top=1)[0]:
        if found.language in indirect and found.confidence >= CERTAIN:
            between = pivot_language(task.directions, found.language, str(target))
            report(f"note: the text seems to be in {found.language}; it is translated to {between} first (see --from)")
            return options | {"from": found.language}
    return options
