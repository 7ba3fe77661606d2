"""The logits of the forward pass of a model."""

from typing import Any

from regard.layers.embeddings import OutputProjection


def with_logits(outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The outputs of a model with logits instead of projections."""
    return tuple(output.logits() if isinstance(output, OutputProjection) else output for output in outputs)
