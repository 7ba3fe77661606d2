"""Segments of a document translated by a model, with links where something must be located.

document = open_document(page, "html", language="en", placeholders=translator.task.languages.placeholders)
translated = document.render(translate_segments(translator, document.segments, to="de"))
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from regard.documents.segment import Segment, SegmentTranslation, join_steps
from regard.run.alignment import align

if TYPE_CHECKING:
    from regard.run.model import Translator

Progress = Callable[[int], None]


def translate_segments(
    model: "Translator", segments: Sequence[Segment], progress: Progress = lambda count: None, **options: Any
) -> list[SegmentTranslation]:
    """A translation of each segment; equal sentences are translated once. Options are those of `Model.predict`.

    A direction through a pivot language is two translations, so that each is aligned in a direction that the model
    was trained on.
    """
    between = model.task.languages.pivot(options.get("from"), options.get("to"))
    if between is not None:
        before = translate_segments(model, segments, **options | {"to": between})
        second = [Segment(item.text, segment.needs_links) for item, segment in zip(before, segments, strict=True)]
        after = translate_segments(model, second, progress, **options | {"from": between})
        return [join_steps(*steps) for steps in zip(before, after, strict=True)]
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
