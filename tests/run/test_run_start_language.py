"""Labelled tasks that start from a causal language model: tokenizer, settings and weights are those of the model."""

from pathlib import Path
from typing import Any

import pytest
import torch

from regard.errors import UserError
from regard.models.language_transformer import TransformerLanguageModel, unpadded
from regard.models.text_encoder import EncoderWithHead
from regard.run.model import Model
from regard.run.run import Run
from regard.run.train import train
from regard.tasks.registry import build_recipe
from regard.text.symbols import EOS

SENTENCES = ["the cat sat .", "the dog ran .", "a cat ran .", "a dog sat ."]


def quiet(text: str) -> None:
    """Report nothing."""


def recipe(folder: Path, task: str, **changes: Any) -> Any:
    values: dict[str, Any] = {
        "name": "small",
        "task": task,
        "data": {"root": str(folder), "workers": 1},
        "training": dict(max_steps=3, warmup=1, schedule="constant", learning_rate=1e-3, samples=0),
        "runtime": {"device": "cpu", "threads": 1},
    }
    for group, settings in changes.items():
        values[group] = {**values.get(group, {}), **settings} if isinstance(settings, dict) else settings
    return build_recipe(values, "test")


def language_model(folder: Path, **model: Any) -> Path:
    (folder / "lines.txt").write_text("\n".join(SENTENCES * 8), encoding="utf-8")
    data = dict(train="lines.txt", valid="lines.txt", bptt=8)
    shape = model or dict(kind="transformer", layers=1, d_model=16, num_heads=2, d_ff=16)
    training = dict(batch_tokens=32)
    text = dict(kind="bpe", vocab_size=280)
    built = recipe(folder, "language", data=data, text=text, model=shape, training=training)
    return train(built, folder / f"language-{shape['kind']}", report=quiet).run.folder


def write_examples(folder: Path) -> dict[str, str]:
    rows = [f"{text}\t{'cat' if 'cat' in text else 'dog'}" for text in SENTENCES * 3]
    (folder / "classes.tsv").write_text("\n".join(["text\tlabel", *rows]), encoding="utf-8")
    tagged = ["\n".join(f"{word} {word[0].upper()}" for word in text.split()) for text in SENTENCES * 3]
    (folder / "tags.conll").write_text("\n\n".join(tagged), encoding="utf-8")
    return {"classification": "classes.tsv", "tagging": "tags.conll"}


def test_labelled_tasks_start_from_a_language_model(tmp_path: Path) -> None:
    start, files = language_model(tmp_path), write_examples(tmp_path)
    language = Run.open(start).model("best")
    assert isinstance(language, TransformerLanguageModel)
    for task, file in files.items():
        data = dict(train=file, valid=file, max_length=16, drop_duplicates=False)
        begun = recipe(tmp_path, task, data=data, start_from=str(start))
        assert (begun.model.kind, begun.model.causal, begun.model.pooling) == ("transformer", True, "last")
        assert begun.text.kind == "bpe"
        run = Run.create(tmp_path / task, begun)
        run.prepare(quiet)
        assert (run.folder / "tokenizer.json").read_bytes() == (start / "tokenizer.json").read_bytes()
        encoder: Any = run.initial_model().eval().encoder
        labelled: Any = run.task
        read = labelled.encode({"text": "the cat sat .", "words": ["the", "cat", "sat", "."]})[0]
        assert read.ids == [EOS, *labelled.tokenizer.encode("the cat sat ."), EOS]
        tokens = unpadded(torch.tensor([read.ids]))
        torch.testing.assert_close(encoder(tokens), language.eval().encode(tokens))
        trained = train(begun, run.folder, report=quiet).run
        assert isinstance(trained.model("last"), EncoderWithHead)
        again = recipe(tmp_path, task, data=data, start_from=str(run.folder))
        assert again.model == begun.model and again.text == begun.text
    (prediction,) = Model.load(tmp_path / "tagging").predict([{"words": ["the", "cat"]}])
    assert len(prediction["tags"]) == 2


def test_features_of_a_bidirectional_language_model(tmp_path: Path) -> None:
    """The language model is copied, stays as it is in training, and is part of the saved model."""
    start, files = language_model(tmp_path, kind="bilstm", layers=2, d_model=8), write_examples(tmp_path)
    data = dict(train=files["tagging"], valid=files["tagging"], max_length=16, drop_duplicates=False)
    begun = recipe(tmp_path, "tagging", data=data, start_from=str(start), model={"d_model": 6})
    assert (begun.model.kind, begun.model.language_layers, begun.model.language_width) == ("elmo", 2, 8)
    run = train(begun, tmp_path / "tagging", report=quiet).run
    language, trained = Run.open(start).model("best").state_dict(), run.model("last").state_dict()
    assert all(torch.equal(trained[f"encoder.language.{name}"], tensor) for name, tensor in language.items())
    assert float(trained["encoder.mix.gamma"]) != 1 and bool(trained["encoder.mix.weights"].any())
    (prediction,) = Model.load(run.folder).predict([{"words": ["the", "cat"]}])
    assert len(prediction["tags"]) == 2
    again = recipe(tmp_path, "classification", data={"train": files["classification"]}, start_from=str(run.folder))
    assert again.model == begun.model


@pytest.mark.parametrize(("model", "where"), [(dict(kind="markov", d_model=16), "start_from"), ({}, "model")])
def test_what_does_not_fit_is_refused(tmp_path: Path, model: dict[str, Any], where: str) -> None:
    start, files = language_model(tmp_path, **model), write_examples(tmp_path)
    changes = {} if model else {"model": {"kind": "transformer", "causal": False}}
    with pytest.raises(UserError) as error:
        data = dict(train=files["classification"], max_length=16)
        train(recipe(tmp_path, "classification", data=data, start_from=str(start), **changes), tmp_path / "second")
    assert error.value.code == "incompatible-start" and where in str(error.value.where)


def test_a_bert_reads_with_its_own_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        recipe(tmp_path, "classification", data={"train": "a.tsv"}, model={"kind": "bert"}, text={"kind": "bpe"})
    assert error.value.where == "text.kind"
