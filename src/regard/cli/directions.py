"""The direction of a translation: --from, --to, and the language of the text if --from is not given."""

from typing import TYPE_CHECKING

from regard.cli.options import Options
from regard.cli.screen import report

if TYPE_CHECKING:
    from regard.tasks.base import AnyTask
    from regard.tasks.languages import Languages

CERTAIN = 0.9
"""The least confidence with which a detected language is used."""


def choose_direction(languages: "Languages", source: str | None, target: str | None) -> Options:
    """Choose a direction and return its options; the source language matters only for a pivot direction.

    Raise UserError if the run does not translate in this direction, not even through a pivot language.
    """
    source, target = languages.choose(source, target)
    named = {"from": source} if languages.pivot(source, target) else {}
    return {"to": target, **named} if languages.tags else {}


def target_option(task: "AnyTask") -> str:
    """The option --to in a command for a run of several languages, as an example; "" for other runs."""
    return f" --to {next(iter(task.languages.tags))}" if task.languages and task.languages.tags else ""


def with_detected_source(languages: "Languages", options: Options, text: str) -> Options:
    """Add the language of the text to the options if the run translates from it through a pivot language only.

    A model reads no source language, so the language of a text with a direct translation does not matter.
    """
    target = options.get("to")
    if "from" in options or not any(to == target and languages.pivot(source, to) for source, to in languages.pairs):
        return options
    from regard.bundled.identification import identify

    for detected in identify([text], top=1)[0]:
        pivot = languages.pivot(detected.language, str(target))
        if pivot and detected.confidence >= CERTAIN:
            report(f"note: the text seems to be in {detected.language}; it is translated to {pivot} first (see --from)")
            return options | {"from": detected.language}
    return options
