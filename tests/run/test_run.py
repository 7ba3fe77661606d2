"""A run folder: changed files and settings are errors, one training at a time, results depend on the seed."""

import json
import multiprocessing
import shutil
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.tiny import write_recipe

from regard.errors import UserError
from regard.files import LOCK, locked
from regard.run.model import Translator
from regard.run.run import Run
from regard.run.train import open_folder, train
from regard.run_files import STORES
from regard.tasks.registry import build_recipe, load_recipe
from regard.training.log import Logs


def small_recipe(folder: Path, **groups: object) -> Any:
    words = ["ab", "cd", "efg", "hi"]
    for split, count in (("train", 40), ("valid", 5)):
        lines = [" ".join(words[(i * k) % 4] for k in range(1, 2 + i % 3)) for i in range(count)]
        (folder / f"{split}.tsv").write_text("".join(f"{line}\t{line[::-1]}\n" for line in lines), encoding="utf-8")
    values = {
        "name": "small",
        "data": {
            "root": str(folder), "train": {"file": "train.tsv"}, "valid": {"file": "valid.tsv"},
            "max_length": 24, "workers": 1,
        },
        "text": {"vocab_size": 280},
        "model": {"d_model": 8, "num_heads": 2, "d_ff": 16, "encoder_layers": 1, "decoder_layers": 1},
        "training": {
            "max_steps": 2, "warmup": 4, "learning_rate": 1.0, "validate_every": 2, "batch_tokens": 128, "samples": 0,
        },
        "runtime": {"device": "cpu"},
    }  # fmt: skip
    return build_recipe(values | groups, "test")


def quiet(text: str) -> None:
    """Report nothing."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    return train(small_recipe(folder), folder / "run", report=quiet, log=Logs()).run.folder


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def test_a_vocabulary_with_two_tokens_exchanged_is_an_error(copied: Path) -> None:
    path = copied / "tokenizer.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    vocab = content["model"]["vocab"]
    vocab["a"], vocab["b"] = vocab["b"], vocab["a"]
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(UserError) as error:
        Translator.load(copied, device="cpu")
    assert (error.value.code, error.value.where) == ("damaged-file", str(path))
    run = Run.open(copied)
    with pytest.raises(UserError) as error:
        train(run.recipe, copied, resume=True, report=quiet, log=Logs())
    assert (error.value.code, error.value.where) == ("damaged-file", str(path))


def test_an_edited_setting_of_the_model_is_an_error(copied: Path) -> None:
    path = copied / "recipe.toml"
    path.write_text(path.read_text(encoding="utf-8").replace('norm = "post"', 'norm = "pre"'), encoding="utf-8")
    with pytest.raises(UserError) as error:
        Translator.load(copied, device="cpu")
    assert (error.value.code, error.value.where) == ("changed-run", "model.norm")


def test_a_damaged_manifest_is_an_error_and_a_run_without_one_works(copied: Path) -> None:
    name = "manifest.json"
    (copied / name).write_text('{"settings": 3}', encoding="utf-8")
    with pytest.raises(UserError) as error:
        Translator.load(copied, device="cpu")
    assert error.value.code == "damaged-file" and error.value.where.startswith(str(copied / name))
    (copied / name).unlink()
    assert isinstance(Translator.load(copied, device="cpu").translate("ab"), str)


def test_an_untrained_run_can_be_restarted_with_another_model(tmp_path: Path) -> None:
    first = small_recipe(tmp_path)
    Run.create(tmp_path / "run", first).prepare(quiet)
    wider = first.model_copy(update={"model": first.model.model_copy(update={"norm": "pre"})})
    assert train(wider, tmp_path / "run", report=quiet, log=Logs()).outcome.step == 2
    assert isinstance(Translator.load(tmp_path / "run", device="cpu").translate("ab"), str)


def hold_lock(folder: Path, link: Connection) -> None:
    with locked(folder):
        link.send("held")
        link.recv()


@pytest.fixture
def holder(copied: Path) -> Iterator[multiprocessing.process.BaseProcess]:
    """Another process that holds the lock of the folder."""
    context = multiprocessing.get_context("spawn")
    parent, child = context.Pipe()
    process = context.Process(target=hold_lock, args=(copied, child), daemon=True)
    process.start()
    assert parent.recv() == "held"
    yield process
    process.kill()
    process.join()


def test_a_locked_run_can_be_used_but_not_trained(copied: Path, holder: multiprocessing.process.BaseProcess) -> None:
    recipe = Run.open(copied).recipe
    with pytest.raises(UserError) as error:
        train(recipe, copied, resume=True, report=quiet, log=Logs())
    assert (error.value.code, error.value.where) == ("in-use", str(copied))
    assert isinstance(Translator.load(copied, device="cpu").translate("ab"), str)


def test_a_killed_training_leaves_no_lock(copied: Path, holder: multiprocessing.process.BaseProcess) -> None:
    holder.kill()
    holder.join()
    recipe = Run.open(copied).recipe
    assert (copied / LOCK).exists()
    assert train(recipe, copied, resume=True, report=quiet, log=Logs()).outcome.step == 2


def test_a_folder_with_other_files_is_not_changed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").touch()
    with pytest.raises(UserError) as error:
        train(small_recipe(tmp_path), other, report=quiet, log=Logs())
    assert (error.value.code, error.value.where) == ("not-a-run", str(other))
    assert [path.name for path in other.iterdir()] == ["thesis.txt"]


def test_an_evaluation_does_not_change_the_run(trained: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in trained.rglob("*")}
    translator = Translator.load(trained, device="cpu")
    assert translator.evaluate("valid").scores[-1].name == "perplexity"
    assert {path: path.stat().st_mtime_ns for path in trained.rglob("*")} == before


def test_a_sentence_longer_than_the_positions_is_an_error_before_training(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path)
    model = recipe.model.model_copy(update={"positions": "learned", "max_positions": 24})
    (tmp_path / "valid.tsv").write_text(f"ab\t{'xyz' * 30}\n", encoding="utf-8")
    with pytest.raises(UserError) as error:
        train(recipe.model_copy(update={"model": model}), tmp_path / "run", report=quiet, log=Logs())
    assert error.value.code == "too-long"


def test_changed_data_of_a_trained_run_gives_a_warning(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path)
    run = train(recipe, tmp_path / "run", report=quiet, log=Logs()).run
    lines: list[str] = []
    train(run.recipe, run.folder, resume=True, report=lines.append, log=Logs())
    assert not any("data changed" in line for line in lines)
    with (tmp_path / "train.tsv").open("a", encoding="utf-8") as stream:
        stream.write("ab ab ab\tba ba ba\n")
    train(run.recipe, run.folder, resume=True, report=lines.append, log=Logs())
    assert sum("warning: the train data changed" in line for line in lines) == 1


def test_another_monitor_starts_without_a_best_score(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path)
    first = train(recipe, tmp_path / "run", report=quiet, log=Logs())
    assert first.outcome.best is not None and first.outcome.best > 1
    update = {"monitor": "exact_match", "max_steps": 4}
    changed = first.run.recipe.model_copy(update={"training": recipe.training.model_copy(update=update)})
    second = train(changed, tmp_path / "run", resume=True, report=quiet, log=Logs())
    assert (second.outcome.best, second.outcome.best_step) == (0.0, 4)


def test_outputs_are_not_longer_than_the_learned_positions(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path)
    model = recipe.model.model_copy(update={"positions": "learned", "max_positions": 24})
    run = train(recipe.model_copy(update={"model": model}), tmp_path / "run", report=quiet, log=Logs()).run
    translator = Translator([run], device="cpu")
    changes: dict[str, Any] = {"search": "sample", "temperature": 1e6, "max_length": 500, "extra_length": 500}
    lengths = [len(item["hypotheses"][0]["tokens"]) for item in translator.predict(["ab"] * 50, **changes)]
    assert max(lengths) in (23, 24)
    with pytest.raises(UserError) as error:
        translator.predict({"src": "ab", "prefix": "xyz" * 30})
    assert (error.value.code, error.value.where) == ("too-long", "prefix")


def test_initial_weights_depend_on_the_seed_only(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path)

    def use_generator(text: str) -> None:
        torch.rand(3)

    plain, disturbed = (
        train(recipe, tmp_path / name, report=report, log=Logs()).run.model().state_dict()
        for name, report in (("plain", quiet), ("disturbed", use_generator))
    )
    assert all(torch.equal(weight, disturbed[name]) for name, weight in plain.items())


def test_a_very_long_line_does_not_change_the_vocabulary(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path)
    vocabularies = []
    for name in ("without", "with"):
        run = Run.create(tmp_path / name, recipe)
        run.prepare(quiet)
        vocabularies.append((run.folder / "tokenizer.json").read_text(encoding="utf-8"))
        with (tmp_path / "train.tsv").open("a", encoding="utf-8") as stream:
            stream.write(f"{'qz' * 1000}\t{'qz' * 1000}\n")
    assert vocabularies[0] == vocabularies[1]


@pytest.mark.parametrize(("monitor", "scores"), [("loss", ()), ("perplexity", ()), ("chrf", ("chrf",))])
def test_validation_computes_the_monitored_score_only(tmp_path: Path, monitor: str, scores: tuple[str, ...]) -> None:
    recipe = small_recipe(tmp_path)
    training = recipe.training.model_copy(update={"monitor": monitor})
    trained = train(recipe.model_copy(update={"training": training}), tmp_path / "run", report=quiet, log=Logs())
    assert set(trained.outcome.metrics) == {"loss", "perplexity", *scores}


def prepared(folder: Path, recipe: Any) -> tuple[str, bool]:
    """Prepare a run: its tokenizer, and whether it was learnt now."""
    lines: list[str] = []
    Run.create(folder, recipe).prepare(lines.append)
    return (folder / "tokenizer.json").read_text(encoding="utf-8"), any("vocabulary" in line for line in lines)


def test_a_vocabulary_is_learnt_again_if_the_text_changed_and_there_are_no_weights(tmp_path: Path) -> None:
    recipe, run = small_recipe(tmp_path), tmp_path / "run"
    first, learnt = prepared(run, recipe)
    assert learnt and prepared(run, recipe) == (first, False), "the same text"
    (run / "manifest.json").unlink()
    assert prepared(run, recipe) == (first, True), "nobody knows which text it was learnt from"
    (run / "tokenizer.json").write_text("{}")
    assert prepared(run, recipe) == (first, True)
    (tmp_path / "train.tsv").write_text("xyz zyx\tzz\n" * 40, encoding="utf-8")
    second, learnt = prepared(run, recipe)
    assert learnt and second != first and prepared(tmp_path / "fresh", recipe)[0] == second


@pytest.mark.parametrize("name", ["step-00000002", "averaged"])
def test_weights_keep_their_vocabulary_when_the_text_changes(copied: Path, tmp_path: Path, name: str) -> None:
    before = (copied / "tokenizer.json").read_text(encoding="utf-8")
    (copied / "checkpoints" / "step-00000002").rename(copied / "checkpoints" / name)
    recipe = small_recipe(tmp_path)
    (tmp_path / "train.tsv").write_text("xyz zyx\tzz\n" * 40, encoding="utf-8")
    assert prepared(copied, recipe) == (before, False)


def test_labels_are_learnt_again_if_the_data_changed_and_there_are_no_weights(tmp_path: Path) -> None:
    path = write_recipe(tmp_path, "classification")
    recipe = load_recipe(str(path))
    Run.create(tmp_path / "run", recipe).prepare(quiet)
    data = tmp_path / "classification.train.jsonl"
    data.write_text(data.read_text().replace('"bad"', '"worse"'))
    Run.create(tmp_path / "run", recipe).prepare(quiet)
    assert json.loads((tmp_path / "run" / "labels.json").read_text()) == ["good", "worse"]


def test_leftovers_outside_a_run_stay(copied: Path, tmp_path: Path) -> None:
    """A folder of the run that is a link leads elsewhere."""
    draft = tmp_path / "elsewhere" / ".draft.1.partial"
    draft.mkdir(parents=True)
    (copied / "checkpoints").rename(tmp_path / "elsewhere" / "checkpoints")
    (copied / "store" / ".old.1.partial").mkdir()
    (copied / "checkpoints").symlink_to(tmp_path / "elsewhere" / "checkpoints")
    inside = tmp_path / "elsewhere" / "checkpoints" / ".thesis.1.partial"
    inside.mkdir()
    train(Run.open(copied).recipe, copied, resume=True, report=quiet, log=Logs())
    assert draft.exists() and inside.exists() and not (copied / "store" / ".old.1.partial").exists()


def test_a_finished_run_is_tidied_when_it_is_resumed(copied: Path) -> None:
    checkpoints = copied / "checkpoints"
    for step in (1, 3, 4):  # killed before the old ones were removed
        shutil.copytree(checkpoints / "step-00000002", checkpoints / f"step-{step:08}")
    (checkpoints / "step-00000001" / "state.json").unlink()
    recipe = Run.open(copied).recipe
    recipe = recipe.model_copy(update={"training": recipe.training.model_copy(update={"keep": 1})})
    train(recipe, copied, resume=True, report=quiet, log=Logs())
    index = json.loads((checkpoints / "checkpoints.json").read_text())
    assert sorted(path.name for path in checkpoints.glob("*step-*")) == ["step-00000002", "step-00000004"]
    assert (index["last"], index["best"], len(index["scores"])) == ("step-00000004", "step-00000002", 2)


def test_validation_leaves_out_pairs_beyond_the_maximum_length(tmp_path: Path) -> None:
    recipe, reports = small_recipe(tmp_path), list[str]()
    limit = recipe.data.max_length
    alone = train(recipe, tmp_path / "alone", report=quiet, log=Logs())
    path = tmp_path / "valid.tsv"
    text = path.read_text(encoding="utf-8")
    fits, longer = "x" * (limit - 1), "x" * limit  # the end symbol is a token too
    path.write_text(f"{longer}\tb\n{text}b\t{longer}\n", encoding="utf-8")
    trained = train(recipe, tmp_path / "long", report=reports.append, log=Logs())
    assert trained.outcome.metrics == alone.outcome.metrics, "to the bit"
    assert [example["src"] for example in trained.examples] == [example["src"] for example in alone.examples]
    assert any("2 pairs" in line and str(limit) in line for line in reports if line.startswith("valid"))
    pairs = len(text.splitlines())
    scored = Translator.load(tmp_path / "long", device="cpu").evaluate("valid")
    assert len(scored.examples) == pairs + 2, "an evaluation leaves out nothing"
    path.write_text(f"{fits}\tb\n", encoding="utf-8")
    assert len(train(recipe, tmp_path / "fits", report=quiet, log=Logs()).examples) == 1
    path.write_text(f"{longer}\tb\n", encoding="utf-8")
    with pytest.raises(UserError) as error:
        train(recipe, tmp_path / "none", report=quiet, log=Logs())
    assert (error.value.code, error.value.where) == ("no-data", "data.valid")


def test_what_a_killed_process_left_in_a_store_is_removed(copied: Path) -> None:
    left = copied / STORES / "train" / ".digests.json.abc.partial"
    left.mkdir(parents=True)
    with open_folder(Run.open(copied).recipe, copied, resume=True):
        assert not left.exists()
