"""Choices are compared with those of their own example and with no others, however many there are."""

from typing import Any

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter
from tests.tasks.make import changed, make_task, validation
from tests.tiny import training_inputs
from torch import Tensor

from regard.data.batch import IGNORE
from regard.data.inputs import Inputs
from regard.data.planning import Capacity
from regard.models.text_encoder import EncoderSettings, EncoderWithHead, build_encoder
from regard.tasks.choice import Choice, choice_loss, gather_choices
from regard.text.bert import SPECIALS, BertTokenizer

VOCABULARY = BertTokenizer([*SPECIALS, *"abcdefgh", *(f"##{letter}" for letter in "abcdefgh"), "."])
TASK = make_task(Choice, VOCABULARY, settings={"data.max_length": 12})
EXAMPLES: list[dict[str, Any]] = [
    {"text": "abc d", "choices": ["a", "bc de", "f"], "label": 1},
    {"text": "ab", "choices": ["c d e f g h", "h"], "label": 0},
    {"text": "a b c d e f g h", "choices": ["a b c d e f", "b", "c", "d."], "label": 3},
    {"text": "h g", "choices": ["f", "e"]},
]


def model(kind: str) -> EncoderWithHead:
    torch.manual_seed(0)
    shape = dict(kind=kind, d_model=16) | ({} if kind == "recurrent" else dict(num_heads=2, d_ff=24, layers=2))
    reader = build_encoder(TypeAdapter(EncoderSettings).validate_python(shape), len(VOCABULARY))
    made = EncoderWithHead(reader, TASK.outputs, TASK.pooled, 0.0).eval()
    torch.nn.init.normal_(made.head.weight)
    return made


def one_by_one(model: EncoderWithHead, smoothing: float) -> Tensor:
    """The same for each example alone."""
    total = torch.zeros(())
    for example in EXAMPLES[:3]:
        batch = Inputs.of([TASK.encode(example)], False).pad(np.arange(1))
        log_p = model(batch.source, batch["segments"])[:, 0].log_softmax(0)
        total = total - (1 - smoothing) * log_p[example["label"]] - smoothing * log_p.mean()
    return total


def test_each_choice_is_read_with_the_text_before_it() -> None:
    one, two, three = TASK.encode(EXAMPLES[0])
    assert " ".join(VOCABULARY.tokens(two.ids)) == "[CLS] a ##b ##c d [SEP] b ##c d ##e [SEP]"
    assert two.segments == [0] * 6 + [1] * 5
    assert (list(one.labels), list(two.labels), list(three.labels)) == ([1], [], [])
    assert [list(each.labels) for each in TASK.encode(EXAMPLES[3])] == [[IGNORE], []]
    long = TASK.encode(EXAMPLES[2])[0]
    read = " ".join(VOCABULARY.tokens(long.ids))
    assert read == "[CLS] a b c d e [SEP] a b c d [SEP]", "the longer loses its end"


def test_the_inputs_of_an_example_stay_together() -> None:
    inputs = Inputs.of(training_inputs(TASK, EXAMPLES), TASK.per_token)
    assert len(inputs) == 4 and inputs.label_counts.tolist() == [1] * 4
    batch = inputs.pad(np.array([1, 0]))
    assert batch["input_index"].tolist() == [[0, 1, -1, -1], [2, 3, 4, -1]] and batch.labels.tolist() == [[0], [1]]
    f = gather_choices(torch.arange(5.0)[:, None], batch["input_index"])
    p = f.softmax(1)
    assert f[1, :3].tolist() == [2, 3, 4] and p[0, 2:].tolist() == [0, 0] and p[1, 3] == 0
    torch.testing.assert_close(p[0, :2], torch.tensor([0.0, 1.0]).softmax(0))
    nobody = gather_choices(torch.ones(1, 1), torch.full((1, 3), -1))
    assert nobody.log_softmax(1).isfinite().all(), "room in a stream that no example takes"


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("kind", ["bert", "transformer", "recurrent"])
def test_the_cost_is_that_of_each_example_alone_padded_and_packed(kind: str, smoothing: float) -> None:
    task, inputs = changed(TASK, training__label_smoothing=smoothing), Inputs.of(training_inputs(TASK, EXAMPLES), False)
    everything, gradients = np.array([2, 3, 0, 1]), []
    reference = model(kind)
    one_by_one(reference, smoothing).backward()
    expected = {name: p.grad for name, p in reference.named_parameters() if p.grad is not None}
    batches = [inputs.pad(everything)] + ([] if kind == "recurrent" else [inputs.pack(everything, Capacity((200,), 7))])
    for batch in batches:
        chooser = model(kind)
        loss = task.loss(chooser, batch)
        loss.sum.backward()
        assert int(loss.count) == 3
        torch.testing.assert_close(loss.sum, one_by_one(chooser, smoothing))
        torch.testing.assert_close(loss.nll, one_by_one(chooser, 0.0).detach())
        gradients.append({name: p.grad for name, p in chooser.named_parameters() if p.grad is not None})
    for found in gradients:
        assert found.keys() == expected.keys()
        for name, gradient in expected.items():
            torch.testing.assert_close(found[name], gradient, atol=1e-5, rtol=1e-4, msg=name)


def test_adding_a_number_to_all_choices_of_an_example_changes_nothing() -> None:
    torch.manual_seed(1)
    f, real = torch.randn(3, 4), torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]]).bool()
    f = f.masked_fill(~real, torch.finfo(torch.float32).min)
    labels = torch.tensor([3.0, 0.0, IGNORE])
    before = choice_loss(f, real, labels, 0.1)
    after = choice_loss(torch.where(real, f + torch.tensor([[5.0], [-3.0], [1.0]]), f), real, labels, 0.1)
    torch.testing.assert_close(before.sum, after.sum)
    assert int(before.count) == 2


@pytest.mark.parametrize("packed", [True, False])
def test_asking_for_nothing_costs_nothing_and_nothing_is_looked_at(packed: bool) -> None:
    inputs = Inputs.of(training_inputs(TASK, EXAMPLES), False)
    batch = inputs.pack(np.arange(4), Capacity((64,), 6)) if packed else inputs.pad(np.arange(4))
    rows = 6 * 4 + 1 if packed else 11
    logits = torch.randn(rows, 1, requires_grad=True)
    loss = TASK.criterion(logits, batch.without_labels(labels=IGNORE))
    loss.sum.backward()
    assert (float(loss.sum.detach()), int(loss.count)) == (0.0, 0) and logits.grad is not None and not logits.grad.any()
    # Tensors without content say no number to anybody who asks: a recorded step may not ask either.
    assert TASK.criterion(logits.to("meta"), batch.to("meta")).sum.is_meta


def test_the_likeliest_choice_is_said() -> None:
    logits = [torch.tensor([value]) for value in (0.0, 1.0, -1.0)]
    said = TASK.decode(EXAMPLES[0], TASK.encode(EXAMPLES[0]), logits)
    assert said["label"] == 1 and said["choice"] == "bc de"
    assert said["probabilities"] == pytest.approx(torch.tensor([0.0, 1.0, -1.0]).softmax(0).tolist())
    others = [{"label": 1}, {"label": 2}]
    assert TASK.score(EXAMPLES[1:3], others)["accuracy"].value == 0
    assert TASK.score(EXAMPLES[:2], [said, *others[:1]])["accuracy"].value == 50
    assert TASK.describe(EXAMPLES[0], said).lines() == ("abc d", "bc de", "bc de (67%)")
    assert TASK.describe(EXAMPLES[3], {"label": 0, "choice": "f", "probabilities": [0.9, 0.1]}).lines() == (
        "h g",
        "",
        "f (90%)",
    )


@pytest.mark.parametrize("kind", ["bert", "recurrent"])
def test_predictions_come_in_order_and_do_not_depend_on_company(kind: str) -> None:
    chooser = model(kind)
    together = list(TASK.predict(chooser, EXAMPLES))
    for example, said in zip(EXAMPLES, together, strict=True):
        alone = next(TASK.predict(chooser, [example]))
        assert said["label"] == alone["label"] and said["choice"] == example["choices"][said["label"]]
        assert said["probabilities"] == pytest.approx(alone["probabilities"], abs=1e-5)
        assert len(said["probabilities"]) == len(example["choices"])
    result = TASK.validate(chooser, validation(examples=EXAMPLES[:3]))
    assert result.metrics["loss"] == pytest.approx(float(one_by_one(chooser, 0.0).detach()) / 3, rel=1e-4)
    right = sum(said["label"] == each["label"] for each, said in zip(EXAMPLES[:3], together, strict=False))
    assert result.metrics["accuracy"] == pytest.approx(100 * right / 3)
