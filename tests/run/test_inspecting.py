"""A prediction from the inside: the page's values are those of the model, and nothing that is predicted changes."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.conftest import TinyRun
from tests.tiny import train_run, unpack_array

from regard.errors import UserError
from regard.files import JsonObject
from regard.run.inspecting import inspect_attention, inspect_beam, next_tokens
from regard.run.model import Model
from regard.run.page_data import (
    beam_json,
    curves_json,
    form_fields,
    head_json,
    named_heads,
    prediction_json,
    run_json,
    texts_json,
)
from regard.run_files import METRICS
from regard.tasks.language import token_bits
from regard.viz.document import pack_array

SENTENCE = "one two three"
BEAM = {
    "decoding": {"search": "beam", "beam": 4, "extra_length": 4},
    "training.max_steps": 40,
    "training.validate_every": 40,
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return Model.load(train_run(tmp_path_factory.mktemp("inspected"), "translation", settings=BEAM), device="cpu")


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tmp_path_factory.mktemp("classifier")
    return Model.load(train_run(folder, "classification", "bert", {"training.max_epochs": 1.0}), device="cpu")


def test_recording_changes_no_token(model: Model) -> None:
    for sentence in (SENTENCE, "six six five", "two one"):
        expected = model.predict(sentence, nbest=4)
        assert inspect_attention(model, sentence, nbest=4).explanation.prediction == expected
        assert inspect_beam(model, sentence, nbest=4).prediction == expected
        assert model.predict(sentence, nbest=4) == expected


def test_the_steps_of_every_head_are_those_of_its_map(model: Model) -> None:
    inspection = inspect_attention(model, SENTENCE)
    assert [item.name for item in inspection.maps] == ["encoder", "decoder", "cross"]
    for item in inspection.maps:
        weights = np.asarray(item.weights)
        for layer in range(weights.shape[0]):
            for head in range(weights.shape[1]):
                steps = inspection.arithmetic(item.name, layer, head)
                assert np.abs(steps.weights.numpy() - weights[layer, head]).max() < 1e-6
    values = head_json(inspection, "cross", 1, 0)
    assert unpack_array(values["weights"]).shape == (len(inspection.maps[2].rows), len(inspection.maps[2].columns))
    assert values["vector"] is None and values["scale"] == pytest.approx(1 / 4)
    with pytest.raises(UserError) as error:
        inspection.arithmetic("cross", 2, 0)
    assert error.value.code == "no-attention"


def test_the_page_has_the_translation_of_the_run(model: Model) -> None:
    shown = prediction_json(model, SENTENCE)
    (translation,) = shown["output"]
    assert translation == model.predict(SENTENCE)["translation"] == shown["hypotheses"][0]["text"]
    assert len(shown["hypotheses"]) == 4 and all(item["steps"] for item in shown["maps"])
    second = prediction_json(model, SENTENCE, chosen=1)
    assert second["output"] == shown["output"], "the prediction is the same"
    rows = next(item["rows"] for item in second["maps"] if item["name"] == "cross")
    assert len(rows) == len(model.predict(SENTENCE, nbest=4)["hypotheses"][1]["tokens"]) + 1


def test_the_tree_ends_in_the_hypotheses(model: Model) -> None:
    tree, shown = beam_json(model, SENTENCE), prediction_json(model, SENTENCE)
    assert tree["width"] == 4
    for leaf, hypothesis in zip(tree["leaves"], shown["hypotheses"], strict=True):
        assert tree["nodes"][leaf][5] == pytest.approx(hypothesis["score"], abs=1e-4)
    assert beam_json(model, SENTENCE, width=2)["width"] == 2


def test_blank_text_has_no_attention(model: Model) -> None:
    shown = prediction_json(model, " ")
    assert shown["output"] == [""] and shown["maps"] == []


def test_a_classifier(classifier: Model) -> None:
    shown = prediction_json(classifier, "a lovely film")
    (bars,) = shown["output"]
    assert sum(bars["shares"]) == pytest.approx(1, abs=1e-3)
    assert [item["steps"] for item in shown["maps"]] == [True]
    assert run_json("a", classifier)["vectors"] and run_json("a", classifier)["beam"] == 0
    with pytest.raises(UserError) as error:
        inspect_beam(classifier, "a lovely film")
    assert error.value.code == "wrong-task"


def test_values_of_other_keys_are_ignored(classifier: Model) -> None:
    shown = prediction_json(classifier, {"text": "a lovely film", "words": [1], "id": [[2]]})
    assert shown["output"][0]["names"] and prediction_json(classifier, {"text": " "})["output"] == []


def test_texts_as_points(classifier: Model) -> None:
    texts = ["a lovely film", "a dull book", "a lovely film", "the end"]
    found = texts_json(classifier, texts)
    cosines, points = np.array(found["cosines"]), np.array(found["points"])
    vectors = [classifier.embed(text, pool="mean").vector for text in texts]
    expected = torch.nn.functional.cosine_similarity(torch.tensor(vectors[0]), torch.tensor(vectors[1]), dim=0)
    assert cosines[0, 1] == pytest.approx(float(expected), abs=1e-3)
    assert np.allclose(points[0], points[2], atol=1e-5) and not np.allclose(points[0], points[1])
    assert np.allclose(points.mean(axis=0), 0, atol=1e-5)
    with pytest.raises(UserError) as error:
        texts_json(classifier, ["one"])
    assert error.value.code == "invalid-option"


def test_curves_grow_and_start_again(tmp_path: Path) -> None:
    def line(step: int) -> str:
        values = {"kind": "train", "step": step, "nll": 1 / step, "learning_rate": 0.1, "seconds": 1.0 * step}
        return json.dumps({**values, "tokens": 1, "tokens_per_second": 1.0}) + "\n"

    def points(answer: JsonObject) -> list[list[float]]:
        return list(answer["curves"][0]["points"])

    path = tmp_path / METRICS
    assert curves_json(tmp_path, "loss")["reset"] is True
    path.write_text(line(1) + line(2) + line(3)[:20])
    first = curves_json(tmp_path, "loss")
    assert points(first) == [[1, 1], [2, 0.5]] and first["reset"] is True
    assert points(curves_json(tmp_path, "loss", first["seen"])) == []
    path.write_text(line(1) + line(2) + line(3) + line(4))
    second = curves_json(tmp_path, "loss", first["seen"])
    assert [step for step, _ in points(second)] == [3, 4] and second["reset"] is False
    path.write_text(line(1))
    third = curves_json(tmp_path, "loss", second["seen"])
    assert [step for step, _ in points(third)] == [1] and third["reset"] is True


def test_packed_arrays() -> None:
    packed = pack_array([[0.1, 2.0]])
    assert unpack_array(packed).tolist() == [[pytest.approx(0.1), 2.0]]


def test_the_form_of_a_run(model: Model, classifier: Model) -> None:
    assert [item["name"] for item in form_fields(model)] == ["src"]
    assert [(item["name"], item["required"]) for item in form_fields(classifier)] == [("text", True)], "without pairs"


def test_next_tokens_of_a_translation_are_those_of_the_search(model: Model) -> None:
    first, *_ = model.predict(SENTENCE)["translation"].split()
    for prefix, step in (("", 0), (first, 1)):
        search = inspect_beam(model, {"src": SENTENCE, "prefix": prefix}, beam=4)
        nodes = {name: node for name, node in zip(search.tokens, search.tree.nodes, strict=True) if node.step == step}
        found = dict(next_tokens(model, SENTENCE, prefix, top=len(nodes)))
        assert found.keys() == nodes.keys()
        ratios = [share / np.exp(nodes[name].log_prob) for name, share in found.items()]
        assert ratios == pytest.approx([ratios[0]] * len(ratios), rel=1e-3)
        assert 1 <= ratios[0] < 1.01, "the share of symbols that are never written goes to the others"


def test_temperature_and_next_tokens_of_a_language_model(tiny_run: TinyRun) -> None:
    model = Model.load(tiny_run("language", "transformer"), device="cpu")
    search = model.task.search
    assert search is not None
    ids = search.tokenizer.encode("the cat")
    shares = [share for _, share in next_tokens(model, "the cat", top=10_000)]
    assert sum(shares) == pytest.approx(1) and shares == sorted(shares, reverse=True)
    likely = dict(next_tokens(model, "the cat", top=5))
    never = sum(2 ** -token_bits(model.model, [*ids, symbol])[-1] for symbol in search.symbols.never_produced)
    expected = {2 ** -token_bits(model.model, [*ids, token])[-1] / (1 - never) for token in range(len(shares))}
    for share in likely.values():
        assert any(share == pytest.approx(value, rel=1e-4) for value in expected)
    assert max(expected) == pytest.approx(shares[0], rel=1e-4)
    assert next_tokens(model, "the", " cat", top=3) == next_tokens(model, "the cat", top=3)
    for temperature in (0.5, 2.0):
        powers = np.array(shares) ** (1 / temperature)
        found = [share for _, share in next_tokens(model, "the cat", "", temperature, 10_000)]
        assert found == pytest.approx((powers / powers.sum()).tolist(), abs=1e-6)
    assert not model.model._forward_hooks


def test_runs_without_a_next_token(classifier: Model, tiny_run: TinyRun) -> None:
    for other in (
        classifier,
        Model.load(tiny_run("language", "ngram")),
        Model.load(tiny_run("translation", "mask-predict")),
    ):
        with pytest.raises(UserError) as error:
            next_tokens(other, "the cat")
        assert error.value.code == "wrong-task"


def test_a_prediction_without_heads(model: Model) -> None:
    off = [f"cross/{layer}/{head}" for layer in range(2) for head in range(2)]
    with model.without(heads={"decoder.0.cross": [0, 1], "decoder.1.cross": [0, 1]}):
        expected = prediction_json(model, SENTENCE)
    found = prediction_json(model, SENTENCE, off=off)
    assert found["output"] == expected["output"] and found["maps"] == expected["maps"]
    assert found["output"] != prediction_json(model, SENTENCE)["output"]
    assert named_heads(model, ["encoder/0/1", "decoder/1/0"]) == {"encoder.0.self": [1], "decoder.1.self": [0]}
    with pytest.raises(UserError, match="no head"):
        named_heads(model, ["cross/2/0"])
