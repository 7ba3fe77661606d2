"""Tagging and choice: losses, gradients and predictions equal those of Hugging Face transformers.

Nothing is downloaded: the reference models are small and random.
"""

from typing import Any

import numpy as np
import pytest
import torch
from tests.tasks.make import make_task
from tests.tiny import training_inputs
from torch import Tensor, nn

from regard.data.batch import IGNORE, Batch
from regard.data.inputs import Inputs
from regard.data.planning import Capacity
from regard.exchange.bert import huggingface_name
from regard.models.bert import Bert, BertSettings
from regard.models.text_encoder import EncoderWithHead
from regard.tasks.choice import Choice
from regard.tasks.labelled import Labelled
from regard.tasks.tagging import Tagging
from regard.text.bert import SPECIALS, BertTokenizer

pytestmark = pytest.mark.filterwarnings("ignore")  # deprecations inside transformers
TOKENIZER = BertTokenizer([*SPECIALS, *"abcdefgh", *(f"##{letter}" for letter in "abcdefgh")])
SETTINGS = BertSettings(size="tiny", d_model=16, num_heads=4, d_ff=24, layers=2, max_positions=16)
TAGGED = [
    {"words": ["abc", "d", "efgh", "ab"], "tags": ["B-X", "O", "B-X", "I-X"]},
    {"words": ["a", "cd"], "tags": ["O", "B-X"]},
    {"words": ["hg", "e"], "tags": ["O", "O"]},
]
CHOICES = [
    {"text": "ab c", "choices": ["d", "ef gh a", "hh"], "label": 2},
    {"text": "h", "choices": ["a b", "c", "cde"], "label": 0},
]


def reference_model(kind: str, labels: int) -> Any:
    """A model of transformers in 64 bits with random weights, also in biases and norms."""
    import transformers

    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=len(TOKENIZER), hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=24,
        max_position_embeddings=16, num_labels=labels, attn_implementation="eager",
    )  # fmt: skip
    model = getattr(transformers, kind)(config).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model


def reference_name(name: str) -> str:
    """The name of a weight in the reference model."""
    module, _, weight = name.partition(".")
    return f"classifier.{weight}" if module == "head" else huggingface_name(f"bert.{weight}")


def with_weights_of(reference: Any, task: Labelled[Any]) -> EncoderWithHead:
    model = EncoderWithHead(Bert(SETTINGS, len(TOKENIZER)), task.outputs, task.pooled, SETTINGS.dropout).double().eval()
    weights, state = reference.state_dict(), model.state_dict()
    missing = {name for name in state if reference_name(name) not in weights}
    assert missing <= {"encoder.pooler.weight", "encoder.pooler.bias"}
    model.load_state_dict({name: weights.get(reference_name(name), tensor) for name, tensor in state.items()})
    return model


def padded_and_packed(task: Labelled[Any], examples: list[dict[str, Any]]) -> list[Batch]:
    inputs = Inputs.of(training_inputs(task, examples), task.per_token)
    indices = np.arange(len(inputs))
    return [inputs.pad(indices), inputs.pack(indices, Capacity((120,), 5))]


def compare(task: Labelled[Any], reference: Any, batch: Batch, expected: Tensor) -> None:
    """Compare the mean loss with `expected`, and the gradients with those of the reference model."""
    model = with_weights_of(reference, task)
    loss = task.loss(model, batch)
    mean = loss.sum / loss.count
    mean.backward()
    torch.testing.assert_close(mean.double(), expected.double(), atol=1e-5, rtol=1e-5)
    gradients = {name: parameter.grad for name, parameter in reference.named_parameters()}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            torch.testing.assert_close(parameter.grad, gradients[reference_name(name)], atol=1e-5, rtol=1e-4, msg=name)


def rectangle(task: Labelled[Any], examples: list[dict[str, Any]]) -> tuple[Tensor, Tensor, Tensor, list[Any]]:
    """Token ids, segments, attention mask and labels, padded by this test."""
    inputs = [item for example in examples for item in task.encode(example)]
    size = max(len(item.ids) for item in inputs)
    ids, segments = padded([item.ids for item in inputs], size), padded([item.segments for item in inputs], size)
    mask = padded([[1] * len(item.ids) for item in inputs], size)
    return ids, segments, mask, [list(item.labels) + [IGNORE] * (size - len(item.labels)) for item in inputs]


def padded(rows: list[list[int]], size: int) -> Tensor:
    return torch.tensor([[*row, *[0] * (size - len(row))] for row in rows])


def test_tagging() -> None:
    task = make_task(Tagging, TOKENIZER, ("B-X", "I-X", "O"), settings={"data.max_length": 16}, constrained=False)
    reference = reference_model("BertForTokenClassification", 3)
    ids, segments, mask, labels = rectangle(task, TAGGED)
    expected = reference(
        input_ids=ids, token_type_ids=segments, attention_mask=mask, labels=torch.tensor(labels).long()
    )
    expected.loss.backward()
    for batch in padded_and_packed(task, TAGGED):
        compare(task, reference, batch, expected.loss.detach())
    predictions = task.predict(with_weights_of(reference, task), TAGGED)
    for prediction, row, targets in zip(predictions, expected.logits, labels, strict=True):
        best = [task.labels[index] for index, label in zip(row.argmax(-1), targets, strict=True) if label != IGNORE]
        assert prediction["tags"] == best


def test_choice() -> None:
    task = make_task(Choice, TOKENIZER, settings={"data.max_length": 16})
    reference = reference_model("BertForMultipleChoice", 1)
    ids, segments, mask = (tensor.view(2, 3, -1) for tensor in rectangle(task, CHOICES)[:3])
    labels = torch.tensor([example["label"] for example in CHOICES])
    expected = reference(input_ids=ids, token_type_ids=segments, attention_mask=mask, labels=labels)
    expected.loss.backward()
    for batch in padded_and_packed(task, CHOICES):
        compare(task, reference, batch, expected.loss.detach())
    predictions = task.predict(with_weights_of(reference, task), CHOICES)
    probabilities = torch.tensor([prediction["probabilities"] for prediction in predictions])
    torch.testing.assert_close(probabilities.double(), expected.logits.detach().softmax(-1), atol=1e-5, rtol=1e-4)
