"""Labelled text: files of any usual form as plain examples, and which of them train, validate and test."""

from regard.data.labelled.examples import GOLD, Example, as_example, texts_of
from regard.data.labelled.parts import Parts, Report, load_parts
from regard.data.labelled.reading import read_examples
from regard.data.labelled.settings import AnsweringDataSettings, Labelled, LabelledDataSettings

__all__ = [
    "GOLD",
    "AnsweringDataSettings",
    "Example",
    "Labelled",
    "LabelledDataSettings",
    "Parts",
    "Report",
    "as_example",
    "load_parts",
    "read_examples",
    "texts_of",
]
