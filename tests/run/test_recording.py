"""Activations by name, for every kind of model, and models without some of their heads and layers."""

from typing import Any

import pytest
import torch
from tests.conftest import TinyRun
from torch import Tensor

from regard.attention.multihead import MultiHeadAttention
from regard.attention.recurrent_attention import SourceAttention
from regard.errors import UserError
from regard.models.transformer import Transformer
from regard.run.model import Input, Model, Translator
from regard.run.recording import Recording, module_names
from regard.tasks.operations import decoding_engine

RUNS = [
    ("translation", "transformer"), ("translation", "recurrent"), ("translation", "convolutional"),
    ("translation", "mask-predict"), ("parsing", "transformer"), ("language", "transformer"), ("language", "lstm"),
    ("pretraining", "bert"), ("classification", "bert"), ("classification", "transformer"),
    ("classification", "recurrent"), ("tagging", "bert"), ("dependencies", "transformer"), ("choice", "transformer"),
]  # fmt: skip
EXAMPLE: Input = {
    "src": "one two six", "text": "a lovely [MASK] film", "choices": ["film", "a"], "words": ["Ada", "reads"],
    "question": "Who ?", "context": "Ada reads .",
}  # fmt: skip


def load(tiny_run: TinyRun, task: str, kind: str) -> Model:
    return Model.load(tiny_run(task, kind), device="cpu")


def close(first: Tensor, second: Tensor) -> bool:
    return first.shape == second.shape and torch.allclose(first, second, atol=1e-5)


def attentions(recording: Recording) -> set[str]:
    return {name.removesuffix(".query") for name in recording if name.endswith(".query")}


@pytest.mark.parametrize(("task", "kind"), RUNS)
def test_activations_are_those_of_the_model(task: str, kind: str, tiny_run: TinyRun) -> None:
    """The heads and the logits are what the model computed; the steps before lead to them."""
    model = load(tiny_run, task, kind)
    outputs: list[Any] = []
    hook = model.model.register_forward_hook(lambda module, inputs, output: outputs.append(output))
    recording = model.record(EXAMPLE)
    hook.remove()
    output = outputs[-1][0] if isinstance(outputs[-1], tuple) else outputs[-1]
    with torch.no_grad():
        expected: Any = output.logits() if hasattr(output, "logits") else getattr(output, "arcs", output)
    assert torch.equal(recording["logits"], expected)
    assert recording.prediction == model.predict(EXAMPLE)
    modules = [m for m in model.model.modules() if isinstance(m, MultiHeadAttention | SourceAttention)]
    assert len(attentions(recording)) >= len(modules)
    for name in attentions(recording):
        q, k, v, scores, weights, heads = (
            recording[f"{name}.{part}"] for part in ("query", "key", "value", "scores", "weights", "heads")
        )
        assert q.shape[:3] == heads.shape[:3] and k.shape[:3] == v.shape[:3] and scores.shape == weights.shape
        assert close(weights @ v, heads)
        masked = scores.masked_fill(weights == 0, -torch.inf)
        assert close(masked.softmax(dim=-1), weights)
    assert "scores" in repr(recording) or not attentions(recording)


@pytest.mark.parametrize("kind", ["transformer"])
def test_the_residual_stream_is_a_sum(kind: str, tiny_run: TinyRun) -> None:
    """Pre-norm: the stream is the input plus the output of every sublayer."""
    recording = load(tiny_run, "translation", kind).record(EXAMPLE)
    for stack, sublayers in (("encoder", ("self", "feedforward")), ("decoder", ("self", "cross", "feedforward"))):
        stream = recording[f"{stack}.input"]
        for sublayer in sublayers:
            stream = stream + recording[f"{stack}.0.{sublayer}.output"]
            assert close(recording[f"{stack}.0.{sublayer}.residual"], stream)
        assert close(recording[f"{stack}.0.output"], stream)


def test_a_name_that_is_not_there(tiny_run: TinyRun) -> None:
    recording = load(tiny_run, "translation", "transformer").record(EXAMPLE)
    with pytest.raises(KeyError, match=r"encoder\.0\.self\.query"):
        recording["encoder.0.self.qurey"]
    with pytest.raises(UserError) as error:
        load(tiny_run, "language", "ngram").record("one")
    assert error.value.code == "unsupported-option"


def test_a_head_switched_off_by_hand(tiny_run: TinyRun) -> None:
    """The same as columns of zeros in the output projection; afterwards everything is as before."""
    model = Translator.load(tiny_run("translation", "transformer"), device="cpu")
    before, engine = model.predict("one two six"), model.engine
    with model.without(heads={"encoder.0.self": [1], "decoder.1.cross": [0, 1]}):
        recording, prediction, text = (
            model.record(EXAMPLE),
            model.predict("one two six"),
            model.translate("one two six"),
        )
        score = model.evaluate("valid").scores[0]
    assert recording["encoder.0.self.heads"][:, 1].count_nonzero() == 0
    assert recording["encoder.0.self.heads"][:, 0].count_nonzero() > 0
    after = model.predict("one two six")
    assert after == before and model.engine is engine

    network = model.model
    assert isinstance(network, Transformer)
    with torch.no_grad():
        size = network.encoder[0].attention.head_dim
        network.encoder[0].attention.output.weight[:, size:] = 0
        network.decoder[1].cross_attention.output.weight[:] = 0
    by_hand = Translator.load(tiny_run("translation", "transformer"), device="cpu", engine="readable")
    by_hand.models[0].load_state_dict(network.state_dict())
    assert by_hand.predict("one two six") == prediction and by_hand.translate("one two six") == text
    assert by_hand.evaluate("valid").scores[0] == score
    assert close(by_hand.record(EXAMPLE, target="eins")["logits"][:, :1], recording["logits"][:, :1])


def test_a_layer_switched_off_by_hand(tiny_run: TinyRun) -> None:
    """A model of two decoder layers without the second is the model of one layer; a search agrees with `record`."""
    model = load(tiny_run, "translation", "transformer")
    with model.without(layers={"decoder.0"}):
        recording, prediction = model.record(EXAMPLE), model.predict("one two six")
        assert close(recording["decoder.0.output"], recording["decoder.input"])
        tokens = recording["logits"][0].argmax(dim=-1).tolist()
        assert tokens[: len(prediction["hypotheses"][0]["tokens"])] == prediction["hypotheses"][0]["tokens"]
    network = model.model
    assert isinstance(network, Transformer)
    del network.decoder[0]
    with_one = load(tiny_run, "translation", "transformer")
    with_one.models[:] = [network]
    with_one.__dict__["engine"] = decoding_engine(with_one.task, [network], torch.device("cpu"), "readable")
    assert with_one.predict("one two six") == prediction


@pytest.mark.parametrize(("task", "kind"), RUNS)
def test_every_model_without_its_first_head_and_back(task: str, kind: str, tiny_run: TinyRun) -> None:
    model = load(tiny_run, task, kind)
    before = model.predict(EXAMPLE)
    recording = model.record(EXAMPLE)
    names = sorted(attentions(recording))
    if not names:
        with pytest.raises(UserError, match="no attention"), model.without(heads={"encoder.0.self": [0]}):
            pass
        return
    with model.without(heads={names[0]: [0]}):
        assert not torch.equal(model.record(EXAMPLE)["logits"], recording["logits"])
        model.predict(EXAMPLE)
    assert model.predict(EXAMPLE) == before
    assert all(not module._forward_hooks and not module._forward_pre_hooks for module in model.model.modules())


def test_one_stack_takes_numbers(tiny_run: TinyRun) -> None:
    model = load(tiny_run, "classification", "transformer")
    with model.without(heads={(0, 1)}, layers=[1]):
        recording = model.record(EXAMPLE)
    assert recording["encoder.0.self.heads"][:, 1].count_nonzero() == 0
    assert torch.equal(recording["encoder.1.output"], recording["encoder.0.output"])


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"heads": {(0, 1)}}, "heads"), ({"layers": [0]}, "layers"), ({"heads": {"encoder.9.self": [0]}}, "heads"),
        ({"heads": {"encoder.0.self": [2]}}, "heads"), ({"layers": ["encoder.7"]}, "layers"),
    ],
)  # fmt: skip
def test_heads_and_layers_that_are_not_there(options: dict[str, Any], where: str, tiny_run: TinyRun) -> None:
    model = load(tiny_run, "translation", "transformer")
    before = model.predict("one")
    with pytest.raises(UserError) as error, model.without(**options):
        pass
    assert (error.value.code, error.value.where) == ("invalid-option", where)
    assert model.predict("one") == before


def test_recurrent_layers_cannot_be_switched_off(tiny_run: TinyRun) -> None:
    model = load(tiny_run, "translation", "recurrent")
    with pytest.raises(UserError) as error, model.without(layers=["encoder.0"]):
        pass
    assert error.value.where == "layers" and "decoder.cross" in module_names(model.model)
