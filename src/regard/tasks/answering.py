"""Which words of a text answer a question about it, if any do.

    p(answer begins with token i) = softmax_i(S h_i + b)       Devlin et al. 2018, section 4.2; S and E are the two rows
    p(answer ends with token j)   = softmax_j(E h_j + c)       of the head, and h what was read of
                                                               [CLS] question [SEP] part of the text [SEP]

    loss = -1/2 (log p(first token of the answer) + log p(last token))

A long text is read in windows (answer_spans.py), each an input of its own. Where the answer is not, or not wholly, in a
window, or where there is none, [CLS] is to begin and end it. So a question without an answer is one whose windows all
say [CLS] (section 4.3), and the one that says so least decides:

    none = min over windows (s_[CLS] + e_[CLS]) + threshold     against     max over stretches (s_i + e_j)

B inputs, L tokens of a text; `*` is (B, T) padded or (N,) packed, with room for B inputs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import exp
from typing import ClassVar

import torch
from torch import Tensor

from regard.attention.attend import to_float32
from regard.attention.layouts import Layout, Packed
from regard.data.batch import IGNORE, Batch
from regard.data.inputs import Input
from regard.losses.crossentropy import Loss
from regard.metrics.answers import answer_scores
from regard.metrics.score import Score
from regard.models.pooling import expand_segments, lengths, not_padding, segment_max, segment_sum
from regard.tasks.answer_spans import (
    Stretch,
    Window,
    best_stretches,
    covering,
    stretch_scores,
    window_firsts,
)
from regard.tasks.understanding import AHEAD, Example, Understanding, shortly
from regard.text.bert import Encoding
from regard.training.task import Sample

NOWHERE = (0, 0)
"""Where an answer begins and ends that a window does not have: [CLS]."""
NONE = "(no answer)"


@dataclass(frozen=True)
class Answering(Understanding):
    """{"question", "context"} -> {"answer", "start", "end", "score", "probability", "nbest"}.

    The answer is context[start:end]: nothing, of no characters, where there is none. Probabilities are those among all
    that could be said, where the authors' program has them among the twenty best.
    """

    max_length: int = 384
    max_question: int = 64
    """Tokens of a question; the rest is cut."""
    stride: int = 128
    """How many tokens of the text further the next window begins."""
    max_answer: int = 30
    """Tokens of the longest answer that is looked for."""
    no_answer: bool = False
    """Whether a question may have no answer."""
    threshold: float = 0.0
    """How much better than none an answer must be to be given."""
    nbest: int = 5
    """How many answers are told, the given one first."""

    pooled: ClassVar[bool] = False
    head_dropout: ClassVar[bool] = False

    @property
    def outputs(self) -> int:
        return 2

    @cached_property
    def cut(self) -> Callable[[str], Encoding]:
        """A text in pieces; questions that come together are mostly about the same few."""
        return lru_cache(AHEAD)(self.vocabulary.tokenize)

    def encode(self, example: Example) -> list[Input]:
        asked, text = self.vocabulary.tokenize(example["question"]), self.cut(example["context"])
        question = asked[: self.max_question]
        before, gold = len(question) + 2, gold_tokens(example, text)
        room = self.max_length - before - 1
        inputs: list[Input] = []
        for first in window_firsts(len(text), room, self.stride):
            part = text[first : first + room]
            read = self.vocabulary.build_input(question, part)
            labels = [IGNORE, IGNORE] if "answers" not in example else places(gold, first, len(part), before)
            unread = 0 if inputs else len(asked) - len(question)
            inputs.append(Input(read.ids, read.segments, labels, unread))
        return inputs

    def criterion(self, logits: Tensor, batch: Batch) -> Loss:
        """Cross-entropy over the tokens of a window, of where the answer begins and where it ends, half of each."""
        layout, z = batch.source.layout, to_float32(logits)
        labels = batch.labels.long()  # (E, 2); a stream has room for an input more, which is nobody's
        asked = labels[:, 0] != IGNORE
        found = first_tokens(layout, z)[: len(labels), None] + labels.clamp(min=0)
        rows = z.flatten(0, -2)
        log_total = log_totals(z, layout)[: len(labels)]
        nll = ((log_total - rows.gather(0, found.clamp(max=len(rows) - 1))).mean(dim=-1) * asked).sum()
        if not self.label_smoothing:
            return Loss(nll, asked.sum(), nll.detach())
        mean = (segment_sum(z, layout) / lengths(layout)[:, None].clamp(min=1))[: len(labels)]
        uniform = ((log_total - mean).mean(dim=-1) * asked).sum()
        return Loss(nll + self.label_smoothing * (uniform - nll), asked.sum(), nll.detach())

    def decode(self, example: Example, inputs: Sequence[Input], logits: Sequence[Tensor]) -> Example:
        context, before = example["context"], inputs[0].segments.index(1)
        spans = self.cut(context).spans
        firsts = window_firsts(len(spans), self.max_length - before - 1, self.stride)
        windows = [Window(first, *row[before:-1].T) for first, row in zip(firsts, logits, strict=True)]
        scores = stretch_scores(windows, len(spans), self.max_answer)
        told = [(characters(spans, best), best.score) for best in best_stretches(scores, self.nbest)]
        every = scores.flatten()
        if self.no_answer or not told:
            none = torch.stack([row[0].sum() for row in logits]).amin(0, keepdim=True) + self.threshold
            told, every = [*told, (NOWHERE, float(none))], torch.cat([every, none])
        total = float(every.logsumexp(0))
        nbest = [
            {"answer": context[start:end], "start": start, "end": end, "score": z, "probability": exp(z - total)}
            for (start, end), z in sorted(told, key=lambda item: -item[1])[: self.nbest]
        ]
        return nbest[0] | {"nbest": nbest}

    def scores(self, examples: Sequence[Example], said: Sequence[Example]) -> dict[str, Score]:
        golds = [[answer["text"] for answer in example["answers"]] for example in examples]
        return answer_scores([each["answer"] for each in said], golds)

    def shown(self, example: Example, said: Example) -> Sample:
        gold = " / ".join(dict.fromkeys(answer["text"] for answer in example["answers"])) or NONE
        asked = f"{shortly(example['question'])} | {shortly(example['context'])}"
        return Sample(asked, shortly(gold), f"{shortly(said['answer']) or NONE} ({said['probability']:.0%})")


def gold_tokens(example: Example, text: Encoding) -> tuple[int, int] | None:
    """The first and the last token of the answer, of several the first one; None where there is none."""
    if not example.get("answers"):
        return None
    answer = example["answers"][0]
    return covering(text.spans, answer["start"], answer["start"] + len(answer["text"]))


def places(gold: tuple[int, int] | None, first: int, size: int, before: int) -> tuple[int, int]:
    """Where an answer begins and ends in the window on `size` tokens of the text from `first`, `before` before them."""
    if gold is None or gold[0] < first or gold[1] >= first + size:
        return NOWHERE
    return gold[0] - first + before, gold[1] - first + before


def characters(spans: Sequence[tuple[int, int]], stretch: Stretch) -> tuple[int, int]:
    """From which character of the text up to which."""
    return spans[stretch.first][0], spans[stretch.last][1]


def log_totals(z: Tensor, layout: Layout) -> Tensor:
    """log sum_i exp z_i over the tokens i of each input: (*, O) -> (B, O)."""
    top = segment_max(z.detach(), layout)
    z = z.masked_fill(~not_padding(layout)[..., None], -torch.inf)
    total = segment_sum(
        (z - expand_segments(top, layout)).exp(), layout
    )  # the largest of an input is 1: its sum is no less
    return top + total.clamp(min=1).log()


def first_tokens(layout: Layout, z: Tensor) -> Tensor:
    """Where each input begins among all tokens of a batch, one after another: (B,)."""
    if isinstance(layout, Packed):
        return layout.offsets[:-1]
    return torch.arange(len(z), device=z.device) * z.size(1)
