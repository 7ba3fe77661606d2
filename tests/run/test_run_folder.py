"""A run's folder notices when what its weights depend on is no longer so, and belongs to one training at a time."""

import json
import multiprocessing
import shutil
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.errors import UserError
from regard.files import LOCK, locked
from regard.recipe import TranslationRecipe
from regard.run import Run, Translator, evaluate, train
from regard.training.log import Logs


def small_recipe(folder: Path, **groups: object) -> TranslationRecipe:
    words = ["ab", "cd", "efg", "hi"]
    for part, count in (("train", 40), ("valid", 5)):
        lines = [" ".join(words[(i * k) % 4] for k in range(1, 2 + i % 3)) for i in range(count)]
        (folder / f"{part}.tsv").write_text("".join(f"{line}\t{line[::-1]}\n" for line in lines), encoding="utf-8")
    values = {
        "name": "small",
        "data": {
            "root": str(folder), "train": {"file": "train.tsv"}, "valid": {"file": "valid.tsv"},
            "max_length": 24, "workers": 1,
        },
        "text": {"vocab_size": 280},
        "model": {"d_model": 8, "num_heads": 2, "d_ff": 16, "encoder_layers": 1, "decoder_layers": 1},
        "training": {"max_steps": 2, "validate_every": 2, "batch_tokens": 128, "samples": 0},
        "runtime": {"device": "cpu"},
    }  # fmt: skip
    return TranslationRecipe.model_validate(values | groups)


def silent(text: str) -> None:
    """Say nothing."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sealed")
    return train(small_recipe(folder), folder / "run", say=silent, log=Logs()).run.folder


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def test_a_vocabulary_with_two_pieces_exchanged_is_noticed(copied: Path) -> None:
    path = copied / "tokenizer.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    vocab = content["model"]["vocab"]
    vocab["a"], vocab["b"] = vocab["b"], vocab["a"]
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(UserError, match=r"tokenizer\.json is damaged"):
        Translator.load(copied, device="cpu")
    run = Run.open(copied)
    with pytest.raises(UserError, match=r"tokenizer\.json is damaged"):
        train(run.recipe, copied, resume=True, say=silent, log=Logs())


def test_a_setting_the_weights_depend_on_is_noticed_when_it_was_edited(copied: Path) -> None:
    path = copied / "recipe.toml"
    path.write_text(path.read_text(encoding="utf-8").replace('norm = "post"', 'norm = "pre"'), encoding="utf-8")
    with pytest.raises(UserError, match=r"model\.norm = 'pre', but the run was begun with 'post'"):
        Translator.load(copied, device="cpu")


def test_a_damaged_seal_is_named_and_a_run_without_one_is_used(copied: Path) -> None:
    (copied / "seal.json").write_text('{"settings": 3}', encoding="utf-8")
    with pytest.raises(UserError, match=r"seal\.json is damaged"):
        Translator.load(copied, device="cpu")
    (copied / "seal.json").unlink()
    assert isinstance(Translator.load(copied, device="cpu").translate("ab"), str)


def test_a_run_that_was_never_trained_can_begin_anew_with_another_model(tmp_path: Path) -> None:
    first = small_recipe(tmp_path)
    Run.create(tmp_path / "run", first).make_vocabularies(silent)
    wider = first.model_copy(update={"model": first.model.model_copy(update={"norm": "pre"})})
    assert train(wider, tmp_path / "run", say=silent, log=Logs()).outcome.step == 2
    assert isinstance(Translator.load(tmp_path / "run", device="cpu").translate("ab"), str)


def hold(folder: Path, link: Connection) -> None:
    with locked(folder):
        link.send("held")
        link.recv()


@pytest.fixture
def holder(copied: Path) -> Iterator[multiprocessing.process.BaseProcess]:
    """Another process that has the folder, as a training has."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=hold, args=(copied, there), daemon=True)
    process.start()
    assert here.recv() == "held"
    yield process
    process.kill()
    process.join()


def test_a_second_training_is_refused_but_using_the_run_is_not(
    copied: Path, holder: multiprocessing.process.BaseProcess
) -> None:
    recipe = Run.open(copied).recipe
    with pytest.raises(UserError, match="another process is working in"):
        train(recipe, copied, resume=True, say=silent, log=Logs())
    assert isinstance(Translator.load(copied, device="cpu").translate("ab"), str)


def test_the_lock_of_a_killed_training_holds_nobody_up(
    copied: Path, holder: multiprocessing.process.BaseProcess
) -> None:
    holder.kill()
    holder.join()
    recipe = Run.open(copied).recipe
    assert (copied / LOCK).exists()
    assert train(recipe, copied, resume=True, say=silent, log=Logs()).outcome.step == 2


def test_a_folder_of_somebody_else_is_left_without_a_trace(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").touch()
    with pytest.raises(UserError, match="not empty and not a run"):
        train(small_recipe(tmp_path), other, say=silent, log=Logs())
    assert [path.name for path in other.iterdir()] == ["thesis.txt"]


def test_evaluating_writes_nothing_into_the_run(trained: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in trained.rglob("*")}
    translator = Translator.load(trained, device="cpu")
    data = translator.run.recipe.data
    found = evaluate(translator, data.valid, data.folder)
    assert found.scores[-1].name == "perplexity"
    assert {path: path.stat().st_mtime_ns for path in trained.rglob("*")} == before


def test_a_sentence_beyond_the_learned_positions_is_named_before_training(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path)
    model = recipe.model.model_copy(update={"positions": "learned", "max_positions": 24})
    (tmp_path / "valid.tsv").write_text(f"ab\t{'xyz' * 30}\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"valid\.tsv holds a sentence of \d+ tokens, and model\.max_positions is 24"):
        train(recipe.model_copy(update={"model": model}), tmp_path / "run", say=silent, log=Logs())


def test_text_that_changed_under_a_trained_run_is_mentioned(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path)
    run = train(recipe, tmp_path / "run", say=silent, log=Logs()).run
    said: list[str] = []
    train(run.recipe, run.folder, resume=True, say=said.append, log=Logs())
    assert not any("warning" in line for line in said)
    with (tmp_path / "train.tsv").open("a", encoding="utf-8") as stream:
        stream.write("ab ab ab\tba ba ba\n")
    train(run.recipe, run.folder, resume=True, say=said.append, log=Logs())
    assert sum("warning: the train text is not what" in line for line in said) == 1


def test_another_monitor_begins_with_no_best(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path)
    first = train(recipe, tmp_path / "run", say=silent, log=Logs())
    assert first.outcome.best is not None and first.outcome.best > 1
    update = {"monitor": "exact_match", "max_steps": 4}
    changed = first.run.recipe.model_copy(update={"training": recipe.training.model_copy(update=update)})
    second = train(changed, tmp_path / "run", resume=True, say=silent, log=Logs())
    assert (second.outcome.best, second.outcome.best_step) == (0.0, 4)


def test_nothing_asked_of_learned_positions_goes_beyond_them(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path)
    model = recipe.model.model_copy(update={"positions": "learned", "max_positions": 24})
    run = train(recipe.model_copy(update={"model": model}), tmp_path / "run", say=silent, log=Logs()).run
    translator = Translator([run], device="cpu")
    changes: dict[str, Any] = {"search": "sample", "temperature": 1e6, "max_length": 500, "extra_length": 500}
    lengths = [len(p.hypotheses[0].tokens) for p in translator.predict(["ab"] * 50, **changes)]
    assert max(lengths) in (23, 24)
    with pytest.raises(UserError, match="leaves no room in a model of 24 positions"):
        next(translator.predict(["ab"], prefixes=["xyz" * 30]))


def test_the_first_weights_depend_on_the_seed_and_not_on_what_was_drawn_before(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path)

    def draw(text: str) -> None:
        torch.rand(3)

    plain, disturbed = (
        train(recipe, tmp_path / name, say=say, log=Logs()).run.model().state_dict()
        for name, say in (("plain", silent), ("disturbed", draw))
    )
    assert all(torch.equal(weight, disturbed[name]) for name, weight in plain.items())


def test_a_line_beyond_reason_teaches_the_vocabulary_nothing(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path)
    learnt = []
    for name in ("without", "with"):
        run = Run.create(tmp_path / name, recipe)
        run.make_vocabularies(silent)
        learnt.append((run.folder / "tokenizer.json").read_text(encoding="utf-8"))
        with (tmp_path / "train.tsv").open("a", encoding="utf-8") as stream:
            stream.write(f"{'qz' * 1000}\t{'qz' * 1000}\n")
    assert learnt[0] == learnt[1]


@pytest.mark.parametrize(("monitor", "scores"), [("loss", ()), ("perplexity", ()), ("chrf", ("chrf",))])
def test_validation_measures_what_is_monitored_and_nothing_dearer(
    tmp_path: Path, monitor: str, scores: tuple[str, ...]
) -> None:
    recipe = small_recipe(tmp_path)
    training = recipe.training.model_copy(update={"monitor": monitor})
    found = train(recipe.model_copy(update={"training": training}), tmp_path / "run", say=silent, log=Logs())
    assert set(found.outcome.metrics) == {"loss", "perplexity", *scores}
