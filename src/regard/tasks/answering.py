"""Extractive question answering: the span of a text that answers a question, or no answer.

    p(answer begins with token i) = softmax_i(S h_i + b)       Devlin et al. 2018, section 4.2; S and E are the two rows
    p(answer ends with token j)   = softmax_j(E h_j + c)       of the head, h the hidden states of
                                                               [CLS] question [SEP] part of the text [SEP]

    loss = -1/2 (log p(first token of the answer) + log p(last token))

A long text is read in windows (spans.py); each is an input. If a window does not hold the whole answer, or if there is
no answer, the target is [CLS]. A question without an answer is one whose windows all predict [CLS] (section 4.3):

    no answer = min over windows (s_[CLS] + e_[CLS]) + threshold     compared with     max over spans (s_i + e_j)

B inputs, L tokens of a text; `*` is (B, T) padded or (N,) packed, for B inputs.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import exp
from typing import ClassVar, Self

import torch
from torch import Tensor

from regard.attention.attend import to_float32
from regard.attention.layouts import Layout, Packed
from regard.data.batch import IGNORE, Batch
from regard.data.fields import QUESTIONS, Fields
from regard.data.inputs import Input
from regard.data.settings import AnsweringDataSettings
from regard.exchange.bert import QUESTION_ANSWERING
from regard.losses.crossentropy import Loss
from regard.messages import Message
from regard.metrics.score import Score
from regard.metrics.significance import Scorer, mean_scorer
from regard.metrics.spans import answer_exact, answer_f1, answer_scores, best_threshold
from regard.models.pooling import expand_segments, lengths, not_padding, segment_max, segment_sum
from regard.tasks.base import AnyTask, Example, Exchange, Prediction
from regard.tasks.checks import ExpectedLoss
from regard.tasks.inputs import CHUNK_EXAMPLES, check_count, check_number, split_columns
from regard.tasks.labelled import Labelled, LabelledChecks, LabelledRecipe, is_recurrent
from regard.tasks.spans import ContextWindow, best_spans, span_scores, token_span, window_starts
from regard.tasks.tables import confident_errors
from regard.text.inputs import Encoding
from regard.viz.content import Block, Description, Marked, Shares, Table, Tables

NO_ANSWER_SPAN = (0, 0)
"""Target of a window without the answer: [CLS]."""
NO_ANSWER = "(no answer)"
REFERENCE, OUTPUT = "reference", "output"
"""Kinds of marked answers in a report."""
MAX_FIRST_WORDS, OTHER_WORDS = 10, "…"
ANSWERABLE, UNANSWERABLE = "answerable", "unanswerable"
"""The labels of a run: the second one is there if some training questions have no answer."""


class AnsweringRecipe(LabelledRecipe):
    """The recipe of a model that answers questions about a text."""

    fields: ClassVar[Fields] = QUESTIONS
    defaults = LabelledRecipe.defaults | {"task": "answering", "training.monitor": "f1"}
    monitors = ("loss", "exact", "f1")
    data: AnsweringDataSettings

    @property
    def has_attention(self) -> bool:
        """The head reads every token, so attention pooling is not used."""
        return self.model.has_attention and not is_recurrent(self)


class AnsweringChecks(LabelledChecks["Answering"]):
    """Hooks for answers in a text."""

    long_inputs = "read in windows"
    label_checks = ("unseen",)
    weights_without_gradient = ("head.bias",)

    def label_values(self, example: Example) -> Sequence[str | float]:
        return [ANSWERABLE if example["answers"] else UNANSWERABLE] if "answers" in example else []

    def expected_loss(self, task: "Answering", batch: Batch) -> ExpectedLoss:
        return ExpectedLoss(float(batch["source_lengths"].double().log().mean()), Message("ln of the number of tokens"))

    def overfit_bound(self, task: "Answering", batch: Batch) -> float:
        return 0.25 * self.expected_loss(task, batch).value


@dataclass(frozen=True)
class Answering(Labelled[AnsweringRecipe]):
    """{"question", "context"} -> {"answer", "start", "end", "score", "probability", "nbest"}.

    If some training questions have no answer, "no_answer_score" is the score of no answer minus that of the best one.

    The answer is context[start:end], empty if there is none. Probabilities are over all spans; the authors' program
    normalises over the twenty best.
    """

    threshold: float = 0.0
    """How much better than no answer a span must be."""
    nbest: int = 5
    """Number of answers in a prediction, best first."""
    show_nbest: bool = False
    """True if `regard predict` prints all of them."""

    name = "answering"
    exchange = Exchange("logits", "question-answering", QUESTION_ANSWERING)
    title = "the words of a text that answer a question"
    options = ("nbest", "threshold")
    optional_outputs = ("truncated", "no_answer_score")
    recipe_type = AnsweringRecipe
    pooled = False
    head_dropout = False
    outputs = 2
    checks = AnsweringChecks()
    shared_input = "context"
    empty: ClassVar[Mapping[str, object]] = {
        "answer": None, "start": None, "end": None, "score": None, "probability": None, "nbest": [],
    }  # fmt: skip

    @property
    def no_answer(self) -> bool:
        """True if a question may have no answer."""
        return UNANSWERABLE in self.labels

    def same_head(self, start: AnyTask) -> bool:
        return start.name == self.name

    @cached_property
    def tokenize(self) -> Callable[[str], Encoding]:
        """Tokenize a text; consecutive questions are mostly about the same few texts."""
        return lru_cache(CHUNK_EXAMPLES)(self.tokenizer.tokenize)

    def encode(self, example: Example) -> list[Input]:
        data = self.recipe.data
        whole, text = self.tokenizer.tokenize(example["question"]), self.tokenize(example["context"])
        question = whole[: data.max_question]
        start, between, end = map(len, self.tokenizer.frame)
        before, gold = start + len(question) + between, None
        for answer in example.get("answers", ())[:1]:  # the first right answer is learnt
            gold = token_span(text.spans, answer["start"], answer["start"] + len(answer["text"]))
        size = data.max_length - before - end
        inputs: list[Input] = []
        for first in window_starts(len(text), size, data.stride):
            window = text[first : first + size]
            encoded = self.tokenizer.build_input(question, window)
            labels = NO_ANSWER_SPAN if "answers" in example else (IGNORE, IGNORE)
            if gold is not None and first <= gold[0] and gold[1] < first + len(window):
                labels = (gold[0] - first + before, gold[1] - first + before)
            truncated = 0 if inputs else len(whole) - len(question)
            inputs.append(Input(encoded.ids, encoded.segments, labels, truncated))
        return inputs

    def criterion(self, logits: Tensor, batch: Batch) -> Loss:
        """Cross-entropy over the tokens of a window, of the first and of the last token of the answer, half of each."""
        layout, z = batch.source.layout, to_float32(logits)
        smoothing = self.recipe.training.label_smoothing
        labels = batch.labels.long()  # (E, 2); a packed batch has an empty input at its end
        labelled = labels[:, 0] != IGNORE
        first = layout.offsets[:-1] if isinstance(layout, Packed) else torch.arange(len(z), device=z.device) * z.size(1)
        index = first[: len(labels), None] + labels.clamp(min=0)
        rows = z.flatten(0, -2)
        log_z = log_totals(z, layout)[: len(labels)]
        nll = ((log_z - rows.gather(0, index.clamp(max=len(rows) - 1))).mean(dim=-1) * labelled).sum()
        if not smoothing:
            return Loss(nll, labelled.sum(), nll.detach())
        mean = (segment_sum(z, layout) / lengths(layout)[:, None].clamp(min=1))[: len(labels)]
        uniform = ((log_z - mean).mean(dim=-1) * labelled).sum()
        return Loss(nll + smoothing * (uniform - nll), labelled.sum(), nll.detach())

    def decode(self, example: Example, inputs: Sequence[Input], logits: Sequence[Tensor]) -> Prediction:
        data, context, before = self.recipe.data, example["context"], inputs[0].segments.index(1)
        spans = self.tokenize(context).spans
        firsts = window_starts(len(spans), data.max_length - before - 1, data.stride)
        windows = [ContextWindow(first, *row[before:-1].T) for first, row in zip(firsts, logits, strict=True)]
        scores = span_scores(windows, len(spans), data.max_answer)
        found = best_spans(scores, self.nbest)
        answers = [((spans[best.first][0], spans[best.last][1]), best.score) for best in found]
        every = scores.flatten()
        if self.no_answer or not answers:
            none = torch.stack([row[0].sum() for row in logits]).amin(0, keepdim=True) + self.threshold
            answers, every = [*answers, (NO_ANSWER_SPAN, float(none))], torch.cat([every, none])
        margin = {"no_answer_score": float(none) - self.threshold - found[0].score} if self.no_answer and found else {}
        log_z = float(every.logsumexp(0))
        nbest = [
            {"answer": context[start:end], "start": start, "end": end, "score": z, "probability": exp(z - log_z)}
            for (start, end), z in sorted(answers, key=lambda item: -item[1])[: self.nbest]
        ]
        return nbest[0] | {"nbest": nbest} | margin

    def configure(self, **options: object) -> Self:
        nbest, threshold = options.pop("nbest", None), options.pop("threshold", None)
        task = super().configure(**options)
        if threshold is not None:
            task = replace(task, threshold=check_number("threshold", threshold))
        return task if nbest is None else replace(task, nbest=check_count("nbest", nbest), show_nbest=True)

    def output(self, prediction: Prediction) -> Prediction:
        return {key: value for key, value in prediction.items() if key != "nbest" or self.show_nbest}

    def parse(self, value: str | Mapping[str, object], where: str = "the input") -> Example:
        """A line is question TAB context."""
        if isinstance(value, str) and value.strip():
            value = split_columns(value, ("question", "context"), 2, where, self.recipe.fields.json_form)
        return super().parse(value, where)

    def score(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, Score]:
        golds = [gold_texts(item) for item in examples]
        scores = answer_scores([item["answer"] for item in predictions], golds)
        margins: list[float] = [item["no_answer_score"] for item in predictions if "no_answer_score" in item]
        if len(margins) < len(predictions) or all(map(any, golds)):
            return scores
        best = [next((one["answer"] for one in item["nbest"] if one["answer"]), "") for item in predictions]
        right = [answer_f1(*pair) if any(pair[1]) else 0.0 for pair in zip(best, golds, strict=True)]
        threshold, value = best_threshold(margins, right, [any(gold) for gold in golds])
        signature = Message("with threshold = {threshold:.3f}, chosen on these questions", threshold=threshold)
        return scores | {"best f1": Score("best F1", 100 * value, signature)}

    def scorer(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> Scorer:
        return mean_scorer([self.correct(*pair) for pair in zip(examples, predictions, strict=True)])

    def correct(self, example: Example, prediction: Prediction) -> dict[str, float]:
        answer, gold = prediction["answer"], gold_texts(example)
        return {"exact match": answer_exact(answer, gold), "F1": answer_f1(answer, gold)}

    def describe(self, example: Example, prediction: Prediction) -> Description:
        """The text with the answer marked, and the best answers with their probabilities."""
        context, nbest = example["context"], prediction["nbest"]
        span = [(prediction["start"], prediction["end"], OUTPUT)] if prediction["answer"] else []
        shares = Shares([item["answer"] or NO_ANSWER for item in nbest], [item["probability"] for item in nbest])
        output: list[Block] = [Marked(context, span), shares]
        confidence = prediction["probability"]
        if "answers" not in example:
            return Description(example["question"], output, confidence=confidence)
        gold = [(answer["start"], answer["start"] + len(answer["text"]), REFERENCE) for answer in example["answers"]]
        reference = Marked(context, gold[:1], summary=gold_line(example)) if gold else NO_ANSWER
        correct = bool(answer_exact(prediction["answer"] or "", gold_texts(example)))
        return Description(example["question"], output, reference, correct, confidence)

    def tables(self, examples: Sequence[Example], predictions: Sequence[Prediction], page: bool) -> Tables:
        """Scores by the first word of the question, the rarer words in one row; on a page confident errors."""
        first = [(example["question"].lower().split() or [OTHER_WORDS])[0] for example in examples]
        common = [word for word, _ in Counter(first).most_common(MAX_FIRST_WORDS)]
        groups = [word if word in common else OTHER_WORDS for word in first]
        scores = [self.correct(*pair) for pair in zip(examples, predictions, strict=True)]
        rows: list[list[str | float]] = []
        for group in dict.fromkeys([*common, *groups]):
            items = [score for score, name in zip(scores, groups, strict=True) if name == group]
            means = [100 * sum(item[key] for item in items) / len(items) for key in ("exact match", "F1")]
            rows.append([group, len(items), *means])
        columns = {"first word": "text", "questions": "count", "exact match": "percent", "F1": "percent"}
        errors = (
            (example["question"], gold_line(example), item["answer"] or NO_ANSWER, item["probability"])
            for example, item in zip(examples, predictions, strict=True)
            if item["answer"] is not None and not answer_exact(item["answer"], gold_texts(example))
        )
        return [Table("questions by first word", columns, rows), *(confident_errors(errors) if page else ())]


def gold_texts(example: Example) -> list[str]:
    """The right answers of an example."""
    return [answer["text"] for answer in example.get("answers", ())]


def log_totals(z: Tensor, layout: Layout) -> Tensor:
    """log sum_i exp z_i over the tokens i of each input: (*, O) -> (B, O)."""
    top = segment_max(z.detach(), layout)
    z = z.masked_fill(~not_padding(layout)[..., None], -torch.inf)
    total = segment_sum((z - expand_segments(top, layout)).exp(), layout)
    return top + total.masked_fill(total == 0, 1).log()  # 0 for an input without tokens; otherwise at least 1


def gold_line(example: Example) -> str:
    """All right answers of an example on one line."""
    return " / ".join(dict.fromkeys(gold_texts(example))) or NO_ANSWER
