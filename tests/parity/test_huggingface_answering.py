"""Question answering: losses, gradients and windows equal those of Hugging Face transformers and tokenizers.

Nothing is downloaded: the reference model is small and random.
"""

from typing import Any

import numpy as np
import pytest
import torch
from tests.tasks.make import changed, make_task
from tests.tiny import training_inputs
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

pytestmark = pytest.mark.filterwarnings("ignore")  # deprecations inside transformers
TOKENIZER = BertTokenizer([*SPECIALS, *"abcdefgh", *(f"##{letter}" for letter in "abcdefgh")])
SETTINGS = BertSettings(size="tiny", d_model=16, num_heads=4, d_ff=24, layers=2, max_positions=16)
TASK = changed(make_task(Answering, TOKENIZER), data__max_length=14, data__max_question=4, data__stride=3)
EXAMPLES: list[dict[str, Any]] = [
    {"question": "ab c", "context": "a b c defg h a b cab h g f", "answers": [{"text": "defg h", "start": 6}]},
    {"question": "h", "context": "c d e", "answers": [{"text": "e", "start": 4}]},
    {"question": "a b", "context": "ab cd", "answers": []},
]


def reference_model() -> Any:
    """A model of transformers in 64 bits with random weights, also in biases and norms."""
    import transformers

    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=len(TOKENIZER), hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=24,
        max_position_embeddings=16, attn_implementation="eager",
    )  # fmt: skip
    model = transformers.BertForQuestionAnswering(config).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model


def reference_name(name: str) -> str:
    """The name of a weight in the reference model."""
    module, _, weight = name.partition(".")
    return f"qa_outputs.{weight}" if module == "head" else huggingface_name(f"bert.{weight}")


def with_weights_of(reference: Any) -> EncoderWithHead:
    model = EncoderWithHead(Bert(SETTINGS, len(TOKENIZER)), TASK.outputs, TASK.pooled, 0.0).double().eval()
    weights, state = reference.state_dict(), model.state_dict()
    missing = {name for name in state if reference_name(name) not in weights}
    assert missing == {"encoder.pooler.weight", "encoder.pooler.bias"}
    model.load_state_dict({name: weights.get(reference_name(name), tensor) for name, tensor in state.items()})
    return model


def padded_and_packed() -> list[Batch]:
    inputs = Inputs.of(training_inputs(TASK, EXAMPLES), TASK.per_token)
    indices = np.arange(len(inputs))
    return [inputs.pad(indices), inputs.pack(indices, Capacity((120,), 9))]


def test_loss_and_gradients_of_padded_and_packed_batches() -> None:
    reference, batches = reference_model(), padded_and_packed()
    padded: Any = batches[0]
    mask = (torch.arange(padded["source"].size(1)) < padded["source_lengths"][:, None]).long()
    start, end = padded.labels.long().unbind(-1)
    assert int((start > 0).sum()) >= 3 and int((start == 0).sum()) >= 2  # answers, and windows without one
    shorter = padded["source_lengths"] < padded["source"].size(1)
    assert bool(shorter.any())
    outputs = reference(input_ids=padded["source"], token_type_ids=padded["segments"], attention_mask=mask)
    # The softmax of the reference includes the padding; it is masked here.
    padding = (mask == 0).double() * -1e9
    losses = [
        nn.functional.cross_entropy(logits + padding, label)
        for logits, label in ((outputs.start_logits, start), (outputs.end_logits, end))
    ]
    expected = (losses[0] + losses[1]) / 2
    expected.backward()
    gradients = {name: parameter.grad for name, parameter in reference.named_parameters()}
    for batch in batches:
        model = with_weights_of(reference)
        loss = TASK.loss(model, batch)
        mean = loss.sum / loss.count
        mean.backward()
        torch.testing.assert_close(mean, expected, atol=1e-8, rtol=1e-8)
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                torch.testing.assert_close(
                    parameter.grad, gradients[reference_name(name)], atol=1e-8, rtol=1e-6, msg=name
                )


def test_loss_without_padding() -> None:
    reference, inputs = reference_model(), Inputs.of(training_inputs(TASK, EXAMPLES), TASK.per_token)
    for index in range(len(inputs)):
        batch = inputs.pad(np.array([index]))
        start, end = batch.labels.long().unbind(-1)
        outputs = reference(
            input_ids=batch["source"], token_type_ids=batch["segments"], start_positions=start, end_positions=end
        )
        torch.testing.assert_close(TASK.loss(with_weights_of(reference), batch).sum, outputs.loss, atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("stride", [1, 3, 6])
@pytest.mark.parametrize("letters", range(1, 24, 2))
def test_windows_equal_those_of_tokenizers(letters: int, stride: int) -> None:
    tokenizer = Tokenizer.from_str(TOKENIZER.to_json())
    tokenizer.post_processor = BertProcessing(("[SEP]", TOKENIZER.sep), ("[CLS]", TOKENIZER.cls))
    question, context = "ab c", " ".join("abcdefgh"[n % 8] for n in range(letters))
    task = changed(TASK, data__stride=stride)
    tokenizer.enable_truncation(14, stride=14 - 3 - 3 - stride, strategy="only_second")
    first = tokenizer.encode(question, context)
    expected = [first, *first.overflowing]
    inputs = task.encode({"question": question, "context": context})
    assert [item.ids for item in inputs] == [item.ids for item in expected]
    assert [item.segments for item in inputs] == [item.type_ids for item in expected]
