"""The language identification that comes with regard, as work for a worker."""

from regard.bundled.identification import Detected, identifier, identify
from regard.run.model import Model


def load_identifier() -> Model:
    """Load the language identification that comes with regard."""
    return identifier()


def identify_batch(top: int, model: Model, texts: list[str]) -> list[list[Detected]]:
    """The languages of a batch of texts."""
    return identify(texts, top)
