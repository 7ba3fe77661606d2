"""With the same weights, a tagger and a chooser of ours cost and say what Hugging Face's do, gradients included.

Nothing is fetched: their models are small and random.
"""

from typing import Any

import numpy as np
import pytest
import torch
from regard.tasks.understanding import Understanding
from torch import Tensor, nn

from regard.data.batch import IGNORE, Batch
from regard.data.inputs import Inputs
from regard.data.planning import Capacity
from regard.exchange.bert import huggingface_name
from regard.models.bert import Bert, BertSettings
from regard.models.text_encoder import EncoderWithHead
from regard.tasks.choice import Choice
from regard.tasks.tagging import Tagging
from regard.text.bert import SPECIALS, BertTokenizer

pytestmark = pytest.mark.filterwarnings("ignore")  # transformers' own deprecations are not ours to mend
VOCABULARY = BertTokenizer([*SPECIALS, *"abcdefgh", *(f"##{letter}" for letter in "abcdefgh")])
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


def theirs(kind: str, labels: int) -> Any:
    """A model of theirs in 64 bits whose every weight is far from where it began."""
    import transformers

    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=len(VOCABULARY), hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=24,
        max_position_embeddings=16, num_labels=labels, attn_implementation="eager",
    )  # fmt: skip
    model = getattr(transformers, kind)(config).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model


def name_there(name: str) -> str:
    part, _, rest = name.partition(".")
    return f"classifier.{rest}" if part == "head" else huggingface_name(f"bert.{rest}")


def ours(other: Any, task: Understanding) -> EncoderWithHead:
    model = (
        EncoderWithHead(Bert(SETTINGS, len(VOCABULARY)), task.outputs, task.pooled, SETTINGS.dropout).double().eval()
    )
    there = other.state_dict()
    known = {name: there.get(name_there(name), tensor) for name, tensor in model.state_dict().items()}
    assert {name for name in known if name_there(name) not in there} <= {"encoder.pooler.weight", "encoder.pooler.bias"}
    model.load_state_dict(known)
    return model


def of_each_layout(inputs: Inputs) -> list[Batch]:
    everything = np.arange(len(inputs))
    return [inputs.pad(everything), inputs.pack(everything, Capacity((120,), 5))]


def compare(task: Understanding, other: Any, batch: Batch, theirs: Any) -> None:
    """`theirs` is their loss, a mean, already gone back from."""
    model = ours(other, task)
    loss = task.loss(model, batch)
    mean = loss.sum / loss.count
    mean.backward()
    torch.testing.assert_close(mean.double(), theirs.double(), atol=1e-5, rtol=1e-5)
    gradients = {name: parameter.grad for name, parameter in other.named_parameters()}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            torch.testing.assert_close(parameter.grad, gradients[name_there(name)], atol=1e-5, rtol=1e-4, msg=name)


def rectangle(task: Understanding, examples: list[dict[str, Any]]) -> tuple[Tensor, Tensor, Tensor, list[Any]]:
    """ids, segments, their attention mask and labels, filled up with nothing of ours."""
    read = [each for example in examples for each in task.encode(example)]
    size = max(len(each.ids) for each in read)
    ids, segments = filled([each.ids for each in read], size), filled([each.segments for each in read], size)
    mask = filled([[1] * len(each.ids) for each in read], size)
    return ids, segments, mask, [list(each.labels) + [IGNORE] * (size - len(each.labels)) for each in read]


def filled(rows: list[list[int]], size: int) -> Tensor:
    return torch.tensor([[*row, *[0] * (size - len(row))] for row in rows])


def test_tagging() -> None:
    task = Tagging(VOCABULARY, ("B-X", "I-X", "O"), max_length=16, constrained=False)
    other = theirs("BertForTokenClassification", 3)
    ids, segments, mask, labels = rectangle(task, TAGGED)
    expected = other(input_ids=ids, token_type_ids=segments, attention_mask=mask, labels=torch.tensor(labels).long())
    expected.loss.backward()
    for batch in of_each_layout(Inputs.of(task.inputs(TAGGED), task.per_token)):
        compare(task, other, batch, expected.loss.detach())
    said = task.predict(ours(other, task), TAGGED)
    for each, row, asked in zip(said, expected.logits, labels, strict=True):
        best = [task.labels[number] for number, label in zip(row.argmax(-1), asked, strict=True) if label != IGNORE]
        assert each["tags"] == best


def test_choice() -> None:
    task = Choice(VOCABULARY, max_length=16)
    other = theirs("BertForMultipleChoice", 1)
    ids, segments, mask = (each.view(2, 3, -1) for each in rectangle(task, CHOICES)[:3])
    labels = torch.tensor([example["label"] for example in CHOICES])
    expected = other(input_ids=ids, token_type_ids=segments, attention_mask=mask, labels=labels)
    expected.loss.backward()
    for batch in of_each_layout(Inputs.of(task.inputs(CHOICES), task.per_token)):
        compare(task, other, batch, expected.loss.detach())
    said = torch.tensor([each["probabilities"] for each in task.predict(ours(other, task), CHOICES)])
    torch.testing.assert_close(said.double(), expected.logits.detach().softmax(-1), atol=1e-5, rtol=1e-4)
