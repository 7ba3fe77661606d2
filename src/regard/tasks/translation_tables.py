"""Tables of a report about translations: scores by length, and the worst translations."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from regard.metrics.translation import bleu, bleu_tokenizer_for, chrf, chrf_metric
from regard.tasks.base import Example, Prediction
from regard.tasks.tables import ERROR_CHARACTERS, MAX_ERRORS, bin_name
from regard.viz.content import Cell, Matrix, Table, truncate

if TYPE_CHECKING:
    from regard.tasks.translation import TranslationTask

LENGTHS = (10, 20, 30, 40, 60)
"""Bins of sentences by the number of tokens of the source."""
MAX_SCORED = 1000
"""Sentences of which chrF is computed one by one."""


def length_table(task: "TranslationTask[Any]", examples: Sequence[Example], predictions: Sequence[Prediction]) -> Table:
    """BLEU and chrF by the number of tokens of the source."""
    bins: dict[tuple[int, str], list[tuple[str, str]]] = {}
    for example, item in zip(examples, predictions, strict=True):
        size = bin_name(len(task.src_tokenizer.encode(example["src"])), LENGTHS)
        bins.setdefault(size, []).append((item["translation"], example["tgt"]))
    rows: list[list[Cell]] = []
    tokenizer = task.bleu_tokenizer or bleu_tokenizer_for([example["tgt"] for example in examples])
    for (_, name), pairs in sorted(bins.items()):
        outputs, references = ([pair[side] for pair in pairs] for side in (0, 1))
        score = bleu(outputs, references, tokenize=tokenizer).value
        rows.append([name, len(pairs), score, chrf(outputs, references).value])
    columns = {"source tokens": "text", "sentences": "count", "BLEU": "percent", "chrF": "percent"}
    return Table("scores by length", columns, rows)


def direction_table(
    examples: Sequence[Example], predictions: Sequence[Prediction], tokenizer: str = ""
) -> list[Table | Matrix]:
    """BLEU and chrF of each direction; [] if there is only one."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for example, item in zip(examples, predictions, strict=True):
        if "to" in example:
            name = f"{example.get('from', '?')} → {example['to']}"
            groups.setdefault(name, []).append((item["translation"], example["tgt"]))
    rows: list[list[Cell]] = []
    for name, pairs in groups.items():
        outputs, references = ([pair[side] for pair in pairs] for side in (0, 1))
        score = bleu(outputs, references, tokenize=tokenizer or bleu_tokenizer_for(references))
        rows.append([name, len(pairs), score.value, chrf(outputs, references).value])
    columns = {"direction": "text", "sentences": "count", "BLEU": "percent", "chrF": "percent"}
    return [Table("scores by direction", columns, rows)] if len(rows) > 1 else []


def lowest_chrf(examples: Sequence[Example], predictions: Sequence[Prediction]) -> list[Table]:
    """The translations with the lowest chrF among the first MAX_SCORED that are not exactly the reference."""
    metric: Any = chrf_metric()
    scored: list[tuple[float, list[Cell]]] = []
    for example, item in list(zip(examples, predictions, strict=True))[:MAX_SCORED]:
        if (output := item["translation"]) != example["tgt"]:
            texts = [truncate(text, ERROR_CHARACTERS) for text in (example["src"], example["tgt"], output)]
            score = float(metric.sentence_score(output, [example["tgt"]]).score)
            scored.append((score, [*texts, score]))
    rows = [row for _, row in sorted(scored, key=lambda item: item[0])[:MAX_ERRORS]]
    columns = {"source": "text", "reference": "text", "output": "text", "chrF": "percent"}
    return [Table("lowest chrF", columns, rows)] if rows else []
