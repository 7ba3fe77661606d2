"""start_from: the same vocabulary and initial weights as another run; errors if they do not fit."""

import gzip
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.config import apply_overrides
from regard.data.sources import Source
from regard.errors import UserError
from regard.run.run import Run, describe_best
from regard.run.train import train
from regard.run_files import bundled_run
from regard.tasks.registry import build_recipe, load_recipe
from regard.training.checkpoint import read_progress


def quiet(text: str) -> None:
    """Report nothing."""


def recipe(folder: Path, **changes: object) -> Any:
    values = {
        "name": "small",
        "data": {"root": str(folder), "train": {"file": "a.tsv"}, "valid": {"file": "a.tsv"}, "max_length": 16},
        "text": {"kind": "char", "vocab_size": 300},
        "model": dict(size="tiny", d_model=16, num_heads=2, d_ff=16, encoder_layers=1, decoder_layers=1),
        "training": dict(max_steps=3, batch_tokens=64, warmup=1, schedule="constant", learning_rate=1e-3, samples=0),
        "runtime": {"device": "cpu", "threads": 1},
    }
    return build_recipe(values | changes, "test")


@pytest.fixture
def first(tmp_path: Path) -> Run:
    (tmp_path / "a.tsv").write_text("ab\tba\ncd\tdc\nabc\tcba\n", encoding="utf-8")
    (tmp_path / "b.tsv").write_text("xyz\tzyx\n" * 3 + "zz\tzz\n", encoding="utf-8")
    return train(recipe(tmp_path), tmp_path / "first", report=quiet).run


def test_a_run_starts_with_the_vocabulary_and_weights_of_another(first: Run, tmp_path: Path) -> None:
    other = {"root": str(tmp_path), "train": {"file": "b.tsv"}, "valid": {"file": "b.tsv"}, "max_length": 16}
    second = Run.create(tmp_path / "second", recipe(tmp_path, start_from=str(first.folder), data=other))
    second.prepare(quiet)
    assert (second.folder / "tokenizer.json").read_bytes() == (first.folder / "tokenizer.json").read_bytes()
    begun, best = second.initial_model().state_dict(), first.model("best").state_dict()
    assert all(torch.equal(begun[name], best[name]) for name in best)
    fresh = second.task.new_model().state_dict()
    assert not torch.equal(fresh["tgt_embedding.weight"], best["tgt_embedding.weight"])
    assert train(second.recipe, tmp_path / "third", report=quiet).outcome.step == 3


def test_the_log_names_the_run_the_checkpoint_and_its_score(first: Run, tmp_path: Path) -> None:
    lines: list[str] = []
    begun = recipe(tmp_path, start_from=str(first.folder))
    train(begun, tmp_path / "second", report=lines.append)
    best = first.checkpoints.resolve("best")
    score = f"loss {read_progress(best)['best']:.4g}"
    (line,) = [line for line in lines if str(first.folder) in line]
    assert best.name == "step-00000003" and best.name in line and score in line
    assert describe_best(first.checkpoints) in line
    more = begun.model_copy(update={"training": begun.training.model_copy(update={"max_steps": 4})})
    lines.clear()
    train(more, tmp_path / "second", resume=True, report=lines.append)
    assert not any(str(first.folder) in line for line in lines)  # it has weights of its own


def test_a_started_run_does_not_need_the_other_run(first: Run, tmp_path: Path) -> None:
    begun = recipe(tmp_path, start_from=str(first.folder))
    longer = begun.model_copy(update={"training": begun.training.model_copy(update={"max_steps": 5})})
    whole = train(longer, tmp_path / "whole", report=quiet).run
    second = train(begun, tmp_path / "second", report=quiet).run
    own = (second.folder / "tokenizer.json").read_bytes()
    (first.folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    first.folder.rename(tmp_path / "elsewhere")
    resumed = train(longer, second.folder, resume=True, report=quiet).run
    assert (second.folder / "tokenizer.json").read_bytes() == own, "it has its own copy"
    mine, theirs = (run.model("step-00000005").state_dict() for run in (resumed, whole))
    assert all(torch.equal(mine[name], theirs[name]) for name in theirs), "to the bit"


def test_settings_that_do_not_fit_are_errors(first: Run, tmp_path: Path) -> None:
    wider = dict(size="tiny", d_model=32, num_heads=2, d_ff=16, encoder_layers=1, decoder_layers=1)
    with pytest.raises(UserError) as error:
        train(recipe(tmp_path, start_from=str(first.folder), model=wider), tmp_path / "x", report=quiet)
    assert (error.value.code, error.value.where) == ("incompatible-start", "model.d_model")
    fits = recipe(tmp_path).model.model_dump() | {"num_heads": 4, "activation": "gelu", "dropout": 0.3}
    with pytest.raises(UserError) as error:
        train(recipe(tmp_path, start_from=str(first.folder), model=fits), tmp_path / "w", report=quiet)
    assert (error.value.code, error.value.where) == ("incompatible-start", "model.num_heads, model.activation")
    with pytest.raises(UserError) as error:
        train(recipe(tmp_path, start_from=str(tmp_path / "nowhere")), tmp_path / "y", report=quiet)
    assert (error.value.code, error.value.where) == ("not-a-run", str(tmp_path / "nowhere"))
    with pytest.raises(UserError) as error:
        train(recipe(tmp_path, start_from=str(first.folder), model={"size": "small"}), tmp_path / "s", report=quiet)
    assert (error.value.code, error.value.where) == ("incompatible-start", "model.size")
    assert 'size = "tiny"' in recipe(tmp_path, start_from=str(first.folder), model={"size": "tiny"}).to_toml()
    larger = {"kind": "char", "vocab_size": 400}
    with pytest.raises(UserError) as error:
        train(recipe(tmp_path, start_from=str(first.folder), text=larger), tmp_path / "v", report=quiet)
    assert (error.value.code, error.value.where) == ("incompatible-start", "text.vocab_size")
    apart = {"kind": "char", "vocab_size": 300, "joint": False}
    model = dict(size="tiny", d_model=16, num_heads=2, d_ff=16, encoder_layers=1, decoder_layers=1, tie="output")
    with pytest.raises(UserError) as error:
        train(recipe(tmp_path, start_from=str(first.folder), text=apart, model=model), tmp_path / "z", report=quiet)
    assert (error.value.code, error.value.where) == ("incompatible-start", "text.joint, model.tie")


def test_the_remedy_for_another_model_kind_can_be_used(first: Run, tmp_path: Path) -> None:
    recurrent = dict(kind="recurrent", d_model=8, d_embedding=8)
    begun = recipe(tmp_path, start_from=str(first.folder), model=recurrent)
    with pytest.raises(UserError) as error:
        train(begun, tmp_path / "x", report=quiet)
    written = error.value.remedy.removeprefix("set ").strip("'")
    again = apply_overrides(begun.model_dump(exclude_none=True), [written])
    assert train(build_recipe(again, "test"), tmp_path / "x", report=quiet).outcome.step == 3


def test_data_can_be_moved(first: Run, tmp_path: Path) -> None:
    (tmp_path / "moved").mkdir()
    (tmp_path / "a.tsv").rename(tmp_path / "moved" / "a.tsv")
    further = recipe(tmp_path / "moved", training=recipe(tmp_path).training.model_dump() | {"max_steps": 5})
    assert train(further, first.folder, resume=True, report=quiet).outcome.step == 5
    with pytest.raises(UserError) as error:
        train(recipe(tmp_path / "moved", text={"kind": "word", "vocab_size": 300}), first.folder, resume=True)
    assert (error.value.code, error.value.where) == ("changed-run", "text")


def test_data_can_be_compressed(first: Run, tmp_path: Path) -> None:
    """A run that was trained on a.tsv is resumed with a recipe that says a.tsv.xz, and reads a.tsv.gz."""
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress((tmp_path / "a.tsv").read_bytes()))
    (tmp_path / "a.tsv").unlink()
    longer = recipe(tmp_path, training=recipe(tmp_path).training.model_dump() | {"max_steps": 5})
    source = Source(file="a.tsv.xz")
    data = longer.data.model_copy(update={"train": [source], "valid": [source]})
    assert train(longer.model_copy(update={"data": data}), first.folder, resume=True, report=quiet).outcome.step == 5


def test_a_run_of_another_task_is_an_error(first: Run, tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_text('{"text": "a", "label": "x"}\n', encoding="utf-8")
    data = {"root": str(tmp_path), "train": {"file": "c.jsonl"}, "valid": {"file": "c.jsonl"}}
    values = {"name": "c", "task": "classification", "start_from": str(first.folder), "data": data}
    with pytest.raises(UserError) as error:
        train(build_recipe(values, "test"), tmp_path / "c", report=quiet)
    assert error.value.remedy.startswith("set `start_from` to a run of task pretraining or classification")


def test_a_task_and_a_bundled_run_are_enough_to_fine_tune(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (f"Press lever {n}.\tDrücken Sie Hebel {n}.\n" for n in range(20))
    (tmp_path / "my.tsv").write_text("".join(lines), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    data = ["data.train=my.tsv", "data.src_lang=en", "data.tgt_lang=de"]
    begun: Any = load_recipe("translation", ["start_from=translator", *data])
    assert (begun.name, begun.task, begun.model.d_model) == ("translation", "translation", 384)
    run = Run.create(tmp_path / "run", begun)
    run.prepare(quiet)
    assert run.recipe.start_from == "translator" and run.start is not None, "a name, not a path in this installation"
    assert (run.folder / "tokenizer.json").read_bytes() == (bundled_run("translator") / "tokenizer.json").read_bytes()
    task: Any = run.task
    row = task.encoder(filtered=True)([{"src": "Press.", "tgt": "Drücken."}]).columns["src"]
    assert row[0][0] == task.src_tokenizer.language_tags["de"], "[data] names the language of pairs that name none"
    assert task.tags({"src": "Press."}) == [task.src_tokenizer.language_tags["de"]]
