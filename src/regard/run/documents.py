"""Segments of a document translated by a model, with links where something must be located.

document = open_document(page, "html", language="en", placeholders=translator.task.placeholders)
translated = document.render(translate_segments(translator, document.segments, to="de"))
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from regard.documents.segment import Segment, SegmentTranslation
from regard.run.aligning import align

if TYPE_CHECKING:
    from regard.run.model import Translator

Progress = Callable[[int], None]


def translate_segments(
    model: "Translator", segments: Sequence[Segment], progress: Progress = lambda count: None, **options: Any
) -> list[SegmentTranslation]:
    """A translation of each segment; equal sentences are translated once. Options are those of `Model.predict`."""
    texts = list(dict.fromkeys(segment.text for segment in segments))
    found: dict[str, str] = {}
    for text, prediction in zip(texts, model.stream(texts, where="sentence", **options), strict=True):
        found[text] = str(prediction["translation"])
        progress(len(found))
    located = list(dict.fromkeys(segment.text for segment in segments if segment.needs_links))
    target = {"to": options["to"]} if options.get("to") else {}
    linked = align(model, [{"src": text, **target} for text in located], [found[text] for text in located])
    links = dict(zip(located, linked, strict=True))
    return [SegmentTranslation(found[item.text], links=links.get(item.text, ())) for item in segments]
