"""The direction of a translation: --from, --to, and the language of the text if --from is not given."""

from typing import TYPE_CHECKING

from regard.cli.screen import report

if TYPE_CHECKING:
    from regard.tasks.base import AnyTask
    from regard.tasks.languages import Languages

CERTAIN = 0.9
"""The least confidence with which a detected language is used."""


def target_option(task: "AnyTask") -> str:
    """The option --to in a command for a run of several languages, as an example; "" for other runs."""
    return f" --to {next(iter(task.languages.tags))}" if task.languages and task.languages.tags else ""


def detect_source(languages: "Languages", target: str | None, text: str) -> str | None:
    """The language of a text, if the run translates from it through a pivot language only; otherwise None.

    A model reads no source language, so the language of a text with a direct translation does not matter.
    """
    if not any(to == target and languages.pivot(source, to) for source, to in languages.pairs):
        return None
    from regard.bundled.identification import identify

    for detected in identify([text], top=1)[0]:
        pivot = languages.pivot(detected.language, target)
        if pivot and detected.confidence >= CERTAIN:
            report(f"note: the text seems to be in {detected.language}; it is translated to {pivot} first (see --from)")
            return detected.language
    return None
