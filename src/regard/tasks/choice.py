"""Which of several choices is right: how a story goes on, what answers a question.

    f_c = w C_c + b                   C_c is the reader's one vector for [CLS] text [SEP] choice c [SEP]
    p_c = exp(f_c) / sum_d exp(f_d)   over the choices d of the same example     (Devlin et al. 2018, section 4.4)

Each choice is read for itself, with the text before it, and asks for one number; only the softmax compares. So w and b
know nothing of how many choices there are, and examples may have different numbers of them.

B inputs, E examples, C choices of the example that has most.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.batch import IGNORE, Batch
from regard.data.inputs import Input
from regard.losses.crossentropy import Loss
from regard.metrics.classification import accuracy
from regard.metrics.score import Score
from regard.tasks.understanding import Example, Understanding, shortly
from regard.training.task import Sample

NONE = torch.finfo(torch.float32).min
"""How well a choice fits that is not there: its probability is 0, and where there are none at all nothing is NaN."""


class Choice(Understanding):
    """{"text", "choices"} -> {"label", "choice", "probabilities"}; labels count from 0."""

    together: ClassVar[bool] = True

    @property
    def outputs(self) -> int:
        return 1

    def encode(self, example: Example) -> list[Input]:
        text, label = self.vocabulary.tokenize(example["text"]), example.get("label")
        found = []
        for number, choice in enumerate(example["choices"]):
            read = self.vocabulary.build_input(text, self.vocabulary.tokenize(choice), self.max_length)
            labels = [] if number else [IGNORE if label is None else label]
            found.append(Input(read.ids, read.segments, labels, read.truncated_tokens))
        return found

    def criterion(self, logits: Tensor, batch: Batch) -> Loss:
        f = side_by_side(logits, batch["input_index"])
        return choices_lost(f, batch["input_index"] >= 0, batch.labels[:, 0], self.label_smoothing)

    def decode(self, example: Example, inputs: Sequence[Input], logits: Sequence[Tensor]) -> Example:
        p = torch.softmax(torch.cat(list(logits)), dim=0)
        label = int(p.argmax())
        return {"label": label, "choice": example["choices"][label], "probabilities": p.tolist()}

    def scores(self, examples: Sequence[Example], said: Sequence[Example]) -> dict[str, Score]:
        return {"accuracy": accuracy([each["label"] for each in said], [each["label"] for each in examples])}

    def shown(self, example: Example, said: Example) -> Sample:
        right = shortly(example["choices"][example["label"]]) if "label" in example else ""
        sure = said["probabilities"][said["label"]]
        return Sample(shortly(example["text"]), right, f"{shortly(said['choice'])} ({sure:.0%})")


def side_by_side(logits: Tensor, members: Tensor) -> Tensor:
    """f: the number of each input (B, 1), and which inputs are whose (E, C) -> (E, C), NONE where there is no more."""
    f = logits.float()[:, 0].index_select(0, members.clamp(min=0).flatten())
    return f.view_as(members).masked_fill(members < 0, NONE)


def choices_lost(f: Tensor, real: Tensor, labels: Tensor, smoothing: float = 0.0) -> Loss:
    """Cross-entropy of f (E, C), where `real`, against the right choices (E,), summed; one IGNORE does not count.

    What smoothing takes from the right choice is given to all choices of the example alike.
    """
    asked = labels != IGNORE
    log_p = F.log_softmax(f, dim=1).masked_fill(~real, 0)
    right = labels.long().clamp(min=0)[:, None]
    nll = -(log_p.gather(1, right)[:, 0] * asked).sum()
    uniform = -(log_p.sum(dim=1) / real.sum(dim=1).clamp(min=1) * asked).sum()
    return Loss((1 - smoothing) * nll + smoothing * uniform, asked.sum(), nll.detach())
