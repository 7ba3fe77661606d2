"""Questions: their windows, what they cost in either layout, and what is answered."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.tasks.make import changed, make_task, validation
from tests.tiny import training_inputs
from torch import Tensor

from regard.attention.layouts import Padded
from regard.data.batch import IGNORE, Batch
from regard.data.inputs import Input, Inputs
from regard.data.planning import Capacity
from regard.models.bert import Bert, BertSettings
from regard.models.text_encoder import EncoderWithHead
from regard.tasks.answering import Answering, log_totals
from regard.text.bert import SPECIALS, BertTokenizer

LETTERS = "abcdefghijklmnopqrstuvwxyz"
VOCABULARY = BertTokenizer([*SPECIALS, *LETTERS, *(f"##{letter}" for letter in LETTERS), "paris", "rome", ".", "?"])
SETTINGS = {"data.max_length": 16, "data.max_question": 3, "data.stride": 3, "data.max_answer": 3}
TASK = changed(make_task(Answering, VOCABULARY, settings=SETTINGS), data__max_length=12)  # smaller than a recipe allows
NO_ANSWER = replace(TASK, labels=("answerable", "unanswerable"))
LONG = "a b c d e f g h i j k l m n o p q r s t"


def asked(context: str, answer: str | None = None, question: str = "x y") -> dict[str, Any]:
    """A question with its one answer; none if it is ""; not labelled if it is None."""
    example: dict[str, Any] = {"question": question, "context": context}
    if answer is not None:
        example["answers"] = [{"text": answer, "start": context.index(answer)}] if answer else []
    return example


def certain(inputs: list[Input], strength: float = 50.0) -> list[Tensor]:
    """Logits of one who knows where every window's labels are."""
    generator = torch.Generator().manual_seed(3)
    logits = [torch.randn(len(each.ids), 2, generator=generator) for each in inputs]
    for each, row in zip(inputs, logits, strict=True):
        start, end = (int(label) for label in each.labels)
        row[start, 0] += strength
        row[end, 1] += strength
    return logits


def answered(task: Answering, example: dict[str, Any]) -> dict[str, Any]:
    inputs = task.encode(example)
    return task.decode(example, inputs, certain(inputs))


def test_windows_are_question_and_part_of_the_text() -> None:
    inputs = TASK.encode(asked(LONG, "h i"))
    pieces = [" ".join(VOCABULARY.tokens(each.ids)) for each in inputs]
    assert pieces[:3] == [
        "[CLS] x y [SEP] a b c d e f g [SEP]",
        "[CLS] x y [SEP] d e f g h i j [SEP]",
        "[CLS] x y [SEP] g h i j k l m [SEP]",
    ]
    assert pieces[-1] == "[CLS] x y [SEP] p q r s t [SEP]"
    assert [tuple(each.labels) for each in inputs] == [(0, 0), (8, 9), (5, 6), (0, 0), (0, 0), (0, 0)]
    assert all(each.segments == [0] * 4 + [1] * (len(each.ids) - 4) for each in inputs)


def test_a_question_is_cut_and_leaves_room() -> None:
    [found] = TASK.encode(asked("a b", "b", question="p q r s t"))
    assert VOCABULARY.tokens(found.ids) == ["[CLS]", "p", "q", "r", "[SEP]", "a", "b", "[SEP]"]
    assert tuple(found.labels) == (6, 6)


def test_less_than_a_piece_is_widened_to_it() -> None:
    example = {"question": "x", "context": "a paris b", "answers": [{"text": "ari", "start": 3}]}
    [found] = TASK.encode(example)
    assert tuple(found.labels) == (4, 4)
    assert answered(TASK, example)["answer"] == "paris"


@pytest.mark.parametrize("labels", [{}, {"answers": []}])
def test_no_answer_is_the_first_token_and_no_label_asks_nothing(labels: dict[str, Any]) -> None:
    found = TASK.encode({"question": "x", "context": LONG} | labels)
    assert {tuple(each.labels) for each in found} == {(0, 0) if labels else (IGNORE, IGNORE)}
    inputs = Inputs.of([[each] for each in found], per_token=False)
    batch = inputs.pad(np.arange(len(found)))
    assert int(TASK.criterion(torch.randn(*batch["source"].shape, 2), batch).count) == (len(found) if labels else 0)


@pytest.mark.parametrize(
    ("context", "answer"),
    [
        (LONG, "a"),
        (LONG, "t"),
        (LONG, "g h i"),
        ("Rome, paris.", "Rome"),
        ("  abc  Üno  ", "Üno"),
        ("paris", "paris"),
    ],
)
def test_who_knows_the_places_gives_the_answer(context: str, answer: str) -> None:
    for task in (TASK, NO_ANSWER):
        said = answered(task, asked(context, answer))
        assert said["answer"] == answer == context[said["start"] : said["end"]]
        assert said["probability"] > 0.99
        assert all(each["answer"] == context[each["start"] : each["end"]] for each in said["nbest"])


def test_no_answer_is_said_where_it_may_be() -> None:
    example = asked(LONG, "")
    said = answered(NO_ANSWER, example)
    assert (said["answer"], said["start"], said["end"]) == ("", 0, 0) and said["probability"] > 0.99
    assert answered(TASK, example)["answer"] != ""


def test_the_window_least_sure_of_no_answer_decides_and_the_threshold_moves_it() -> None:
    example = asked("a b c d e f g h i j", "")
    inputs = TASK.encode(example)
    logits = [torch.zeros(len(each.ids), 2) for each in inputs]
    logits[0][0], logits[1][0] = 4.0, 1.0  # none: 8 in one window, 2 in the other
    logits[1][5] = 1.5  # an answer worth 3
    for threshold, expected in ((0.0, "e"), (0.9, "e"), (1.1, "")):
        task = replace(NO_ANSWER, threshold=threshold)
        assert task.decode(example, inputs, logits)["answer"] == expected


def test_probabilities_are_those_among_all_that_could_be_said() -> None:
    example, generator = asked(LONG), torch.Generator().manual_seed(5)
    inputs = TASK.encode(example)
    logits = [torch.randn(len(each.ids), 2, generator=generator) for each in inputs]
    scores: dict[tuple[int, int], float] = {}
    for number, row in enumerate(logits):
        for i in range(4, len(row) - 1):
            for j in range(i, min(i + 3, len(row) - 1)):
                place = (i - 4 + 3 * number, j - 4 + 3 * number)
                scores[place] = max(scores.get(place, -math.inf), float(row[i, 0] + row[j, 1]))
    none = min(float(row[0].sum()) for row in logits)
    for task, others in ((TASK, []), (replace(NO_ANSWER, nbest=1000), [none])):
        said = task.decode(example, inputs, logits)
        total = sum(math.exp(score) for score in [*scores.values(), *others])
        ranked = sorted([*scores.values(), *others], reverse=True)[: task.nbest]
        assert [each["score"] for each in said["nbest"]] == pytest.approx(ranked)
        assert [each["probability"] for each in said["nbest"]] == pytest.approx([math.exp(s) / total for s in ranked])
        (first, last), _ = max(scores.items(), key=lambda item: item[1])
        best = next(each for each in said["nbest"] if each["answer"])
        assert best["answer"] == LONG[2 * first : 2 * last + 1]
    assert sum(each["probability"] for each in said["nbest"]) == pytest.approx(1)


@pytest.mark.parametrize("context", ["", "   ", "\u200d"])
@pytest.mark.parametrize("no_answer", [False, True])
def test_a_text_of_nothing_answers_nothing(context: str, no_answer: bool) -> None:
    said = answered(NO_ANSWER if no_answer else TASK, asked(context, ""))
    assert said["answer"] == "" and said["probability"] == pytest.approx(1)


def examples() -> list[dict[str, Any]]:
    found = [asked(LONG, "h i"), asked("paris rome a", "rome"), asked("b c", ""), asked(LONG[:21], "a", "x y z")]
    return [*found, asked("q", "q", "w")]


def batches(task: Answering) -> tuple[Batch, Batch]:
    """The same inputs padded, and packed with room for more."""
    inputs = Inputs.of(training_inputs(task, examples()), task.per_token)
    everything = np.arange(len(inputs))
    return inputs.pad(everything), inputs.pack(everything, Capacity((300,), len(inputs) + 3))


def test_padded_and_packed_cost_what_cross_entropy_over_each_window_costs() -> None:
    for smoothing in (0.0, 0.2):
        task = changed(TASK, training__label_smoothing=smoothing)
        padded, packed = batches(task)
        lengths = padded["source_lengths"].tolist()
        generator = torch.Generator().manual_seed(1)
        rows = [4 * torch.randn(size, 2, dtype=torch.float64, generator=generator) for size in lengths]
        rectangle = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=900.0).requires_grad_()
        filler = torch.full((packed["source"].numel() - sum(lengths), 2), 900.0, dtype=torch.float64)
        stream = torch.cat([*rows, filler]).requires_grad_()
        leaves = [row.clone().requires_grad_() for row in rows]
        expected = torch.stack([
            F.cross_entropy(row.T, labels.long(), label_smoothing=smoothing)
            for row, labels in zip(leaves, padded.labels, strict=True)
        ]).sum()  # fmt: skip
        expected.backward()
        for logits, batch in ((rectangle, padded), (stream, packed)):
            loss = task.criterion(logits, batch)
            loss.sum.backward()
            torch.testing.assert_close(loss.sum, expected)
            assert int(loss.count) == len(rows)
            assert torch.equal(loss.nll, loss.sum.detach()) == (smoothing == 0)
        assert rectangle.grad is not None and stream.grad is not None
        gradients = [leaf.grad for leaf in leaves]
        torch.testing.assert_close(stream.grad[: sum(lengths)], torch.cat(gradients))  # type: ignore[arg-type]
        torch.testing.assert_close(rectangle.grad, torch.nn.utils.rnn.pad_sequence(gradients, batch_first=True))  # type: ignore[arg-type]
        assert not stream.grad[sum(lengths) :].any()


def test_a_silenced_batch_costs_nothing() -> None:
    for batch in batches(TASK):
        logits = torch.randn(*batch["source"].shape, 2, requires_grad=True)
        loss = TASK.criterion(logits, batch.without_labels(labels=IGNORE))
        loss.sum.backward()
        assert float(loss.nll) == 0 and int(loss.count) == 0
        assert logits.grad is not None and not logits.grad.any()


def test_half_precision_costs_nearly_the_same() -> None:
    padded, _ = batches(TASK)
    logits = torch.randn(*padded["source"].shape, 2, generator=torch.Generator().manual_seed(2))
    full, half = (TASK.criterion(x, padded).sum for x in (logits, logits.bfloat16()))
    assert half.dtype == torch.float32
    torch.testing.assert_close(full, half, rtol=1e-2, atol=1e-2)


def model() -> EncoderWithHead:
    torch.manual_seed(7)
    settings = BertSettings(size="tiny", d_model=16, num_heads=2, d_ff=16, max_positions=12)
    reader = Bert(settings, len(VOCABULARY))
    return EncoderWithHead(reader, TASK.outputs, TASK.pooled, 0.0).eval()


def test_answers_do_not_depend_on_what_is_asked_besides() -> None:
    reader = model()
    together = list(TASK.predict(reader, examples()))
    alone = [answer for example in examples() for answer in TASK.predict(reader, [example])]
    for one, other in zip(together, alone, strict=True):
        assert (one["start"], one["end"]) == (other["start"], other["end"])
        assert one["score"] == pytest.approx(other["score"], abs=1e-5)


def test_validation_scores_as_squad_does_and_shows_a_few() -> None:
    task = changed(NO_ANSWER, training__samples=3)
    found = task.validate(model(), validation(examples=examples()))
    assert {"loss", "exact", "f1", "exact unanswerable"} <= found.metrics.keys()
    assert [sample[1] for sample in found.samples] == ["h i", "rome", "(no answer)"]
    said = [{"answer": text} for text in ("h i", "rome b", "", "c", "q")]
    scores = task.score(examples(), said)
    assert scores["exact"].value == pytest.approx(60)
    assert scores["f1"].value == pytest.approx(100 * (3 + 2 / 3) / 5)


def test_totals_and_their_gradient_are_those_of_torch() -> None:
    """Inputs of several tokens, one and none, whose total is 0 by definition."""
    lengths = torch.tensor([4, 1, 0])
    z = torch.randn(3, 4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True)
    rows = [z[b, :length].logsumexp(0) if length else z[b, 0] * 0 for b, length in enumerate(lengths.tolist())]
    expected, totals = torch.stack(rows), log_totals(z, Padded(lengths, 4))
    torch.testing.assert_close(totals, expected)
    mix = torch.tensor([[1.0, -2.0], [3.0, 0.5], [1.0, 1.0]], dtype=torch.float64)
    found, slopes = (torch.autograd.grad((value * mix).sum(), z)[0] for value in (totals, expected))
    torch.testing.assert_close(found, slopes)


def test_alternatives_are_shown_if_asked_for() -> None:
    prediction = {"answer": "a", "nbest": [{"answer": "a"}, {"answer": "b"}]}
    assert TASK.configure() is TASK and TASK.output(prediction) == {"answer": "a"}
    asked_for = TASK.configure(nbest=2)
    assert asked_for.nbest == 2 and asked_for.output(prediction) == prediction


def test_guessing_costs_the_logarithm_of_the_number_of_tokens() -> None:
    """The doctor and `training.stop_if_not_learning` compare with it: a quarter is overfitted, 1 is no better."""
    inputs = Inputs.of(training_inputs(TASK, [asked("a b c d e", "b"), asked("a b", "a")]), TASK.per_token)
    batch = inputs.pad(np.arange(len(inputs)))
    guessing = float(np.log(batch["source_lengths"].numpy()).mean())
    assert TASK.checks.expected_loss(TASK, batch).value == pytest.approx(guessing)
    assert TASK.checks.overfit_bound(TASK, batch) == pytest.approx(guessing / 4)
    baseline = TASK.checks.baseline(TASK, inputs, inputs, [])
    assert baseline.metric == "loss" and baseline.value == pytest.approx(guessing)
    assert baseline.is_beaten({"loss": guessing / 2}) and not baseline.is_beaten({"loss": guessing})
