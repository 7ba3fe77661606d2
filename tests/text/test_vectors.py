"""Word vectors: read in three formats, refused if damaged, and copied into the token embeddings of new models."""

import gzip
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from tests.tiny import recipe_values, write_recipe

from regard.errors import UserError
from regard.layers.embeddings import TokenEmbedding
from regard.recipe import Recipe
from regard.run.run import Run
from regard.run.train import train
from regard.tasks.registry import build_recipe, load_recipe
from regard.text.vectors import read_vectors

VECTORS: dict[str, tuple[float, ...]] = {
    "the": (1.0, -2.0, 0.5),
    "film": (0.25, 1e-3, -1.5),
    ". . .": (3.0, 0.0, 1.0),
    "Rome": (7.0, 8.0, 9.0),
}


def lines(vectors: dict[str, tuple[float, ...]], end: str = "") -> str:
    return "".join(f"{word} {' '.join(map(str, values))}{end}\n" for word, values in vectors.items())


@pytest.mark.parametrize(("header", "end"), [("", ""), ("4 3\n", ""), ("4 3\n", " ")], ids=["glove", "word2vec", "vec"])
def test_formats(tmp_path: Path, header: str, end: str) -> None:
    path = tmp_path / "vectors.vec.gz"
    path.write_bytes(gzip.compress((header + lines(VECTORS, end)).encode()))
    read = read_vectors(path, ["Film", "the", ". . .", "Rome", "rome", "book", "the"])
    assert (read.read, read.width, read.lowercase, read.missing) == (4, 3, 1, ("rome", "book"))
    assert {word: tuple(map(float, values)) for word, values in read.vectors.items()} == {
        word: tuple(np.array(VECTORS[key], dtype=np.float32).tolist())
        for word, key in {"Film": "film", "the": "the", ". . .": ". . .", "Rome": "Rome"}.items()
    }
    text = str(read.describe())
    assert "4 of 6 words found" in text and "2 missing: 'rome', 'book'" in text


def test_the_first_of_repeated_words_is_used(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("a 1 2\nb 3 4\na 5 6\n")
    read = read_vectors(tmp_path / "v.txt", ["a"])
    assert read.repeated == 1 and read.vectors["a"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1), ("no vectors here\n", 1), ("3 2\na 1 2\nb 3 4\n", 1), ("a 1 2\nb 3\n", 2), ("a 1 2\nb 3 x\n", 2),
        ("a 1 2\n\nb 3 4\n", 2), ("a 1 2\nb nan 1\n", 2), ("a 1 2\nb 1 inf\n", 2),
    ],
)  # fmt: skip
def test_damaged_files_are_refused(tmp_path: Path, text: str, line: int) -> None:
    (tmp_path / "v.txt").write_text(text)
    with pytest.raises(UserError) as error:
        read_vectors(tmp_path / "v.txt", ["a", "b", "no", "vectors"])
    assert error.value.code == "damaged-file" and str(error.value.where).endswith(f"v.txt:{line}")


def written_vectors(folder: Path, width: int) -> Path:
    rng = np.random.default_rng(3)
    words = ["film", "book", "lovely", "awful", "cat", "sees"]
    path = folder / "vectors.txt"
    path.write_text("".join(f"{word} {' '.join(map(str, rng.normal(size=width)))}\n" for word in words))
    return path


def vector_of(path: Path, word: str) -> list[float]:
    line = next(line for line in path.read_text().splitlines() if line.startswith(f"{word} "))
    return [float(item) for item in line.split()[1:]]


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
def test_a_classifier_embeds_words_as_their_vectors(tmp_path: Path, kind: str) -> None:
    path, reports = written_vectors(tmp_path, 32), list[str]()
    settings: dict[str, object] = {"training.max_steps": 3, "model.embeddings_from": str(path)}

    def recipe(frozen: bool) -> Recipe:
        path = write_recipe(tmp_path, "classification", kind, settings | {"model.freeze_embeddings": frozen})
        return load_recipe(path, ['text={kind="word", vocab_size=400, min_frequency=1}'])

    run = train(recipe(True), tmp_path / "frozen", report=lambda text: reports.append(str(text))).run
    assert any("words found" in text for text in reports)
    tokenizer, model = run.task.tokenizers["source"], cast(Any, run.model("last"))
    for text in (" film", " book", " lovely"):
        (token,) = tokenizer.encode(text)
        embedded = model.encoder.words(torch.tensor(token))
        torch.testing.assert_close(embedded, torch.tensor(vector_of(path, text.strip())))
    weight = model.encoder.words.weight
    again = cast(Any, Run.open(run.folder).model("last")).encoder.words.weight
    assert torch.equal(weight, again) and not model.encoder.words.weight.requires_grad
    trained: Any = train(recipe(False), tmp_path / "trained", report=lambda _: None).run.model("last")
    assert not torch.equal(trained.encoder.words.weight, weight)
    path.unlink()  # a trained run does not need the file
    assert Run.open(run.folder).model("best")


def test_other_rows_have_the_variance_of_the_vectors(tmp_path: Path) -> None:
    torch.manual_seed(1)
    embedding, vectors = TokenEmbedding(4000, 16), 0.3 * torch.randn(500, 16)
    embedding.load_vectors(dict(enumerate(vectors)))
    torch.testing.assert_close(embedding(torch.arange(500)), vectors)
    rest = embedding(torch.arange(500, 4000))
    assert float(rest.detach().std()) == pytest.approx(float(vectors.std()), rel=0.03)


def test_a_language_model_with_word_vectors(tmp_path: Path) -> None:
    path = written_vectors(tmp_path, 10)
    settings = {"training.max_steps": 6, "model.embeddings_from": str(path), "model.d_embedding": 10}
    recipe = load_recipe(write_recipe(tmp_path, "language", "lstm", settings))
    model: Any = train(recipe, tmp_path / "run", report=lambda _: None).run.model("last")
    assert model.embedding.weight.shape[1] == 10


@pytest.mark.parametrize(
    ("changes", "where", "code"),
    [
        ({"text": {"kind": "bpe"}}, "model.embeddings_from", "invalid-setting"),
        ({"start_from": "runs/other"}, "model.embeddings_from", "unused-setting"),
        ({"model": {"kind": "recurrent", "freeze_embeddings": True}}, "model.freeze_embeddings", "unused-setting"),
    ],
)
def test_settings_that_do_not_fit_are_refused(changes: dict[str, Any], where: str, code: str) -> None:
    values = recipe_values("classification", "recurrent", settings={"model.embeddings_from": "v.txt"})
    with pytest.raises(UserError) as error:
        build_recipe(values | {"text": {"kind": "word"}} | changes, "test")
    assert (error.value.where, error.value.code) == (where, code)


def test_a_width_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    settings = {"model.embeddings_from": str(written_vectors(tmp_path, 5))}
    recipe = load_recipe(
        write_recipe(tmp_path, "classification", "recurrent", settings), ['text={kind="word", vocab_size=400}']
    )
    with pytest.raises(UserError) as error:
        train(recipe, tmp_path / "run", report=lambda _: None)
    assert error.value.where == "model.d_model"
