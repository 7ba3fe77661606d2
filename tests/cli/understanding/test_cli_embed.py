"""regard embed: the vectors a reader makes, chosen, combined and pooled, whatever they are written as."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.cli.command import refused, regard

from regard import Predictor
from regard.attention.layouts import Padded
from regard.run.embedding import layer_numbers

TEXTS = ["a lovely film by Ada in 7", "dull", "", "an awful play by Bob and another one by Eve in 21", "a\tb"]


loaded = cache(Predictor.load)


@cache
def states(run: Path, text: str) -> tuple[list[str], list[Any]]:
    """The hidden states of one text, alone and by hand."""
    predictor = loaded(run)
    vocabulary = predictor.run.vocabulary
    first, _, second = text.partition("\t")
    read = vocabulary.build_input(vocabulary.tokenize(first), vocabulary.tokenize(second) if second else None)
    tokens = Padded.of(torch.tensor([read.ids]), torch.tensor([len(read.ids)]))
    with torch.no_grad():
        found = predictor.reader.hidden_states(tokens, torch.tensor([read.segments]))
    return vocabulary.tokens(read.ids), [state[0].numpy() for state in found]


@pytest.mark.parametrize("name", ["classifier", "recurrent", "tagger", "pretrained"])
def test_vectors_are_the_hidden_states_whatever_they_are_read_with(name: str, request: pytest.FixtureRequest) -> None:
    run = request.getfixturevalue(name)
    predictor = loaded(run)
    kinds: dict[str, Any] = {
        "cls": lambda h: h[0], "mean": lambda h: h.mean(axis=0), "max": lambda h: h.max(axis=0), "tokens": lambda h: h,
    }  # fmt: skip
    for pool, by_hand in kinds.items():
        for wanted, combine in (("last", "concat"), ("-2:", "sum"), ("all", "mean"), ("0,2", "concat")):
            found = list(predictor.embed(TEXTS, layers=wanted, combine=combine, pool=pool))
            for text, each in zip(TEXTS, found, strict=True):
                pieces, layers = states(run, text)
                chosen = {"last": layers[-1:], "-2:": layers[-2:], "all": layers, "0,2": [layers[0], layers[2]]}[wanted]
                h = {"concat": lambda x: np.concatenate(x, axis=1), "sum": sum, "mean": lambda x: np.mean(x, axis=0)}
                assert each.pieces == pieces
                np.testing.assert_allclose(each.vector, by_hand(h[combine](chosen)), atol=2e-5)  # type: ignore[operator]


def test_written_as_lines_a_matrix_and_tokens(pretrained: Path, tmp_path: Path) -> None:
    given = "".join(f"{text}\n" for text in TEXTS)
    lines = [json.loads(line) for line in regard("embed", pretrained, "--normalize", stdin=given).lines]
    assert [line["text"] for line in lines] == [*TEXTS[:4], "a"] and lines[4]["pair"] == "b"
    vectors = np.array([line["embedding"] for line in lines])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    done = regard("embed", pretrained, "--normalize", "--output", tmp_path / "x.npy", stdin=given)
    assert done.status == 0 and "5 vectors of 32" in done.err
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), vectors.astype(np.float32))
    done = regard("embed", pretrained, "--pool", "tokens", "--layers", "-2:", "-o", tmp_path / "x.npz", stdin=given)
    assert done.status == 0, done.err
    with np.load(tmp_path / "x.npz") as found:
        assert found["embeddings"].shape == (len(found["pieces"]), 64) and found["offsets"][-1] == len(found["pieces"])
        assert found["pieces"][found["offsets"][1]] == "[CLS]" and found["pieces"][-1] == "[SEP]"
    long = regard("embed", pretrained, "a film " * 500)
    assert long.status == 0 and "1 of 1 texts were longer" in long.err
    nothing = regard("embed", pretrained, "--layers", "all", "--output", tmp_path / "none.npy", stdin="")
    assert nothing.status == 0 and np.load(tmp_path / "none.npy").shape == (0, 96)
    tokens = json.loads(regard("embed", pretrained, "a film", "--pool", "tokens").out)
    assert tokens["pieces"] == ["[CLS]", "a", "film", "[SEP]"] and np.shape(tokens["embeddings"]) == (4, 32)


def test_the_pooler_is_the_readers_own(classifier: Path, pretrained: Path) -> None:
    predictor = loaded(pretrained)
    (found,) = predictor.embed(["a film"], pool="pooler")
    _, layers = states(pretrained, "a film")
    pooler = predictor.model.bert.pooler
    expected = torch.tanh(pooler(torch.from_numpy(layers[-1][0])))
    np.testing.assert_allclose(found.vector, expected.detach().numpy(), atol=1e-5)


def test_what_cannot_be_is_refused(pretrained: Path, trained: Path, tmp_path: Path) -> None:
    assert "there are no layers '9'" in refused("embed", pretrained, "a", "--layers", "9")
    for endless in ("9" * 5000, "9" * 5000 + ":"):
        assert "there are no layers '9999" in refused("embed", pretrained, "a", "--layers", endless)
    assert "layers '5:' are none" in refused("embed", pretrained, "a", "--layers", "5:")
    assert "pool is 'first'" in refused("embed", pretrained, "a", "--pool", "first")
    assert "the pooler reads the last layer" in refused("embed", pretrained, "a", "--pool", "pooler", "--layers", "all")
    assert "say where it goes" in refused("embed", pretrained, "a", "--format", "npy")
    assert "write --format npz" in refused("embed", pretrained, "a", "--pool", "tokens", "-o", tmp_path / "a.npy")
    assert "npz is for the vectors of tokens" in refused("embed", pretrained, "a", "-o", tmp_path / "a.npz")
    assert "its task is translation" in refused("embed", trained, "a")
    assert "stdin, line 1 has no 'text'" in refused("embed", pretrained, stdin='{"words": "a"}\n')


def test_layers_are_named_as_in_python() -> None:
    assert [layer_numbers(wanted, 5) for wanted in ("last", "-1", "all", "-4:", "1,3", "1:3, last", "0")] == [
        [4], [4], [0, 1, 2, 3, 4], [1, 2, 3, 4], [1, 3], [1, 2, 4], [0],
    ]  # fmt: skip
