"""Plain text: every line is a passage; blank space and line ends stay as they are."""

import re

from regard.documents.passage import Passage, Reading
from regard.documents.template import Slot, TemplateDocument


def read_text(text: str, reading: Reading) -> TemplateDocument:
    """Read plain text."""
    template: list[str | int] = []
    slots: list[Slot] = []
    for line in re.findall(r"[^\r\n]+|[\r\n]+", text):
        passage = None if line[0] in "\r\n" else Passage(line, reading)
        if passage is not None and passage.is_changed:
            template.append(len(slots))
            slots.append(Slot(passage))
        else:
            template.append(line)
    return TemplateDocument(template, slots)
