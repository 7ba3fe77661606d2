"""With the same weights, finding answers costs here what it costs in Hugging Face's BERT; windows are cut alike.

Nothing is fetched: their model is small and random.
"""

from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.processors import BertProcessing
from torch import nn

from regard.data.batch import Batch
from regard.data.inputs import Inputs
from regard.data.planning import Capacity
from regard.exchange.bert import huggingface_name
from regard.models.bert import Bert, BertSettings
from regard.models.text_encoder import EncoderWithHead
from regard.tasks.answering import Answering
from regard.text.bert import SPECIALS, BertTokenizer

pytestmark = pytest.mark.filterwarnings("ignore")  # transformers' own deprecations are not ours to mend
VOCABULARY = BertTokenizer([*SPECIALS, *"abcdefgh", *(f"##{letter}" for letter in "abcdefgh")])
SETTINGS = BertSettings(size="tiny", d_model=16, num_heads=4, d_ff=24, layers=2, max_positions=16)
TASK = Answering(VOCABULARY, max_length=14, max_question=4, stride=3)
EXAMPLES: list[dict[str, Any]] = [
    {"question": "ab c", "context": "a b c defg h a b cab h g f", "answers": [{"text": "defg h", "start": 6}]},
    {"question": "h", "context": "c d e", "answers": [{"text": "e", "start": 4}]},
    {"question": "a b", "context": "ab cd", "answers": []},
]


def theirs() -> Any:
    """A model of theirs in 64 bits whose every weight is far from where it began."""
    import transformers

    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=len(VOCABULARY), hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=24,
        max_position_embeddings=16, attn_implementation="eager",
    )  # fmt: skip
    model = transformers.BertForQuestionAnswering(config).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model


def name_there(name: str) -> str:
    part, _, rest = name.partition(".")
    return f"qa_outputs.{rest}" if part == "head" else huggingface_name(f"bert.{rest}")


def ours(other: Any) -> EncoderWithHead:
    model = EncoderWithHead(Bert(SETTINGS, len(VOCABULARY)), TASK.outputs, TASK.pooled, 0.0).double().eval()
    there = other.state_dict()
    known = {name: there.get(name_there(name), tensor) for name, tensor in model.state_dict().items()}
    assert {name for name in known if name_there(name) not in there} == {"encoder.pooler.weight", "encoder.pooler.bias"}
    model.load_state_dict(known)
    return model


def of_each_layout() -> list[Batch]:
    inputs = Inputs.of(TASK.inputs(EXAMPLES), TASK.per_token)
    everything = np.arange(len(inputs))
    return [inputs.pad(everything), inputs.pack(everything, Capacity((120,), 9))]


def test_loss_and_gradients_in_either_layout() -> None:
    other, batches = theirs(), of_each_layout()
    padded: Any = batches[0]
    mask = (torch.arange(padded["source"].size(1)) < padded["source_lengths"][:, None]).long()
    start, end = padded.labels.long().unbind(-1)
    assert int((start > 0).sum()) >= 3 and int((start == 0).sum()) >= 2  # answers, and windows without one
    shorter = padded["source_lengths"] < padded["source"].size(1)
    assert bool(shorter.any())
    said = other(input_ids=padded["source"], token_type_ids=padded["segments"], attention_mask=mask)
    # Theirs is softmax over the padding, too: to compare, nothing is said of it.
    hidden = (mask == 0).double() * -1e9
    costs = [nn.functional.cross_entropy(z + hidden, label) for z, label in
             ((said.start_logits, start), (said.end_logits, end))]  # fmt: skip
    expected = (costs[0] + costs[1]) / 2
    expected.backward()
    gradients = {name: parameter.grad for name, parameter in other.named_parameters()}
    for batch in batches:
        model = ours(other)
        loss = TASK.loss(model, batch)
        mean = loss.sum / loss.count
        mean.backward()
        torch.testing.assert_close(mean, expected, atol=1e-8, rtol=1e-8)
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                torch.testing.assert_close(parameter.grad, gradients[name_there(name)], atol=1e-8, rtol=1e-6, msg=name)


def test_their_own_loss_where_nothing_is_padded() -> None:
    other, inputs = theirs(), Inputs.of(TASK.inputs(EXAMPLES), TASK.per_token)
    for place in range(len(inputs)):
        batch = inputs.pad(np.array([place]))
        start, end = batch.labels.long().unbind(-1)
        said = other(
            input_ids=batch["source"], token_type_ids=batch["segments"], start_positions=start, end_positions=end
        )
        torch.testing.assert_close(TASK.loss(ours(other), batch).sum, said.loss, atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("stride", [1, 3, 6])
@pytest.mark.parametrize("letters", range(1, 24, 2))
def test_windows_are_cut_as_their_tokenizers_cut_them(letters: int, stride: int) -> None:
    tokenizer = Tokenizer.from_str(VOCABULARY.to_json())
    tokenizer.post_processor = BertProcessing(("[SEP]", VOCABULARY.sep), ("[CLS]", VOCABULARY.cls))
    question, context = "ab c", " ".join("abcdefgh"[n % 8] for n in range(letters))
    task = Answering(VOCABULARY, max_length=14, max_question=4, stride=stride)
    room = task.max_length - 3 - 3
    tokenizer.enable_truncation(task.max_length, stride=room - stride, strategy="only_second")
    first = tokenizer.encode(question, context)
    found = task.encode({"question": question, "context": context})
    assert [each.ids for each in found] == [each.ids for each in (first, *first.overflowing)]
    assert [each.segments for each in found] == [each.type_ids for each in (first, *first.overflowing)]
