"""Of which class is a text, or a pair of texts; and the same with a number in the place of a class.

    p(class) = softmax(W C + b)       C is the reader's one vector for [CLS] A [SEP] or [CLS] A [SEP] B [SEP]
    number   = w C + b                                            (Devlin et al. 2018, sections 4.1 and 3.2)

B inputs, O classes.
"""

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from regard.data.batch import IGNORE, Batch
from regard.data.inputs import Input
from regard.losses.crossentropy import Loss
from regard.metrics.classification import accuracy, binary_scores, macro_scores, matthews, pearson, spearman
from regard.metrics.score import Score
from regard.tasks.understanding import Example, Understanding, classes_lost, shortly
from regard.text.bert import BertTokenizer
from regard.training.task import Sample

LIKELIEST = 5
"""Classes whose probabilities are told."""
BESIDE_IGNORE = IGNORE + 1e-5
"""What a number that happens to be IGNORE is learnt as."""


class Classification(Understanding):
    """{"text", "pair"} -> {"label", "probability"}."""

    @property
    def outputs(self) -> int:
        return len(self.labels)

    def encode(self, example: Example) -> list[Input]:
        label = example.get("label")
        return [text_input(self.vocabulary, example, self.max_length, numbers(self.labels).get(label, IGNORE))]

    def criterion(self, logits: Tensor, batch: Batch) -> Loss:
        return classes_lost(asked(logits, batch), batch.labels[:, 0], self.label_smoothing)

    def decode(self, example: Example, inputs: Sequence[Input], logits: Sequence[Tensor]) -> Example:
        p = torch.softmax(logits[0], dim=-1)
        best = p.topk(min(LIKELIEST, len(p)))
        likeliest = {self.labels[place]: value for place, value in zip(best.indices, best.values.tolist(), strict=True)}
        label = next(iter(likeliest))
        return {"label": label, "probability": likeliest[label], "probabilities": likeliest}

    def scores(self, examples: Sequence[Example], said: Sequence[Example]) -> dict[str, Score]:
        found, gold = [each["label"] for each in said], [each["label"] for each in examples]
        two = len(self.labels) == 2  # then F1 is that of the second class, as "1" in GLUE
        f1 = binary_scores(found, gold, self.labels[1]) if two else macro_scores(found, gold)
        return {"accuracy": accuracy(found, gold), "f1": f1["f1"], "matthews": matthews(found, gold)}

    def shown(self, example: Example, said: Example) -> Sample:
        return Sample(_text(example), str(example.get("label", "")), f"{said['label']} ({said['probability']:.0%})")


class Regression(Understanding):
    """{"text", "pair"} -> {"score"}."""

    @property
    def outputs(self) -> int:
        return 1

    def encode(self, example: Example) -> list[Input]:
        label = example.get("label")
        number = IGNORE if label is None else BESIDE_IGNORE if label == IGNORE else label
        return [text_input(self.vocabulary, example, self.max_length, number)]

    def criterion(self, logits: Tensor, batch: Batch) -> Loss:
        """Squared errors."""
        labels = batch.labels[:, 0]
        real = labels != IGNORE
        squares = ((asked(logits, batch)[:, 0].float() - labels) ** 2 * real).sum()
        return Loss(squares, real.sum(), squares.detach())

    def decode(self, example: Example, inputs: Sequence[Input], logits: Sequence[Tensor]) -> Example:
        return {"score": float(logits[0][0])}

    def scores(self, examples: Sequence[Example], said: Sequence[Example]) -> dict[str, Score]:
        found, gold = [each["score"] for each in said], [float(each["label"]) for each in examples]
        return {"pearson": pearson(found, gold), "spearman": spearman(found, gold)}

    def shown(self, example: Example, said: Example) -> Sample:
        return Sample(_text(example), str(example.get("label", "")), f"{said['score']:.2f}")


def text_input(vocabulary: BertTokenizer, example: Example, longest: int, label: float) -> Input:
    """[CLS] text [SEP], or [CLS] text [SEP] pair [SEP]; of two texts the longer one is shortened first."""
    pair = example.get("pair")
    second = None if pair is None else vocabulary.tokenize(pair)
    found = vocabulary.build_input(vocabulary.tokenize(example["text"]), second, longest)
    return Input(found.ids, found.segments, [label], found.truncated_tokens)


def asked(logits: Tensor, batch: Batch) -> Tensor:
    """The rows of examples (E, O): a stream has room for an input more, which is nobody's."""
    return logits[: len(batch.labels)]


@lru_cache
def numbers(labels: tuple[str, ...]) -> dict[str | None, int]:
    """The number of every label."""
    return {label: number for number, label in enumerate(labels)}


def _text(example: Example) -> str:
    return " | ".join(shortly(example[part]) for part in ("text", "pair") if example.get(part))
