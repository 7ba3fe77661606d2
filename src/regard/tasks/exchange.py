"""A task's counterparts in other libraries."""

from dataclasses import dataclass

from regard.exchange.bert import BertHead


@dataclass(frozen=True)
class Exchange:
    """What other libraries have for a task: a script that runs its models, a pipeline, an output layer."""

    script: str
    """The script in an export's README: translate, generate, logits, tag or parse (`export/templates`)."""
    pipeline: str = ""
    """The Hugging Face pipeline with the same inputs and outputs, for the inference API; "" if there is none."""
    head: BertHead | None = None
    """The class in transformers for a BERT with the task's output layer."""


def pipeline_of(exchange: Exchange | None) -> str:
    """The Hugging Face pipeline of a task; "" if it has none."""
    return "" if exchange is None else exchange.pipeline
