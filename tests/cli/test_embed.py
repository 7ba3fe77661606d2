"""regard embed: hidden states of a text encoder, selected, combined and pooled, in three formats."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.cli.command import fails, regard

from regard.attention.layouts import Padded
from regard.run.embedding import layer_numbers, text_encoding
from regard.run.model import Model

TEXTS = ["a lovely film by Ada in 7", "dull", "", "an awful play by Bob and another one by Eve in 21", "a\tb"]
POOLS: dict[str, Any] = {
    "cls": lambda h: h[0], "mean": lambda h: h.mean(axis=0), "max": lambda h: h.max(axis=0), "tokens": lambda h: h,
}  # fmt: skip
COMBINE: dict[str, Any] = {
    "concat": lambda x: np.concatenate(x, axis=1), "sum": sum, "mean": lambda x: np.mean(x, axis=0),
}  # fmt: skip


def hidden_states(model: Model, text: str) -> tuple[list[str], list[Any]]:
    """The tokens and hidden states of one text, computed without a batch."""
    task: Any = model.task
    encoding = text_encoding(model)
    encoded = encoding.encode(encoding.parse(text, "text"))
    tokens = Padded.of(torch.tensor([encoded.ids]), torch.tensor([len(encoded.ids)]))
    with torch.no_grad():
        states = encoding.module(model.model).hidden_states(tokens, torch.tensor([encoded.segments]))
    return task.tokenizer.tokens(encoded.ids), [state[0].numpy() for state in states]


@pytest.mark.parametrize("name", ["classifier", "recurrent", "tagger", "pretrained"])
def test_vectors_are_combined_and_pooled_hidden_states(name: str, request: pytest.FixtureRequest) -> None:
    model = Model.load(request.getfixturevalue(name), device="cpu")
    expected = {text: hidden_states(model, text) for text in TEXTS}
    for pool, pooled in POOLS.items():
        for layers, combine in (("last", "concat"), ("-2:", "sum"), ("all", "mean"), ("0,2", "concat")):
            embeddings = list(model.embed(TEXTS, layers=layers, combine=combine, pool=pool))
            for text, embedding in zip(TEXTS, embeddings, strict=True):
                tokens, states = expected[text]
                selected = {"last": states[-1:], "-2:": states[-2:], "all": states, "0,2": [states[0], states[2]]}
                assert embedding.tokens == tokens
                vector = pooled(COMBINE[combine](selected[layers]))
                np.testing.assert_allclose(embedding.vector, vector, atol=2e-5)


def test_lines_matrix_and_tokens(pretrained: Path, tmp_path: Path) -> None:
    stdin = "".join(f"{text}\n" for text in TEXTS)
    lines = [json.loads(line) for line in regard("embed", pretrained, "--normalize", stdin=stdin).lines]
    assert [line["text"] for line in lines] == [*TEXTS[:4], "a"] and lines[4]["pair"] == "b"
    vectors = np.array([line["embedding"] for line in lines])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    result = regard("embed", pretrained, "--normalize", "--output", tmp_path / "x.npy", stdin=stdin)
    assert result.status == 0 and "5 vectors of 32" in result.err
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), vectors.astype(np.float32))
    result = regard("embed", pretrained, "--pool", "tokens", "--layers", "-2:", "-o", tmp_path / "x.npz", stdin=stdin)
    assert result.status == 0, result.err
    with np.load(tmp_path / "x.npz") as arrays:
        tokens, offsets = arrays["tokens"], arrays["offsets"]
        assert arrays["embeddings"].shape == (len(tokens), 64) and offsets[-1] == len(tokens)
        assert tokens[offsets[1]] == "[CLS]" and tokens[-1] == "[SEP]"
    long = regard("embed", pretrained, "a film " * 500)
    assert long.status == 0 and "1 of 1 texts were longer" in long.err
    empty = regard("embed", pretrained, "--layers", "all", "--output", tmp_path / "none.npy", stdin="")
    assert empty.status == 0 and np.load(tmp_path / "none.npy").shape == (0, 96)
    by_token = json.loads(regard("embed", pretrained, "a film", "--pool", "tokens").out)
    assert by_token["tokens"] == ["[CLS]", "a", "film", "[SEP]"] and np.shape(by_token["embeddings"]) == (4, 32)


def test_input_and_output_files(pretrained: Path, tmp_path: Path) -> None:
    (tmp_path / "texts").write_text("a film\n", encoding="utf-8")
    assert regard("embed", pretrained, "-i", tmp_path / "texts", "-o", tmp_path / "out").status == 0
    assert (tmp_path / "out").read_text(encoding="utf-8") == regard("embed", pretrained, "a film").out
    assert fails("embed", pretrained, "-i", tmp_path / "texts", "-o", tmp_path / "texts").code == "overwrites-input"


def test_the_pooler_of_the_model(pretrained: Path) -> None:
    model = Model.load(pretrained, device="cpu")
    (embedding,) = model.embed(["a film"], pool="pooler")
    one = model.embed("a film", pool="pooler")
    assert np.array_equal(one.vector, embedding.vector) and one.tokens == embedding.tokens, "a string is one text"
    _, states = hidden_states(model, "a film")
    network: Any = model.model
    expected = torch.tanh(network.bert.pooler(torch.from_numpy(states[-1][0])))
    np.testing.assert_allclose(embedding.vector, expected.detach().numpy(), atol=1e-5)


def test_errors(pretrained: Path, trained: Path, tmp_path: Path) -> None:
    for layers in ("9", "5:", "9" * 5000, "9" * 5000 + ":"):
        assert fails("embed", pretrained, "a", "--layers", layers).code == "invalid-option"
    assert fails("embed", pretrained, "a", "--pool", "first").code == "invalid-option"
    assert fails("embed", pretrained, "a", "--pool", "pooler", "--layers", "all").code == "invalid-option"
    assert fails("embed", pretrained, "a", "--format", "npy").code == "unsupported-option"
    assert fails("embed", pretrained, "a", "--pool", "tokens", "-o", tmp_path / "a.npy").code == "unsupported-option"
    assert fails("embed", pretrained, "a", "-o", tmp_path / "a.npz").code == "unsupported-option"
    assert fails("embed", trained, "a").code == "wrong-task"
    missing = fails("embed", pretrained, stdin='{"words": "a"}\n')
    assert missing.code == "missing-key" and "stdin, line 1" in missing.err


def test_layers_are_numbered_as_in_python() -> None:
    assert [layer_numbers(text, 5) for text in ("last", "-1", "all", "-4:", "1,3", "1:3, last", "0")] == [
        [4], [4], [0, 1, 2, 3, 4], [1, 2, 3, 4], [1, 3], [1, 2, 4], [0],
    ]  # fmt: skip
