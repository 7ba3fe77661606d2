"""A run that starts from another: the same vocabulary, its weights first, and clear words where they do not fit."""

from pathlib import Path

import pytest
import torch

from regard.config import apply_overrides, build
from regard.errors import UserError
from regard.recipe import TranslationRecipe, build_recipe
from regard.run import Run, train


def recipe(folder: Path, **changes: object) -> TranslationRecipe:
    values = {
        "name": "small",
        "data": {"root": str(folder), "train": {"file": "a.tsv"}, "valid": {"file": "a.tsv"}, "max_length": 16},
        "text": {"kind": "char", "vocab_size": 300},
        "model": dict(size="tiny", d_model=16, num_heads=2, d_ff=16, encoder_layers=1, decoder_layers=1),
        "training": dict(max_steps=3, batch_tokens=64, warmup=1, schedule="constant", learning_rate=1e-3, samples=0),
        "runtime": {"device": "cpu", "threads": 1},
    }
    return build(TranslationRecipe, values | changes, "test")


@pytest.fixture
def first(tmp_path: Path) -> Run:
    (tmp_path / "a.tsv").write_text("ab\tba\ncd\tdc\nabc\tcba\n", encoding="utf-8")
    (tmp_path / "b.tsv").write_text("xyz\tzyx\n" * 3 + "zz\tzz\n", encoding="utf-8")
    return train(recipe(tmp_path), tmp_path / "first", say=lambda text: None).run


def test_it_begins_with_the_other_runs_vocabulary_and_weights(first: Run, tmp_path: Path) -> None:
    other = {"root": str(tmp_path), "train": {"file": "b.tsv"}, "valid": {"file": "b.tsv"}, "max_length": 16}
    second = Run.create(tmp_path / "second", recipe(tmp_path, start_from=str(first.folder), data=other))
    second.make_vocabularies(lambda text: None)
    assert (second.folder / "tokenizer.json").read_bytes() == (first.folder / "tokenizer.json").read_bytes()
    begun, best = second.first_model().state_dict(), first.model("best").state_dict()
    assert all(torch.equal(begun[name], best[name]) for name in best)
    fresh = second.new_model().state_dict()
    assert not torch.equal(fresh["tgt_embedding.weight"], best["tgt_embedding.weight"])
    assert train(second.recipe, tmp_path / "third", say=lambda text: None).outcome.step == 3


def test_what_has_begun_needs_the_other_run_no_more(first: Run, tmp_path: Path) -> None:
    begun = recipe(tmp_path, start_from=str(first.folder))
    longer = begun.model_copy(update={"training": begun.training.model_copy(update={"max_steps": 5})})
    whole = train(longer, tmp_path / "whole", say=lambda text: None).run
    second = train(begun, tmp_path / "second", say=lambda text: None).run
    own = (second.folder / "tokenizer.json").read_bytes()
    (first.folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    first.folder.rename(tmp_path / "elsewhere")
    resumed = train(longer, second.folder, resume=True, say=lambda text: None).run
    assert (second.folder / "tokenizer.json").read_bytes() == own, "its vocabulary is its own"
    mine, theirs = (run.model("step-00000005").state_dict() for run in (resumed, whole))
    assert all(torch.equal(mine[name], theirs[name]) for name in theirs), "to the bit"


def test_what_does_not_fit_is_named(first: Run, tmp_path: Path) -> None:
    wider = dict(size="tiny", d_model=32, num_heads=2, d_ff=16, encoder_layers=1, decoder_layers=1)
    with pytest.raises(UserError, match=r"write model\.d_model=16$"):
        train(recipe(tmp_path, start_from=str(first.folder), model=wider), tmp_path / "x", say=lambda text: None)
    fits = recipe(tmp_path).model.model_dump() | {"num_heads": 4, "activation": "gelu", "dropout": 0.3}
    with pytest.raises(UserError, match=r"write model\.num_heads=2 model\.activation=relu$"):
        train(recipe(tmp_path, start_from=str(first.folder), model=fits), tmp_path / "w", say=lambda text: None)
    with pytest.raises(UserError, match="there is no such folder"):
        train(recipe(tmp_path, start_from=str(tmp_path / "nowhere")), tmp_path / "y", say=lambda text: None)
    larger = {"kind": "char", "vocab_size": 400}
    with pytest.raises(UserError, match=r"write text\.vocab_size=300$"):
        train(recipe(tmp_path, start_from=str(first.folder), text=larger), tmp_path / "v", say=lambda text: None)
    apart = {"kind": "char", "vocab_size": 300, "joint": False}
    model = dict(size="tiny", d_model=16, num_heads=2, d_ff=16, encoder_layers=1, decoder_layers=1, tie="output")
    with pytest.raises(UserError, match=r"write text\.joint=true model\.tie=all$"):
        train(recipe(tmp_path, start_from=str(first.folder), text=apart, model=model), tmp_path / "z", say=print)


def test_a_model_of_another_kind_is_named_as_it_can_be_written(first: Run, tmp_path: Path) -> None:
    recurrent = dict(kind="recurrent", d_model=8, d_embedding=8)
    begun = recipe(tmp_path, start_from=str(first.folder), model=recurrent)
    with pytest.raises(UserError, match="to start from, is another") as refusal:
        train(begun, tmp_path / "x", say=lambda text: None)
    written = refusal.value.remedy.removeprefix("write ").strip("'")
    again = apply_overrides(begun.model_dump(exclude_none=True), [written])
    assert train(build(TranslationRecipe, again, "test"), tmp_path / "x", say=lambda text: None).outcome.step == 3


def test_moved_data_is_no_other_data(first: Run, tmp_path: Path) -> None:
    (tmp_path / "moved").mkdir()
    (tmp_path / "a.tsv").rename(tmp_path / "moved" / "a.tsv")
    further = recipe(tmp_path / "moved", training=recipe(tmp_path).training.model_dump() | {"max_steps": 5})
    assert train(further, first.folder, resume=True, say=lambda text: None).outcome.step == 5
    with pytest.raises(UserError, match=r"other settings in \[text\]"):
        train(recipe(tmp_path / "moved", text={"kind": "word", "vocab_size": 300}), first.folder, resume=True)


def test_what_reads_another_way_is_nothing_to_start_from(first: Run, tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_text('{"text": "a", "label": "x"}\n', encoding="utf-8")
    data = {"root": str(tmp_path), "train": {"file": "c.jsonl"}, "valid": {"file": "c.jsonl"}}
    values = {"name": "c", "task": "classification", "start_from": str(first.folder), "data": data}
    with pytest.raises(UserError, match="learnt another task: translation") as refusal:
        train(build_recipe(values, "test"), tmp_path / "c", say=lambda text: None)
    assert refusal.value.remedy.startswith("start from a run of task pretraining or classification")
